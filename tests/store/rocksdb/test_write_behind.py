from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from store import rocksdb
from store.api import Durability
from store.rocksdb.files import Files
from store.rocksdb.write_behind import KICK_BYTES, WriteBehind
from tests.store.making import append, content

MEGABYTE = 1 << 20


class Watched(Files):
    """Tells what was asked of the system, and can be told to fail."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.told: list[tuple[str, int, int]] = []
        self.changed = threading.Condition()
        self.fails = False

    def start_writing(self, descriptor: int, position: int, size: int) -> None:
        self._tell("write", position, size)

    def give_back(self, descriptor: int, position: int, size: int) -> None:
        self._tell("give back", position, size)

    def _tell(self, what: str, position: int, size: int) -> None:
        with self.changed:
            self.told.append((what, position, size))
            self.changed.notify_all()
        if self.fails:
            raise OSError(5, "Input/output error")

    def wait(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.told) >= count, timeout=30), self.told


@pytest.fixture
def files(tmp_path: Path) -> Watched:
    made = Watched(tmp_path)
    descriptor, _ = made.create(1, 0, 1)
    made.close(descriptor)
    return made


def test_pages_are_given_back_when_as_much_as_the_limit_was_written_after_them(files: Watched) -> None:
    behind = WriteBehind(files, 25)
    for number in range(4):
        behind.wrote((1, 0, 1, number * 10, 10))
    files.wait(6)
    behind.close()
    assert files.told == [
        ("write", 0, 10),
        ("write", 10, 10),
        ("write", 20, 10),
        ("give back", 0, 10),
        ("write", 30, 10),
        ("give back", 10, 10),
    ]


def test_the_limit_follows_the_machine_while_it_runs(files: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.rocksdb.write_behind.LOOK_BYTES", 20)
    says: list[int | None] = [None, 100, 20]
    behind = WriteBehind(files, None, lambda: says.pop(0))
    for number in range(6):
        behind.wrote((1, 0, 1, number * 10, 10))
    files.wait(6 + 4)
    behind.close()
    assert behind.enabled
    given = [position for what, position, _ in files.told if what == "give back"]
    # nobody knows after 10 bytes, 100 may stay after 30, 20 after 50
    assert given == [0, 10, 20, 30]
    assert files.told[:5] == [("write", number * 10, 10) for number in range(5)]
    assert not says


def test_a_segment_that_is_gone_or_a_disk_that_fails_ends_nothing(files: Watched) -> None:
    behind = WriteBehind(files, 1000)
    files.fails = True
    behind.wrote((7, 0, 1, 0, 10))
    behind.wrote((1, 0, 1, 0, 10))
    files.wait(1)
    files.fails = False
    behind.wrote((1, 0, 1, 10, 10))
    files.wait(2)
    behind.close()
    assert files.told == [("write", 0, 10), ("write", 10, 10)]


@pytest.mark.parametrize(("limit", "expected"), [(0, False), (1, True), (None, True)])
def test_a_limit_of_nothing_leaves_all_to_the_system(
    files: Watched, limit: int | None, expected: bool
) -> None:
    assert WriteBehind(files, limit).enabled is (expected and files.can_write_behind)


@pytest.mark.parametrize("durability", list(Durability))
def test_a_log_hands_over_what_it_wrote_once_and_without_holes(
    tmp_path: Path, durability: Durability
) -> None:
    asyncio.run(_handing_over(tmp_path, durability))


async def _handing_over(folder: Path, durability: Durability) -> None:
    watched: list[Watched] = []

    def files(root: Path) -> Watched:
        watched.append(Watched(root))
        return watched[0]

    store = await rocksdb.open(folder, files=files, page_cache_bytes=KICK_BYTES)
    for offset in range(20):
        # the second log is too quiet to be worth it
        await store.write([append(1, offset, [2 * MEGABYTE]), append(2, offset, [1000])], durability)
    await asyncio.to_thread(watched[0].wait, 9)
    store.log(1).configure(segment_bytes=10 * MEGABYTE)
    for offset in range(20, 25):
        await store.write([append(1, offset, [2 * MEGABYTE])], durability)
    await asyncio.to_thread(watched[0].wait, 12)
    await store.close()
    size = 2 * MEGABYTE + 61
    kicks = [(4 * size * number, 4 * size) for number in range(5)]
    assert [each[1:] for each in watched[0].told if each[0] == "write"] == [*kicks, (0, 4 * size)]
    assert [each[1:] for each in watched[0].told if each[0] == "give back"] == [*kicks, (0, 4 * size)]


def test_what_was_given_back_is_read_again(tmp_path: Path) -> None:
    asyncio.run(_reading_again(tmp_path))


async def _reading_again(folder: Path) -> None:
    store = await rocksdb.open(folder, page_cache_bytes=KICK_BYTES, tail_cache_bytes=0)
    made = [append(1, offset, [2 * MEGABYTE]) for offset in range(12)]
    for each in made:
        await store.write([each], Durability.OS)
    assert await content(store.log(1)) == b"".join(bytes(data) for each in made for data in each.batches)
    await store.close()
