"""What a selector does, and what two of the three are made of: regions of slots, each with a consumer."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from semantics.subscriptions.hashing import SLOTS

Range = tuple[int, int]
"""Slots from the first up to, not including, the second."""


class SelectorError(ValueError):
    """A consumer that cannot be added. The text says why, for a person; nothing has changed."""


class Selector(Protocol):
    """Which consumer owns which of the 65,536 slots. A pure value: no clock, no randomness."""

    mode: str
    """auto_split, consistent_hashing or sticky."""

    def add(self, consumer: str, ranges: Sequence[Range] | None = None) -> None:
        """Let a consumer in; one that is in already keeps what it has. Raises SelectorError."""
        ...

    def remove(self, consumer: str) -> None:
        """Give a consumer's slots to others. One that is not in is nothing to remove."""
        ...

    def owner(self, slot: int) -> str | None:
        """The consumer of a slot, None while nobody has it."""
        ...

    def ranges(self) -> list[tuple[int, int, str]]:
        """(start, end, consumer), ascending, half-open, neighbours of one consumer joined. Uncovered slots are
        left out.
        """
        ...

    def table(self) -> tuple[array[int], list[str | None]]:
        """slot -> number ('H', 65,536 of them), and number -> consumer. 0 is nobody. For reading, until the next
        change.
        """
        ...

    def members(self) -> list[str]:
        """The consumers, in the order they came."""
        ...

    def dump(self) -> bytes:
        """Everything that `selectors.load` needs to give the same owners, now and after every later change."""
        ...


class Regions:
    """Few regions of slots: an owner is found by binary search."""

    __slots__ = ("_ends", "_owners")

    def __init__(self) -> None:
        # region i ends before slot _ends[i] and belongs to _owners[i]
        self._ends: list[int] = [SLOTS]
        self._owners: list[str | None] = [None]

    def owner(self, slot: int) -> str | None:
        return self._owners[bisect_right(self._ends, slot)]

    def ranges(self) -> list[tuple[int, int, str]]:
        found: list[tuple[int, int, str]] = []
        for start, end, owner in zip([0, *self._ends], self._ends, self._owners, strict=False):
            if owner is None:
                continue
            if found and found[-1][1:] == (start, owner):
                found[-1] = (found[-1][0], end, owner)
            else:
                found.append((start, end, owner))
        return found

    def table(self) -> tuple[array[int], list[str | None]]:
        names: list[str | None] = [None]
        places: dict[str, int] = {}
        numbers = array("H", bytes(2 * SLOTS))
        for start, end, owner in self.ranges():
            number = places.get(owner)
            if number is None:
                number = places[owner] = len(names)
                names.append(owner)
            numbers[start:end] = array("H", (number,)) * (end - start)
        return numbers, names

    def _cover(self, ranges: Iterable[tuple[int, int, str]]) -> None:
        """Take over regions, given ascending; what is between them belongs to nobody."""
        self._ends, self._owners = [], []
        reached = 0
        for start, end, owner in ranges:
            if start > reached:
                self._ends.append(start)
                self._owners.append(None)
            self._ends.append(end)
            self._owners.append(owner)
            reached = end
        if reached < SLOTS:
            self._ends.append(SLOTS)
            self._owners.append(None)


def pack(mode: str, **fields: Any) -> bytes:
    """A selector's state as bytes: JSON, which a person can read in a dump of the store."""
    return json.dumps({"mode": mode, **fields}, separators=(",", ":")).encode()


def unpack(data: bytes, makers: dict[str, Callable[[dict[str, Any]], Selector]]) -> Selector:
    """Raises ValueError for bytes that `pack` did not write."""
    try:
        fields = json.loads(data)
        return makers[fields["mode"]](fields)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"These bytes are no selector: {data[:100]!r}.") from error
