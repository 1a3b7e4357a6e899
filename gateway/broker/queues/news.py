"""Who has heard that a queue topic has more lanes.

Clients look for new partitions when they look for leaders: each five minutes, or when a fetch is told that it came to
the wrong one. So each connection is told so once for each lane that it fetches.
"""

from __future__ import annotations


class News:
    """Of one queue topic, until a time (monotonic ms)."""

    __slots__ = ("_heard", "until")

    def __init__(self, until: int) -> None:
        self.until = until
        self._heard: set[tuple[int, int]] = set()

    def tell(self, connection: int, lane: int, now: int) -> bool:
        """Whether a connection is to be told now, as it fetches a lane."""
        if now >= self.until:
            self._heard.clear()
            return False
        if (connection, lane) in self._heard:
            return False
        self._heard.add((connection, lane))
        return True
