"""Steps of an automaton over places in a pattern: from the set of places at which the last character may stand to the
set of those that may follow.

A set is one number, a bit for each place. Most places are followed by the next one, or by themselves: a shift finds
these for all places at once. For the others there is a table for each six bits of the number. So a step is one look-up
for each six places at the most, however many are in the set, and mostly one or two in all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MOST_KNOWN = 500
"""Steps that are remembered."""
_BITS = 6
"""Of a table: with 8 they would be four times as large for a quarter less look-ups."""
_MASK = (1 << _BITS) - 1


def bits(mask: int) -> Iterator[int]:
    """The places of a set, in order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


class Walk:
    """What may follow a set of places. The set 0 is the beginning."""

    __slots__ = ("_first", "_known", "_next", "_same", "_tables")

    def __init__(self, first: int, follow: Sequence[int]) -> None:
        """`first`: where it may begin. `follow`: by place, the places that may follow."""
        self._first = first
        self._known: dict[int, int] = {0: first}
        # places that the next one follows; that follow themselves
        self._next = self._same = 0
        others: list[int] = []
        for place, after in enumerate(follow):
            one = 1 << place
            self._next |= one if after & one << 1 else 0
            self._same |= after & one
            others.append(after & ~(one | one << 1))
        # (how far to shift a set, then what follows the places of its lowest bits)
        self._tables = [
            (low, _table(others[low : low + _BITS]))
            for low in range(0, len(others), _BITS)
            if any(others[low : low + _BITS])
        ]

    @property
    def lookups(self) -> int:
        """In tables, for a step that is not remembered."""
        return len(self._tables)

    def step(self, state: int) -> int:
        """The places that may follow."""
        found = self._known.get(state)
        if found is None:
            found = (state & self._next) << 1 | state & self._same
            for low, table in self._tables:
                found |= table[state >> low & _MASK]
            if len(self._known) >= MOST_KNOWN:
                self._known = {0: self._first}
            self._known[state] = found
        return found


def _table(follow: Sequence[int]) -> list[int]:
    """By set of these places: all that may follow."""
    found = [0]
    for after in follow:
        found += [each | after for each in found]
    return found + [0] * (_MASK + 1 - len(found))
