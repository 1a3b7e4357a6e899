"""Whether something has come in that a loop has not looked at yet: asked while one has it, for half a microsecond.

What a loop waits with (epoll, kqueue) is itself a file that can be polled. Of a loop that does not say which one that
is, nothing is known.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


def arrivals_at(loop: asyncio.AbstractEventLoop) -> Callable[[], bool]:
    """What says so of a loop, from now on: to be called by what runs on it."""
    number = _waits_with(loop)
    if number < 0 or not hasattr(select, "poll"):
        return lambda: False
    poll = select.poll()
    poll.register(number, select.POLLIN)
    ask = poll.poll
    return lambda: any(event & select.POLLIN for _, event in ask(0))


def _waits_with(loop: asyncio.AbstractEventLoop) -> int:
    """The number of that file; -1 where it is not known."""
    # uvloop's; asyncio's own
    backend = getattr(loop, "_get_backend_id", None)
    fileno = getattr(getattr(loop, "_selector", None), "fileno", None)
    asked = backend or fileno
    return int(asked()) if asked is not None else -1
