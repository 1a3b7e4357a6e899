"""How fast consumers of a subscription are given records of a partition: its own rate, and that of all who read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.broker.dispatching import Pace, pace_of

if TYPE_CHECKING:
    from gateway.broker.node import Node
    from gateway.broker.partition import Partition
    from semantics.rates import Rate


class Paced(Protocol):
    """One cursor."""

    @property
    def node(self) -> Node: ...

    @property
    def partition(self) -> Partition: ...

    @property
    def parked(self) -> Waiting: ...


class Waiting(Protocol):
    """Those that wait there."""

    def serve_soon(self) -> None:
        """There may be something for them when the loop comes round."""
        ...


class Pacing:
    """Of one cursor."""

    __slots__ = ("_at", "_own")

    def __init__(self, at: Paced, rate: Rate) -> None:
        self._at = at
        self._own: Pace | None = None
        self.configure(rate)

    def configure(self, rate: Rate) -> None:
        """The subscription's own rate is this one."""
        before = self._own
        self._own = pace_of(before, self._at.node, rate, lambda: self._at.partition.published())
        if before is not None and self._own is not before:
            before.end()

    def bound(self, records: int, size: int) -> tuple[int, int]:
        """(records, bytes) of what is asked for that may be given now; (0, 0) where it is `shut`."""
        for pace in (self._own, self._at.partition.dispatching):
            if pace is not None:
                if pace.shut(self._at.parked.serve_soon):
                    return 0, 0
                records, size = map(min, (records, size), pace.room())
        return records, size

    def close(self) -> None:
        """The cursor is let go."""
        for pace in (self._own, self._at.partition.dispatching):
            if pace is not None:
                pace.forget(self._at.parked.serve_soon)

    @property
    def shut(self) -> bool:
        """Whether nothing may be given now. Those who are parked are served when that is over."""
        return not self.bound(1, 1)[0]

    def spend(self, records: int, size: int) -> None:
        """So much was given."""
        for pace in (self._own, self._at.partition.dispatching):
            if pace is not None:
                pace.spend(records, size)
