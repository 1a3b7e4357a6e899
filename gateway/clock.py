"""The one place where the gateway reads time. Everything else gets it passed in."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since 1970, for what users see: timestamps, retention, due times."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start, never back: sessions, locks, waits."""


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
