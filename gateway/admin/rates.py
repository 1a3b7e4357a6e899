"""Rates of the last minute, for the topics that are in use: counters remembered every ten seconds.

An idle topic has no counters in memory and none here; its rates are 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

SAMPLE_EVERY = 10.0
"""Seconds between two samples."""

SPAN = 60.0
"""Seconds that a rate looks back: Pulsar's default for its own."""


class Counted(Protocol):
    """The counters of a partition in use (gateway.broker.partition.Partition)."""

    @property
    def id(self) -> int: ...
    @property
    def messages_in(self) -> int: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...


class Rate(NamedTuple):
    """Per second."""

    messages_in: float
    bytes_in: float
    bytes_out: float


ZERO = Rate(0.0, 0.0, 0.0)

_Counts = tuple[int, int, int]


class Rates:
    """Samples of the last minute, oldest first. `now` is monotonic, in seconds."""

    def __init__(self, partitions: Callable[[], Iterable[Counted]], now: float) -> None:
        self._partitions = partitions
        # before the first sample nothing had been counted since this was made
        self._samples: deque[tuple[float, dict[int, _Counts]]] = deque([(now, self._read())])

    def sample(self, now: float) -> None:
        """Remember the counters. Call it every SAMPLE_EVERY seconds."""
        self._samples.append((now, self._read()))
        # keep one sample that is at least SPAN old, so that a rate spans a whole minute
        while len(self._samples) > 1 and self._samples[1][0] <= now - SPAN:
            self._samples.popleft()

    def of(self, partition: Counted, now: float) -> Rate:
        """The rates of a partition from the oldest sample till now."""
        then, counts = self._samples[0]
        seconds = now - then
        if seconds <= 0:
            return ZERO
        old = counts.get(partition.id, (0, 0, 0))
        new = _counts(partition)
        # a partition that was let go and taken up again counts from 0
        if any(after < before for after, before in zip(new, old, strict=True)):
            old = (0, 0, 0)
        return Rate(*[(after - before) / seconds for after, before in zip(new, old, strict=True)])

    def _read(self) -> dict[int, _Counts]:
        return {partition.id: _counts(partition) for partition in self._partitions()}


def _counts(partition: Counted) -> _Counts:
    return partition.messages_in, partition.bytes_in, partition.bytes_out
