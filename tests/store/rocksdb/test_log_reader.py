"""Damage of every kind in segments that were written before this start: it is found, bounded and read around."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value as crc32c

from store import batch, rocksdb
from store.api import Append, Corrupt, Durability, StoreError, Trim
from store.rocksdb import check, log_reader
from store.rocksdb.files import Files
from store.rocksdb.log import RocksLog
from store.rocksdb.segments import Work
from tests.store.making import append, bases, soon
from tests.store.rocksdb.damaging import BATCHES, RECORDS, change, file_of, flip, place, stored
from tests.store.rocksdb.starting import in_a_loop, opened, segment_files


async def all_that_can_be_read(log: RocksLog, max_bytes: int = 100_000) -> tuple[list[bytes], list[Corrupt]]:
    """Every batch that is served, and what the reader was told of the others."""
    found: list[bytes] = []
    told: list[Corrupt] = []
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            data = b"".join(await soon(log.read(offset, max_bytes)))
        except Corrupt as error:
            told.append(error)
            first, offset = offset, error.next_offset
            assert error.first <= first < offset  # noqa: PT017
            continue
        for at, size, base, following in batch.walk(data):
            if at + size <= len(data):
                assert base >= offset
                found.append(data[at : at + size])
                offset = following
    return found, told


def swap(path: Path, own: list[bytes]) -> None:
    """The bytes of two stretches of the same size stand in each other's place."""
    first, second, size = place(own, 100), place(own, 300), 8192
    data = bytearray(path.read_bytes())
    data[first : first + size], data[second : second + size] = (
        data[second : second + size],
        data[first : first + size],
    )
    path.write_bytes(data)


def flip_three(path: Path, own: list[bytes]) -> None:
    for nth in (200, 201, 202):
        flip(path, place(own, nth) + 70)


def shift(path: Path, own: list[bytes]) -> None:
    """Every batch stands where the one before it was, and the first at the end."""
    path.write_bytes(path.read_bytes()[len(own[0]) :] + own[0])


# what is done to the file, and how many bytes of good batches it may take with it
DAMAGE: dict[str, tuple[Callable[[Path, list[bytes]], None], int]] = {
    "a bit in records": (lambda path, own: flip(path, place(own, 200) + 70), 0),
    "a bit in the records of three batches in a row": (flip_three, 0),
    "a bit in the CRC": (lambda path, own: flip(path, place(own, 200) + 18), 0),
    "a bit in the magic": (lambda path, own: flip(path, place(own, 200) + 16), 0),
    "a low bit of the base offset": (lambda path, own: flip(path, place(own, 200) + 7, 2), 0),
    "a high bit of the base offset": (lambda path, own: flip(path, place(own, 200) + 2), 0),
    "a bit in the last offset delta": (lambda path, own: flip(path, place(own, 200) + 26, 4), 0),
    "a low bit of the length": (lambda path, own: flip(path, place(own, 200) + 11), 50_000),
    "a high bit of the length": (lambda path, own: flip(path, place(own, 200) + 8), 50_000),
    "the sign of the length": (lambda path, own: flip(path, place(own, 200) + 8, 0x80), 50_000),
    "a page of zeroes": (lambda path, own: change(path, 40_960 * 20, lambda old: bytes(len(old)), 4096), 60_000),
    "the first page": (lambda path, own: change(path, 0, lambda old: bytes(len(old)), 4096), 60_000),
    "swapped content": (swap, 150_000),
    "a truncated file": (lambda path, own: os.truncate(path, place(own, 390) + 100), 10**9),
    "the last batch": (lambda path, own: flip(path, place(own, BATCHES - 1) + 70), 0),
    "an empty file": (lambda path, own: os.truncate(path, 0), 10**9),
    "no file": (lambda path, own: path.unlink(), 10**9),
    "everything moved by a batch": (shift, 10**9),
}  # fmt: skip


