"""What a power cut may leave of RocksDB's own files, and what a start makes of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from store import rocksdb
from store.api import Durability, Family, Put, StoreError
from store.rocksdb import powerloss
from store.rocksdb.logformat import BLOCK, HEAD, records
from tests.store.rocksdb.faults import crash

HALF = HEAD.pack(7, 200, 1) + b"half" * 20 + bytes(120)
"""The size of a record and the beginning of its bytes, which RocksDB refuses. (A shorter file it puts in order.)"""


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        asyncio.run(test(folder / "data"))

    run.__name__ = test.__name__
    return run


async def stopped(data: Path) -> Path:
    """A store that was killed with rows in two WALs; its database's folder."""
    store = await rocksdb.open(data, boot="one")
    for number in range(20):
        await store.write([Put(Family.GROUP, bytes([number]), b"x" * 300)], Durability.OS)
        if number == 9:
            # begins a new WAL; the old one is still needed for the other families
            store._database._families["meta"].flush(True)
    await crash(store)
    return data / "db"


def manifest(database: Path) -> Path:
    return database / (database / "CURRENT").read_text().strip()


async def keys(data: Path) -> tuple[list[int], list[str]]:
    store = await rocksdb.open(data, boot="another")
    assert not store.read_only
    found = [key[0] for key, _ in store.scan(Family.GROUP)]
    notices = list(store.notices)
    await store.close()
    again = await rocksdb.open(data, boot="another")
    assert [key[0] for key, _ in again.scan(Family.GROUP)] == found
    assert again.notices == []
    await again.close()
    return found, notices


@in_a_loop
async def test_a_whole_database_is_left_alone(data: Path) -> None:
    database = await stopped(data)
    before = {path.name: path.read_bytes() for path in database.iterdir()}
    assert powerloss.put_in_order(database, data / "quarantine") == []
    assert {path.name: path.read_bytes() for path in database.iterdir()} == before
    assert (await keys(data))[0] == list(range(20))


@pytest.mark.parametrize("tail", [HALF, HEAD.pack(7, 8, 1) + bytes(8), bytes(100)])
def test_half_a_record_at_the_end_of_the_manifest(folder: Path, tail: bytes) -> None:
    async def main() -> None:
        database = await stopped(folder / "data")
        path = manifest(database)
        with path.open("ab") as file:
            file.write(tail)
        found, notices = await keys(folder / "data")
        assert found == list(range(20))
        assert "half of a record" in notices[0]
        (kept,) = (folder / "data" / "quarantine").glob("MANIFEST-*")
        assert kept.read_bytes() == tail

    asyncio.run(main())


async def started_twice(data: Path) -> Path:
    """A store that was killed, started, and killed again before it wrote all families to tables."""
    await stopped(data)
    store = await rocksdb.open(data, boot="one")
    await store.write([Put(Family.GROUP, bytes([20]), b"x" * 300)], Durability.OS)
    store._database._families["meta"].flush(True)
    await store.write([Put(Family.GROUP, bytes([21]), b"x" * 300)], Durability.OS)
    await crash(store)
    return data / "db"


@in_a_loop
async def test_half_a_record_after_a_second_start(data: Path) -> None:
    database = await started_twice(data)
    found = powerloss.noted(manifest(database).read_bytes())
    assert found is not None
    assert not (database / f"{found.least:06d}.log").exists(), "no WAL has the number that a start notes"
    with manifest(database).open("ab") as file:
        file.write(HALF)
    rows, notices = await keys(data)
    assert rows == list(range(22))
    assert "half of a record" in notices[0]


@in_a_loop
async def test_half_a_record_after_a_second_start_whose_wal_is_gone_with_what_was_synced(data: Path) -> None:
    database = await started_twice(data)
    store = await rocksdb.open(data, boot="one")
    await store.write([Put(Family.GROUP, bytes([22]), b"x" * 300)], Durability.FSYNC)
    await crash(store)
    (wal,) = [each for each in database.glob("*.log") if powerloss.sequences(each.read_bytes()) is not None]
    wal.unlink()
    with manifest(database).open("ab") as file:
        file.write(HALF)
    with pytest.raises(StoreError, match="damaged"):
        await rocksdb.open(data, boot="another")


