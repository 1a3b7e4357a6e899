"""What must hold of tokens that transactions carry round a ring: each is read, written on and committed as one. Pure.

A worker reads tokens of a topic, writes each into the same topic as its next hop, and commits what it has read in the
same transaction. So below a committed offset every token has exactly one next hop, and none behind it has one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

Place = tuple[int, int]
"""A partition of the ring and an offset."""
Transaction = tuple[int, int]
"""A producer and the number of its transaction."""


class Hop(NamedTuple):
    """A token as a reader of committed records found it."""

    token: int
    number: int
    source: Place
    """where the hop before it lies; (-1, -1) of the first one"""
    transaction: Transaction


class RingOracle:
    """`wrong` is told of each violation."""

    def __init__(self, wrong: Callable[[str], None]) -> None:
        self._wrong = wrong
        self._at: dict[Place, Hop] = {}
        # where the next hop of each lies
        self._next: dict[Place, Place] = {}
        # by partition, the offsets without a next hop
        self._last: dict[int, set[int]] = defaultdict(set)
        # by partition, the highest offset that has one
        self._highest: dict[int, int] = {}
        # by (partition, partition of the source), the source that was written on last
        self._order: dict[Place, int] = {}
        self._committed: dict[int, int] = {}

    @property
    def hops(self) -> int:
        return len(self._next)

    def read(self, place: Place, hop: Hop) -> None:
        """A record; those of a partition come in order."""
        self._at[place] = hop
        if place not in self._next:
            self._last[place[0]].add(place[1])
        if hop.source[0] < 0:
            return
        earlier = self._next.setdefault(hop.source, place)
        if earlier != place:
            self._wrong(
                f"{_name(hop)} is at {place} and at {earlier}: what was read at {hop.source} was written on twice"
            )
        partition, offset = hop.source
        self._last[partition].discard(offset)
        self._highest[partition] = max(self._highest.get(partition, -1), offset)
        before = self._order.get((place[0], partition), -1)
        if offset < before:
            self._wrong(f"{_name(hop)} of {hop.source} is at {place}, behind what was read at {before}")
        self._order[place[0], partition] = offset

    def missing(self, committed: Mapping[int, int]) -> list[Place]:
        """What was committed as read, by partition, and has no next hop."""
        return [
            (partition, offset)
            for partition, end in committed.items()
            for offset in sorted(self._last[partition])
            if offset < end
        ]

    def check(self, before: Mapping[int, int], after: Mapping[int, int]) -> None:
        """Committed offsets by partition, asked for before all was read and once more behind that."""
        for offsets in (before, after):
            for partition, offset in offsets.items():
                known = self._committed.get(partition, -1)
                if offset < known:
                    self._wrong(f"the committed offset of {partition} went back from {known} to {offset}")
                self._committed[partition] = max(known, offset)
        for place in self.missing(before):
            self._wrong(
                f"offsets without output: {_name(self._at[place])} at {place} was committed as read, and nothing came"
                " of it"
            )
        for partition, offset in self._highest.items():
            if offset >= after.get(partition, 0):
                self._wrong(
                    f"output without offsets: what was read at {(partition, offset)} was written on, and the group"
                    f" stands at {after.get(partition, 0)}"
                )

    def finish(self) -> None:
        """All was read: hops follow each other, and no transaction has read what only came of it."""
        edges: dict[Transaction, set[Transaction]] = defaultdict(set)
        numbers: dict[int, set[int]] = defaultdict(set)
        for place, hop in self._at.items():
            producer, number = hop.transaction
            numbers[producer].add(number)
            if hop.source[0] < 0:
                continue
            source = self._at.get(hop.source)
            if source is None or (source.token, source.number) != (hop.token, hop.number - 1):
                self._wrong(f"{_name(hop)} at {place} was read at {hop.source}, where {source} is")
                continue
            edges[source.transaction].add(hop.transaction)
        for producer, its in numbers.items():
            ascending = sorted(its)
            for one, another in pairwise(ascending):
                edges[producer, one].add((producer, another))
        if found := cycle(edges):
            self._wrong(f"transactions that have read what came of themselves: {sorted(found)[:10]}")


class Owners:
    """Who has which partition, as the members themselves see it."""

    def __init__(self, wrong: Callable[[str], None]) -> None:
        self._wrong = wrong
        self._of: dict[int, str] = {}
        self.changes = 0

    def assigned(self, member: str, partitions: Iterable[int]) -> None:
        """A member is told that it has these, too."""
        for partition in partitions:
            owner = self._of.get(partition, member)
            if owner != member:
                self._wrong(f"partition {partition} was given to {member}, and {owner} has it still")
            self._of[partition] = member
            self.changes += 1

    def revoked(self, member: str, partitions: Iterable[int]) -> None:
        """It gives these back, or has heard that it lost them."""
        for partition in partitions:
            if self._of.get(partition) == member:
                del self._of[partition]

    def gone(self, member: str) -> None:
        """It is closed."""
        self.revoked(member, [partition for partition, owner in self._of.items() if owner == member])


def cycle(edges: Mapping[Transaction, set[Transaction]]) -> set[Transaction]:
    """Those that are on a cycle, or between two; empty if there is none."""
    left = {node: set(targets) for node, targets in edges.items()}
    incoming: dict[Transaction, int] = defaultdict(int)
    for targets in left.values():
        for target in targets:
            incoming[target] += 1
    nodes = set(left) | set(incoming)
    free = [node for node in nodes if not incoming[node]]
    while free:
        node = free.pop()
        nodes.discard(node)
        for target in left.pop(node, ()):
            incoming[target] -= 1
            if not incoming[target]:
                free.append(target)
    return nodes


def _name(hop: Hop) -> str:
    return f"hop {hop.number} of token {hop.token}"
