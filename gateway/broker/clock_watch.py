"""Whether things may be deleted by age at present: not right after the system clock jumped.

Kafka deletes by the system clock alone: one that jumps ahead by years empties every topic with the next look at
retention. Here a jump ahead stops deletions by age for an hour, and says so; a clock that is still there afterwards
is believed. A clock that jumps back deletes nothing too early. What ends sessions and waits is the monotonic clock,
which never jumps.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from store.api import Durability, Family, Put, Store

if TYPE_CHECKING:
    from gateway.broker.node import Node
    from gateway.clock import Clock

log = logging.getLogger("magnetar.clock")

_ROW = b"clock"

JUMP_MS = 3_600_000
"""What is more than this, in a second or so, is no correction of a clock that drifts."""
AWAY_MS = 86_400_000
"""A gateway that was stopped for less is not asked where the time went."""
HOLD_MS = 3_600_000
"""So long nothing is deleted by age after a jump ahead."""
KEEP_MS = 600_000
"""How often the time is put into the store, for the next start to compare."""


class ClockWatch:
    """Compares the clock on the wall with the monotonic one. `look` often."""

    def __init__(self, clock: Clock, seen: int | None) -> None:
        """`seen` is the time when the store was last in use, ms since 1970."""
        self._clock = clock
        self._wall, self._monotonic = clock.wall_ms(), clock.monotonic_ms()
        # how far the clock jumped ahead while deletions wait, and until when they do
        self._ahead = 0
        self._until = self._monotonic
        if seen is not None and self._wall - seen > AWAY_MS:
            self._hold(self._wall - seen, "since this store was last in use")
        elif seen is not None and seen - self._wall > JUMP_MS:
            log.warning(
                "the system clock is %s behind the time when this store was last in use: it is wrong, or was; what "
                "is deleted by age goes that much later",
                span(seen - self._wall),
            )

    def look(self) -> None:
        """Notice a jump since the last look."""
        wall, monotonic = self._clock.wall_ms(), self._clock.monotonic_ms()
        jump = (wall - self._wall) - (monotonic - self._monotonic)
        self._wall, self._monotonic = wall, monotonic
        if jump > JUMP_MS:
            self._hold(jump, "at once")
        elif jump < -JUMP_MS:
            log.warning("the system clock jumped back by %s", span(-jump))
            self._ahead += jump
            if self._ahead < JUMP_MS:
                self._until = monotonic

    @property
    def trusted(self) -> bool:
        """Whether something may be deleted because it is old."""
        self.look()
        if self._monotonic < self._until:
            return False
        self._ahead = 0
        return True

    def _hold(self, jump: int, when: str) -> None:
        self._ahead += jump
        self._until = self._monotonic + HOLD_MS
        log.warning(
            "the system clock went ahead by %s %s: nothing is deleted by age for an hour; if the clock is wrong, set "
            "it right before that",
            span(jump),
            when,
        )


def last_seen(store: Store) -> int | None:
    """When the store was last in use, ms since 1970."""
    row = store.get(Family.META, _ROW)
    return int.from_bytes(row, "big") if row else None


def keep_time(node: Node, watch: ClockWatch) -> None:
    """Note the time in the store, unless it is in doubt."""
    if watch.trusted and not node.store.read_only and not node.failing:
        row = Put(Family.META, _ROW, max(0, node.clock.wall_ms()).to_bytes(8, "big"))
        node.commit([row], lambda outcome: None, Durability.OS)


def span(ms: int) -> str:
    """A duration for people: the largest unit that fits twice."""
    for unit, size in (("years", 31_557_600_000), ("days", 86_400_000), ("hours", 3_600_000)):
        if ms >= 1.99 * size:
            return f"{round(ms / size)} {unit}"
    return f"{ms // 60_000} minutes"
