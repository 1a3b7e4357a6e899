"""What must hold of a share group after every kill, held against what its members were told. Pure, as `oracle.py`.

Members say what they were given, what they are about to send, and what was answered. Two clocks come with it: ns of a
monotonic clock, which orders what several members saw, and wall ms, which due times are held against. A delivery counts
as later than something else when it was *asked for* after that was known: an answer may have been on its way.

Everything below the group's first open offset must be explained: accepted (sent is enough: the answer may have died
with the gateway), or a dead letter. So nothing is forgotten without a trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Place = tuple[str, int]
ACCEPT, RELEASE, REJECT = 1, 2, 3


class Rules(NamedTuple):
    """What the group is configured to do."""

    # deliveries: pulsar.max.redeliver.count + 1
    limit: int
    # (min, max, multiplier) of pulsar.nack.backoff
    backoff: tuple[int, int, float] | None = None
    key_shared: bool = False
    # members are a library's: what it was given and did not hand out is a delivery that nobody saw
    behind_library: bool = False

    def delay(self, deliveries: int) -> int:
        """ms before a record comes back that was released after so many deliveries."""
        if self.backoff is None:
            return 0
        least, most, factor = self.backoff
        return int(min(most, least * factor ** (deliveries - 1)))


class Delivery(NamedTuple):
    place: Place
    offset: int
    count: int  # type: ignore[assignment]
    # who it is by its value
    name: str
    key: bytes | None
    # wall ms before which it may not come; 0: at once
    due: int
    asked_ns: int
    got_ns: int
    got_ms: int


class Verdict(NamedTuple):
    """Sent, and then the same again once it was answered without an error."""

    place: Place
    offset: int
    count: int  # type: ignore[assignment]
    kind: int
    sent_ns: int
    sent_ms: int
    # 0 while it was only sent
    answered_ns: int = 0


class Letter(NamedTuple):
    """A dead letter, by what its headers say."""

    place: Place
    offset: int
    deliveries: int
    reason: str
    name: str
    # RECONSUMETIMES: how often it had been a retry letter
    retries: int = 0
    # when it was buried, on the clock of ns; 0: nobody knows
    buried_ns: int = 0


@dataclass(slots=True)
class Seen:
    """A record that is open, or was when it was last heard of."""

    name: str = ""
    deliveries: int = 0
    # the highest DeliveryCount that was seen
    most: int = 0
    # no DeliveryCount below it, in what is asked for after
    floor: int = 1
    floor_ns: int = 0
    # not before, in what is asked for after
    wait: int = 0
    wait_ns: int = 0
    accepting: bool = False
    rejecting: bool = False
    rejected: bool = False
    # how it ended, and since when that is known
    end: str = ""
    end_ns: int = 0


@dataclass
class Shelf:
    """One partition of the group."""

    # below it everything is settled and explained
    start: int = 0
    start_ns: int = 0
    open: dict[int, Seen] = field(default_factory=dict)
    # dead letters that name an offset here
    letters: set[int] = field(default_factory=set)
    # by key: the highest offset that was delivered, and when it was
    highest: dict[bytes, tuple[int, int]] = field(default_factory=dict)


class ShareOracle:
    """One share group. Not thread-safe: the thread that checks owns it."""

    def __init__(
        self, group: str, rules: Rules, wrong: Callable[[str], None], seen: Counter[str] | None = None
    ) -> None:
        self.group = group
        self.rules = rules
        self._wrong = wrong
        self.seen: Counter[str] = Counter() if seen is None else seen
        self.shelves: dict[Place, Shelf] = {}
        # counted more often than seen: (place, offset) -> the record, and since when that is known
        self._unseen: dict[tuple[Place, int], tuple[Seen, int]] = {}

    def shelf(self, place: Place) -> Shelf:
        return self.shelves.setdefault(place, Shelf())

    def wrong(self, place: Place, offset: int, text: str) -> None:
        self._wrong(f"share group {self.group}: {place[0]}-{place[1]}@{offset} {text}")

    # what members were told

    def take(self, event: Delivery | Verdict) -> None:
        """Events come in the order in which they happened to each member."""
        if isinstance(event, Delivery):
            self.delivered(event)
        elif event.answered_ns:
            self.answered(event)
        else:
            self.sent(event)

    def delivered(self, it: Delivery) -> None:
        self.seen["share deliveries"] += 1
        shelf = self.shelf(it.place)

        def wrong(text: str) -> None:
            self.wrong(it.place, it.offset, text)

        if it.got_ms < it.due:
            wrong(f"came {it.due - it.got_ms} ms before it was due")
        if self.rules.key_shared and it.key is not None:
            highest, since = shelf.highest.get(it.key, (-1, 0))
            if it.offset < highest and it.asked_ns > since:
                wrong(f"came after {highest} of its key had been delivered")
            if it.offset > highest:
                shelf.highest[it.key] = it.offset, it.got_ns
        if it.offset < shelf.start:
            if it.asked_ns > shelf.start_ns:
                wrong(f"came again, and the group had settled all below {shelf.start}")
            elif (it.place, it.offset) in self._unseen:
                # its answer was on its way while others went on
                self._unseen[it.place, it.offset][0].deliveries += 1
            return
        record = shelf.open.setdefault(it.offset, Seen(it.name))
        if record.name and record.name != it.name:
            wrong(f"is {it.name}, and was {record.name}")
        record.name = it.name
        record.deliveries += 1
        if it.count > 1:
            self.seen["share redeliveries"] += 1
        if record.end and it.asked_ns > record.end_ns:
            wrong(f"came again, delivery {it.count}, after it was {record.end}")
        if it.asked_ns > record.floor_ns and it.count < record.floor:
            wrong(f"says delivery {it.count}, and must not fall below {record.floor}")
        if self.rules.limit and it.count > self.rules.limit:
            wrong(f"says delivery {it.count} of at most {self.rules.limit}")
        if it.asked_ns > record.wait_ns and it.got_ms < record.wait:
            wrong(f"came {record.wait - it.got_ms} ms before its backoff was over")
        if it.count > record.most:
            record.most = it.count
        if it.count > record.floor:
            record.floor, record.floor_ns = it.count, it.got_ns
        if record.most > record.deliveries:
            self._count_unseen(it.place, it.offset, record, it.got_ns)

    def _count_unseen(self, place: Place, offset: int, record: Seen, now_ns: int) -> None:
        if not self.rules.behind_library:
            self._unseen.setdefault((place, offset), (record, now_ns))

    def sent(self, it: Verdict) -> None:
        shelf = self.shelf(it.place)
        if it.offset >= shelf.start:
            record = shelf.open.setdefault(it.offset, Seen())
            record.accepting |= it.kind == ACCEPT
            record.rejecting |= it.kind == REJECT

    def answered(self, it: Verdict) -> None:
        """It was answered: durable from here on."""
        self.seen["share acknowledgements answered"] += 1
        shelf = self.shelf(it.place)
        if it.offset < shelf.start:
            return
        record = shelf.open.setdefault(it.offset, Seen())
        if it.kind == ACCEPT:
            if not record.end:
                record.end, record.end_ns = "acknowledged", it.answered_ns
        elif it.kind == REJECT:
            record.rejected = True
            if not record.end:
                record.end, record.end_ns = "rejected", it.answered_ns
        elif it.kind == RELEASE:
            if it.count + 1 > record.floor:
                record.floor, record.floor_ns = it.count + 1, it.answered_ns
            if self.rules.limit and it.count >= self.rules.limit and not record.end:
                record.end, record.end_ns = "released after its last delivery", it.answered_ns
            wait = it.sent_ms + self.rules.delay(it.count)
            if wait > record.wait:
                record.wait, record.wait_ns = wait, it.answered_ns

    # what is there

    def letter(self, it: Letter, now_ns: int) -> None:
        """A dead letter, read for the first time."""
        self.seen["dead letters"] += 1
        shelf = self.shelf(it.place)

        def wrong(text: str) -> None:
            self.wrong(it.place, it.offset, text)

        if it.offset in shelf.letters:
            wrong("is twice in the dead letter topic")
        shelf.letters.add(it.offset)
        if it.offset < shelf.start:
            wrong("became a dead letter after it was settled")
            return
        record = shelf.open.setdefault(it.offset, Seen(it.name))
        if record.name and record.name != it.name:
            wrong(f"is {record.name}, and its dead letter {it.name}")
        # what comes too late, when the group has settled all up to there, is passed over and answered like any other
        if record.end == "acknowledged" and not 0 < it.buried_ns < record.end_ns:
            wrong("was acknowledged, and is a dead letter")
        limit = self.rules.limit
        if it.reason == "REJECTED":
            if not record.rejecting:
                wrong("is dead as rejected, and nobody rejected it")
        elif it.reason != "MAX_DELIVERIES":
            wrong(f"is dead because of {it.reason}")
        elif it.retries < limit:
            if it.deliveries < limit:
                wrong(f"is dead after {it.deliveries} of {limit} deliveries")
            if it.deliveries > record.deliveries:
                record.most = max(record.most, it.deliveries)
                self._count_unseen(it.place, it.offset, record, now_ns)
        record.end, record.end_ns = "dead", now_ns

    def settled_below(self, place: Place, start: int, now_ns: int) -> None:
        """The group's first open offset, asked for before the events and dead letters that were handed over since."""
        shelf = self.shelf(place)
        if start < shelf.start:
            self.wrong(place, start, f"is the first open offset, and {shelf.start} was")
        for offset in range(shelf.start, start):
            record = shelf.open.pop(offset, None)
            if offset in shelf.letters or (record is not None and record.accepting):
                continue
            if record is None:
                self.wrong(place, offset, "is settled, and nobody ever had it")
            elif record.rejecting:
                self.wrong(
                    place, offset, "was rejected and is settled, and is missing in the dead letter topic"
                )
            else:
                self.wrong(
                    place,
                    offset,
                    f"is lost: settled after {record.deliveries} deliveries, not acknowledged, not dead",
                )
        if start > shelf.start:
            self.seen["share records settled"] += start - shelf.start
            shelf.start, shelf.start_ns = start, now_ns

    def checked(self, oldest_ns: int) -> None:
        """A check is over. What was counted and not seen may still be on its way to a member that cannot go on while
        the machine is busy; so it is wrong once all have been answered that had asked before it was counted.
        `oldest_ns`: when the oldest request was made that is not answered, or now.
        """
        for (place, offset), (record, since_ns) in list(self._unseen.items()):
            if record.most <= record.deliveries:
                del self._unseen[place, offset]
            elif since_ns < oldest_ns:
                del self._unseen[place, offset]
                self.wrong(
                    place, offset, f"counts {record.most} deliveries, and members had {record.deliveries}"
                )

    def finish(self, ends: dict[Place, int], dead: Sequence[Place] = ()) -> None:
        """Nothing is open any more."""
        for place, end in ends.items():
            shelf = self.shelf(place)
            if shelf.start < end:
                self.wrong(place, shelf.start, f"and more, up to {end}, never came to an end")
