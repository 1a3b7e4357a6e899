"""A batch that was opened and is kept small, for whoever asks for a few of its records again and again.

When due times lie scattered over a batch of 10,000 records, it is asked for some of them hundreds of times. To open it
each time costs a millisecond or two; to keep it open as it is costs all its bytes. So it is folded: its payload is cut
into blocks of some KB, each compressed by itself. A block unfolds in a microsecond or two, and where each record begins
takes four bytes.
"""

from __future__ import annotations

from array import array

from gateway.wire import compression
from gateway.wire.opened import Opened

BLOCK = 4 * 1024
"""Bytes of the payload that are compressed together."""


class Folded(Opened):
    """Answers `part`; its batch and its payload are not there."""

    __slots__ = ("_blocks", "size")

    def __init__(self, opened: Opened) -> None:
        """Raises Unreadable when records are not where they should be."""
        starts, payload = opened.starts(), opened.payload
        self.batch = self.payload = b""
        self.header = opened.header
        self._starts = starts
        self._stamps = self._rising = None
        self._deltas = opened.deltas()
        blocks = [compression.fold(payload[begin : begin + BLOCK]) for begin in range(0, len(payload), BLOCK)]
        self._blocks = blocks
        self.size = sum(map(len, blocks)) + size_of(starts) + 8 * len(self._deltas or ())
        """bytes that it takes, about"""

    def _bytes_of(self, begin: int, end: int) -> bytes:
        starts = self._boundaries()
        first, last = starts[begin], starts[end]
        number, final = first // BLOCK, (last - 1) // BLOCK
        base = number * BLOCK
        if number == final:
            return compression.unfold(self._blocks[number], BLOCK)[first - base : last - base]
        unfolded = b"".join([compression.unfold(each, BLOCK) for each in self._blocks[number : final + 1]])
        return unfolded[first - base : last - base]


def size_of(starts: array[int]) -> int:
    """Bytes that it takes to know where records begin."""
    return starts.itemsize * len(starts)
