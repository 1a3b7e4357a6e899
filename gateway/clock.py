"""The one place where the gateway reads time. Everything else gets it passed in."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since 1970, for what users see: timestamps, retention, due times."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start, never back: sessions, locks, waits."""


_PLAUSIBLE = range(1_735_689_600_000, 4_102_444_800_000)
"""From 2025, before which there was no Magnetar, to 2100, in ms since 1970."""


def implausible(wall_ms: int) -> str | None:
    """Why nothing should be stamped with this time, in a sentence, or None."""
    if wall_ms in _PLAUSIBLE:
        return None
    seconds = min(max(wall_ms // 1000, -62_135_596_800), 253_402_300_799)
    shown = datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
    return (
        f"The system clock says {shown.date().isoformat()}: records would be stamped wrongly, and kept or deleted at "
        "the wrong time; set the clock and start again."
    )


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
