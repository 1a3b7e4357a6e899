"""What every part of the broker may ask of the node that it runs on: settings, store, clocks, loop, timers, commits.

A part that needs nothing else takes a `Node` and not the broker, so that its signature says what it depends on.
The broker is one; tests bring their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from store.api import Durability, Outcome, Store, Write

if TYPE_CHECKING:
    from gateway.clock import Clock
    from gateway.config import Settings
    from gateway.metrics_catalog import GatewayMetrics


class Timer(Protocol):
    """A call that has been asked for."""

    def cancel(self) -> object: ...


class Time(Protocol):
    """For what only waits: the clocks, and calls at a time."""

    @property
    def clock(self) -> Clock: ...

    def call_at(self, monotonic_ms: int, callback: Callable[[], None], /) -> Timer:
        """Run `callback` when the monotonic clock reaches `monotonic_ms`."""
        ...


class Node(Time, Protocol):
    """Read each of these when it is needed: settings are replaced when an administrator changes some."""

    @property
    def settings(self) -> Settings: ...

    @property
    def store(self) -> Store: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def metrics(self) -> GatewayMetrics: ...

    @property
    def failing(self) -> bool:
        """Whether the last commit that wrote something failed."""
        ...

    def commit(
        self,
        writes: Sequence[Write],
        done: Callable[[Outcome], None],
        durability: Durability | None = None,
    ) -> None:
        """Queue writes into the group of this loop turn; `done(outcome)` when they are durable or have failed."""
        ...

    async def write(
        self,
        writes: Sequence[Write],
        durability: Durability | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        """`commit` to wait for. `then` runs as soon as the writes are durable. Raises StoreError."""
        ...
