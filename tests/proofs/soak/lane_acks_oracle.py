"""What must hold of deliveries of a queue topic that are settled in the transactions that write what was made of them.
Pure.

Each record has a number. It ends once: as a committed output, or as a dead letter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

Place = tuple[int, int]
"""A lane and an offset of it."""


@dataclass(slots=True)
class Said:
    """What one transaction says of deliveries, by place: the number of the record."""

    done: dict[Place, int] = field(default_factory=dict)
    failed: dict[Place, int] = field(default_factory=dict)
    buried: dict[Place, int] = field(default_factory=dict)

    def numbers(self) -> list[int]:
        return [*self.done.values(), *self.failed.values(), *self.buried.values()]


@dataclass(slots=True)
class _Record:
    key: int
    published: bool = False
    # where it was when a transaction was told as committed that acknowledged it
    done: Place | None = None
    # nobody knows how a transaction ended that acknowledged it
    doubtful: bool = False
    # transactions that say that it is dead, and are committed or may be
    burying: int = 0
    # how often a delivery of it may have failed
    failed: int = 0
    outputs: int = 0
    letters: int = 0

    @property
    def ended(self) -> bool:
        return self.outputs + self.letters > 0


class LaneAcksOracle:
    """Of one subscription, whose records die of `limit` deliveries; `keyed`: what is made of a key is in its order."""

    def __init__(self, name: str, limit: int, wrong: Callable[[str], None], *, keyed: bool) -> None:
        self.name, self.limit, self.keyed = name, limit, keyed
        self._tell = wrong
        self._records: dict[int, _Record] = {}
        self._at: dict[Place, int] = {}
        self._open: set[int] = set()
        # key -> the record of it that was made something of last
        self._newest: dict[int, int] = {}
        self.seen: Counter[str] = Counter()

    def _wrong(self, text: str) -> None:
        self._tell(f"{self.name}: {text}")

    # -- what is told ------------------------------------------------------------------------------------------------

    def new(self, number: int, key: int) -> None:
        """A record that is about to be published. Those of a key ascend."""
        self._records[number] = _Record(key)

    def published(self, number: int) -> None:
        """Its producer was told that it is there."""
        record = self._records[number]
        record.published = True
        if record.done is None and not record.ended:
            self._open.add(number)

    def read(self, place: Place, number: int) -> None:
        """A consumer was given this."""
        known = self._at.get(place)
        if known is not None:
            if known != number:
                self._wrong(f"lane {place[0]} had record {known} at offset {place[1]}, and now {number}")
            return
        self._at[place] = number
        self.seen["deliveries"] += 1
        done = self._records[number].done
        if done is not None and done[0] == place[0] and done[1] < place[1]:
            self._wrong(f"ack lost: record {number} was done at {done} and came again at {place}")

    def sent(self, said: Said) -> None:
        """A transaction is about to say this. Each of these deliveries may have failed from now on, be it told
        later: it is said to have failed, or the transaction comes to nothing.
        """
        for number in said.numbers():
            self._records[number].failed += 1
        for number in said.buried.values():
            self._records[number].burying += 1

    def ended(self, said: Said, committed: bool | None) -> None:
        """How a transaction ended that was `sent`, as was told; None: nobody knows."""
        if committed is False:
            for number in said.buried.values():
                self._records[number].burying -= 1
            return
        for place, number in said.done.items():
            record = self._records[number]
            if committed is None:
                record.doubtful = True
                continue
            if record.done is not None:
                self._wrong(f"ack twice: record {number} was done at {record.done}, and again at {place}")
            record.done = place
            self.seen["acknowledgements"] += 1
            self._open.discard(number)

    def lost(self) -> None:
        """A consumer has left or died: whatever is not settled may have been in its hands."""
        for number in self._open:
            self._records[number].failed += 1

    # -- what is there -----------------------------------------------------------------------------------------------

    def output(self, number: int) -> None:
        """A reader of committed records was given what was made of it, in the order of its key's partition."""
        record = self._records[number]
        record.outputs += 1
        self._open.discard(number)
        if record.outputs > 1:
            self._wrong(f"output twice: what was made of record {number} is there {record.outputs} times")
        if record.letters:
            self._wrong(f"record {number} is a dead letter, and something was made of it")
        newest = self._newest.get(record.key, -1)
        if self.keyed and number < newest:
            self._wrong(f"what was made of record {number} of key {record.key} is behind that of {newest}")
        self._newest[record.key] = max(newest, number)

    def letter(self, number: int) -> None:
        """It is in the dead letter topic."""
        record = self._records[number]
        record.letters += 1
        self._open.discard(number)
        self.seen["dead letters"] += 1
        if record.letters > 1:
            self._wrong(f"record {number} is in the dead letter topic {record.letters} times")
        if record.outputs or record.done is not None:
            self._wrong(f"record {number} is a dead letter, and was done")
        if not record.burying and record.failed < self.limit:
            self._wrong(f"record {number} is dead after {record.failed} deliveries that can have failed")

    @property
    def left(self) -> int:
        """How many have not ended, as far as that is known."""
        return len(self._open)

    def finish(self) -> None:
        """Nothing came any more, and all was read."""
        for number, record in self._records.items():
            if record.published and not record.ended:
                how = (
                    f"done at {record.done}" if record.done else "in doubt" if record.doubtful else "not done"
                )
                self._wrong(f"record {number} has neither an output nor is it a dead letter: it was {how}")


def names(offsets: Iterable[int]) -> str:
    """As a commit's metadata names them."""
    return ",".join(map(str, sorted(offsets)))


def commit_of(said: Mapping[str, Iterable[int]]) -> str:
    """The metadata of a commit: verb -> offsets of one lane."""
    items = [f"{verb}={names(offsets)}" for verb, offsets in said.items() if offsets]
    return ";".join(["ack1", *items])
