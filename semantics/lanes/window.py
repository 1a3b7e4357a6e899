"""How many deliveries of a lane may be open at once.

A classic client tells what it has done only by fetching and committing: librdkafka fetches 95,000 records ahead and
commits each five seconds. A window that somebody configured would be a hoard for slow consumers or a brake for quick
ones, so it is found:

- It begins at FIRST. A commit that acknowledges all of a full window multiplies it by GROWTH: the window was what held
  the consumer back. Any other makes it twice what was acknowledged in the last second, or since the commit before.
- A crash halves it. What was served and open then is *suspect*. As long as suspects remain a ladder of ever smaller
  windows finds the guilty one: see `rung`. The last rung is one delivery by itself.
"""

from __future__ import annotations

from collections import deque

FIRST = 64
GROWTH = 8
MOST = 2_000_000
"""A client that commits each five seconds passes no more than this of a lane in that time: with 1,000,000 sixteen lanes
passed 3.15 million a second, which is 16 of these in five seconds. A lane comes to it only by consumers that quick.
"""
RECENT_MS = 1_000
_STEPS = 5
"""deliveries that a ladder has where the limit of deliveries is none"""


def rung(suspects: int, failed: int, limit: int) -> int:
    """How many may be open while suspects that failed so often are delivered again: of 1,000 with a limit of 5
    deliveries 177, 31, 5 and 1. The last delivery of a record is one by itself. `limit` 0: none.
    """
    steps = (limit or _STEPS) - 1
    left = steps - failed
    if left <= 0:
        return 1
    return max(int(suspects ** (left / steps)), 1)


class LaneWindow:
    """See the module. Times are monotonic ms."""

    __slots__ = ("_full", "_last", "_recent", "_sum", "size")

    def __init__(self, size: int = FIRST) -> None:
        self.size = size
        """open deliveries at most"""
        self._full = False
        # commits that acknowledged something: (when, how many), and their sum
        self._recent: deque[tuple[int, int]] = deque()
        self._sum = 0
        self._last: int | None = None

    def filled(self) -> None:
        """It has no room left."""
        self._full = True

    def acked(self, number: int, everything: bool, now: int) -> None:
        """A commit acknowledged so many; `everything`: nothing is open now."""
        if number <= 0:
            return
        last = self._last
        recent = self._recent
        recent.append((now, number))
        self._sum += number
        span = RECENT_MS if last is None else max(now - last, RECENT_MS)
        while recent[0][0] <= now - span:
            self._sum -= recent.popleft()[1]
        self._last = now
        full, self._full = self._full, False
        if full and everything:
            self.size = min(self.size * GROWTH, MOST)
        else:
            self.size = min(max(2 * self._sum, FIRST), MOST)

    def crashed(self) -> None:
        """The consumer was lost."""
        self.size = max(self.size // 2, FIRST)
        self._full = False

    def rate(self, now: int) -> float:
        """Acknowledged deliveries a second, as commits of late say."""
        if self._last is None or not self._recent:
            return 0.0
        return self._sum * 1_000 / max(now - self._recent[0][0], RECENT_MS)