@pytest.mark.parametrize("fetch", [1, 100_000])
@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_damaged_is_told_and_everything_else_is_served(folder: Path, kind: str, fetch: int) -> None:
    async def main() -> None:
        data = folder / "data"
        store, made = await stored(data)
        damage, also = DAMAGE[kind]
        damage(file_of(data, 1), made[1])
        for _ in range(2):
            found, told = await all_that_can_be_read(store.log(1), fetch)
            wanted = set(made[1])
            assert told
            assert set(found) < wanted, "nothing but what was written"
            lost = [each for each in made[1] if each not in set(found)]
            for each in lost:
                base = batch.base_offset(each)
                assert any(error.first <= base < error.next_offset for error in told), (
                    f"{base} is not told of"
                )
            assert sum(map(len, lost)) <= also + 3 * 30_100
            # the other log is as it was
            assert (await all_that_can_be_read(store.log(2), fetch)) == (made[2], [])
        await store.close()

    asyncio.run(main())


def test_good_batches_before_the_damage_come_with_the_same_read(folder: Path) -> None:
    async def main() -> None:
        data = folder / "data"
        store, made = await stored(data)
        flip(file_of(data, 1), place(made[1], 12) + 70)
        log = store.log(1)
        assert bases(b"".join(await soon(log.read(0, 10_000_000)))) == [n * RECORDS for n in range(12)]
        for offset in range(12 * RECORDS, 13 * RECORDS):
            with pytest.raises(Corrupt, match="a wrong CRC") as raised:
                await soon(log.read(offset, 10_000_000))
            assert (raised.value.first, raised.value.next_offset) == (36, 39)
            assert f"at byte {place(made[1], 12)}" in raised.value.what
            assert file_of(data, 1).name in raised.value.what
        assert bases(b"".join(await soon(log.read(39, 10_000_000))))[0] == 39
        await store.close()

    asyncio.run(main())


