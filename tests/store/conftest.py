"""Stores under test, with a clock in the test's hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store import memory, rocksdb
from store.api import Store
from store.memory.log import MemoryLog
from tests.store.making import Clock, Opener


class Held(memory.ForgettingStore):
    """Somebody holds each log, as a partition in use does: what is empty and not held has no configs."""

    def log(self, partition: int) -> MemoryLog:
        found = super().log(partition)
        self.__dict__.setdefault("held", {})[partition] = found
        return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "memory, forgetting", "memory, late", "rocksdb", "rocksdb-threaded"])
def opener(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Opener:
    """Opens a fresh store of each driver; RocksDB also with every group on the writer thread."""

    async def open_store(**options: Any) -> Store:
        if request.param == "memory":
            return memory.open(clock=clock)
        if request.param == "memory, forgetting":
            return Held(clock, clock, 1, 0, 1 << 40)
        if request.param == "memory, late":
            return memory.open_late(clock=clock)
        if request.param == "rocksdb-threaded":
            options.setdefault("inline_bytes", -1)
        return await rocksdb.open(tmp_path / "data", clock=clock, **options)

    return open_store
