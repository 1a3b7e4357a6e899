"""What members of a group tell of their records, and what may not be."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable

from queue_topics.library import Delivery


class Ledger:
    """Of records whose values count up for each key. Says what breaks the promises of Key_Shared: a key is on one lane,
    its records come first in their order, none is left out, and none comes again that was acknowledged."""

    def __init__(self, *, stays: bool = True, moves: bool = False) -> None:
        """`stays`: a record that was acknowledged must not come again. Not so where members work on after their lanes
        were given to others: on Kafka, too, their commit is then too late. `moves`: lanes are added, so keys may go to
        another one."""
        self.wrong: list[str] = []
        self.by_member: Counter[str] = Counter()
        self.lanes: set[int] = set()
        self.again = 0
        """Deliveries of what had come before."""
        self._stays, self._moves = stays, moves
        self._lanes: dict[bytes, int] = {}
        self._seen: dict[bytes, int] = defaultdict(lambda: -1)
        self._acked: set[tuple[bytes, int]] = set()
        self._lock = threading.Lock()

    def take(self, member: str, delivery: Delivery) -> None:
        """To be called with what a poll gave, in its order."""
        key, number = delivery.key or b"", delivery.number
        with self._lock:
            self.by_member[member] += 1
            self.lanes.add(delivery.lane)
            lane = self._lanes.setdefault(key, delivery.lane)
            if lane != delivery.lane and not self._moves:
                self._say(member, delivery, f"on lane {delivery.lane}; before it was on {lane}")
            seen = self._seen[key]
            if number > seen + 1:
                self._say(member, delivery, f"before {seen + 1}")
            if number <= seen:
                self.again += 1
                if self._stays and (key, number) in self._acked:
                    self._say(member, delivery, "again, though it was acknowledged")
            self._seen[key] = max(seen, number)

    def acked(self, deliveries: Iterable[Delivery]) -> None:
        """The commit that says so was answered."""
        with self._lock:
            for one in deliveries:
                self._acked.add((one.key or b"", one.number))

    def _say(self, member: str, delivery: Delivery, what: str) -> None:
        self.wrong.append(f"{member} got {delivery.key!r} {delivery.number} at {delivery.offset} {what}")

    @property
    def done(self) -> int:
        with self._lock:
            return len(self._acked)
