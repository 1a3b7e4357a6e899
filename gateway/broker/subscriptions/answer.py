"""What one fetch sends: which batches leave as they are stored, and which are built anew of the records acquired.

A batch that is sent for some of its records goes out as it is stored when a good part of them was acquired, and else is
built of those records. How much of that is done in one turn of the loop is bounded: see `Scanner.spent`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from gateway.wire import delivery
from semantics.subscriptions.states import Acquired

if TYPE_CHECKING:
    from gateway.broker.subscriptions.ports import Place
    from gateway.broker.subscriptions.scanning import Scanner
    from gateway.broker.subscriptions.stored import Stored
    from store.api import Buffer

log = logging.getLogger("magnetar.subscriptions")

RAW_SHARE = 4
"""A stored batch is sent as it is when at least one in so many of its records was acquired."""


class Answer:
    """Batches for a consumer, and the ranges acquired in them, both ascending."""

    __slots__ = ("_at", "_max_bytes", "_scanner", "acquired", "buffers", "size")

    read: ClassVar[Sequence[tuple[int, Sequence[Buffer]]]] = ()
    """see `Pointers`: what was read is in the answer itself"""

    def __init__(self, at: Place, scanner: Scanner, max_bytes: int) -> None:
        """About `max_bytes`; the first batch comes whole."""
        self._at = at
        self._scanner = scanner
        self._max_bytes = max_bytes
        self.buffers: list[Buffer] = []
        self.acquired: list[Acquired] = []
        # bytes of the buffers
        self.size = 0

    @property
    def given(self) -> Sequence[Acquired]:
        """All that was acquired."""
        return self.acquired

    def clear(self) -> None:
        """It was given back."""
        self.acquired.clear()

    def add(self, acquired: Acquired, pieces: Sequence[tuple[Buffer, int, int]], size: int) -> None:
        """A range, and the stored batches that are all of it: (buffer, begin, end) each, `size` bytes together."""
        self.acquired.append(acquired)
        buffers = self.buffers
        for buffer, begin, stop in pieces:
            buffers.append(buffer if stop - begin == len(buffer) else memoryview(buffer)[begin:stop])
        self.size += size

    def from_opened(self, ranges: list[Acquired]) -> int:
        """`assemble` of the first of `ranges`, as long as they lie in batches that are open: how many records.

        Key_Shared comes to each batch many times, for a few records each time, and so do due times that lie scattered:
        nothing is read for them again.
        """
        at = self._at
        scanner = self._scanner
        holding = scanner.holding
        acquired, buffers = self.acquired, self.buffers
        records = index = 0
        count = len(ranges)
        start = at.partition.log_start
        while index < count and (self.size < self._max_bytes or not self.size) and not scanner.spent():
            first = ranges[index][0]
            opened = holding(at, first) if first >= start else None
            if opened is None:
                break
            found = opened.header
            following = found.next_offset
            end = index
            while end < count and ranges[end][1] < following:
                end += 1
            parts = ranges[index:end]
            goes_on = end < count and ranges[end][0] < following
            if goes_on:
                # in the next batch
                first, last, deliveries = ranges[end]
                parts.append(Acquired(first, following - 1, deliveries))
            held = sum([last - first for first, last, _ in parts]) + len(parts)
            piece = opened.batch
            if held * RAW_SHARE < found.last_offset_delta + 1:
                try:
                    piece = scanner.cut(opened, parts)
                except delivery.Unreadable:
                    log.warning("a batch at offset %d is sent whole: it cannot be opened", found.base_offset)
            if not piece:
                # whole, from the log
                break
            index = end
            if goes_on:
                ranges[end] = Acquired(following, last, deliveries)
            scanner.kept.sent((at.id, found.base_offset), held)
            acquired += parts
            buffers.append(piece)
            self.size += len(piece)
            records += held
        del ranges[:index]
        return records

    def assemble(self, stored: list[Stored], ranges: list[Acquired]) -> int:
        """Put the batches of `ranges` among `stored` into the answer, and take the ranges away: how many records.

        What a range has beyond the last batch stays, and so does what would take too long now.
        """
        scanner, acquired, buffers = self._scanner, self.acquired, self.buffers
        records = index = 0
        count = len(ranges)
        for batch in stored:
            if index == count or (acquired and scanner.spent()):
                break
            following = batch.next
            parts: list[tuple[int, int]] = []
            held = 0
            while index < count:
                first, last, deliveries = ranges[index]
                if first >= following:
                    break
                if last >= following:
                    parts.append((first, following - 1))
                    held += following - first
                    acquired.append(Acquired(first, following - 1, deliveries))
                    ranges[index] = Acquired(following, last, deliveries)
                    break
                parts.append((first, last))
                held += last - first + 1
                acquired.append(ranges[index])
                index += 1
            if not parts:
                continue
            piece = batch.raw()
            if held * RAW_SHARE < following - batch.base:
                try:
                    piece = scanner.subset(self._at, batch, parts)
                except delivery.Unreadable:
                    log.warning("a batch at offset %d is sent whole: it cannot be opened", batch.base)
            buffers.append(piece)
            self.size += len(piece)
            records += held
        del ranges[:index]
        return records
