"""What happened on the day: what members say of themselves, a line each, and what was done to them.

Times are seconds since the day began. Members print microseconds since 1970, of the one clock of their machine:

    holds AT LANE,LANE,...                                  all that it has from now on; - is none
    took BEGAN ENDED LANE OFFSET KEY NUMBER FAILED VERDICT  it worked on a delivery; the verdict is done or nack
    acked AT LANE OFFSET                                    its commit of this offset was answered
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

VERDICTS = {"done": False, "nack": True}


@dataclass(frozen=True, slots=True)
class Held:
    """The lanes that a member has from `at` on: these and no others."""

    at: float
    member: int
    lanes: frozenset[int]


@dataclass(frozen=True, slots=True)
class Took:
    """One delivery, as its member worked on it."""

    at: float
    """When the work began."""
    ended: float
    member: int
    lane: int
    offset: int
    key: str
    number: int
    """Of the key's records, from 0."""
    failed: int
    """Deliveries before this one that failed, as the gateway says."""
    nacked: bool


@dataclass(frozen=True, slots=True)
class Acked:
    """A commit of `offset` that was answered: what lies below it is settled."""

    at: float
    member: int
    lane: int
    offset: int


@dataclass(frozen=True, slots=True)
class Killed:
    """A member ended without a word."""

    at: float
    member: int


Event = Held | Took | Acked | Killed


def parse(line: str, member: int, start: int) -> Event:
    """What a member's line says. `start` is the day's, in microseconds. Raises ValueError."""

    def at(text: str) -> float:
        return (int(text) - start) / 1e6

    match line.split():
        case ["holds", when, lanes]:
            return Held(at(when), member, frozenset(map(int, () if lanes == "-" else lanes.split(","))))
        case ["took", began, ended, lane, offset, key, number, failed, verdict] if verdict in VERDICTS:
            return Took(
                at(began),
                at(ended),
                member,
                int(lane),
                int(offset),
                key,
                int(number),
                int(failed),
                VERDICTS[verdict],
            )
        case ["acked", when, lane, offset]:
            return Acked(at(when), member, int(lane), int(offset))
    raise ValueError(f"Not a line of a member: {line!r}")


@dataclass(frozen=True, slots=True)
class Tenure:
    """`member` had `lane` from `begin` to `end`."""

    lane: int
    member: int
    begin: float
    end: float


def tenures(events: Iterable[Event], end: float) -> list[Tenure]:
    """Who had which lane, and when, up to `end`; in the order in which they began."""
    found: list[Tenure] = []
    since: dict[tuple[int, int], float] = {}
    for event in sorted(events, key=lambda event: event.at):
        if not isinstance(event, Held | Killed):
            continue
        now = event.lanes if isinstance(event, Held) else frozenset()
        had = {lane for member, lane in since if member == event.member}
        for lane in had - now:
            found.append(Tenure(lane, event.member, since.pop((event.member, lane)), event.at))
        for lane in now - had:
            since[event.member, lane] = event.at
    found += [Tenure(lane, member, begin, end) for (member, lane), begin in since.items() if begin < end]
    return sorted(found, key=lambda one: (one.begin, one.lane))
