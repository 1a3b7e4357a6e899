"""Records that are to become dead letters: the chunks that have some, and those that could not be buried and wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from semantics.subscriptions.chunks import BURYING_RUN, DYING_RUN, Chunk, Window
from semantics.subscriptions.states import BURYING, DYING, REASONS, Dying

PutOff = tuple[int, int, int, str]
"""(wall ms at which it is tried again, first, last, why it could not be buried)"""


class DeadLetters:
    """The records of a window that are DYING: BURYING while somebody has them."""

    __slots__ = ("_chunks", "_put_off", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._chunks: list[int] = []
        """heap of the chunks that have something to bury"""
        self._put_off: list[PutOff] = []
        """heap of what could not be buried"""
        for chunk in window.chunks.values():
            # what a chunk remembers is of nobody else
            chunk.doomed = False
            if DYING_RUN.search(chunk.state):
                self.add(chunk)

    def add(self, chunk: Chunk) -> None:
        """Something of the chunk is DYING."""
        if not chunk.doomed:
            chunk.doomed = True
            heappush(self._chunks, chunk.number)

    def take(self, limit: int) -> list[Dying]:
        """Up to `limit` records to bury: BURYING from now on."""
        found: list[Dying] = []
        doomed, chunks = self._chunks, self._window.chunks
        while doomed and limit > 0:
            chunk = chunks.get(doomed[0])
            run = DYING_RUN.search(chunk.state) if chunk is not None else None
            if chunk is None or run is None:
                heappop(doomed)
                if chunk is not None:
                    chunk.doomed = False
                continue
            first, end = run.span()
            code = chunk.state[first]
            first, end, count = next(chunk.count_runs(first, min(end, first + limit)))
            chunk.become(first, end, code + BURYING - DYING)
            found.append(Dying(chunk.base + first, chunk.base + end - 1, count, REASONS[code - DYING]))
            limit -= end - first
        return found

    def put_off(self, ranges: Iterable[tuple[int, int]], reason: str, until: int) -> None:
        """They cannot be buried before that wall time, when `retry` makes them DYING again."""
        for first, last in ranges:
            heappush(self._put_off, (until, first, last, reason))

    def retry(self, wall: int) -> None:
        """What was put off until now is DYING again."""
        while self._put_off and self._put_off[0][0] <= wall:
            _, first, last, _ = heappop(self._put_off)
            for chunk, at, stop in self._window.runs(first, last + 1, BURYING_RUN):
                chunk.become(at, stop, chunk.state[at] + DYING - BURYING)
                self.add(chunk)

    def next_retry(self) -> int | None:
        """The wall ms at which `retry` has something to do."""
        return self._put_off[0][0] if self._put_off else None

    @property
    def waiting(self) -> Sequence[PutOff]:
        """What was put off, in no order."""
        return self._put_off
