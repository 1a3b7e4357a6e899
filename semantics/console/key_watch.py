"""What happened to the messages of one key, told as a list of events in their order.

It is told what was delivered and what consumers said of it; the rest (a lock that ran out, a wait, a death) it sees by
comparing what a record's state is with what it was. Memory is bounded: the last MOST_EVENTS events, and MOST_OPEN
messages that are not settled yet; beyond that the oldest are forgotten.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import NamedTuple

from semantics.subscriptions.states import RecordState

MOST_EVENTS = 1_000
MOST_OPEN = 1_000


class What(StrEnum):
    DELIVERED = "delivered"
    ACKNOWLEDGED = "acknowledged"
    RELEASED = "nacked"
    REJECTED = "rejected"
    RENEWED = "lock renewed"
    LOCK_RAN_OUT = "lock ran out"
    GIVEN_BACK = "given back"
    """its consumer left, or was not sent it"""
    WAITS = "waits"
    """for its next delivery, until `due`"""
    DYING = "dying"
    DEAD = "dead letter"
    DROPPED = "dropped"
    """it died where dead letters are switched off"""
    SETTLED = "settled"
    """by somebody else than a consumer: skipped, cleared, expired"""


_VERDICTS = {1: What.ACKNOWLEDGED, 2: What.RELEASED, 3: What.REJECTED, 4: What.RENEWED}

TICK = "tick"
"""Why it was looked: locks may have run out."""


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


class Event(NamedTuple):
    """`at` and `due` in ms since 1970. `count`: deliveries that have ended without an acknowledgement by then."""

    at: int
    what: What
    place: Place
    consumer: str = ""
    count: int = 0  # type: ignore[assignment]
    due: int | None = None
    reason: str = ""


class _Open:
    """A message that is not settled, as far as it is known."""

    __slots__ = ("consumer", "said", "state")

    def __init__(self) -> None:
        self.state = ""
        self.consumer = ""
        # what its consumer said of this delivery
        self.said: What | None = None


class History:
    """Of one key."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self.left_out = 0
        self._open: dict[Place, _Open] = {}

    def open(self) -> list[Place]:
        """Messages that may still change."""
        return list(self._open)

    def delivered(self, at: int, place: Place, consumer: str, count: int) -> None:
        """A consumer was given it, after `count` deliveries that came to nothing."""
        one = self._open.pop(place, None) or _Open()
        self._open[place] = one
        if len(self._open) > MOST_OPEN:
            del self._open[next(iter(self._open))]
        one.state, one.consumer, one.said = "ACQUIRED", consumer, None
        self._tell(Event(at, What.DELIVERED, place, consumer, count))

    def said(self, at: int, place: Place, consumer: str, verdict: int) -> None:
        """What a consumer says of it, by Kafka's number of the verdict; nothing of a message that is not known."""
        one, what = self._open.get(place), _VERDICTS.get(verdict)
        if one is None or what is None:
            return
        self._tell(Event(at, what, place, consumer))
        if what is not What.RENEWED:
            one.said = what

    def looked(
        self, at: int, place: Place, found: RecordState, why: str = "", *, buries: bool = True
    ) -> None:
        """How a message stands now. `buries`: dead ones become letters."""
        one = self._open.get(place)
        if one is None:
            return
        before, one.state = one.state, found.state
        if found.state == "ACQUIRED":
            # that it was delivered is told by itself
            return
        if before == "ACQUIRED" and one.said is None and found.state != "DONE":
            what = What.LOCK_RAN_OUT if why == TICK else What.GIVEN_BACK
            self._tell(Event(at, what, place, one.consumer, found.count))
        if found.state == before:
            return
        died = before == "DYING" or one.said in (What.REJECTED, What.RELEASED)
        one.said = one.said if found.state == "DONE" else None
        if found.state == "BACKOFF":
            self._tell(Event(at, What.WAITS, place, "", found.count, found.due))
        elif found.state == "DYING":
            self._tell(Event(at, What.DYING, place, one.consumer, found.count, None, found.reason or ""))
        elif found.state == "DONE":
            if died:
                self._tell(Event(at, What.DEAD if buries else What.DROPPED, place))
            elif one.said is not What.ACKNOWLEDGED:
                self._tell(Event(at, What.SETTLED, place))
            del self._open[place]

    def _tell(self, event: Event) -> None:
        if len(self.events) == MOST_EVENTS:
            self.left_out += 1
        self.events.append(event)
