"""What consumers of a queue topic were told, and what must follow. Pure: no gateway, no time.

A consumer reads lanes, commits with names, and is answered or not. Records are told by their numbers. What was
delivered is said by the log of each lane, which is read from its beginning once all is over: so the order of a key is
judged by what was given, be it that nobody ever saw it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

Place = tuple[int, int]
"""A lane and an offset of it."""


@dataclass(slots=True)
class Record:
    number: int
    key: int
    published: bool = False
    """its producer was told so"""
    acked: Place | None = None
    """where a commit acknowledged it that was answered"""
    doubtful: bool = False
    """a commit acknowledged it whose answer never came"""
    nacks_sent: int = 0
    nacks_answered: int = 0
    endings: int = 0
    """of consumers that may have had it in hand"""
    places: list[Place] = field(default_factory=list)


@dataclass(slots=True)
class Commit:
    """One on its way: of a lane, what it acknowledges and what it nacks, by offset."""

    lane: int
    acked: Mapping[int, int]
    nacked: Mapping[int, int]


class QueueOracle:
    """Of one subscription, whose records die of `limit` deliveries."""

    def __init__(self, limit: int, wrong: Callable[[str], None]) -> None:
        self.limit = limit
        self._wrong = wrong
        self.records: list[Record] = []
        self._at: dict[Place, int] = {}
        self._open: set[int] = set()
        self.seen: Counter[str] = Counter()

    # -- what is told ----------------------------------------------------------------------------------------

    def new(self, key: int) -> int:
        """The number of a record that is about to be published."""
        self.records.append(Record(len(self.records), key))
        return len(self.records) - 1

    def published(self, number: int) -> None:
        """Its producer was told that it is there."""
        record = self.records[number]
        record.published = True
        if record.acked is None:
            self._open.add(number)

    def read(self, lane: int, offset: int, number: int) -> None:
        """A consumer was given this."""
        place = lane, offset
        known = self._at.setdefault(place, number)
        if known != number:
            self._wrong(f"lane {lane} had record {known} at offset {offset}, and now {number}")
            return
        record = self.records[number]
        if place in record.places:
            return
        self.seen["queue redeliveries" if record.places else "queue deliveries"] += 1
        record.places.append(place)
        if record.acked is not None:
            self._wrong(f"record {number} was acknowledged at {record.acked} and came again at {place}")
        if record.nacks_answered >= self.limit:
            self._wrong(f"record {number} came again at {place} after {record.nacks_answered} nacks")

    def sent(self, commit: Commit) -> None:
        """A consumer sends this."""
        for number in commit.acked.values():
            self.records[number].doubtful = True
        for number in commit.nacked.values():
            self.records[number].nacks_sent += 1

    def answered(self, commit: Commit) -> None:
        """And is answered that it was done."""
        for offset, number in commit.acked.items():
            record = self.records[number]
            if record.places[-1] == (commit.lane, offset):
                record.acked = record.places[-1]
                self._open.discard(number)
                self.seen["queue acknowledgements"] += 1
        for offset, number in commit.nacked.items():
            record = self.records[number]
            if record.places[-1] == (commit.lane, offset):
                record.nacks_answered += 1
                if record.nacks_answered >= self.limit:
                    self._open.discard(number)

    def ended(self) -> None:
        """A consumer has left, or died. Whatever is not settled may have been in its hands: it may have fetched it and
        shown it to nobody.
        """
        for number in self._open:
            self.records[number].endings += 1

    @property
    def left(self) -> int:
        """How many neither were acknowledged nor have had all their deliveries, as far as that is known."""
        return len(self._open)

    @property
    def certain(self) -> int:
        """How many of these must come again: no commit that may have happened acknowledged them."""
        return sum(not self.records[number].doubtful for number in self._open)

    # -- what there is when all is over --------------------------------------------------------------------------

    def log(self, lane: int, start: int, found: Mapping[int, int]) -> None:
        """All that a lane has, from its start: offset -> number."""
        for (of, offset), number in self._at.items():
            if of == lane and offset >= start and found.get(offset) != number:
                self._wrong(
                    f"lane {lane} had record {number} at offset {offset}, and now {found.get(offset)}"
                )
        newest: dict[int, int] = {}
        known: set[int] = set()
        for offset, number in sorted(found.items()):
            record = self.records[number]
            acked = record.acked
            if acked is not None and (lane, offset) not in record.places and (lane, offset) > acked:
                self._wrong(
                    f"record {number} was acknowledged at {acked} and given again at {(lane, offset)}"
                )
            if start == 0 and number not in known and number < newest.get(record.key, -1):
                self._wrong(
                    f"record {number} of key {record.key} was first given at offset {offset} of lane {lane}, behind "
                    f"{newest[record.key]}"
                )
            known.add(number)
            newest[record.key] = max(newest.get(record.key, -1), number)
        self.seen["queue deliveries read again"] += len(found)

    def finish(self, letters: Iterable[int]) -> None:
        """`letters`: the records in the dead letter topic."""
        times = Counter(letters)
        for number, count in times.items():
            record = self.records[number]
            if count > 1:
                self._wrong(f"record {number} is in the dead letter topic {count} times")
            if record.acked is not None:
                self._wrong(f"record {number} is in the dead letter topic and was acknowledged")
            failed = record.nacks_sent + record.endings
            if failed < self.limit:
                self._wrong(f"record {number} is dead after {failed} deliveries that can have failed")
        for record in self.records:
            if (
                record.published
                and record.acked is None
                and not record.doubtful
                and record.number not in times
            ):
                self._wrong(
                    f"record {record.number} was neither acknowledged nor is it dead: {record.places}"
                )
        self.seen["queue dead letters"] += len(times)
