"""When members are out unless they are heard of: a heap that is put right when it is looked at.

A group may have thousands of members, each of which puts its own deadline off every few seconds: that is one
assignment, and nothing here goes through all of them.
"""

from __future__ import annotations

from heapq import heappop, heappush


class Deadlines:
    """Instants in monotonic ms, by a name."""

    __slots__ = ("_count", "_heap", "_queued", "_until")

    def __init__(self) -> None:
        self._until: dict[str, int] = {}
        # the earliest instant under which a name stands in the heap
        self._queued: dict[str, int] = {}
        self._heap: list[tuple[int, int, str]] = []
        self._count = 0

    def put(self, name: str, at: int) -> None:
        """It ends then, whatever was said before."""
        self._until[name] = at
        queued = self._queued.get(name)
        if queued is None or at < queued:
            self._queue(name, at)

    def drop(self, name: str) -> None:
        """It has no end any more."""
        self._until.pop(name, None)

    def __contains__(self, name: str) -> bool:
        return name in self._until

    def first(self) -> int | None:
        """The earliest instant of all."""
        heap = self._heap
        while heap:
            at, _, name = heap[0]
            due = self._until.get(name)
            if due == at:
                return at
            heappop(heap)
            if self._queued.get(name) == at:
                del self._queued[name]
                if due is not None:
                    self._queue(name, due)
        return None

    def take(self, now: int) -> list[str]:
        """Those that have ended, which are dropped."""
        ended = []
        while (at := self.first()) is not None and at <= now:
            _, _, name = heappop(self._heap)
            del self._until[name]
            self._queued.pop(name, None)
            ended.append(name)
        return ended

    def _queue(self, name: str, at: int) -> None:
        self._queued[name] = at
        self._count += 1
        heappush(self._heap, (at, self._count, name))
