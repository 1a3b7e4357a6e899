"""Dispatch rates at work: how much of a partition may be read now, and who waits until more may."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from semantics.rates import Throttle

if TYPE_CHECKING:
    from gateway.broker.node import Time
    from semantics.rates import Rate

Woken = Callable[[], None]


class Dispatching(Protocol):
    """What bounds how fast a partition is read: one rate, or several."""

    def room(self) -> tuple[int, int]:
        """(records, bytes) that may go now."""
        ...

    def shut(self, wake: Woken) -> bool:
        """Whether nothing may go now; then `wake` is called when something may, or the rate is another one."""
        ...

    def spend(self, records: int, size: int) -> None:
        """So much went."""
        ...

    def forget(self, wake: Woken) -> None:
        """Who waits goes away."""
        ...

    def end(self) -> None:
        """Whoever waits looks again."""
        ...


class Pace:
    """One rate: of a partition for all who read it, or of one subscription there."""

    __slots__ = (
        "_published",
        "_rings",
        "_seen",
        "_throttle",
        "_time",
        "_timer",
        "_turns",
        "rate",
        "waiting",
    )

    def __init__(self, time: Time, rate: Rate, published: Callable[[], tuple[int, int]]) -> None:
        """`published`: (records, bytes) that have come into the partition, counted from anywhere."""
        self._time = time
        self.rate = rate
        self._throttle = Throttle(rate, time.clock.monotonic_ms())
        self._published = published
        self._seen = published()
        self.waiting: dict[Woken, None] = {}
        """who is woken when something may go"""
        # when each of those was the first that was woken; how often somebody was
        self._turns: dict[Woken, int] = {}
        self._rings = 0
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
        self.waiting[wake] = None
        if self._timer is None:
            now = self._time.clock.monotonic_ms()
            self._timer = self._time.call_at(now + max(self._throttle.wait(now), 1), self._ring)

    def forget(self, wake: Woken) -> None:
        """Who waits goes away."""
        self.waiting.pop(wake, None)
        self._turns.pop(wake, None)

    def _ring(self) -> None:
        self._timer = None
        self.end()

    def end(self) -> None:
        """Whoever waits looks again: something may go, or this rate counts no longer. Who was first before is the last
        now, since there may be no more than one of them can have.
        """
        waiting = sorted(self.waiting, key=lambda wake: self._turns.get(wake, 0))
        self.waiting = {}
        self._rings += 1
        turns = {wake: turn for wake in waiting if (turn := self._turns.get(wake))}
        self._turns = turns | ({waiting[0]: self._rings} if waiting else {})
        for wake in waiting:
            wake()


class Paces:
    """Several at once: the scarcest decides."""

    __slots__ = ("each",)

    def __init__(self, each: tuple[Dispatching, ...]) -> None:
        self.each = each

    def room(self) -> tuple[int, int]:
        rooms = [pace.room() for pace in self.each]
        return min(records for records, _ in rooms), min(size for _, size in rooms)

    def shut(self, wake: Woken) -> bool:
        return any(pace.shut(wake) for pace in self.each)

    def spend(self, records: int, size: int) -> None:
        for pace in self.each:
            pace.spend(records, size)

    def forget(self, wake: Woken) -> None:
        for pace in self.each:
            pace.forget(wake)

    def end(self) -> None:
        for pace in self.each:
            pace.end()


def pace_of(
    old: Pace | None, time: Time, rate: Rate, published: Callable[[], tuple[int, int]]
) -> Pace | None:
    """What a rate is kept by: as it was, if it is the same one; None where there is no limit. `Pace.end` of the old one
    is to follow where it is another.
    """
    if old is not None and old.rate == rate:
        return old
    return Pace(time, rate, published) if rate.limits else None
