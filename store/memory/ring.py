"""What a store in memory forgets to stay small: the oldest segments, whichever logs they are of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from store.memory.log import MemoryLog, MemorySegment
from store.transient import Forgotten


class Ring:
    """The segments of all logs in the order in which they were begun.

    A segment that its log no longer has stays in the queue until it is the oldest: nobody looks for it.
    """

    def __init__(self, max_bytes: int, told: Callable[[Forgotten], None]) -> None:
        """`max_bytes` is for all logs together; `told` is called for each log that loses something."""
        self._max_bytes = max_bytes
        self._told = told
        self._begun: deque[tuple[MemoryLog, MemorySegment]] = deque()
        self.size = 0

    def took(self, log: MemoryLog, segment: MemorySegment | None, size: int) -> None:
        """A log has grown by so many bytes, and has begun this segment for it."""
        self.size += size
        if segment is not None:
            self._begun.append((log, segment))

    def lost(self, size: int) -> None:
        """A log is smaller by so many bytes, or gone."""
        self.size -= size

    def fit(self, log: MemoryLog) -> None:
        """Forget what goes beyond the bound of this log, and beyond that of all."""
        while log.max_bytes and log.size > log.max_bytes and (first := log.oldest) is not None:
            self._forget(log, first)
        while self.size > self._max_bytes and self._oldest() is not None:
            self._forget(*self._begun.popleft())

    def forget_before(self, at: int) -> int | None:
        """Forget the segments that were last written to before `at`. When the next one was written to, None where
        nothing is left.
        """
        while (oldest := self._oldest()) is not None:
            log, segment = oldest
            if segment.written_at >= at:
                return segment.written_at
            self._begun.popleft()
            self._forget(log, segment)
        return None

    def _oldest(self) -> tuple[MemoryLog, MemorySegment] | None:
        """The oldest segment of all that is still there."""
        begun = self._begun
        while begun and begun[0][0].oldest is not begun[0][1]:
            begun.popleft()
        return begun[0] if begun else None

    def _forget(self, log: MemoryLog, segment: MemorySegment) -> None:
        start, size, read = log.start_offset, log.size, max(log.read_to, log.start_offset)
        log.trim(segment.next_offset)
        self.size -= size - log.size
        gone = Forgotten(
            log.partition, log.start_offset - start, size - log.size, max(0, log.start_offset - read)
        )
        self._told(gone)
