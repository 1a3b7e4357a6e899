"""The Shared dispatcher: whoever asks gets the first AVAILABLE records, by offset.

The redelivery queue is the plane of states itself: what came back lies before everything that was never delivered, so
the order of offsets is the order of redelivery. A heap of chunk numbers says where to look.
"""

from __future__ import annotations

from array import array
from heapq import heappop, heappush

from semantics.subscriptions.chunks import AVAILABLE_RUN, MASK, SHIFT, SIZE, Chunk, Window
from semantics.subscriptions.leases import Lease
from semantics.subscriptions.states import ACQUIRED, AVAILABLE, BEFORE, Acquired, no_line


class Shared:
    """Which chunks have something to give."""

    __slots__ = ("_hot", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._hot: list[int] = []
        for chunk in window.chunks.values():
            # what a chunk remembers is of another dispatcher
            chunk.hot = False
            first = chunk.state.find(AVAILABLE)
            if first >= 0:
                self.freed(chunk, first)

    def freed(self, chunk: Chunk, first: int) -> None:
        """Something of the chunk, at the earliest at `first`, is AVAILABLE."""
        if not chunk.hot:
            chunk.hot = True
            chunk.low = first
            heappush(self._hot, chunk.number)
        elif first < chunk.low:
            chunk.low = first

    def fed(self, first: int, end: int) -> None:
        """[first, end) was read."""
        chunks = self._window.chunks
        while first < end:
            chunk = chunks.get(first >> SHIFT)
            if chunk is not None:
                self.freed(chunk, first & MASK)
            first = (first | MASK) + 1

    def take(self, lease: Lease, room: int) -> list[Acquired]:
        """Up to `room` records for this lease, ascending."""
        hot, chunks = self._hot, self._window.chunks
        taken: list[Acquired] = []
        left = room
        while hot and left:
            chunk = chunks.get(hot[0])
            if chunk is None:
                heappop(hot)
                continue
            state, leases, base = chunk.state, chunk.leases(), chunk.base
            counts = chunk.count
            before = left
            low = SIZE
            first = state.find(AVAILABLE, chunk.low)
            while first >= 0:
                length, end = 1, first + 1
                if end < SIZE and state[end] == AVAILABLE:
                    found = AVAILABLE_RUN.match(state, first)
                    assert found is not None
                    end = found.end()
                    length = end - first
                    if length > left:
                        length = left
                        end = first + length
                left -= length
                if length == 1:
                    assert state[first] in BEFORE[ACQUIRED], no_line(state[first], ACQUIRED)
                    state[first] = ACQUIRED
                    leases[first] = lease.id
                else:
                    chunk.become(first, end, ACQUIRED)
                    leases[first:end] = array("I", (lease.id,)) * length
                lease.runs.append((base + first) << SHIFT | (length - 1))
                if first and (counts is None or length == 1):
                    # nothing before it to join, and one count
                    taken.append(
                        Acquired(base + first, base + end - 1, counts[first] if counts is not None else 0)
                    )
                else:
                    for at, stop, count in chunk.count_runs(first, end):
                        self._join(taken, base + at, base + stop - 1, count)
                if not left:
                    low = end
                    break
                first = state.find(AVAILABLE, end)
            chunk.let_go(left - before)
            chunk.low = low
            if left:
                chunk.hot = False
                heappop(hot)
        if left != room:
            lease.remaining += room - left
            lease.consumer.in_hand += room - left
            number = room - left
            self._window.n[AVAILABLE] -= number
            self._window.n[ACQUIRED] += number
        return taken

    @staticmethod
    def _join(taken: list[Acquired], first: int, last: int, count: int) -> None:
        """Add a range, to the one before where they meet and agree."""
        if taken:
            before = taken[-1]
            if before.last + 1 == first and before[2] == count:
                taken[-1] = Acquired(before.first, last, count)
                return
        taken.append(Acquired(first, last, count))
