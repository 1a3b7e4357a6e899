"""Rates of the last minute: counters remembered every ten seconds.

An idle topic has no counters in memory and none here; its rates are 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

SAMPLE_EVERY = 10.0
"""Seconds between two samples."""

SPAN = 60.0
"""Seconds that a rate looks back: Pulsar's default for its own."""

Key = TypeVar("Key")
Counts = tuple[int, ...]


class Samples(Generic[Key]):
    """Counters by key as they were within the last minute, oldest first. `now` is monotonic, in seconds."""

    def __init__(self, read: Callable[[], Mapping[Key, Counts]], now: float) -> None:
        self._read = read
        self._samples: deque[tuple[float, Mapping[Key, Counts]]] = deque([(now, read())])

    def sample(self, now: float) -> None:
        """Remember the counters. Call it every SAMPLE_EVERY seconds."""
        self.keep(now, self._read())

    def keep(self, now: float, counts: Mapping[Key, Counts]) -> None:
        """The same with counters that somebody has read already."""
        self._samples.append((now, counts))
        # keep one sample that is at least SPAN old, so that a rate spans a whole minute
        while len(self._samples) > 1 and self._samples[1][0] <= now - SPAN:
            self._samples.popleft()

    def seconds(self, now: float) -> float:
        """How long ago the oldest sample was taken."""
        return now - self._samples[0][0]

    def oldest(self, key: Key) -> Counts | None:
        """What the oldest sample has of a key."""
        return self._samples[0][1].get(key)

    def first(self, key: Key) -> Counts | None:
        """What the oldest of those samples has that know the key."""
        return next((counts[key] for _, counts in self._samples if key in counts), None)


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


class Rates:
    """Of partitions. `now` is monotonic, in seconds."""

    def __init__(self, partitions: Callable[[], Iterable[Counted]], now: float) -> None:
        self._partitions = partitions
        # before the first sample nothing had been counted since this was made
        self._samples = Samples(lambda: {partition.id: _counts(partition) for partition in partitions()}, now)

    def sample(self, now: float) -> Generator[None, None, None]:
        """Remember the counters, a partition at a step. Call it every SAMPLE_EVERY seconds."""
        found: dict[int, Counts] = {}
        for partition in list(self._partitions()):
            found[partition.id] = _counts(partition)
            yield
        self._samples.keep(now, found)

    def of(self, partition: Counted, now: float) -> Rate:
        """The rates of a partition from the oldest sample till now."""
        seconds = self._samples.seconds(now)
        if seconds <= 0:
            return ZERO
        old = self._samples.oldest(partition.id) or (0, 0, 0)
        new = _counts(partition)
        if new == old:
            return ZERO
        # a partition that was let go and taken up again counts from 0
        if any(after < before for after, before in zip(new, old, strict=True)):
            old = (0, 0, 0)
        return Rate(*[(after - before) / seconds for after, before in zip(new, old, strict=True)])


def _counts(partition: Counted) -> tuple[int, int, int]:
    return partition.messages_in, partition.bytes_in, partition.bytes_out
