"""Long work on the loop, in stretches: others have their turn in between."""

from __future__ import annotations

import asyncio
from time import perf_counter

SECONDS = 0.002
"""So long one stretch is, and as long as the step that ends it."""


class Stretch:
    """The one that is under way; it begins when this is made."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = perf_counter() + SECONDS

    async def pause(self) -> None:
        """Let others have their turn if it was long enough. Call it between two steps."""
        if perf_counter() >= self._until:
            await asyncio.sleep(0)
            self._until = perf_counter() + SECONDS
