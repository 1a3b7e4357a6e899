"""When the oldest message of a topic will have lived for as long as it may: so that it need not wait for who looks at
all topics. Pure.
"""

from __future__ import annotations

import heapq

MOST = 100_000
"""Topics that are remembered; others wait until all are looked at."""


class SoonOld:
    """Topic ids by a time, in ms since 1970: of each the last that was said."""

    def __init__(self) -> None:
        self._at: dict[bytes, int] = {}
        # what was said since is in it as well, until its time comes
        self._heap: list[tuple[int, bytes]] = []

    def __len__(self) -> int:
        return len(self._at)

    def say(self, topic_id: bytes, at: int | None) -> None:
        """The oldest of this topic will be too old at that time; None: that is too far away, or nobody knows."""
        if at is None:
            self._at.pop(topic_id, None)
        elif self._at.get(topic_id) != at and (topic_id in self._at or len(self._at) < MOST):
            self._at[topic_id] = at
            heapq.heappush(self._heap, (at, topic_id))
            if len(self._heap) > 2 * len(self._at) + 64:
                self._heap = [(when, each) for each, when in self._at.items()]
                heapq.heapify(self._heap)

    def take(self, now: int, limit: int) -> list[bytes]:
        """Those whose time has come, the earliest first: at most so many. They are forgotten."""
        found: list[bytes] = []
        while self._heap and self._heap[0][0] <= now and len(found) < limit:
            at, topic_id = heapq.heappop(self._heap)
            if self._at.get(topic_id) == at:
                del self._at[topic_id]
                found.append(topic_id)
        return found
