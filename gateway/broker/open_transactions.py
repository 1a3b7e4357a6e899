"""The transactions that are open in one partition, and up to where readers of committed records may read. Pure.

A transaction is open from its first batch, as soon as that is in the open turn, until the commit that has its marker
is done. A producer may begin its next one before that: they are told apart by their first offsets.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

NEVER = (1 << 63) - 1
"""The offset of a transaction that is not there: behind all others."""
_NONE = NEVER, -1


class OpenTransactions:
    """`first` is the first offset of the oldest one, or NEVER."""

    __slots__ = ("_ended", "_open", "first", "unsynced")

    def __init__(self, found: Iterable[tuple[int, int]] = ()) -> None:
        """`found`: (first offset, producer id) of those that are stored, in any order."""
        # (first offset, producer id), in the order of offsets: after a power cut several may begin where the log was
        # cut. Not a plain dict: what is removed at its front is walked over whenever somebody asks for what is first
        self._open: OrderedDict[tuple[int, int], None] = OrderedDict.fromkeys(sorted(found))
        self.first = next(iter(self._open), _NONE)[0]
        # (offset of the marker, what it ends) of those whose marker is not stored yet
        self._ended: deque[tuple[int, tuple[int, int]]] = deque()
        # first offsets of those with records that a power cut may take while it leaves what came after: all that were
        # found, since nobody knows
        self.unsynced = {first for first, _ in self._open}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, first: int, producer_id: int) -> None:
        """The first batch of one is in the open turn, behind all that was there before."""
        self._open[first, producer_id] = None
        if first < self.first:
            self.first = first

    def end(self, first: int, producer_id: int, marker: int) -> None:
        """Its marker is in the open turn, at that offset."""
        self._ended.append((marker, (first, producer_id)))

    def stored(self, end: int) -> None:
        """All below this offset is stored: those are over whose markers are."""
        ended = self._ended
        while ended and ended[0][0] < end:
            over = ended.popleft()[1]
            del self._open[over]
            self.unsynced.discard(over[0])
        self.first = next(iter(self._open), _NONE)[0]

    def stable(self, start: int, end: int) -> int:
        """The last stable offset of a log from `start` to `end`: all below it is decided."""
        first = self.first
        if first >= end:
            return end
        return first if first > start else start