def test_what_most_answers_have_is_checked_on_the_loop_and_more_in_a_thread(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[Callable[[], Any]] = []

    def counted(run: Callable[[], Any]) -> Work:
        threads.append(run)
        return Work(run)

    async def main() -> None:
        # all of it was written before this start
        store, made = await stored(folder / "data", tail_cache_bytes=0)
        monkeypatch.setattr(log_reader, "Work", counted)
        megabyte = 1024 * 1024
        found = b"".join(await soon(store.log(1).read(0, megabyte)))
        assert found == b"".join(made[1])[: len(found)]
        assert len(found) > megabyte - 40_000, "but for the batch that was cut off"
        assert not threads
        assert len(b"".join(await soon(store.log(2).read(0, 2 * megabyte)))) > megabyte
        assert threads
        await store.close()

    asyncio.run(main())


def test_bytes_are_checked_once_while_they_are_in_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store, _ = await stored(folder / "data", tail_cache_bytes=0)
        log = store.log(1)
        checked: list[int] = []
        in_memory = [True]

        def read_cached(files: Files, descriptor: int, size: int, position: int) -> memoryview | None:
            return memoryview(os.pread(descriptor, size, position)) if in_memory[0] else None

        monkeypatch.setattr(Files, "read_cached", read_cached)

        def counted(data: bytes) -> Any:
            checked.append(len(data))
            return crc32c(data)

        monkeypatch.setattr(check, "crc32c", counted)
        await all_that_can_be_read(log, 70_000)
        assert len(checked) == BATCHES
        checked.clear()
        assert len((await all_that_can_be_read(log, 30_000))[0]) == BATCHES
        # and what this process appends was checked when it came
        more = batch.build(log.end_offset, b"x" * 1000)
        await store.write([Append(1, log.end_offset, log.end_offset + 1, 0, [more])], Durability.OS)
        assert (await soon(log.read(log.end_offset - 1, 1000))) == [more]
        log.configure(segment_bytes=1)
        await store.write([Append(1, log.end_offset, log.end_offset + 1, 0, [more])], Durability.OS)
        await all_that_can_be_read(log, 50_000)
        assert checked == []
        # until the page cache has let go of some of it
        in_memory[0] = False
        await all_that_can_be_read(log, 70_000)
        assert len(checked) >= BATCHES
        await store.close()

    asyncio.run(main())


def test_a_search_by_time_finds_what_is_not_damaged(folder: Path) -> None:
    async def main() -> None:
        data = folder / "data"
        store, made = await stored(data)
        log = store.log(1)
        path = file_of(data, 1)
        flip(path, place(made[1], 200) + 8, 0x80)
        flip(path, place(made[1], 300) + 70)
        flip(file_of(data, 2), place(made[2], 399) + 70)
        for nth in (0, 100, 299, 301, 399):
            assert await soon(log.batch_at_or_after(1000 + nth)) == [made[1][nth]], nth
        for nth in (200, 300):
            with pytest.raises(Corrupt) as raised:
                await soon(log.batch_at_or_after(1000 + nth))
            behind = raised.value.next_offset
            assert nth * RECORDS < behind
            (found,) = await soon(log.batch_at_or_after(1000 + nth, behind))
            assert batch.base_offset(bytes(found)) == behind
        assert bases(b"".join(await soon(log.max_timestamp_batch()))) == [399 * RECORDS]
        with pytest.raises(Corrupt):
            await soon(store.log(2).max_timestamp_batch())
        # retention looks at segments whatever is in them, and a trim is possible
        path.unlink()
        assert [each.next_offset for each in log.segments()] == [BATCHES * RECORDS]
        await store.write([Trim(1, log.end_offset)], Durability.OS)
        assert log.start_offset == log.end_offset
        await store.close()

    asyncio.run(main())


def test_a_disk_that_cannot_be_read_is_no_damage(folder: Path) -> None:
    """What stands before the place comes; the place itself is refused for the time being; the rest comes."""

    class Failing(Files):
        bad = range(0)

        def read_cached(self, descriptor: int, size: int, position: int) -> memoryview | None:
            return None

        def read(self, descriptor: int, size: int, position: int) -> bytes:
            if os.readlink(f"/proc/self/fd/{descriptor}").find("/00000001-") < 0:
                return super().read(descriptor, size, position)
            if position in self.bad:
                raise OSError(5, "Input/output error")
            if position < self.bad.start < position + size:
                size = self.bad.start - position
            return super().read(descriptor, size, position)

    async def main() -> None:
        data = folder / "data"
        store, made = await stored(data, files=Failing)
        log = store.log(1)
        begin = place(made[1], 200)
        Failing.bad = range(begin + 10, begin + 20)
        found = await soon(log.read(190 * RECORDS, 10_000_000))
        assert bases(b"".join(found))[-1] == 199 * RECORDS
        Failing.bad = range(begin, begin + 20)
        with pytest.raises(StoreError, match="Input/output error") as raised:
            await soon(log.read(200 * RECORDS, 100))
        assert not isinstance(raised.value, Corrupt)
        assert bases(b"".join(await soon(log.read(210 * RECORDS, 100)))) == [210 * RECORDS]
        assert len((await all_that_can_be_read(store.log(2)))[0]) == BATCHES
        Failing.bad = range(0)
        assert bases(b"".join(await soon(log.read(200 * RECORDS, 100)))) == [200 * RECORDS]
        await store.close()

    asyncio.run(main())


def test_a_file_that_ends_behind_a_gap(folder: Path) -> None:
    """Its last batch cannot be held against a follower: that is said, rather than asked for again and again."""

    async def main() -> None:
        data = folder / "data"
        store = await rocksdb.open(data)
        made = [batch.build(base, b"x" * 100) for base in (0, 5, 6)]
        for each in made:
            base = batch.base_offset(each)
            await store.write([Append(1, base, base + 1, 0, [each])], Durability.OS)
        await store.close()
        store = await rocksdb.open(data)
        os.truncate(file_of(data, 1), len(made[0]) + len(made[1]))
        for offset in (1, 5):
            with pytest.raises(Corrupt, match="a gap, and the file ends behind it"):
                await asyncio.wait_for(soon(store.log(1).read(offset, 1)), 10)
        assert await soon(store.log(1).read(0, 1)) == [made[0]]
        await store.close()

    asyncio.run(main())


@in_a_loop
async def test_a_damaged_header_is_corrupt_for_those_who_read_it_and_nobody_else(data: Path) -> None:
    store = await opened(data, tail_cache_bytes=0)
    store.log(1).configure(segment_bytes=1000)
    for base in range(12):
        await store.write([append(1, base, [300])], Durability.OS)
    second = segment_files(data)[1]
    with second.open("r+b") as file:
        file.write(b"\xff" * 40)
    log = store.log(1)
    assert bases(b"".join(await soon(log.read(0, 300)))) == [0]
    with pytest.raises(Corrupt, match="no record batch"):
        await soon(log.read(2, 500))
    assert bases(b"".join(await soon(log.read(4, 500))))[0] == 4
    segment_files(data)[3].unlink()
    with pytest.raises(Corrupt, match="missing"):
        await soon(log.read(6, 500))
    await store.close()
