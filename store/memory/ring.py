"""What a store in memory forgets to stay small: the segments that were written to longest ago, whichever logs they are
of.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace

from store.memory.log import MemoryLog, MemorySegment
from store.transient import Forgotten


class Ring:
    """The segments of all logs, by when they were written to last.

    A segment is looked at again when it seems to be the oldest: it may have been written to since, and then comes
    later; or its log no longer has it.
    """

    def __init__(
        self, max_bytes: int, told: Callable[[Forgotten], None], emptied: Callable[[MemoryLog], None]
    ) -> None:
        """`max_bytes` is for all logs together; `told` is called for each log that loses something, `emptied` when
        nothing is left of it.
        """
        self._max_bytes = max_bytes
        self._told = told
        self._emptied = emptied
        # (number of a write, its log and segment); numbers differ, so that nothing else is compared
        self._heap: list[tuple[int, MemoryLog, MemorySegment]] = []
        self._writes = 0
        self.size = 0

    def took(self, log: MemoryLog, begun: bool, size: int) -> None:
        """The newest segment of a log has grown by so many bytes, and was begun for them, or not."""
        segment = log.newest
        assert segment is not None
        self.size += size
        self._writes += 1
        segment.write = self._writes
        if begun:
            heappush(self._heap, (self._writes, log, segment))

    def lost(self, size: int) -> None:
        """A log is smaller by so many bytes, or gone."""
        self.size -= size

    def fit(self, log: MemoryLog) -> None:
        """Forget what goes beyond the bound of this log, and beyond that of all."""
        while log.max_bytes and log.size > log.max_bytes and (first := log.oldest) is not None:
            self._forget(log, first)
        while self.size > self._max_bytes and (oldest := self._oldest()) is not None:
            self._forget(*oldest)

    def forget_before(self, at: int) -> int | None:
        """Forget the segments that were last written to before `at`. When the next one was written to, None where
        nothing is left.
        """
        while (oldest := self._oldest()) is not None:
            if oldest[1].written_at >= at:
                return oldest[1].written_at
            self._forget(*oldest)
        return None

    def _oldest(self) -> tuple[MemoryLog, MemorySegment] | None:
        """The segment that was written to longest ago: the first of its log."""
        heap = self._heap
        while heap:
            write, log, segment = heap[0]
            if not log.has(segment):
                heappop(heap)
            elif segment.write != write:
                heapreplace(heap, (segment.write, log, segment))
            else:
                return log, segment
        return None

    def _forget(self, log: MemoryLog, segment: MemorySegment) -> None:
        start, size, read = log.start_offset, log.size, max(log.read_to, log.start_offset)
        log.trim(segment.next_offset)
        self.size -= size - log.size
        gone = Forgotten(
            log.partition, log.start_offset - start, size - log.size, max(0, log.start_offset - read)
        )
        self._told(gone)
        if log.oldest is None:
            self._emptied(log)
