"""A store that forgets: for tests, and for topics that are not persistent. `open()` gives one."""

import time
from collections.abc import Callable

from store.memory.driver import MemoryStore
from store.memory.late import LateStore

__all__ = ["LateStore", "MemoryStore", "open", "open_late"]


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def open(*, clock: Callable[[], int] = wall_ms, epoch: int = 1) -> MemoryStore:
    """An empty store. `clock` gives ms since 1970; `epoch` is what a start count would be: every leader epoch."""
    return MemoryStore(clock, epoch)


def open_late(*, clock: Callable[[], int] = wall_ms, epoch: int = 1, seed: int = 1) -> LateStore:
    """The same with a store that lets one wait for everything: `seed` says how long, and in which order."""
    return LateStore(clock, epoch, seed)
