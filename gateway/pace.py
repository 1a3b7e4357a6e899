"""Whether a thread waits for the client of a large answer. Pure: the time is handed in, in seconds.

A thread that waits serves nobody else, so that clients which do not read must cost next to nothing, however many they
are. Who has taken an answer while it was waited for is waited for again. Of all others one is, and after a wait in vain
none for twenty times as long. While a client takes its answer it has as long as a quick one would need.
"""

from __future__ import annotations

PATIENCE = 0.003
"""Seconds that a client may take nothing."""
RATE = 200_000_000
"""Bytes a second of a client that is waited for."""
SLOW = 1.0
"""Seconds that nobody waits for a client after a wait in vain."""
WARY = 20
"""After a wait in vain none of those that are not known to be quick is waited for until so many times as long."""


class Waits:
    """What the clients of one gateway have cost in vain. Threads share it; a lost update costs one wait."""

    __slots__ = ("wary_until",)

    def __init__(self) -> None:
        self.wary_until = 0.0


class Pace:
    """How one client takes large answers. One answer is on its way at a time."""

    __slots__ = ("_began", "_quick", "_slow_until", "_waits")

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self._quick = False
        self._slow_until = 0.0
        self._began = 0.0

    def begin(self, now: float) -> bool:
        """The client does not take all of an answer at once: whether to wait for it."""
        if now < self._slow_until or (not self._quick and now < self._waits.wary_until):
            return False
        self._began = now
        return True

    def left(self, now: float, taken: int) -> float:
        """Seconds that may still be waited for a client which has taken so many bytes since `begin`."""
        return self._began + PATIENCE + taken / RATE - now

    def took(self) -> None:
        """It has taken all of it."""
        self._quick = True

    def kept(self, now: float) -> None:
        """It has not, and is not waited for any more."""
        self._quick = False
        self._slow_until = now + SLOW
        self._waits.wary_until = now + WARY * (now - self._began)
