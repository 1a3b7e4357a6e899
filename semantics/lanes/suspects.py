"""Which records were in somebody's hands when a consumer crashed: one of them may be what makes consumers crash.

They are delivered again in ever smaller windows (`window.rung`), so that in the end the guilty one is delivered alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from semantics.lanes.ranges import Ranges
from semantics.lanes.window import rung


class Suspects:
    """Records by source and by how often they failed. They are forgotten when they are settled, and by a restart."""

    __slots__ = ("_by_failed", "number")

    def __init__(self) -> None:
        self._by_failed: dict[int, dict[int, Ranges]] = {}
        self.number = 0
        """how many there were at most since there were none"""

    @property
    def left(self) -> int:
        """How many there still are."""
        return sum(ranges.total for sources in self._by_failed.values() for ranges in sources.values())

    @property
    def failed(self) -> int:
        """How often that one failed that failed most."""
        return max(self._by_failed, default=0)

    def add(self, source: int, ranges: Iterable[tuple[int, int]], failed: int) -> None:
        """Records of a source, (first, last), that have failed so often now."""
        known = list(ranges)
        self.remove(source, known)
        found = self._by_failed.setdefault(failed, {}).setdefault(source, Ranges())
        for first, last in known:
            found.add(first, last + 1)
        self.number = max(self.number, self.left)

    def remove(self, source: int, ranges: Iterable[tuple[int, int]]) -> None:
        """They were settled, or failed in another way."""
        if not self._by_failed:
            return
        gone = list(ranges)
        for failed, sources in list(self._by_failed.items()):
            found = sources.get(source)
            if found is None:
                continue
            for first, last in gone:
                found.remove(first, last + 1)
            if not found.total:
                del sources[source]
            if not sources:
                del self._by_failed[failed]
        if not self._by_failed:
            self.number = 0

    def has(self, source: int, first: int, last: int) -> bool:
        """Whether one of first to last is among them."""
        return any(
            next(sources[source].within(first, last + 1), None) is not None
            for sources in self._by_failed.values()
            if source in sources
        )

    def clear(self) -> None:
        """None of them is there any more."""
        self._by_failed.clear()
        self.number = 0

    def bound(self, limit: int) -> int:
        """How many deliveries may be open while there are any, with that limit of deliveries of a record."""
        return rung(self.number, self.failed, limit)
