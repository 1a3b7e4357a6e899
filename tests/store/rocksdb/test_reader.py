"""Bytes of segments for reads: which files stay open for them, and what is said when there is no file or no room."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from store.api import Corrupt, StoreError
from store.rocksdb.files import Files
from store.rocksdb.integrity import Trust
from store.rocksdb.reader import Reader
from store.rocksdb.segments import Request, Segment

SEGMENT = Segment(10, 20, 1, 1000, 0, 0, 0)


class Counted(Files):
    """Says which partitions' files were opened, in order; has room for `limit` descriptors at once."""

    limit = 1_000

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.opened: list[int] = []
        self.now: set[int] = set()

    def open_to_read(self, partition: int, base_offset: int, number: int) -> int:
        if len(self.now) >= self.limit:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        descriptor = super().open_to_read(partition, base_offset, number)
        self.opened.append(partition)
        self.now.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        self.now.discard(descriptor)
        super().close(descriptor)


class Bench:
    """Logs of one segment of 1,000 bytes, which say their number."""

    def __init__(self, root: Path, logs: int, open_files: int) -> None:
        self.files = Counted(root)
        for partition in range(logs):
            descriptor, number = self.files.create(partition, 10, 1)
            assert number == 1
            self.files.write(descriptor, [b"%04d" % partition * 250], 0)
            self.files.close(descriptor)
        self.reader = Reader(self.files, open_files)
        self.trusts = [Trust(1, 0) for _ in range(logs + 1)]

    def read(self, partition: int, size: int = 4, position: int = 0) -> bytes:
        """By the loop; what is not in memory is waited for."""

        def reading() -> object:
            return (yield Request(partition, SEGMENT, size, position))

        return bytes(self.reader.now(reading(), self.trusts[partition]))  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, 4, 2)


def test_those_used_last_stay_open_and_no_more_than_so_many(bench: Bench) -> None:
    for partition in (0, 1, 0, 2):
        assert bench.read(partition) == b"%04d" % partition
    assert (bench.files.opened, bench.reader.open_files) == ([0, 1, 2], 2)
    # 1 was used longest ago, and was closed for 2
    bench.read(0)
    assert bench.files.opened == [0, 1, 2]
    bench.read(1)
    assert bench.files.opened == [0, 1, 2, 1]
    assert len(bench.files.now) == 2
    bench.reader.close()
    assert (bench.files.now, bench.reader.open_files) == (set(), 0)


def test_a_file_that_is_about_to_go_is_let_go_of(bench: Bench) -> None:
    bench.read(0)
    bench.reader.forget(0, 1)
    bench.reader.forget(0, 1)
    bench.reader.forget(3, 1)
    assert (bench.files.now, bench.reader.open_files) == (set(), 0)
    bench.files.unlink(0, 10, 1)
    with pytest.raises(Corrupt):
        bench.read(0)
    bench.reader.close()


def test_when_the_process_has_no_file_left_one_of_these_makes_room(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 4, 100)
    bench.files.limit = 2
    for partition in (0, 1, 2, 3):
        assert bench.read(partition) == b"%04d" % partition
    assert bench.reader.open_files == 2
    bench.reader.close()
    bench.files.limit = 0
    with pytest.raises(StoreError, match="too many open files; raise `ulimit -n`") as raised:
        bench.read(0)
    assert not isinstance(raised.value, Corrupt), "it may pass"


def test_a_file_that_is_missing_is_damage_of_all_its_offsets(bench: Bench) -> None:
    with pytest.raises(Corrupt) as raised:
        bench.read(4)
    assert (raised.value.first, raised.value.next_offset) == (10, 20)
    name = os.path.basename(bench.files.path(4, 10, 1))
    assert str(raised.value) == (f"Log 4: the offsets 10 to 19 cannot be read (the file {name} is missing).")


def test_a_disk_that_fails_is_named_with_the_place_and_is_no_damage(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(Files, "read_cached", lambda *_: None)
        patch.setattr(Files, "read", fails)
        with pytest.raises(StoreError, match="cannot be read at byte 400: Input/output error") as raised:
            bench.read(0, 4, 400)
        assert not isinstance(raised.value, Corrupt)
        # the file that was opened for that is closed
        assert len(bench.files.now) == bench.reader.open_files
    assert bench.read(0, 4, 400) == b"0000"
    bench.reader.close()


def test_what_the_page_cache_has_let_go_of_is_missed_and_comes_from_the_disk(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.files.tells = True
    monkeypatch.setattr(Files, "read_cached", lambda *_: None)
    trust = bench.trusts[1]
    assert trust.misses == 0
    assert bench.read(1) == b"0001"
    assert trust.misses > 0
    assert trust.seen == trust.misses, "what came is what was read after the miss"
    bench.reader.close()


def test_what_was_missed_is_unknown_before_anybody_has_asked_the_disk(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may have begun to read it: whoever comes next finds bytes that nobody has checked."""
    bench.files.tells = True
    trust = bench.trusts[1]
    assert trust.until(SEGMENT, 400) == (1000, 20), "this process appended it"
    with monkeypatch.context() as patch:
        patch.setattr(Files, "read_cached", lambda *_: None)
        assert bench.reader.cached(Request(1, SEGMENT, 4, 400), trust) is None
    assert (trust.misses, trust.seen) == (1, 0)
    assert trust.until(SEGMENT, 400) == (400, -1)
    bench.reader.close()
