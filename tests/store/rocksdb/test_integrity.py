"""What is known of stored bytes: of bytes that came from the disk nothing, of all others what was known before."""

from __future__ import annotations

import asyncio
import mmap
import os
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from store import batch, rocksdb
from store.api import Append, Corrupt, Durability
from store.rocksdb import RocksStore, check, integrity
from store.rocksdb.files import Files
from store.rocksdb.integrity import EXTENTS, Extents, Trust
from store.rocksdb.segments import Segment
from tests.store.making import bases, soon

PAGE = mmap.PAGESIZE
BATCHES = 200


def test_extents_join_and_stay_bounded() -> None:
    known = Extents()
    assert known.until(0) == (0, -1)
    known.add(100, 200, 20)
    known.add(300, 400, 40)
    assert [known.until(at) for at in (99, 100, 150, 200, 250, 400, 401)] == [
        (99, -1), (200, 20), (200, 20), (200, 20), (250, -1), (400, 40), (401, -1),
    ]  # fmt: skip
    known.add(200, 300, 30)
    assert known.until(100) == (400, 40)
    known.add(50, 500, 50)
    assert (known.starts, known.ends, known.offsets) == ([50], [500], [50])
    known.add(60, 70, 7)
    assert known.until(50) == (500, 50)
    for nth in range(10 * EXTENTS):
        known.add(1000 + 10 * nth, 1001 + 10 * nth, nth)
    assert len(known.starts) <= EXTENTS


SPAN = 60
RANGES = (
    st.tuples(st.integers(0, SPAN), st.integers(0, SPAN)).map(sorted).filter(lambda each: each[0] < each[1])
)


@given(st.lists(st.tuples(st.booleans(), RANGES), max_size=30))
def test_extents_are_the_bytes_that_were_added_and_not_cut(steps: list[tuple[bool, list[int]]]) -> None:
    """The offset at the end of a range is that end here, so that each can be told from all others."""
    known, model, ends = Extents(), set[int](), set[int]()
    for add, (start, end) in steps:
        if add:
            known.add(start, end, end)
            model |= set(range(start, end))
            ends.add(end)
        else:
            known.cut(start, end)
            model -= set(range(start, end))
        assert known.starts == sorted(known.starts)
        assert len(known.starts) == len(known.ends) == len(known.offsets)
        for at in range(SPAN + 1):
            until, offset = known.until(at)
            run = at
            while run in model:
                run += 1
            assert until == run
            assert offset == -1 or (offset == until and until in ends)
            gaps = known.gaps(at, SPAN)
            assert gaps == sorted(gaps)
            assert all(at <= begin < stop <= SPAN for begin, stop in gaps)
            assert {each for gap in gaps for each in range(*gap)} == set(range(at, SPAN)) - model


def test_what_is_in_doubt_is_what_is_not_known() -> None:
    size = 10 * PAGE
    segment = Segment(0, 100, 1, size, 0, 0, 0)
    for fresh in (0, 5 * PAGE, size):
        trust = Trust(1, fresh)
        assert trust.doubts(segment, 0, size) == ([(0, fresh)] if fresh else [])
        assert trust.doubts(segment, size, 0) == []
        assert trust.doubts(segment._replace(number=2), PAGE, 10) == [(PAGE, PAGE + 10)]
    trust = Trust(1, 0)
    trust.lost(segment, 4 * PAGE + 10, 10)
    assert trust.doubts(segment, 0, size) == [(4 * PAGE, 5 * PAGE)], "what a thread has told is heard"
    assert trust.doubts(segment, 4 * PAGE + 1, 2) == [(4 * PAGE + 1, 4 * PAGE + 3)]
    trust.found(1, 4 * PAGE, 5 * PAGE - 9, 50, misses=trust.misses)
    assert trust.doubts(segment, 0, size) == [(5 * PAGE - 9, 5 * PAGE)]


def test_what_was_appended_stays_known_around_a_page_that_was_missed() -> None:
    trust = Trust(1, 0)
    size = 10 * PAGE
    segment = Segment(0, 100, 1, size, 0, 0, 0)
    assert trust.until(segment, 0) == (size, 100)
    trust.missed(segment, 4 * PAGE + 10, PAGE)
    assert trust.until(segment, 0) == (4 * PAGE, -1), "its end is within a batch, for all that is known"
    for position in (4 * PAGE, 6 * PAGE - 1):
        assert trust.until(segment, position) == (position, -1)
    assert trust.until(segment, 6 * PAGE) == (size, 100)
    grown = segment._replace(size=size + 500, next_offset=105)
    assert trust.until(grown, 6 * PAGE) == (size + 500, 105)
    trust.add(1, 3 * PAGE, 6 * PAGE + 7, 61)
    assert trust.until(grown, 0) == (size + 500, 105)


