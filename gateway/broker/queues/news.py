"""Who has heard that a queue topic has more lanes.

Clients look for new partitions when they look for leaders: each five minutes, or when a fetch is told that it came to
the wrong one. So each connection that there is by then is told so once for each lane that it fetches. One that comes
later is not: kafka-go looks for the leader over a new connection each time, and would be told so for ever.
"""

from __future__ import annotations


class News:
    """Of one queue topic, until a time (monotonic ms), to connections up to a number."""

    __slots__ = ("_heard", "_newest", "until")

    def __init__(self, until: int, newest: int) -> None:
        self.until = until
        self._newest = newest
        self._heard: set[tuple[int, int]] = set()

    def tell(self, connection: int, lane: int, now: int) -> bool:
        """Whether a connection is to be told now, as it fetches a lane."""
        if now >= self.until:
            self._heard.clear()
            return False
        if connection > self._newest or (connection, lane) in self._heard:
            return False
        self._heard.add((connection, lane))
        return True
