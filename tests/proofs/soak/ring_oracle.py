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
HEARD_AFTER = 5.0
"""Seconds after which a group has certainly heard that a member has what it was given: many heartbeats."""
GIVEN_BACK_AFTER = 60.0
"""Seconds within which a member gives back what is another's: the gateway may be down, and it in a transaction."""


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
    """Who has which partition, as the members themselves see it. `now`: monotonic, seconds.

    What a member was just given may be another's before it has heard of that. A heartbeat of KIP-848 that was on its
    way when the member got its partitions says that it has none, so the group takes from it at once what it is not to
    keep; Apache Kafka does the same. The member then gives back what it has too much, and soon.
    """

    def __init__(self, wrong: Callable[[str], None]) -> None:
        self._wrong = wrong
        # by partition, who has it and since when
        self._of: dict[int, tuple[str, float]] = {}
        # (partition, member): since when it is another's, too
        self._parting: dict[tuple[int, str], float] = {}
        self.changes = 0

    def assigned(self, member: str, partitions: Iterable[int], now: float) -> None:
        """A member is told that it has these, too."""
        for partition in partitions:
            self._parting.pop((partition, member), None)
            owner, since = self._of.get(partition, (member, now))
            if owner != member and now - since < HEARD_AFTER:
                self._parting[partition, owner] = now
            elif owner != member:
                self._wrong(f"partition {partition} was given to {member}, and {owner} has it still")
            self._of[partition] = member, now
            self.changes += 1

    def revoked(self, member: str, partitions: Iterable[int]) -> None:
        """It gives these back, or has heard that it lost them."""
        for partition in partitions:
            self._parting.pop((partition, member), None)
            if partition in self._of and self._of[partition][0] == member:
                del self._of[partition]

    def gone(self, member: str) -> None:
        """It is closed."""
        mine = [partition for partition, (owner, _) in self._of.items() if owner == member]
        self.revoked(member, mine + [partition for partition, owner in self._parting if owner == member])

    def check(self, now: float) -> None:
        """Nobody has for long what is another's."""
        for (partition, member), since in list(self._parting.items()):
            if now - since > GIVEN_BACK_AFTER:
                self._wrong(
                    f"partition {partition} is another's for {now - since:.0f} s, and {member} has it still"
                )
                del self._parting[partition, member]


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
