"""A store that forgets: for tests, and for topics that are not persistent. `open()` gives one."""

import time
from collections.abc import Callable

from store.memory.driver import MemoryStore
from store.memory.forgetting import ForgettingStore
from store.memory.late import LateStore
from store.transient import first_offset

__all__ = ["ForgettingStore", "LateStore", "MemoryStore", "open", "open_forgetting", "open_late"]


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def open(*, clock: Callable[[], int] = wall_ms, epoch: int = 1) -> MemoryStore:
    """An empty store. `clock` gives ms since 1970; `epoch` is what a start count would be: every leader epoch."""
    return MemoryStore(clock, epoch)


def open_late(*, clock: Callable[[], int] = wall_ms, epoch: int = 1, seed: int = 1) -> LateStore:
    """The same with a store that lets one wait for everything: `seed` says how long, and in which order."""
    return LateStore(clock, epoch, seed)


def open_forgetting(
    *,
    clock: Callable[[], int] = wall_ms,
    ages: Callable[[], int] = monotonic_ms,
    epoch: int = 1,
    max_bytes: int,
) -> ForgettingStore:
    """A store for what is not to be stored: it holds `max_bytes` at most, and forgets the oldest. Offsets are above all
    that one with a smaller `epoch` has ever given. `ages`: a clock that never jumps, in ms.
    """
    return ForgettingStore(clock, ages, epoch, first_offset(epoch), max_bytes)