@pytest.mark.parametrize("family", [1, 5, 20])
def test_half_a_record_at_the_very_first_start(folder: Path, family: int) -> None:
    async def main() -> None:
        data = folder / "data"
        await crash(await rocksdb.open(data, boot="one"))
        path = manifest(data / "db")
        whole = path.read_bytes()
        # the families are made one after the other, each by a record of its own
        end = list(records(whole))[4 + family].end
        path.write_bytes(whole[:end] + HALF)
        for wal in (data / "db").glob("*.log"):
            os.truncate(wal, 0)
        (data / "mark").unlink()
        rows, notices = await keys(data)
        assert rows == []
        assert "half of a record" in notices[0]

    asyncio.run(main())


@in_a_loop
async def test_a_wal_that_is_lost_as_a_whole_leaves_a_hole(data: Path) -> None:
    database = await started_twice(data)
    first, _ = sorted(database.glob("*.log"))
    first.write_bytes(b"")
    rows, notices = await keys(data)
    assert rows == list(range(20)), "what the start had put into tables, and nothing from behind the hole"
    assert "behind it" in notices[0]
    assert len(list((data / "quarantine").glob("*.log"))) == 1


@in_a_loop
async def test_no_wal_is_moved_for_a_damaged_manifest(data: Path) -> None:
    database = await started_twice(data)
    path = manifest(database)
    whole = path.read_bytes()
    # what was noted of tables, long ago
    broken = list(records(whole))[4]
    path.write_bytes(whole[: broken.end - 1] + b"\xff" + whole[broken.end :])
    before = sorted(each.name for each in database.glob("*.log"))
    with pytest.raises(StoreError, match="damaged"):
        await rocksdb.open(data, boot="another")
    assert sorted(each.name for each in database.glob("*.log")) == before


def test_damage_far_from_the_end_of_the_manifest_is_not_cut_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(powerloss, "UNSYNCED", 10)

    async def main() -> None:
        path = manifest(await stopped(folder / "data"))
        second = list(records(path.read_bytes()))[1]
        with path.open("rb+") as file:
            file.seek(second.begin + HEAD.size)
            file.write(b"\xff\xff")
        damaged = path.read_bytes()
        with pytest.raises(StoreError, match="damaged"):
            await rocksdb.open(folder / "data", boot="another")
        assert path.read_bytes() == damaged

    asyncio.run(main())


def test_a_record_whose_wals_are_gone_was_synced_and_is_not_cut_off(folder: Path) -> None:
    async def main() -> None:
        data = folder / "data"
        store = await rocksdb.open(data, boot="one")
        await store.write([Put(Family.GROUP, b"k", b"v")], Durability.FSYNC)
        # all rows into tables: only the MANIFEST leads to them
        store._database.settle()
        await crash(store)
        path = manifest(data / "db")
        whole = path.read_bytes()
        last = list(records(whole))[-1]
        with path.open("rb+") as file:
            file.seek(last.begin + HEAD.size)
            file.write(b"\xff\xff")
        for wal in (data / "db").glob("*.log"):
            wal.unlink()
        with pytest.raises(StoreError, match="damaged"):
            await rocksdb.open(data, boot="another")
        assert path.stat().st_size == len(whole)

    asyncio.run(main())


@in_a_loop
async def test_what_stands_behind_a_hole_between_two_wals_goes(data: Path) -> None:
    database = await stopped(data)
    first = sorted(database.glob("*.log"))[-2]
    whole = list(records(first.read_bytes()))
    os.truncate(first, whole[-3].end)
    found, notices = await keys(data)
    assert found == list(range(8)), "without the two that are lost, and what came after them"
    assert "behind it" in notices[0]
    assert len(list((data / "quarantine").glob("*.log"))) == 1


