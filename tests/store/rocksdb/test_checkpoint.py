"""When checkpoints come, what a failed one leaves for recovery, and that files go which nobody needs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from store.api import DropLog, Durability, Family, StoreError, Write
from store.rocksdb import opening
from store.rocksdb.driver import RocksStore
from store.rocksdb.files import Files
from tests.store.making import Clock, append, content
from tests.store.rocksdb.faults import Faults, open_faulty


class Held(Files):
    """Unlinks when it may."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked = threading.Event()
        self.may = threading.Event()
        self.may.set()

    def unlink(self, partition: int, base_offset: int, number: int) -> None:
        self.asked.set()
        assert self.may.wait(30)
        super().unlink(partition, base_offset, number)

    def logs(self) -> set[int]:
        """Those that have files."""
        names = (Files.parse(path.name) for path in Path(self.root).rglob("*.seg"))
        return {name[0] for name in names if name is not None}


def run(folder: Path, test: Callable[[RocksStore, Held], Coroutine[Any, Any, None]], **options: Any) -> None:
    """With a store of three logs whose files are on the disk. No checkpoint comes because of what is written."""
    files: list[Held] = []

    def made(root: Path) -> Held:
        files.append(Held(root))
        return files[-1]

    async def body() -> None:
        own = {"checkpoint_pause": 0.0, "checkpoint_seconds": 10_000.0, **options}
        store = await opening.open(folder / "data", files=made, **own)
        try:
            for number in (1, 2, 3):
                await store.write([append(number, 0)], Durability.OS)
            await store.checkpoint()
            assert files[-1].logs() == {1, 2, 3}
            await test(store, files[-1])
        finally:
            files[-1].may.set()
            await store.close()

    asyncio.run(body())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.001)


def test_files_go_soon_after_nobody_needs_them(folder: Path) -> None:
    async def test(store: RocksStore, files: Held) -> None:
        await store.write([DropLog(1), DropLog(3)], Durability.OS)
        await until(lambda: files.logs() == {2})

    run(folder, test)


def test_so_do_those_that_nobody_needs_while_others_are_removed(folder: Path) -> None:
    async def test(store: RocksStore, files: Held) -> None:
        files.may.clear()
        await store.write([DropLog(1)], Durability.OS)
        await asyncio.to_thread(files.asked.wait, 30)
        await store.write([DropLog(2)], Durability.OS)
        # the time of the next checkpoint comes while this one still runs
        await until(lambda: store._checkpointer._timer is None)
        await store.write([DropLog(3)], Durability.OS)
        files.may.set()
        await until(lambda: files.logs() == set())

    run(folder, test)


def fails(store: RocksStore, times: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """So many checkpoints cannot write, as on a full disk. How many have failed."""
    write_own = store.write_own
    failed = 0

    async def full(writes: Sequence[Write], durability: Durability) -> None:
        nonlocal failed
        if failed < times:
            failed += 1
            raise StoreError("no space is left")
        await write_own(writes, durability)

    monkeypatch.setattr(store, "write_own", full)
    return lambda: failed


def test_a_checkpoint_that_failed_comes_again_for_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(store: RocksStore, files: Held) -> None:
        failed = fails(store, 2, monkeypatch)
        await store.write([DropLog(1)], Durability.OS)
        await until(lambda: files.logs() == {2, 3})
        assert failed() == 2

    run(folder, test)


def test_a_checkpoint_that_failed_forgets_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(store: RocksStore, files: Held) -> None:
        fails(store, 1, monkeypatch)
        await store.write([DropLog(1)], Durability.OS)
        with pytest.raises(StoreError, match="no space"):
            await store.checkpoint()
        assert files.logs() == {1, 2, 3}
        await store.close()
        assert files.logs() == {2, 3}

    run(folder, test, checkpoint_pause=10_000.0)


def test_a_failed_checkpoint_keeps_what_recovery_needs(folder: Path) -> None:
    async def main() -> None:
        clock, faults = Clock(), Faults()
        store = await open_faulty(folder / "data", faults, clock=clock)
        await store.write([append(1, 0), append(2, 0)], Durability.FSYNC)
        await store.checkpoint()
        await store.write([append(1, 1), append(2, 1)], Durability.FSYNC)
        faults.arm((0, "EIO"))
        await store.checkpoint()
        assert faults.struck.startswith("sync")
        faults.disarm()
        assert len(store.notices) == 1
        assert "failed" in store.notices[0]
        assert len(list(store.scan(Family.JOURNAL))) == 1
        await store.write([append(1, 2), append(2, 2)], Durability.FSYNC)
        await store.checkpoint()
        assert len(list(store.scan(Family.JOURNAL))) == 1
        assert sorted(len(store.log(partition).segments()) for partition in (1, 2)) == [1, 2]
        await store.close()
        reopened = await open_faulty(folder / "data", Faults(), clock=clock)
        assert list(reopened.scan(Family.JOURNAL)) == []
        assert list(reopened.scan(Family.TOUCHED)) == []
        for partition in (1, 2):
            assert reopened.log(partition).end_offset == 3
            assert len(await content(reopened.log(partition))) == reopened.log(partition).size
        await reopened.close()

    asyncio.run(main())


def test_checkpoints_come_by_themselves(folder: Path) -> None:
    async def main() -> None:
        store = await open_faulty(folder / "data", Faults(), checkpoint_batches=10, checkpoint_pause=0.0)
        for base in range(10):
            await store.write([append(1, base)], Durability.OS)
        while store._checkpointer._running is not None:
            await asyncio.sleep(0)
        assert store._checkpointer.checkpoints == 1
        assert list(store.scan(Family.TOUCHED)) == []
        await store.write([append(1, 10)], Durability.OS)
        assert len(list(store.scan(Family.TOUCHED))) == 1
        # and by the clock
        assert store._checkpointer._timer is not None
        await store.close()

    asyncio.run(main())
