"""What is known of the day while it goes on: every event, and who has what at this moment."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from compat.day.events import Acked, Event, Held, Took


class Book:
    """Members write into it, each from a thread of its own."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self._events: list[Event] = []
        self._done: set[tuple[str, int]] = set()
        self._holders: dict[int, set[int]] = {}
        self._lane_of: dict[str, int] = {}
        self._in_hand: Counter[int] = Counter()
        self._lock = threading.Lock()

    def write(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)
            if isinstance(event, Took):
                self._lane_of[event.key] = event.lane
                self._in_hand[event.member] += 1
                if not event.nacked:
                    self._done.add((event.key, event.number))
            elif isinstance(event, Acked):
                self._in_hand[event.member] = 0
            else:
                self._holders[event.member] = set(event.lanes) if isinstance(event, Held) else set()

    @property
    def events(self) -> list[Event]:
        """All so far."""
        with self._lock:
            return list(self._events)

    @property
    def done(self) -> int:
        """How many records somebody has finished."""
        with self._lock:
            return len(self._done)

    @property
    def holders(self) -> list[int]:
        """Of each lane the member that has it; 0 is nobody."""
        with self._lock:
            found = [0] * self.lanes
            for member, lanes in self._holders.items():
                for lane in lanes:
                    found[lane] = member
            return found

    def in_hand(self, member: int) -> int:
        """How many records it has worked on and not acknowledged."""
        with self._lock:
            return self._in_hand[member]

    def key_on(self, lanes: Iterable[int]) -> str | None:
        """Some key that is on one of these lanes: always the same, whoever came first."""
        wanted = set(lanes)
        with self._lock:
            return min((key for key, lane in self._lane_of.items() if lane in wanted), default=None)
