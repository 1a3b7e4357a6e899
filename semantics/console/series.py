"""How a few numbers went over the last hour and the last two days, in a fixed amount of memory.

A point of the last hour is ten seconds long, one of the last two days five minutes. A long point is made of the short
ones in it: of rates their mean, of what stands at a time (open messages, their age) the largest, so that no peak is
lost between two points. Where nothing was measured there is no number.

Time comes in as the number of a ten-second slot that only ever grows: of a clock that nobody sets.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import NamedTuple

STEP_MS = 10_000
"""Of a slot."""
SHORT = 360
"""Points of the last hour."""
LONG = 576
"""Points of the last two days."""
SLOTS = 30
"""Short points in a long one."""

FIELDS = ("in", "out", "open", "oldest")
"""Messages a second that were published, and that were delivered; open ones; the age of the oldest of them, in s."""
RATES = 2
"""Of these come first."""

SPANS = ("1h", "48h")

_NOTHING = array("f", [math.nan])


class Points(NamedTuple):
    """`first` is the slot that the first of them begins with; None: nothing was measured."""

    step_ms: int
    first: int
    values: dict[str, list[float | None]]


class _Ring:
    """The last points, by their numbers."""

    __slots__ = ("_first", "_last", "_size", "_values")

    def __init__(self, size: int) -> None:
        self._size = size
        self._first = self._last = -1
        self._values = [_NOTHING * size for _ in FIELDS]

    def put(self, number: int, values: Sequence[float]) -> None:
        """A point, which may be the last one again. One of before is left out."""
        if number < self._last:
            return
        if self._first < 0:
            self._first = self._last = number
        for skipped in range(max(self._last + 1, number - self._size + 1), number):
            for ring in self._values:
                ring[skipped % self._size] = math.nan
        self._last = number
        self._first = max(self._first, number - self._size + 1)
        for ring, value in zip(self._values, values, strict=True):
            ring[number % self._size] = value

    def points(self, now: int) -> tuple[int, list[list[float | None]]]:
        """Those that are not too old at that point, up to it: the number of the first, and the values of each field."""
        if self._first < 0:
            return now, [[] for _ in FIELDS]
        first = max(self._first, now - self._size + 1)
        numbers = range(first, now + 1)
        return first, [
            [self._one(ring, number) if number <= self._last else None for number in numbers]
            for ring in self._values
        ]

    def _one(self, ring: array[float], number: int) -> float | None:
        value = ring[number % self._size]
        return None if math.isnan(value) else round(value, 3)


class Series:
    """Of one subscription, or of all: some 15 KB."""

    __slots__ = ("_counts", "_long", "_number", "_short", "_sums")

    def __init__(self) -> None:
        self._short, self._long = _Ring(SHORT), _Ring(LONG)
        # of the long point that is not over: its number, sums of rates and the largest of others, how many they are of
        self._number = -1
        self._sums = [math.nan] * len(FIELDS)
        self._counts = [0] * len(FIELDS)

    def put(self, slot: int, values: Sequence[float]) -> None:
        """What was measured in a slot, in the order of FIELDS; NaN for what was not."""
        self._short.put(slot, values)
        number = slot // SLOTS
        if number != self._number:
            self._number = number
            self._sums = [math.nan] * len(FIELDS)
            self._counts = [0] * len(FIELDS)
        for index, value in enumerate(values):
            if math.isnan(value):
                continue
            known = self._counts[index] > 0
            before = self._sums[index] if known else (0.0 if index < RATES else value)
            self._sums[index] = before + value if index < RATES else max(before, value)
            self._counts[index] += 1
        self._long.put(
            number,
            [
                total / max(count, 1) if index < RATES else total
                for index, (total, count) in enumerate(zip(self._sums, self._counts, strict=True))
            ],
        )

    def points(self, span: str, slot: int, of: Sequence[str] = FIELDS) -> Points:
        """Of a span, up to a slot. Raises KeyError for a span or a field that there is not."""
        ring, slots = {"1h": (self._short, 1), "48h": (self._long, SLOTS)}[span]
        first, values = ring.points(slot // slots)
        found = dict(zip(FIELDS, values, strict=True))
        return Points(STEP_MS * slots, first * slots, {name: found[name] for name in of})
