"""A store in memory with bounds, for topics that are not persistent: it forgets the segments that
were written to longest ago.

It goes by bytes, of one log and of all together, and by age, whenever somebody asks for that. A log of which nothing is
left costs the number of its next offset; one that was never written to costs nothing. So how such a log is configured
is known only as long as somebody holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

from store import batch
from store.api import Append
from store.memory.driver import MemoryStore
from store.memory.log import MemoryLog
from store.memory.ring import Ring
from store.transient import Forgotten


def _nobody(gone: Forgotten) -> None:
    """Nobody wants to know."""


def _parts(write: Append, most: int) -> Iterator[Append]:
    """What a turn brought, in parts of about so many bytes: it is not to be forgotten as a whole."""
    if sum(map(len, write.batches)) <= most:
        yield write
        return
    part: list[bytes] = []
    base, size = write.base_offset, 0
    for data in write.batches:
        if part and size + len(data) > most:
            end = batch.next_offset(part[-1])
            yield write._replace(base_offset=base, next_offset=end, batches=part)
            part, base, size = [], end, 0
        part.append(data)
        size += len(data)
    yield write._replace(base_offset=base, batches=part)


class ForgettingStore(MemoryStore):
    """See `store.transient.TransientStore`. Times that ages go by are monotonic, in ms."""

    def __init__(
        self, clock: Callable[[], int], ages: Callable[[], int], epoch: int, first_offset: int, max_bytes: int
    ) -> None:
        """Logs begin at `first_offset`; all of them together hold `max_bytes`."""
        super().__init__(clock, epoch)
        self.first_offset = first_offset
        self.forgot: Callable[[Forgotten], None] = _nobody
        # of this start, as the offsets
        self._next_ledger = (epoch << 32) + 1
        self._ages = ages
        self._ring = Ring(max_bytes, lambda gone: self.forgot(gone), self._put_away)
        # where logs end that have nothing
        self._ends: dict[int, int] = {}
        # logs that have nothing, and somebody who looks at them
        self._empty: WeakValueDictionary[int, MemoryLog] = WeakValueDictionary()

    @property
    def size(self) -> int:
        """Bytes in all logs."""
        return self._ring.size

    def bound(self, partition: int, max_bytes: int) -> None:
        """How much a log that somebody holds may have; 0 is no limit but that of all."""
        self._made(partition).max_bytes = max_bytes

    def forget_before(self, at: int) -> int | None:
        """Forget what was last written to before `at`. When the oldest of the rest was, None where there is none."""
        return self._ring.forget_before(at)

    def _put_away(self, log: MemoryLog) -> None:
        """Nothing is left of it: only its end is kept."""
        if self._logs.get(log.partition) is log:
            del self._logs[log.partition]
            self._ends[log.partition] = log.end_offset
            self._empty[log.partition] = log

    # -- as the memory driver does it, and counted ----------------------------------------------------------------

    def _append(self, write: Append, now: int) -> None:
        partition = write.partition
        log = self._logs.get(partition)
        if log is None:
            log = self._logs[partition] = self._made(partition)
            self._ends.pop(partition, None)
        for part in _parts(write, log.segment_bytes) if log.max_bytes else (write,):
            before, size = log.newest, log.size
            self._next_ledger = log.append(part, now, self._next_ledger, self._ages(), self.rollover)
            self._ring.took(log, log.newest is not before, log.size - size)
        self._ring.fit(log)

    def _trim(self, partition: int, offset: int) -> None:
        log = self._made(partition)
        size = log.size
        log.trim(offset)
        self._ring.lost(size - log.size)
        if log.oldest is None:
            self._put_away(log)

    def _drop(self, partition: int) -> None:
        found, log = self._empty.pop(partition, None), self._logs.pop(partition, None)
        self._ends.pop(partition, None)
        log = log or found
        if log is not None:
            log.stale = True
            self._ring.lost(log.size)
            # what the ring has of it is no longer the oldest of anything
            log.trim(log.end_offset)

    def _made(self, partition: int) -> MemoryLog:
        """What it has, or a log without anything, which stays as long as somebody looks at it."""
        found = self._logs.get(partition) or self._empty.get(partition)
        if found is None:
            end = self._ends.get(partition)
            found = self._empty[partition] = MemoryLog(partition, self.first_offset if end is None else end)
            if end is not None:
                found.begin(self.leader_epoch(partition))
        return found

    def _end(self, partition: int) -> int:
        log = self._logs.get(partition)
        return log.end_offset if log is not None else self._ends.get(partition, self.first_offset)
