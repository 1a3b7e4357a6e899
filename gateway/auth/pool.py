"""Threads for what takes long in a login, and how many logins may wait for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gateway.auth.errors import BusyError

THREADS = 2
WAITING = 256
"""Logins at most that are in hand: 0.1 to 0.4 s of work. More would wait longer than clients do."""

T = TypeVar("T")


class Pool:
    """For one event loop."""

    def __init__(self, threads: int = THREADS, waiting: int = WAITING) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="login")
        self._room = waiting

    async def run(self, function: Callable[[], T]) -> T:
        """What the function returns or raises. Raises BusyError at once when too many are in hand."""
        if not self._room:
            raise BusyError("too many logins at once")
        self._room -= 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, function)
        # also when nobody waits for it any more: the thread is busy until then
        future.add_done_callback(self._done)
        return await asyncio.shield(future)

    def _done(self, future: asyncio.Future[T]) -> None:
        self._room += 1
        if not future.cancelled():
            # it may be nobody's any more
            future.exception()

    def close(self) -> None:
        """What is queued is given up."""
        self._threads.shutdown(wait=False, cancel_futures=True)
