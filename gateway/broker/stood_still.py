"""Deadlines of clients after the process itself stood still (a machine that was suspended, or starved): what they have
sent meanwhile lies unread, and is read before anybody counts as silent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.broker.node import Time, Timer

STOOD_STILL_MS = 1000
"""A timer that is so late was kept waiting by a process that stood still, and with it all that clients have sent."""
HEARD_MS = 100
"""In which connections are read then, before anybody counts as silent."""


def call_when_heard(time: Time, monotonic_ms: int, callback: Callable[[], None]) -> Timer:
    """Run `callback` at a time, as `Time.call_at` does, or HEARD_MS after a stand-still that ends behind it. What is
    cancelled by then is not run while it waits for that time, and is while it waits for what is heard.
    """
    # what is over already is late for another reason
    due = max(monotonic_ms, time.clock.monotonic_ms())
    return time.call_at(due, partial(_due, time, due, callback))


def _due(time: Time, monotonic_ms: int, callback: Callable[[], None]) -> None:
    now = time.clock.monotonic_ms()
    if now - monotonic_ms >= STOOD_STILL_MS:
        time.call_at(now + HEARD_MS, callback)
    else:
        callback()
