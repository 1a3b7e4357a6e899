"""Who has heard that a queue topic has more lanes.

Clients look for new partitions when they look for leaders: each five minutes, or when a fetch is told that it came to
the wrong one. So each connection that there is by then is told so once for each lane that it fetches. One that comes
later is not: kafka-go looks for the leader over a new connection each time, and would be told so for ever.

A client may miss it all the same: what it fetched is thrown away unread when its group rebalances just then, and the
error with it. If that client is the one that shares the lanes out, nobody gets the new ones. So as long as the members'
lanes are not all there are, everybody is told again, at ever longer intervals.
"""

from __future__ import annotations

AGAIN_MS = 1_000
"""After which it is told again the first time; each time after that twice as long."""


class News:
    """Of one queue topic, from `now` until a time (monotonic ms), to connections up to a number."""

    __slots__ = ("_heard", "_newest", "_wait", "due", "until")

    def __init__(self, now: int, until: int, newest: int) -> None:
        self.until = until
        self._newest = newest
        self._heard: set[tuple[int, int]] = set()
        self._wait = AGAIN_MS
        self.due = now + AGAIN_MS
        """When it is told again."""

    def tell(self, connection: int, lane: int, now: int) -> bool:
        """Whether a connection is to be told now, as it fetches a lane."""
        if now >= self.until:
            self._heard.clear()
            return False
        if connection > self._newest or (connection, lane) in self._heard:
            return False
        self._heard.add((connection, lane))
        return True

    def again(self, now: int, newest: int) -> bool:
        """Some lanes are nobody's yet. Whether it is time to tell everybody once more; then `tell` does, also those who
        have come since."""
        if not self.due <= now < self.until:
            return False
        self._wait *= 2
        self.due = now + self._wait
        self._newest = newest
        self._heard.clear()
        return True
