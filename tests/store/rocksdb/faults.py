"""Disks and databases that fail where a test says, and a store that is left as a crash leaves it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from store import rocksdb
from store.api import Unknown
from store.rocksdb import RocksStore
from store.rocksdb.database import Database
from store.rocksdb.files import Files, Short


class Faults:
    """Numbers every operation that can fail; fails the chosen one in the chosen way."""

    def __init__(self) -> None:
        self.armed = False
        self.seen: list[str] = []
        # (which operation, how)
        self.plan: tuple[int, str] | None = None
        # the first operation waits for `go` when set
        self.entered = threading.Event()
        self.go: threading.Event | None = None
        self.struck = ""
        # what fails from then on, for ever
        self.broken: set[str] = set()

    def arm(self, plan: tuple[int, str] | None = None, *, gate: bool = False) -> None:
        self.armed, self.plan, self.seen, self.struck = True, plan, [], ""
        self.entered.clear()
        self.go = threading.Event() if gate else None

    def disarm(self) -> None:
        self.armed = False
        self.broken.clear()

    def step(self, name: str) -> str:
        """Which failure strikes here, or ""."""
        if not self.armed:
            return ""
        self.entered.set()
        if self.go is not None:
            self.go.wait(10)
        if name in self.broken:
            return "EIO"
        number = len(self.seen)
        self.seen.append(name)
        if self.plan is not None and self.plan[0] == number:
            self.struck = f"{name}: {self.plan[1]}"
            return self.plan[1]
        return ""


MODES: dict[str, tuple[str, ...]] = {
    "create": ("ENOSPC", "EIO"),
    "write": ("ENOSPC", "EIO", "short", "torn"),
    "truncate": ("EIO",),
    "unlink": ("EIO",),
    "sync": ("EIO",),
    "sync_folder": ("EIO",),
    "batch": ("before", "after", "stall"),
    "wal": ("before", "after"),
    "settle": ("EIO",),
}
"""Ways to fail by operation."""


def _raise(mode: str) -> None:
    if mode:
        number = {"ENOSPC": errno.ENOSPC}.get(mode, errno.EIO)
        raise OSError(number, os.strerror(number))


class FaultyFiles(Files):
    def __init__(self, root: Path, faults: Faults) -> None:
        super().__init__(root)
        self._faults = faults

    def create(self, partition: int, base_offset: int, number: int) -> tuple[int, int]:
        _raise(self._faults.step("create"))
        return super().create(partition, base_offset, number)

    def write(self, descriptor: int, buffers: Sequence[bytes], position: int) -> None:
        mode = self._faults.step("write")
        if mode == "short":
            data = b"".join(buffers)
            os.pwrite(descriptor, data[: len(data) // 2], position)
            raise Short(errno.ENOSPC, "only half was written")
        if mode == "torn":
            # all bytes are there, and the system says no
            super().write(descriptor, buffers, position)
            mode = "EIO"
        _raise(mode)
        super().write(descriptor, buffers, position)

    def truncate(self, descriptor: int, size: int) -> None:
        _raise(self._faults.step("truncate"))
        super().truncate(descriptor, size)

    def unlink(self, partition: int, base_offset: int, number: int) -> None:
        _raise(self._faults.step("unlink"))
        super().unlink(partition, base_offset, number)

    def sync(self, descriptor: int) -> None:
        _raise(self._faults.step("sync"))
        super().sync(descriptor)

    def sync_folder(self, partition: int) -> None:
        _raise(self._faults.step("sync_folder"))
        super().sync_folder(partition)


class FaultyDatabase(Database):
    faults: Faults

    def write(self, batch: Any, *, wait: bool = True) -> bool:
        mode = self.faults.step("batch")
        if mode == "stall" and not wait:
            return False
        if mode in ("before", "EIO"):
            raise Unknown("before the WriteBatch")
        written = super().write(batch, wait=wait)
        if mode == "after":
            raise Unknown("after the WriteBatch")
        return written

    def sync(self) -> None:
        mode = self.faults.step("wal")
        if mode in ("before", "EIO"):
            raise Unknown("before the WAL was synced")
        super().sync()
        if mode == "after":
            raise Unknown("after the WAL was synced")

    def settle(self) -> None:
        if self.faults.step("settle"):
            raise Unknown("memtables cannot be written")
        super().settle()


async def open_faulty(path: Path, faults: Faults, **options: Any) -> RocksStore:
    def database(where: Path, **more: Any) -> Database:
        made = FaultyDatabase(where, **more)
        made.faults = faults
        return made

    return await rocksdb.open(
        path, files=lambda root: FaultyFiles(root, faults), database=database, **options
    )


async def crash(store: RocksStore) -> None:
    """Leave the folder as a killed process does, and let go of it.

    What was queued is finished first, since a thread cannot be killed. The folder is put back as it was before
    RocksDB is closed, because closing writes its memtables.
    """
    await store._writer.stop()
    checkpointer = store._checkpointer
    checkpointer._closing = True
    if checkpointer._timer is not None:
        checkpointer._timer.cancel()
    # RocksDB's own threads must not delete files under the copy
    store._database._db.cancel_all_background(True)
    image = store.path.with_name(store.path.name + ".image")
    shutil.copytree(store.path, image)
    store._closed = True
    store._reader.close()
    store._executor.close()
    store._mark.close()
    with contextlib.suppress(Exception):
        # it wants to write its memtables; dropping it releases the lock all the same
        store._database.close()
    store._database._db = None
    shutil.rmtree(store.path)
    image.rename(store.path)


def operations(faults: Faults, action: Callable[[], object]) -> list[str]:
    """What `action` does that can fail."""
    faults.arm()
    action()
    faults.disarm()
    return faults.seen
