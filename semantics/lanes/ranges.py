"""Sets of offsets as ranges: most of them are one range, and none costs more than it has of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Ranges:
    """Offsets as half-open ranges [first, end): ascending, disjoint, none touching the next."""

    __slots__ = ("_ends", "_firsts", "total")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self.total = 0
        """how many offsets"""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._ends, strict=True)

    def __len__(self) -> int:
        """How many ranges."""
        return len(self._firsts)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def add(self, first: int, end: int) -> None:
        """[first, end) is in it from now on."""
        if first >= end:
            return
        # those that meet or touch it
        begin, stop = bisect_left(self._ends, first), bisect_right(self._firsts, end)
        if begin < stop:
            first, end = min(first, self._firsts[begin]), max(end, self._ends[stop - 1])
            self.total -= sum(self._ends[begin:stop]) - sum(self._firsts[begin:stop])
        self._firsts[begin:stop] = [first]
        self._ends[begin:stop] = [end]
        self.total += end - first

    def remove(self, first: int, end: int) -> None:
        """Nothing of [first, end) is in it from now on."""
        begin, stop = bisect_right(self._ends, first), bisect_left(self._firsts, end)
        if begin >= stop or first >= end:
            return
        left, right = self._firsts[begin], self._ends[stop - 1]
        self.total -= sum(self._ends[begin:stop]) - sum(self._firsts[begin:stop])
        kept = [each for each in ((left, first), (end, right)) if each[0] < each[1]]
        self._firsts[begin:stop] = [each[0] for each in kept]
        self._ends[begin:stop] = [each[1] for each in kept]
        self.total += sum(each[1] - each[0] for each in kept)

    def clear(self) -> None:
        """Nothing is in it."""
        self.remove(0, self._ends[-1] if self._ends else 0)

    def within(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """What of [first, end) is in it. The set may not change meanwhile."""
        for at in range(bisect_right(self._ends, first), bisect_left(self._firsts, end)):
            yield max(first, self._firsts[at]), min(end, self._ends[at])

    def outside(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """What of [first, end) is not in it. The set may not change meanwhile."""
        for begin, stop in self.within(first, end):
            if first < begin:
                yield first, begin
            first = stop
        if first < end:
            yield first, end

    def reach(self, offset: int) -> int:
        """The first offset from here on that is not in it."""
        at = bisect_right(self._firsts, offset) - 1
        return self._ends[at] if at >= 0 and offset < self._ends[at] else offset
