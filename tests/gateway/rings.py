"""The clock and the timers of a gateway that serves in the test's own loop, held by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from gateway.server import Gateway


class Rings:
    """The broker's timers, which ring when the test says so, and a clock that stands until then."""

    def __init__(self, gateway: Gateway) -> None:
        self.now = 1_000
        self._calls: list[tuple[int, Callable[[], None]]] = []
        broker: Any = gateway.broker
        wall = broker.clock.wall_ms
        broker.clock = self
        self.wall_ms = wall
        broker.call_at = self._call_at

    def _call_at(self, at: int, call: Callable[[], None]) -> asyncio.Handle:
        self._calls.append((at, call))
        # what is cancelled is nobody's affair here
        return asyncio.get_running_loop().call_soon(int)

    def monotonic_ms(self) -> int:
        return self.now

    def ring(self, ms: int) -> None:
        self.now += ms
        due = [each for each in self._calls if each[0] <= self.now]
        for each in due:
            self._calls.remove(each)
            each[1]()
