"""From which offset on nothing in a log is delayed: noted as records come, where somebody subscribes.

Delays lie in headers, and a cursor is told of them by who reads records for it. Where a whole backlog goes at once, by
its age, nobody has read it; so who appends notes where the last record lies that may have one. One search a batch, at
some 10 GB/s. What is compressed may have one: to unfold it would cost more than it saves.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.wire import delivery
from gateway.wire.searching import holds

MOST = 100_000
"""Partitions of which this is noted: ten megabytes. Of one that is dropped for another it is read from its log."""
NEVER = 1 << 63
"""An offset that no record has."""

_CODEC_AT, _CODEC = 22, 0x07


class Undelayed:
    """By the store's ids of partitions. It is not stored: after a start it begins at the end of each log."""

    __slots__ = ("noted",)

    def __init__(self) -> None:
        self.noted: dict[int, int] = {}
        """Of the partitions that this is noted of, the offset: all that was appended behind it is not delayed."""

    def begin(self, partition: int, end: int) -> None:
        """Note it from now on of a partition whose log ends there, unless that is done already."""
        if partition in self.noted:
            return
        if len(self.noted) >= MOST:
            del self.noted[next(iter(self.noted))]
        self.noted[partition] = end

    def came(self, partition: int, batches: Iterable[bytes], end: int) -> None:
        """These go to the end of a partition's log, which is `end` then."""
        for batch in batches:
            if batch[_CODEC_AT] & _CODEC or holds(batch, delivery.DELAY_MARK):
                self.noted[partition] = end
                return

    def since(self, partition: int) -> int:
        """From here to the end of its log nothing is delayed; NEVER where nobody knows."""
        return self.noted.get(partition, NEVER)

    def leaves(self, partition: int, end: int) -> None:
        """It leaves memory, with a log that ends there."""
        if self.since(partition) >= end:
            self.forget(partition)

    def forget(self, partition: int) -> None:
        self.noted.pop(partition, None)
