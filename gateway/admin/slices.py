"""Long walks on the loop that all else runs on: some milliseconds of them, then others have their turn."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Generator
from time import perf_counter
from typing import TypeVar

STRETCH = 0.001
"""Seconds at a stretch. What is done between two looks at the clock comes on top: 5 ms are the bound."""

T = TypeVar("T")


class Pace:
    """How long a call has had the loop, and when others have their turn."""

    __slots__ = ("_before", "_since")

    def __init__(self) -> None:
        self._before = 0.0
        self._since = perf_counter()

    @property
    def spent(self) -> float:
        """Seconds that it had the loop."""
        return self._before + perf_counter() - self._since

    async def rest(self, stretch: float = STRETCH) -> None:
        """Let others have their turn, if it is time for that."""
        lasted = perf_counter() - self._since
        if lasted >= stretch:
            self._before += lasted
            await asyncio.sleep(0)
            self._since = perf_counter()

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


async def arrays_ready() -> None:
    """Load numpy, of which what is asked of keys makes use, beside the loop: on it that takes 50 ms at a stretch."""
    if "numpy" not in sys.modules:
        await asyncio.get_running_loop().run_in_executor(None, importlib.import_module, "numpy")
