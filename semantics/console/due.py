"""When delayed records are due: a histogram."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterable

STEP = 1_000
"""Runs between two stops."""


def edges_of(begin: int, until: int, buckets: int) -> list[int]:
    """[begin, until) in ms, in equal buckets of a millisecond at least."""
    buckets = max(min(buckets, until - begin), 1)
    return [begin + (until - begin) * at // buckets for at in range(buckets + 1)]


class Histogram:
    """Counts by bucket; what is due before the first counts there, since it is due at once."""

    def __init__(self, edges: list[int]) -> None:
        self.edges = edges
        self.counts = [0] * (len(edges) - 1)
        self.later = 0
        """due at the last edge or after that"""
        self.first: int | None = None
        """the earliest due time"""

    def add(self, due: int, number: int) -> None:
        """So many records are due then."""
        if not number:
            return
        if self.first is None or due < self.first:
            self.first = due
        if due >= self.edges[-1]:
            self.later += number
        else:
            self.counts[max(bisect_right(self.edges, due) - 1, 0)] += number

    def add_all(self, runs: Iterable[tuple[int, int]]) -> Generator[None, None, None]:
        """(due, how many)."""
        for number, (due, count) in enumerate(runs, 1):
            self.add(due, count)
            if number % STEP == 0:
                yield