async def aligned(data: Path) -> Path:
    """A store that was killed with eight rows in two blocks of one WAL, each of a quarter of a block; the WAL."""
    store = await rocksdb.open(data, boot="one")

    async def put(key: int, size: int) -> int:
        (wal,) = (data / "db").glob("*.log")
        before = wal.stat().st_size
        await store.write([Put(Family.GROUP, bytes([key]), bytes(size))], Durability.OS)
        return wal.stat().st_size - before

    more = await put(100, 1000) - 1000
    (wal,) = (data / "db").glob("*.log")
    room = BLOCK - wal.stat().st_size % BLOCK
    # of lengths that are written in two bytes each
    for size in (10_000, 10_000, room - 20_000):
        await put(101, size - more)
    assert wal.stat().st_size % BLOCK == 0
    for key in range(8):
        await put(key, BLOCK // 4 - more)
    await crash(store)
    return wal


@in_a_loop
async def test_what_stands_behind_a_hole_within_a_wal_goes(data: Path) -> None:
    """RocksDB takes zeros for room that nobody has written, and goes on with the next block."""
    wal = await aligned(data)
    whole = wal.read_bytes()
    lost = list(records(whole))[-7]
    with wal.open("rb+") as file:
        file.seek(lost.begin)
        file.write(bytes(lost.end - lost.begin))
    found, notices = await keys(data)
    assert found == [0, 100, 101], "not those of the next block, which begins with a whole record"
    assert "from the hole on" in notices[0]
    (kept,) = (data / "quarantine").glob("*.log@*")
    assert kept.read_bytes() == bytes(lost.end - lost.begin) + whole[lost.end :]


@in_a_loop
async def test_zeros_at_the_end_of_a_wal_are_no_hole(data: Path) -> None:
    wal = await aligned(data)
    lost = list(records(wal.read_bytes()))[-7]
    with wal.open("rb+") as file:
        file.seek(lost.begin)
        file.write(bytes(wal.stat().st_size - lost.begin))
    found, notices = await keys(data)
    assert found == [0, 100, 101]
    assert not any("hole" in notice for notice in notices)


def test_where_a_wal_has_a_hole() -> None:
    one = fragment(1, b"x" * 500)
    behind = bytes(BLOCK) + one

    def padded(data: bytes) -> bytes:
        return data + bytes(BLOCK - len(data) % BLOCK)

    assert powerloss.hole_in(one + behind) == len(one)
    assert powerloss.hole_in(one * 3) is None
    assert powerloss.hole_in(one + bytes(3 * BLOCK)) is None
    # in the same block RocksDB does not go on
    assert powerloss.hole_in(one + bytes(40) + one) is None
    # a damaged one it notices; but not one of which only the checksum is left
    assert powerloss.hole_in(one + fragment(1, b"y")[:-1] + b"z" + behind) is None
    assert powerloss.hole_in(one + fragment(1, b"y")[:4] + bytes(4) + behind) == len(one)
    # there is no room for the head of a record: the next begins with the block
    full = fragment(1, b"x" * (BLOCK - HEAD.size - 3))
    assert powerloss.hole_in(padded(full) + one + behind) == BLOCK + len(one)
    assert powerloss.hole_in(padded(full) + behind) == BLOCK


def test_nothing_is_touched_under_another_process(folder: Path) -> None:
    data = folder / "data"
    database = asyncio.run(stopped(data))
    first = sorted(database.glob("*.log"))[-2]
    os.truncate(first, list(records(first.read_bytes()))[-3].end)
    hold = (
        "import fcntl, sys; lock = open(sys.argv[1], 'ab'); fcntl.lockf(lock, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(database / "LOCK")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert powerloss.put_in_order(database, data / "quarantine") == []
        other.communicate(b"")
    assert powerloss.put_in_order(database, data / "quarantine") != []


def fragment(kind: int, data: bytes) -> bytes:
    crc = google_crc32c.value(bytes([kind]) + data)
    return HEAD.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF, len(data), kind) + data


def test_the_first_of_two_unsynced_records_may_be_lost_alone() -> None:
    whole = fragment(1, b"one") * 3
    lost = bytes(40)
    assert powerloss.torn_at(whole + lost + fragment(1, b"two")) == len(whole)
    assert powerloss.torn_at(whole + fragment(1, b"x" * 50)[:-9] + bytes(9) + fragment(1, b"two")) == len(
        whole
    )
    broken = fragment(1, b"x" * 50)[:-9] + bytes(9)
    behind = fragment(1, b"y" * 1000) * 5
    assert powerloss.torn_at(whole + broken + behind) is None, "synced long ago, and damaged since"
