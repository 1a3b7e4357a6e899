"""What is known of every record without asking the lanes: who was sent it, what was said of it, and what may follow.

A consumer knows what it read, what it committed, and what it was answered. That is all that this is told, and when the
group's coordinator found a member gone. What lies between, an answer that never came, is kept as a doubt: then both are
allowed. Offsets that a commit acknowledges are those that are open there, which is asked of the lane; whether it may be
open is judged here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.proofs.simulate.ledger import Broken

Place = tuple[int, int]
"""A lane and an offset of it."""


@dataclass(slots=True)
class Record:
    """One that was published. Its number is its value."""

    number: int
    key: int
    poison: bool = False
    acked: bool = False
    """a commit that acknowledged it was answered"""
    doubtful: int = 0
    """so many of such commits were sent of which nobody knows yet, or will ever, whether they happened"""
    rejected: bool = False
    """a commit that makes it a dead letter was answered"""
    nacked: int = 0
    """by commits that were answered"""
    failed: int = 0
    """deliveries that may have failed, at most"""
    may_die: bool = False
    places: list[Place] = field(default_factory=list)
    """where it was read, the newest last"""
    waits: Place | None = None
    """it failed, and was not read since: its lane, and where that ended then"""

    @property
    def settled(self) -> bool:
        """Whether it may be settled."""
        return self.acked or self.doubtful > 0 or self.may_die


@dataclass(slots=True)
class Said:
    """A commit on its way: what it says of records."""

    acked: list[int]
    nacked: list[int]
    dead: list[int]
    waits: list[tuple[Record, Place]]
    doubts: list[Record]
    """what it may have acknowledged"""
    places: list[int]
    """offsets of the lane that it closes"""


class Oracle:
    """See the module."""

    def __init__(self, limit: int, lanes: int, *, keyed: bool) -> None:
        """`limit`: deliveries of a record; 0: no end."""
        self.limit = limit
        self.keyed = keyed
        self.records: list[Record] = []
        self.of_key: dict[int, list[Record]] = {}
        self.at: list[dict[int, int]] = [{} for _ in range(lanes)]
        """of each lane: offset -> number, as it was read"""
        self._passed: list[set[int]] = [set() for _ in range(lanes)]
        self.owners: list[str | None] = [None] * lanes
        self.sent: list[dict[int, int]] = [{} for _ in range(lanes)]
        """of each lane: offset -> number, of what its owner may be working on"""
        self.shown: list[dict[int, int]] = [{} for _ in range(lanes)]
        """the same, of what anybody read meanwhile: the gateway cannot tell who reads"""
        self._first: dict[int, Place] = {}
        self._letters: set[int] = set()
        self.counts: Counter[str] = Counter()

    # -- published and read ------------------------------------------------------------------------------------------

    def published(self, key: int, *, poison: bool = False) -> int:
        """The number of a new record."""
        record = Record(len(self.records), key, poison)
        self.records.append(record)
        self.of_key.setdefault(key, []).append(record)
        return record.number

    def lost(self, numbers: list[int]) -> None:
        """They were not stored, and nobody was told that they were."""
        for number in numbers:
            record = self.records[number]
            record.doubtful += 1
            self.of_key[record.key].remove(record)

    def read(self, lane: int, begin: int, found: dict[int, int], stored: int, *, owner: bool) -> None:
        """A fetch from `begin` on brought these: offset -> number. `stored`: where the lane ends in the store; `owner`:
        for the member that has the lane. Raises Broken.
        """
        known, passed = self.at[lane], self._passed[lane]
        for at, number in found.items():
            place = f"offset {at} of lane {lane}"
            _promise(at < stored, f"{place} was seen, and the store has it up to {stored}")
            _promise(known.get(at, number) == number, f"{place} was {known.get(at)} and is {number}")
            _promise(at not in passed, f"{place} was nothing and is {number}")
            record = self.records[number]
            if at not in known:
                self._first.setdefault(number, (lane, at))
                if owner:
                    self._delivered(record, lane, at)
                known[at] = number
                record.places.append((lane, at))
            if record.places[-1] == (lane, at):
                record.waits = None
            self.shown[lane][at] = number
            if owner:
                self.sent[lane][at] = number
        for at in range(begin, max(found, default=begin)):
            if at not in found:
                _promise(at not in known, f"offset {at} of lane {lane} was {known.get(at)} and is nothing")
                passed.add(at)

    def _delivered(self, record: Record, lane: int, at: int) -> None:
        """For the first time at this offset."""
        number = record.number
        where = f"{number} of key {record.key} came at offset {at} of lane {lane}"
        _promise(not record.acked, f"{where} after it was acknowledged")
        _promise(not record.rejected, f"{where} after it was made a dead letter")
        _promise(not self.limit or record.nacked < self.limit, f"{where} after {record.nacked} nacks")
        if self.keyed:
            self._in_order(record, lane, at, where)
        self.counts["redelivered" if record.places else "delivered"] += 1

    def _in_order(self, record: Record, lane: int, at: int, where: str) -> None:
        first = self._first[record.number]
        for other in self.of_key[record.key]:
            if other.number > record.number:
                if (later := self._first.get(other.number)) is not None and first == (lane, at):
                    _promise(later > first, f"{where} first, and {other.number} before it")
                continue
            if other is record or other.settled:
                continue
            _promise(bool(other.places), f"{where}, and {other.number} before it never came")
            if other.waits is not None:
                _promise(
                    other.waits[0] == lane, f"{where}, and {other.number} waits on lane {other.waits[0]}"
                )
                _promise(at < other.waits[1], f"{where}, given while {other.number} waits to come again")
                self.counts["served late"] += 1

    # -- what is said of them ----------------------------------------------------------------------------------------

    def says(
        self,
        lane: int,
        end: int,
        acked: list[int],
        nacked: list[int],
        dead: list[int],
        places: list[int] | None = None,
    ) -> Said:
        """A commit is sent that says so of these numbers, while the lane ends at `end`. Raises Broken."""
        waits: list[tuple[Record, Place]] = []
        for number in (*acked, *nacked, *dead):
            record = self.records[number]
            _promise(not record.acked, f"{number} is open on lane {lane} after it was acknowledged")
        doubts = [self.records[number] for number in acked]
        for record in doubts:
            record.doubtful += 1
        for number in (*nacked, *dead):
            record = self.records[number]
            record.failed += 1
            if number in dead or record.failed >= self.limit > 0:
                record.may_die = True
            if record.waits is None:
                record.waits = lane, end
                waits.append((record, record.waits))
        return Said(acked, nacked, dead, waits, doubts, places or [])

    def entrusted(self, said: Said) -> None:
        """It is said in a transaction, which may be aborted: that counts a delivery of each."""
        for record in said.doubts:
            record.failed += 1
            record.may_die = record.may_die or record.failed >= self.limit > 0

    def closed(self, lane: int, said: Said) -> None:
        """A transaction has them, or may have: they are in the hands of no member."""
        for at in said.places:
            self.sent[lane].pop(at, None)
            self.shown[lane].pop(at, None)

    def answered(self, lane: int, said: Said, *, taken: bool, nothing: bool = False) -> None:
        """`taken`: it was answered as done; `nothing`: it was refused, and nothing of it was to happen."""
        if nothing:
            for record in said.doubts:
                record.doubtful -= 1
        if taken:
            for number in said.acked:
                self.records[number].acked = True
                self.counts["acked"] += 1
            for number in said.nacked:
                self.records[number].nacked += 1
                self.counts["nacked"] += 1
            for number in said.dead:
                self.records[number].rejected = True
                self.counts["rejected"] += 1
            gone = {*said.acked, *said.nacked, *said.dead}
            for those in (self.sent[lane], self.shown[lane]):
                for at in [at for at, number in those.items() if number in gone]:
                    del those[at]
        else:
            for record, waits in said.waits:
                if record.waits is waits:
                    record.waits = None

    def unanswered(self, said: Said) -> None:
        """Its answer will never come."""
        for record, waits in said.waits:
            if record.waits is waits:
                record.waits = None

    # -- members -----------------------------------------------------------------------------------------------------

    def assigned(self, owners: list[str | None]) -> None:
        """What another member was sent is not in the hands of the one that has the lane now."""
        for lane, (before, owner) in enumerate(zip(self.owners, owners, strict=True)):
            if before != owner:
                self.sent[lane], self.shown[lane] = {}, {}
        self.owners = owners

    def gone(self, member: str, ends: list[int], *, crashed: bool) -> None:
        """The coordinator found it gone, while the lanes end there."""
        lanes = [lane for lane, owner in enumerate(self.owners) if owner == member]
        hands = {number for lane in lanes for number in self.sent[lane].values()}
        # what it may have had at the least: without what it has said something of, as far as anybody knows
        certain = {
            number
            for number in hands
            if not self.records[number].settled and self.records[number].waits is None
        }
        for number in hands | {number for lane in lanes for number in self.shown[lane].values()}:
            record = self.records[number]
            record.failed += 1
            if record.failed >= self.limit > 0 and certain <= {number}:
                record.may_die = True
        if crashed:
            for lane in lanes:
                for number in self.sent[lane].values():
                    record = self.records[number]
                    if not record.settled:
                        record.waits = lane, ends[lane]
        for lane in lanes:
            self.sent[lane], self.shown[lane] = {}, {}
            self.owners[lane] = None
        self.counts["crashed" if crashed else "left"] += 1

    # -- the end -----------------------------------------------------------------------------------------------------

    def letters(self, numbers: list[int]) -> None:
        """All that the dead letter topic has. Raises Broken."""
        twice = [number for number, times in Counter(numbers).items() if times > 1]
        _promise(not twice, f"{twice[:3]} are in the dead letter topic twice")
        for number in numbers:
            record = self.records[number]
            _promise(not record.acked, f"{number} is dead and was acknowledged")
            _promise(
                record.may_die,
                f"{number} is dead, after {record.failed} deliveries that failed, {record.nacked} by nacks, and never "
                f"had its last by itself (limit {self.limit})",
            )
        self._letters = set(numbers)
        self.counts["dead"] = len(numbers)

    def left(self) -> list[int]:
        """What neither was acknowledged nor is dead."""
        return [
            record.number
            for record in self.records
            if not record.acked and not record.doubtful and record.number not in self._letters
        ]


def _promise(kept: bool, what: str) -> None:
    if not kept:
        raise Broken(what)
