"""What must be true of transactions, by what their producers were told. Pure.

A transaction is a number of one producer; its records carry it, and how many it has. A reader of committed records may
meet each transaction whole, or not at all: whole if its end was told as committed, not at all if as aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Place = tuple[str, int]
"""Topic and partition."""


class Seen(NamedTuple):
    """A record that a reader of committed records was given."""

    producer: int
    number: int
    place: int
    """among the records of its transaction"""
    among: int
    """how many these are"""


@dataclass
class _Transaction:
    count: int
    # True or False as it was told; None while nobody knows
    committed: bool | None = None
    seen: set[int] = field(default_factory=set)


class TransactionOracle:
    """`wrong` is told of each violation."""

    def __init__(self, wrong: Callable[[str], None]) -> None:
        self._wrong = wrong
        self._of: dict[tuple[int, int], _Transaction] = {}
        # those that must be looked for, and those of which some was seen
        self._due: set[tuple[int, int]] = set()
        self._partly: set[tuple[int, int]] = set()
        # the last stable offset of each partition as it was told last
        self._stable: dict[Place, int] = {}
        # those whose producers were fenced while they were open
        self._fenced: set[tuple[int, int]] = set()
        self.whole = self.aborted = self.unknown = self.zombies = 0

    def began(self, producer: int, number: int, count: int) -> None:
        self._of[producer, number] = _Transaction(count)

    def ended(self, producer: int, number: int, committed: bool | None) -> None:
        """What its producer was told; None: it gave up before it knew."""
        its = self._of[producer, number]
        its.committed = committed
        if committed is None:
            self.unknown += 1
        elif not committed:
            self.aborted += 1
            if its.seen:
                self._wrong(
                    f"transaction {number} of {producer} was aborted, and {len(its.seen)} records were read"
                )
        else:
            if len(its.seen) < its.count:
                self._due.add((producer, number))

    def fenced(self, producer: int, number: int) -> None:
        """Another producer with its transactional id was told that it has begun: that ends what was open."""
        self._fenced.add((producer, number))
        self.ended(producer, number, False)

    def served(self, producer: int, number: int, what: str, error: int) -> None:
        """One that knows nothing of that goes on with its transaction, and is answered with an error code."""
        assert (producer, number) in self._fenced
        self.zombies += 1
        if not error:
            self._wrong(f"{what} of a zombie was served: transaction {number} of {producer} was fenced")

    def stable(self, place: Place, offset: int, end: int) -> None:
        """A partition's last stable offset, and its end as it was told after that."""
        before = self._stable.get(place, 0)
        if offset < before:
            self._wrong(
                f"the last stable offset of {place[0]}-{place[1]} went back from {before} to {offset}"
            )
        if offset > end:
            self._wrong(f"the last stable offset of {place[0]}-{place[1]} is {offset}, and its end {end}")
        self._stable[place] = max(before, offset)

    def read(self, records: Iterable[Seen]) -> None:
        """What a reader of committed records was given, of one partition, in order."""
        before: dict[int, int] = {}
        for record in records:
            key = record.producer, record.number
            its = self._of.get(key)
            if its is None:
                self._wrong(f"{record} is of no transaction")
                continue
            if its.committed is False:
                self._wrong(f"{record} was read, and its transaction was aborted")
            if record.place in its.seen:
                self._wrong(f"{record} was read twice")
            if record.number < before.get(record.producer, -1):
                self._wrong(f"{record} was read behind one of a later transaction")
            before[record.producer] = record.number
            its.seen.add(record.place)
            if len(its.seen) == its.count:
                self._partly.discard(key)
                self._due.discard(key)
                self.whole += 1
            else:
                self._partly.add(key)

    def check(self, told: set[tuple[int, int]], partly: set[tuple[int, int]]) -> None:
        """All was read once more since `due` and `partly` were asked for: nothing of them may be missing."""
        for producer, number in sorted(told & self._due):
            its = self._of[producer, number]
            self._wrong(
                f"transaction {number} of {producer} was committed, and {its.count - len(its.seen)} of its records are"
                " not there"
            )
        for producer, number in sorted((partly & self._partly) - self._due):
            its = self._of[producer, number]
            self._wrong(
                f"transaction {number} of {producer} is torn: {len(its.seen)} of {its.count} records are there"
            )

    def missing(self, told: set[tuple[int, int]], partly: set[tuple[int, int]]) -> bool:
        """Whether something of these is not there yet."""
        return bool(told & self._due or partly & self._partly)

    def due(self) -> set[tuple[int, int]]:
        """Those that are committed, as was told, and were not read whole so far."""
        return set(self._due)

    def partly(self) -> set[tuple[int, int]]:
        """Those of which some records were read, and not all."""
        return set(self._partly)
