"""Who owns which slots, as the dispatchers of Key_Shared keep it: a table of 65,536 places."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

from semantics.subscriptions.hashing import SLOTS

SEVERAL = "\0several"
"""the holder of a slot of which more than one consumer has records, from when out of order was allowed"""


class Owners(Protocol):
    """Who owns which slots: what a selector says of itself."""

    def ranges(self) -> Iterable[tuple[int, int, str]]:
        """(start, end, consumer), half-open, of 65,536 slots; what is not covered is nobody's."""
        ...


class Table:
    """Slot -> a place, place -> consumer, consumer -> place; place 0 is nobody's. Never changed, so that the
    partitions of a subscription share it.
    """

    __slots__ = ("index", "names", "places")

    def __init__(self, ranges: Iterable[tuple[int, int, str]]) -> None:
        self.places = array("H", bytes(2 * SLOTS))
        names: list[str | None] = [None]
        self.index: dict[str, int] = {}
        for start, end, name in ranges:
            place = self.index.get(name)
            if place is None:
                place = self.index[name] = len(names)
                names.append(name)
            self.places[start:end] = array("H", (place,)) * (end - start)
        self.names = tuple(names)

    def owner_of(self, slot: int) -> str | None:
        return self.names[self.places[slot]]

    def ranges(self) -> Iterable[tuple[int, int, str]]:
        """As a selector says it."""
        places = self.places
        start = 0
        for slot in range(1, SLOTS + 1):
            if slot == SLOTS or places[slot] != places[start]:
                name = self.names[places[start]]
                if name is not None:
                    yield start, slot, name
                start = slot


@lru_cache(maxsize=64)
def table(ranges: tuple[tuple[int, int, str], ...]) -> Table:
    """The table of these ranges, one for all who ask."""
    return Table(ranges)
