"""The store as others hold it: which logs it keeps open, what it counts, and what it says once it is closed."""

from __future__ import annotations

import asyncio
import weakref
from pathlib import Path

import pytest

from store.api import CreateLog, DropLog, Durability, Family, Outcome, Put, Refused, StoreError
from tests.store.making import append, content
from tests.store.rocksdb.faults import Faults, open_faulty


def test_idle_logs_are_forgotten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.rocksdb.group.KEPT_WRITERS", 3)
    monkeypatch.setattr("store.rocksdb.driver.KEPT_LOGS", 3)

    async def main() -> None:
        store = await open_faulty(folder / "data", Faults(), tail_cache_bytes=0)
        for partition in range(8):
            await store.write([CreateLog(partition), append(partition, 0)], Durability.OS)
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
        await store.write([CreateLog(partition) for partition in range(50)], Durability.OS)
        alive = [weakref.ref(store.log(partition)) for partition in range(50)]
        assert len([each for each in alive if each() is not None]) <= 2 * 3
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
        await store.write([CreateLog(1), append(1, 0)], Durability.OS)
        held = store.log(1)
        await store.checkpoint()
        with pytest.raises(ValueError, match="log 1 exists"):
            await store.write([CreateLog(1)], Durability.OS)
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
