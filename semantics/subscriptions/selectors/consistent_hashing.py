"""Auto-split consistent hashing: a hundred points a consumer on a ring.

The ring is murmur3's range, 0 to 2^32 - 1, and a consumer's points are the hashes of its name with 1, 2, … 100 behind
it. A slot belongs to the first point at or after its place; the slots stand on the ring at equal distances. (Pulsar
puts the hash of each key there. Here all keys of a slot go together, because a slot is what is handed over.) Who comes
takes a little from everybody, who goes leaves a little to everybody, and nobody else's slots move.

Two consumers with a point at one place take turns there, by name and slot. That is no rarity: `consumer-1` with 15
behind it is `consumer-11` with 5. Pulsar 4 therefore names its points `name NUL index NUL point`, from 0 on, where
index tells consumers of one name apart: members have names of their own here, so it is 0. Both namings are offered.

Source: Pulsar's concepts, "Auto-split Consistent Hashing".
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from semantics.subscriptions.hashing import SLOTS, murmur3_32
from semantics.subscriptions.selectors.selector import Range, SelectorError, pack

POINTS = 100
"""Points of a consumer on the ring."""

NAMINGS = ("documented", "pulsar4")
"""How the points are named: as Pulsar's documentation has it, or as Pulsar 4 does."""

_STEP = 2**32 // SLOTS


def points_of(consumer: str, naming: str = "documented") -> list[int]:
    """The places of a consumer on the ring, 0 to 2^32 - 1, by number of the point."""
    if naming == "pulsar4":
        return [murmur3_32(f"{consumer}\0{0}\0{point}".encode()) for point in range(POINTS)]
    return [murmur3_32(f"{consumer}{point}".encode()) for point in range(1, POINTS + 1)]


class ConsistentHashing:
    """Pulsar's ConsistentHashingStickyKeyConsumerSelector."""

    __slots__ = ("_at", "_members", "_names", "_naming", "_numbers", "_places")

    mode = "consistent_hashing"

    def __init__(self, naming: str = "documented") -> None:
        """Raises ValueError for a naming that is not in NAMINGS."""
        if naming not in NAMINGS:
            raise ValueError(f"Points are named as one of {', '.join(NAMINGS)}; not {naming!r}.")
        self._naming = naming
        # consumer: its number; in the order they came
        self._members: dict[str, int] = {}
        # number: consumer; 0 is nobody, and so is a number that is free again
        self._names: list[str | None] = [None]
        # slot: the owner's number
        self._numbers = array("H", bytes(2 * SLOTS))
        # the ring: places with points, ascending, and whose they are, by name
        self._places: list[int] = []
        self._at: dict[int, list[str]] = {}

    def owner(self, slot: int) -> str | None:
        return self._names[self._numbers[slot]]

    def ranges(self) -> list[tuple[int, int, str]]:
        found: list[tuple[int, int, str]] = []
        start = 0
        for number, run in groupby(self._numbers):
            end = start + len(list(run))
            if number:
                found.append((start, end, self._names[number] or ""))
            start = end
        return found

    def table(self) -> tuple[array[int], list[str | None]]:
        return self._numbers, self._names

    def add(self, consumer: str, ranges: Sequence[Range] | None = None) -> None:
        """Raises SelectorError for ranges, which only sticky takes, and for more than 65,535 consumers."""
        if ranges is not None:
            raise SelectorError(
                "The mode consistent_hashing shares the slots out itself; only sticky takes ranges."
            )
        if consumer in self._members:
            return
        self._members[consumer] = self._number(consumer)
        for place in points_of(consumer, self._naming):
            there = self._at.get(place)
            if there is None:
                self._at[place] = [consumer]
                insort(self._places, place)
            elif consumer not in there:
                insort(there, consumer)
            self._paint(place)

    def remove(self, consumer: str) -> None:
        if consumer not in self._members:
            return
        for place in points_of(consumer, self._naming):
            there = self._at.get(place, [])
            if consumer in there:
                there.remove(consumer)
                if not there:
                    del self._at[place], self._places[bisect_left(self._places, place)]
                self._paint(place)
        self._names[self._members.pop(consumer)] = None

    def members(self) -> list[str]:
        return list(self._members)

    def dump(self) -> bytes:
        return pack(self.mode, naming=self._naming, members=self.members())

    @classmethod
    def load(cls, fields: dict[str, Any]) -> ConsistentHashing:
        selector = cls(fields["naming"])
        for consumer in fields["members"]:
            selector.add(consumer)
        return selector

    def _number(self, consumer: str) -> int:
        try:
            number = self._names.index(None, 1)
        except ValueError:
            number = len(self._names)
            if number == SLOTS:
                raise SelectorError(
                    f"There are {number - 1:,} consumers, and no more can be told apart."
                ) from None
            self._names.append(None)
        self._names[number] = consumer
        return number

    def _arc(self, index: int) -> tuple[int, int, list[str]]:
        """The slots that stand behind the place before, up to this one: slot s stands at s x _STEP."""
        place = self._places[index]
        start = self._places[index - 1] // _STEP + 1 if index else 0
        return start, place // _STEP + 1, self._at[place]

    def _paint(self, place: int) -> None:
        """A place has changed: write down anew who owns what its slots belong to."""
        if not self._places:
            self._numbers = array("H", bytes(2 * SLOTS))
            return
        index = bisect_left(self._places, place)
        if index < len(self._places):
            self._fill(*self._arc(index))
        if index in (0, len(self._places) - 1, len(self._places)):
            self._fill(self._places[-1] // _STEP + 1, SLOTS, self._at[self._places[0]])

    def _fill(self, start: int, end: int, consumers: list[str]) -> None:
        for first, last, consumer in _turns(start, end, consumers):
            self._numbers[first:last] = array("H", [self._members[consumer]]) * (last - first)


def _turns(start: int, end: int, consumers: list[str]) -> Iterator[tuple[int, int, str]]:
    """The slots from start to end by owner, of consumers whose points are at one place."""
    if len(consumers) == 1:
        if start < end:
            yield start, end, consumers[0]
        return
    for slot in range(start, end):
        yield slot, slot + 1, consumers[slot % len(consumers)]
