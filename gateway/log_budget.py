"""How many lines of log one place in the code may write: a client that repeats something must not fill a disk.

Each place is heard `LINES` times at once and once a second after that; what it says beyond is counted, and told in one
line when there is room again. What is said at DEBUG is not counted: who asks for that wants all of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES = 20
"""Lines that a place may write at once; the room for more grows by one a second."""


BUDGETED = frozenset({"magnetar.audit"})
"""Loggers with a budget of their own: each of their lines is about something else."""


class _Place:
    """A line of code that logs: what it may still say, and what it could not."""

    __slots__ = ("last", "room", "since", "untold")

    def __init__(self, now: float) -> None:
        self.room = float(LINES)
        self.since = now
        self.untold = 0
        self.last: logging.LogRecord | None = None

    def renew(self, now: float) -> float:
        self.room = min(self.room + now - self.since, float(LINES))
        self.since = now
        return self.room


class LogBudget(logging.Filter):
    """A filter for handlers. `clock` gives seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        # by file and line, of which there are as many as the code has
        self._places: dict[tuple[str, int], _Place] = {}
        self.left_out = 0
        """Records that were not written."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        if record.levelno < logging.INFO or record.name in BUDGETED:
            return True
        now = self._clock()
        key = record.pathname, record.lineno
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _Place(now)
        if place.renew(now) >= 1:
            place.room -= 1
            return True
        place.untold += 1
        self.left_out += 1
        place.last = record
        return False

    def untold(self) -> list[logging.LogRecord]:
        """A record for each place that was cut short and has room again: the last one it had, and `more`, how many were
        not written. To be called now and then, and given to the handler.
        """
        now = self._clock()
        found: list[logging.LogRecord] = []
        for place in self._places.values():
            record = place.last
            if record is not None and place.renew(now) >= LINES // 2:
                record.more = place.untold
                found.append(record)
                place.room, place.untold, place.last = 0.0, 0, None
        return found
