"""The store as others hold it: which logs it keeps open, what it counts, and what it says once it is closed."""

from __future__ import annotations

import asyncio
import weakref
from pathlib import Path

import pytest

from store.api import DropLog, Durability, Family, Outcome, Put, Refused, StoreError
from store.rocksdb.removal import OF_A_LOG
from tests.store.making import append, content
from tests.store.rocksdb.faults import Faults, open_faulty


def test_idle_logs_are_forgotten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.rocksdb.group_commit.KEPT_WRITERS", 3)
    monkeypatch.setattr("store.rocksdb.driver.KEPT_LOGS", 3)

    async def main() -> None:
        store = await open_faulty(folder / "data", Faults(), tail_cache_bytes=0)
        for partition in range(8):
            await store.write([append(partition, 0)], Durability.OS)
        held = store.log(5)
        others = [weakref.ref(store.log(partition)) for partition in (1, 2, 3, 4, 6, 7)]
        for base in range(1, 4):
            await store.checkpoint()
            await store.write([append(0, base)], Durability.OS)
        assert set(store._executor._writers) == {0}
        assert [each() for each in others] == [None] * 6
        await store.write([append(partition, 1) for partition in range(1, 8)], Durability.FSYNC)
        # whoever holds a log sees what is appended, and nobody else gets another object for it
        assert held.end_offset == 2
        assert store.log(5) is held
        for partition in range(1, 8):
            assert len(await content(store.log(partition))) == store.log(partition).size
        await store.close()

    asyncio.run(main())


def test_a_walk_over_all_logs_gathers_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.rocksdb.driver.KEPT_LOGS", 3)

    async def main() -> None:
        store = await open_faulty(folder / "data", Faults(), tail_cache_bytes=0)
        alive = [weakref.ref(store.log(partition)) for partition in range(50)]
        assert len([each for each in alive if each() is not None]) <= 2 * 3
        await store.close()

    asyncio.run(main())


def test_what_is_asked_of_a_log_that_was_never_written_costs_no_row(folder: Path) -> None:
    async def main() -> None:
        store = await open_faulty(folder / "data", Faults())
        store.log(1).configure(segment_bytes=1000)
        await store.write([DropLog(1), DropLog(2)], Durability.OS)
        for family in (Family.LOG, Family.DOOMED, Family.TOUCHED, *OF_A_LOG):
            assert list(store.scan(family)) == []
        await store.write([append(3, 0), DropLog(3), append(4, 0)], Durability.OS)
        assert [int.from_bytes(key, "big") for key, _ in store.scan(Family.LOG)] == [4]
        await store.close()

    asyncio.run(main())


def test_nothing_of_a_dropped_log_stays_in_memory(folder: Path) -> None:
    async def main() -> None:
        store = await open_faulty(folder / "data", Faults())
        for partition in (1, 2, 3):
            store.log(partition).configure(segment_bytes=1000)
            if partition < 3:
                await store.write([append(partition, 0)], Durability.OS)
        await store.write([DropLog(1), DropLog(3)], Durability.OS)
        assert store._configured.keys() == store._executor.unsynced.of_logs.keys() == {2}
        assert store._logs.keys() == store._executor._writers.keys() == {2}
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize("step", ["batch", "wal"])
def test_a_log_whose_drop_failed_goes_on_and_may_be_dropped_again(
    folder: Path, threaded: bool, step: str
) -> None:
    async def main() -> None:
        faults = Faults()
        store = await open_faulty(folder / "data", faults, inline_bytes=-1 if threaded else 1 << 20)
        await store.write([append(1, 0)], Durability.OS)
        faults.arm()
        faults.broken.add(step)
        store.commit([DropLog(1), DropLog(2)], Durability.FSYNC, lambda outcome: None)
        with pytest.raises(KeyError):
            store.log(1)
        with pytest.raises(StoreError):
            await store.write([Put(Family.GROUP, b"behind it", b"")], Durability.FSYNC)
        faults.disarm()
        # a WriteBatch whose sync failed may still come back, and is shown: then the log is gone
        there = 1 if step == "batch" else 0
        assert (store.log(1).end_offset, store.log(2).end_offset) == (there, 0)
        await store.write([DropLog(1), append(2, 0)], Durability.FSYNC)
        assert [int.from_bytes(key, "big") for key, _ in store.scan(Family.LOG)] == [2]
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("end", ["drop", "close", "fail"])
def test_a_log_that_only_its_reader_holds_learns_that_it_is_stale(
    folder: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr("store.rocksdb.driver.KEPT_LOGS", 0)

    async def main() -> None:
        faults = Faults()
        store = await open_faulty(folder / "data", faults, tail_cache_bytes=0)
        await store.write([append(1, 0)], Durability.OS)
        held = store.log(1)
        await store.checkpoint()
        if end == "drop":
            await store.write([DropLog(1)], Durability.OS)
        elif end == "fail":
            faults.arm()
            faults.broken.add("write")
            with pytest.raises(Refused):
                await store.write([append(1, 1)], Durability.OS)
            faults.disarm()
            assert store.log(1) is not held
        await store.close()
        assert held.stale

    asyncio.run(main())


def test_a_closed_store_refuses(folder: Path) -> None:
    async def main() -> None:
        store = await open_faulty(folder / "data", Faults())
        await store.close()
        outcomes: list[Outcome] = []
        store.commit([Put(Family.META, b"k", b"v")], Durability.OS, outcomes.append)
        assert isinstance(outcomes[0], StoreError)
        await store.close()

    asyncio.run(main())
