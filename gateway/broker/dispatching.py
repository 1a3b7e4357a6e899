"""Dispatch rates at work: how much of a partition may be read now, and who waits until more may."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from semantics.rates import Throttle

if TYPE_CHECKING:
    from gateway.broker.node import Time
    from semantics.rates import Rate

Woken = Callable[[], None]


class Pace:
    """One rate: of a partition for all who read it, or of one subscription there."""

    __slots__ = ("_published", "_seen", "_throttle", "_time", "_timer", "_waiting", "rate")

    def __init__(self, time: Time, rate: Rate, published: Callable[[], tuple[int, int]]) -> None:
        """`published`: (records, bytes) that have come into the partition, counted from anywhere."""
        self._time = time
        self.rate = rate
        self._throttle = Throttle(rate, time.clock.monotonic_ms())
        self._published = published
        self._seen = published()
        # whose turn it is when something may go
        self._waiting: dict[Woken, None] = {}
        self._timer: object | None = None

    def room(self) -> tuple[int, int]:
        """(records, bytes) that may go now."""
        now = self._time.clock.monotonic_ms()
        if self.rate.relative:
            before, self._seen = self._seen, self._published()
            records, size = (max(new - old, 0) for new, old in zip(self._seen, before, strict=True))
            self._throttle.published(records, size, now)
        return self._throttle.room(now)

    def shut(self, wake: Woken) -> bool:
        """Whether nothing may go now; then `wake` is called when something may, or the rate is another one."""
        if min(self.room()):
            return False
        self._when_open(wake)
        return True

    def spend(self, records: int, size: int) -> None:
        """So much went."""
        self._throttle.spend(records, size, self._time.clock.monotonic_ms())

    def _when_open(self, wake: Woken) -> None:
        self._waiting[wake] = None
        if self._timer is None:
            now = self._time.clock.monotonic_ms()
            self._timer = self._time.call_at(now + max(self._throttle.wait(now), 1), self._rings)

    def _rings(self) -> None:
        self._timer = None
        self.end()

    def end(self) -> None:
        """Whoever waits looks again: something may go, or this rate counts no longer."""
        waiting, self._waiting = self._waiting, {}
        for wake in waiting:
            wake()


def pace_of(
    old: Pace | None, time: Time, rate: Rate, published: Callable[[], tuple[int, int]]
) -> Pace | None:
    """What a rate is kept by: as it was, if it is the same one; None where there is no limit. `Pace.end` of the old one
    is to follow where it is another.
    """
    if old is not None and old.rate == rate:
        return old
    return Pace(time, rate, published) if rate.limits else None
