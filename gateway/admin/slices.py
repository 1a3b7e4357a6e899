"""Long walks on the loop that all else runs on: a millisecond of them, then others have their turn.

However many pages and calls are under way, one of them has the loop between two looks at the sockets: `turn` lets them
wait in a row. Each would otherwise have its slice before a client of Kafka's is served again. Nor does one begin while
something waits to be stored: what came in with the last look would have its answer a slice later.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

STRETCH = 0.001
"""Seconds at a stretch. What is done between two looks at the clock comes on top: 5 ms are the bound."""
PATIENCE = 8
"""How often in a row one lets clients go first: under any load there are pages."""

T = TypeVar("T")


class _Turns:
    """Who waits on one loop."""

    __slots__ = ("_loop", "_on", "_waiting", "busy")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._on = False
        self.busy: Callable[[], bool] = lambda: False

    def wait(self) -> asyncio.Future[None]:
        """Done when it is one's turn."""
        mine = self._loop.create_future()
        self._waiting.append(mine)
        if not self._on:
            self._on = True
            self._loop.call_soon(self._next)
        return mine

    def _next(self) -> None:
        """Once an iteration of the loop."""
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                break
        self._on = bool(self._waiting)
        if self._on:
            self._loop.call_soon(self._next)


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


def _turns_of(loop: asyncio.AbstractEventLoop) -> _Turns:
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = _Turns(loop)
    return turns


def give_way(loop: asyncio.AbstractEventLoop, busy: Callable[[], bool]) -> None:
    """From now on nobody's turn comes on this loop while it is `busy`, PATIENCE times in a row at most."""
    _turns_of(loop).busy = busy


async def turn() -> None:
    """Let others have their turn, and wait for one's own among those that do so."""
    turns = _turns_of(asyncio.get_running_loop())
    for _ in range(PATIENCE):
        await turns.wait()
        if not turns.busy():
            break


class Pace:
    """How long a call has had the loop, and when others have their turn; `clock` says seconds, of the wall if none is
    given.
    """

    __slots__ = ("_before", "_clock", "_since")

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or perf_counter
        self._before = 0.0
        self._since = self._clock()

    @property
    def spent(self) -> float:
        """Seconds that it had the loop."""
        return self._before + self._clock() - self._since

    async def rest(self, stretch: float = STRETCH) -> None:
        """Let others have their turn, if it is time for that."""
        lasted = self._clock() - self._since
        if lasted >= stretch:
            self._before += lasted
            await turn()
            self._since = self._clock()

    async def drive(self, steps: Generator[None, None, T]) -> T:
        """A walk to its end: what it returns, or raises."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await self.rest()

    def waited(self) -> None:
        """What came before was spent waiting, not on the loop."""
        self._since = self._clock()


async def let_go(tree: dict[Any, Any], depth: int = 1) -> None:
    """Empty a dict of thousands of things, each so many names deep, that nobody else looks at any more: when a tree of
    them goes with its last name, the loop stands for as long as that takes.
    """
    pace = Pace()
    while tree:
        _, each = tree.popitem()
        if depth > 1:
            await let_go(each, depth - 1)
        del each
        await pace.rest()


async def arrays_ready() -> None:
    """Load numpy, of which what is asked of keys makes use, beside the loop: on it that takes 50 ms at a stretch."""
    if "numpy" not in sys.modules:
        await asyncio.get_running_loop().run_in_executor(None, importlib.import_module, "numpy")
