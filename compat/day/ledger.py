"""What all members worked on, held against the promises of Key_Shared: the order of each key, over all of them.

Pure: events in, findings out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from compat.day.events import Acked, Event, Held, Took

Record = tuple[str, int]
"""(key, its number of that key): 0, 1, 2, ..."""


@dataclass
class Findings:
    """What became of all records."""

    out_of_order: list[str] = field(default_factory=list)
    """Worked on before an earlier one of the key was settled, on a second lane, or while another member was at it."""
    acknowledged_again: list[str] = field(default_factory=list)
    """Delivered again after the commit that acknowledged them was answered."""
    lost: list[Record] = field(default_factory=list)
    """Neither worked on to the end nor a dead letter."""
    wrong_letters: list[Record] = field(default_factory=list)
    """Dead letters that are no poison, and poison that is none."""
    deliveries: Counter[int] = field(default_factory=Counter)
    """How many records were delivered so many times."""
    deaths: dict[Record, list[Took]] = field(default_factory=dict)
    """Dead letter -> its deliveries."""

    @property
    def good(self) -> bool:
        return not (self.out_of_order or self.acknowledged_again or self.lost or self.wrong_letters)


def check(
    events: Iterable[Event], sent: Mapping[str, int], letters: Collection[Record], poison: Collection[Record]
) -> Findings:
    """Look through the day. `sent`: key -> how many records; `letters` is what lies in the dead letter topic.

    A record may be worked on when all before it of its key have been: done, or delivered for the last time and dead.
    Going back is allowed, for what was not acknowledged; a nack goes back by itself.
    """
    found = Findings()
    in_order = sorted(events, key=lambda event: event.at)
    taken = [event for event in in_order if isinstance(event, Took)]
    found.deliveries = _deliveries(taken)
    found.deaths = {letter: [one for one in taken if (one.key, one.number) == letter] for letter in letters}
    died = {letter: deaths[-1].at if deaths else 0.0 for letter, deaths in found.deaths.items()}
    keys: dict[str, _Key] = {}
    # member -> (lane, offset) -> what it did there and is not known to be acknowledged; another's commit says nothing
    # of it, for what is left open when its member is gone comes again under another offset
    open_: dict[int, dict[tuple[int, int], Record]] = defaultdict(dict)
    acked: set[Record] = set()
    done: set[Record] = set()
    for event in in_order:
        if isinstance(event, Acked):
            mine = open_[event.member]
            for place in [place for place in mine if place[0] == event.lane and place[1] < event.offset]:
                acked.add(mine.pop(place))
        elif not isinstance(event, Took):
            has = event.lanes if isinstance(event, Held) else frozenset()
            mine = open_[event.member]
            for place in [place for place in mine if place[0] not in has]:
                del mine[place]
        else:
            record = (event.key, event.number)
            if record in acked:
                found.acknowledged_again.append(f"{_where(event)}, though it was acknowledged")
            key = keys.setdefault(event.key, _Key(event.lane))
            found.out_of_order += [f"{_where(event)} {wrong}" for wrong in key.take(event, died, acked)]
            if not event.nacked:
                done.add(record)
                open_[event.member][event.lane, event.offset] = record
    everything = {(key, number) for key, count in sent.items() for number in range(count)}
    found.lost = sorted(everything - done - set(letters))
    found.wrong_letters = sorted(set(letters) ^ set(poison)) + sorted(done & set(letters))
    return found


class _Key:
    """Where a key is."""

    def __init__(self, lane: int) -> None:
        self.lane = lane
        self.due = 0
        self.last: Took | None = None

    def take(self, event: Took, died: Mapping[Record, float], acked: Collection[Record]) -> list[str]:
        """What is wrong with this delivery."""
        wrong = []
        for number in range(self.due, event.number):
            record = (event.key, number)
            if record not in acked and died.get(record, event.at) >= event.at:
                wrong.append(f"before {number} was settled")
                break
        if event.lane != self.lane:
            wrong.append(f"after lane {self.lane} had the key")
        if self.last is not None and self.last.member != event.member and event.at < self.last.ended:
            wrong.append(f"while member {self.last.member} worked on {self.last.number} of it")
        self.due = event.number if event.nacked else event.number + 1
        self.last = event
        return wrong


def _deliveries(taken: Iterable[Took]) -> Counter[int]:
    """A member that is killed has had deliveries that it never worked on; the gateway counts them."""
    worked_on: Counter[Record] = Counter()
    counted: Counter[Record] = Counter()
    for one in taken:
        record = (one.key, one.number)
        worked_on[record] += 1
        counted[record] = max(counted[record], one.failed + 1)
    return Counter((worked_on | counted).values())


def _where(event: Took) -> str:
    return f"member {event.member} got {event.key} {event.number} on lane {event.lane} at {event.offset}"


def rate(events: Iterable[Event], step: float) -> list[float]:
    """Records that were finished, for the first time, a second, in each `step` seconds since the day began."""
    counts: Counter[int] = Counter()
    seen: set[Record] = set()
    for event in sorted(events, key=lambda event: event.at):
        if isinstance(event, Took) and not event.nacked and (event.key, event.number) not in seen:
            seen.add((event.key, event.number))
            counts[int(event.ended / step)] += 1
    return [counts[n] / step for n in range(max(counts, default=-1) + 1)]