class Disk:
    """Segments of a store whose page cache loses what is in `lost`, until it is read again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lost: set[int] = set()
        self.checked: list[int] = []

        def counted(data: bytes) -> Any:
            self.checked.append(len(data))
            return crc32c(data)

        monkeypatch.setattr(check, "crc32c", counted)
        monkeypatch.setattr(Files, "read_cached", self._read_cached)

    def _read_cached(self, descriptor: int, size: int, position: int) -> memoryview | None:
        pages = set(range(position // PAGE, (position + size - 1) // PAGE + 1))
        if self.lost & pages:
            self.lost -= pages
            return None
        return memoryview(os.pread(descriptor, size, position))


async def made(data: Path) -> tuple[RocksStore, list[bytes]]:
    """A log that this process wrote, with no tail cache."""
    store = await rocksdb.open(data, tail_cache_bytes=0)
    batches = [batch.build(nth, os.urandom(3000), timestamp=1) for nth in range(BATCHES)]
    for nth, each in enumerate(batches):
        await store.write([Append(1, nth, nth + 1, 1, [each])], Durability.OS)
    return store, batches


async def read_all(store: RocksStore, max_bytes: int = 50_000) -> list[int]:
    log, offset, found = store.log(1), 0, list[int]()
    while offset < log.end_offset:
        data = b"".join(await soon(log.read(offset, max_bytes)))
        whole = [base for at, size, base, _ in batch.walk(data) if at + size <= len(data)]
        assert whole
        assert whole[0] == offset
        found += whole
        offset = whole[-1] + 1
    return found


def file_of(data: Path) -> Path:
    (path,) = (data / "segments").glob("*/*.seg")
    return path


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        old = file.read(1)[0]
        file.seek(position)
        file.write(bytes([old ^ 1]))


def test_a_page_that_was_missed_is_checked_again_and_the_rest_of_the_segment_is_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        disk = Disk(monkeypatch)
        store, batches = await made(folder / "data")
        assert await read_all(store) == list(range(BATCHES))
        assert disk.checked == [], "this process wrote it"
        disk.lost = {100}
        assert await read_all(store) == list(range(BATCHES))
        answer = (50_000 + 20_480) // len(batches[0]) + 2
        assert 0 < len(disk.checked) <= 2 * answer
        # what is left are the ends of batches whose begin was known, on the first page and the last
        assert await read_all(store, 30_000) == list(range(BATCHES))
        disk.checked.clear()
        assert await read_all(store, 40_000) == list(range(BATCHES))
        assert disk.checked == [], "it was checked"
        await store.close()

    asyncio.run(main())


def test_damage_on_a_page_that_was_missed_is_found_by_whoever_reads_it_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a batch that nobody asked for, whose end is on the same page."""

    async def main() -> None:
        disk = Disk(monkeypatch)
        data = folder / "data"
        store, batches = await made(data)
        log, path = store.log(1), file_of(data)
        position = sum(map(len, batches[:100]))
        assert position % PAGE > 100
        flip(path, position - 10)
        assert bases(b"".join(await soon(log.read(99, 100)))) == [99], "it is known, as far as anybody knows"
        disk.lost = {position // PAGE}
        assert bases(b"".join(await soon(log.read(100, 100)))) == [100]
        with pytest.raises(Corrupt):
            await soon(log.read(99, 100))
        assert bases(b"".join(await soon(log.read(98, 100)))) == [98]
        await store.close()

    asyncio.run(main())


def test_what_the_disk_is_asked_for_is_unknown_from_that_moment_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes may be in memory before the one who asked gets them, and others find them there."""

    async def main() -> None:
        disk = Disk(monkeypatch)
        data = folder / "data"
        store, batches = await made(data)
        log = store.log(1)
        position = sum(map(len, batches[:100]))
        flip(file_of(data), position + 100)
        disk.lost = {position // PAGE}
        first = log.read(100, 100)
        with pytest.raises(Corrupt):
            await soon(log.read(100, 100))
        with pytest.raises(Corrupt):
            await soon(first)
        await store.close()

    asyncio.run(main())


def test_what_a_look_behind_damage_brings_in_is_unknown(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens the file with read-ahead: pages that no read asked for come from the disk with it."""

    async def main() -> None:
        disk = Disk(monkeypatch)
        data = folder / "data"
        store, batches = await made(data)
        log, path = store.log(1), file_of(data)
        positions = [sum(map(len, batches[:nth])) + 100 for nth in (100, 190)]
        for position in positions:
            flip(path, position)
        disk.lost = {position // PAGE for position in positions}
        look = integrity.go_on

        def look_ahead(*arguments: Any) -> tuple[int, int]:
            found = look(*arguments)
            disk.lost.clear()
            return found

        monkeypatch.setattr(integrity, "go_on", look_ahead)
        for damaged in (100, 190):
            with pytest.raises(Corrupt):
                await soon(log.read(damaged, 100))
            assert not disk.lost
        assert bases(b"".join(await soon(log.read(191, 100)))) == [191]
        await store.close()

    asyncio.run(main())
