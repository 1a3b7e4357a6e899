"""A group's way to an empty backlog, once nothing more is sent: it may be slow, and it may not stand still. Pure."""

from __future__ import annotations

import threading

STUCK = 60.0
"""Seconds in which some record must be settled. How many it takes in all is the machine's affair."""


class Backlog:
    """Shared by the members of a group. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._least: int | None = None
        self._shrunk = 0.0

    def told(self, lag: int, now: float) -> bool:
        """A member has seen how much is left; whether that is nothing."""
        with self._lock:
            if self._least is None or lag < self._least:
                self._least, self._shrunk = lag, now
        return not lag

    def stuck(self, now: float) -> str | None:
        """What is wrong, when it has stood still for too long. The time counts from when this was first asked."""
        with self._lock:
            self._shrunk = self._shrunk or now
            if now - self._shrunk <= STUCK:
                return None
            left = "what it has is not told" if self._least is None else f"{self._least} records are left"
            return f"the group's backlog has not shrunk for {STUCK:.0f} s: {left}"
