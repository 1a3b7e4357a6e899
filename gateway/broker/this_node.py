"""What every part of the broker is given of its node (`node.py`): the clocks, the stores, the open turn, its commits,
and calls at a time.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gateway.broker.catalog import Catalog
from gateway.broker.changing import written
from gateway.broker.commit_watch import CommitWatch
from gateway.broker.turn import Turn
from gateway.promise import Promise
from store.api import Durability, Family, Outcome, Put, Store, Write
from store.transient import Beside, TransientStore

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.clock import Clock
    from gateway.config import Settings
    from gateway.metrics_catalog import GatewayMetrics

_PROBE = b"probe"


class Answering(Protocol):
    """A connection that has answers ready to leave."""

    def flush(self) -> None: ...


class ThisNode:
    """The node that this process is, as far as its parts need it. `settings` and `durability` are replaced when an
    administrator changes some.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        metrics: GatewayMetrics,
        loop: asyncio.AbstractEventLoop,
        data: Path | None,
        transient: TransientStore | None,
    ) -> None:
        """`transient` is for non-persistent topics: without it there are none. Raises StoreError."""
        self.settings = settings
        self.durability = Durability(settings.text("durability"))
        self.durable = store
        # of both, each partition where it is
        self.store: Store = store if transient is None else Beside(store, transient)
        self._transient = transient
        self.clock = clock
        self.clock_ns = time.perf_counter_ns
        self.metrics = metrics
        self.loop = loop
        self.data = data
        self.catalog = Catalog(store)
        # connections with answers ready, until the end of the group's callbacks
        self.answering: list[Answering] = []
        self.commit_watch = CommitWatch(metrics)
        self.turn = Turn(self, self.commit_watch, self.flush_connections)

    # -- commits ----------------------------------------------------------------------------------------------------

    def commit(
        self, writes: Sequence[Write], done: Callable[[Outcome], None], durability: Durability | None = None
    ) -> None:
        """Queue writes into the group of this loop turn; `done(outcome)` when they are durable or have failed."""
        self.turn.write(writes, done, durability)

    async def write(
        self,
        writes: Sequence[Write],
        durability: Durability | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        """`commit` to wait for. `then` runs as soon as the writes are durable, before anything else can happen,
        also when nobody waits any more. Raises StoreError.
        """
        promise: Promise[Outcome] = Promise()

        def done(outcome: Outcome) -> None:
            try:
                if outcome is None and then is not None:
                    then()
            finally:
                # it is stored whatever `then` did, and whoever waits may hold a lock
                promise.tell(outcome)

        self.turn.write(writes, done, durability)
        outcome = await promise
        if outcome is not None:
            raise outcome

    async def _write_users(
        self, writes: Sequence[Write], done: Callable[[], None], again: Callable[[], None]
    ) -> None:
        """What an administrator was told of users survives a power cut, whatever the setting: a password that was given
        up must not come back. Raises StoreError.
        """
        await written(self, writes, done, again, Durability.FSYNC)

    def probe(self) -> None:
        """While writes fail, try a small one: when no client writes, nothing else would find out that they
        succeed again. Does nothing while one is under way.
        """
        if self.failing and not self.turn.in_flight:
            row = Put(Family.META, _PROBE, self.clock.wall_ms().to_bytes(8, "big"))
            self.commit([row], lambda outcome: None)

    def flush_connections(self) -> None:
        """Send the answers that a group's callbacks made ready: one write a connection."""
        connections = self.answering
        if connections:
            self.answering = []
            for connection in connections:
                connection.flush()

    @property
    def failing(self) -> bool:
        """Whether the last commit that wrote something failed."""
        return self.commit_watch.failing

    # -- stores -----------------------------------------------------------------------------------------------------

    def store_of(self, topic: Topic) -> Store:
        """Where a topic's records are, and the cursors that read them."""
        if topic.transient and self._transient is not None:
            return self._transient
        return self.durable

    def store_for(self, writes: Sequence[Write]) -> Store:
        """Where these go: the store that all of them belong to, or the one that has both."""
        store = self.store
        if isinstance(store, Beside) and self.catalog.has_transient:
            return store.home(writes)
        return self.durable

    def disk(self) -> tuple[str, int, int]:
        """(data folder, bytes of its file system, bytes free); "memory" and -1 for a store in memory."""
        if self.data is None:
            return "memory", -1, -1
        usage = shutil.disk_usage(self.data)
        return str(self.data), usage.total, usage.free

    # -- timers -----------------------------------------------------------------------------------------------------

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Run `callback` when the monotonic clock reaches `monotonic_ms`."""
        delay = max(0, monotonic_ms - self.clock.monotonic_ms()) / 1000
        return self.loop.call_later(delay, callback)
