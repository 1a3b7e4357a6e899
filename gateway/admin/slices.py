"""Long walks on the loop that all else runs on: a millisecond of them, then others have their turn.

However many pages and calls are under way, one of them has the loop between two looks at the sockets: `turn` lets them
wait in a row. Each would otherwise have its slice before a client of Kafka's is served again. Nor does one go on while
something waits to be stored, but for PATIENCE: what came in with the last look would have its answer a slice later.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

STRETCH = 0.001
"""Seconds at a stretch. What is done between two looks at the clock comes on top: 5 ms are the bound."""
YOUNG, LOOKS = 2_000, 4
"""New objects that are looked at together, in half a millisecond; what has outlived so many looks is looked at anew."""
PATIENCE = 3
"""How often clients go first before a slice, whoever has it: under any load there are pages."""

T = TypeVar("T")


class _Turns:
    """Who waits on one loop."""

    __slots__ = ("_loop", "_on", "_passed", "_waiting", "busy")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._on = False
        self.busy: Callable[[], bool] = lambda: False
        # turns that were passed on to clients since the last slice
        self._passed = 0

    def passes(self) -> bool:
        """Whether who has a turn passes it on: clients go first."""
        self._passed = self._passed + 1 if self._passed < PATIENCE and self.busy() else 0
        return self._passed > 0

    def wait(self, first: bool) -> asyncio.Future[None]:
        """Done when it is one's turn; `first` of who has passed his on: nobody else's comes before."""
        mine = self._loop.create_future()
        if first:
            self._waiting.appendleft(mine)
        else:
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
    """From now on turns on this loop are passed on while it is `busy`, PATIENCE times before each slice at most."""
    _turns_of(loop).busy = busy


async def turn() -> None:
    """Let others have their turn, and wait for one's own among those that do so."""
    turns = _turns_of(asyncio.get_running_loop())
    await turns.wait(first=False)
    while turns.passes():
        await turns.wait(first=True)


def tidy() -> None:
    """Look for garbage among what is new, before there is so much that a look holds the loop: answers are thousands of
    dicts that all live until they have left, and the gateway's own threshold is for requests that leave hardly any.
    """
    new, looks, _ = gc.get_count()
    if new > YOUNG:
        gc.collect(1 if looks >= LOOKS else 0)


class Pace:
    """How long a call has had the loop, and when others have their turn: by the wall. What it has `spent` may be of
    another clock, in seconds.
    """

    __slots__ = ("_before", "_began", "_since", "_spends")

    def __init__(self, spends: Callable[[], float] | None = None) -> None:
        self._spends = spends
        self._before = 0.0
        self._since = perf_counter()
        self._began = self._since if spends is None else spends()

    @property
    def spent(self) -> float:
        """Seconds that it had the loop."""
        return self._before + (self._spends or perf_counter)() - self._began

    async def rest(self, stretch: float = STRETCH) -> None:
        """Let others have their turn, if it is time for that."""
        if perf_counter() - self._since >= stretch:
            tidy()
            self._before = self.spent
            await turn()
            self.waited()

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
        self._since = perf_counter()
        self._began = self._since if self._spends is None else self._spends()


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
