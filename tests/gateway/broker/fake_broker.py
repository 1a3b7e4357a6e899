"""As much of a broker as groups need, with commits and clock in the test's hand."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from gateway.broker.catalog import Catalog, Topic
from gateway.broker.clock_watch import ClockWatch
from gateway.broker.errors import KafkaError
from gateway.broker.group_configs import GroupConfigs
from gateway.broker.groups import Groups
from gateway.broker.share_groups import ShareGroups
from gateway.config import Settings
from gateway.metrics_catalog import GatewayMetrics
from store import memory
from store.api import Durability, Outcome, Refused, Write

FUTURES = asyncio.new_event_loop()
"""Never runs: futures only need one to be made."""


class FakeLoop:
    def __init__(self) -> None:
        self.soon: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def create_future(self) -> asyncio.Future[Any]:
        return FUTURES.create_future()

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> None:
        self.soon.append((callback, args))

    def run(self) -> None:
        """Everything that is due at once."""
        while self.soon:
            callback, args = self.soon.pop(0)
            callback(*args)


class FakeClock:
    def __init__(self) -> None:
        self.now = 1_000_000
        # the wall clock is another one
        self.ahead = 1_700_000_000_000

    def monotonic_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return self.now + self.ahead


class FakeSubscriptions:
    """Which there are, and who is gone; `failing` lets nobody have one."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []
        self.deleted: list[tuple[str, bytes | None]] = []
        self.gone: list[tuple[str, str, bool]] = []
        self.failing: KafkaError | None = None
        self.configs = SimpleNamespace()

    async def ensure(self, group: str, topic: str, starts: Sequence[int] | None = None) -> None:
        if self.failing is not None:
            raise self.failing
        self.made.append((group, topic))

    async def delete(self, group: str, topic_id: bytes | None = None) -> int:
        self.deleted.append((group, topic_id))
        return 1

    def member_gone(self, group: str, member: str, *, graceful: bool = False) -> None:
        self.gone.append((group, member, graceful))


class FakeBroker:
    """Commits wait for `land` unless `at_once`; time passes with `advance`."""

    def __init__(self, *flags: str, store: Any = None, at_once: bool = True) -> None:
        self.settings = Settings.load(list(flags), None, {})
        self.clock = FakeClock()
        self.clock_watch = ClockWatch(self.clock, None)
        self.store = store or memory.open(clock=self.clock.wall_ms)
        self.metrics = GatewayMetrics()
        self.catalog = Catalog(self.store)
        self.loop = FakeLoop()
        self.node_id = 7
        self.at_once = at_once
        self.queue: list[tuple[Sequence[Write], Callable[[Outcome], None]]] = []
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.committed: list[Sequence[Write]] = []
        self.group_configs = GroupConfigs(self)  # type: ignore[arg-type]
        self.subscriptions = FakeSubscriptions()
        self.share_groups = ShareGroups(self)  # type: ignore[arg-type]
        self.groups = Groups(self)  # type: ignore[arg-type]

    def advertised(self, listener: str) -> tuple[str, int]:
        return f"{listener}.example", 9092

    def commit(
        self, writes: Sequence[Write], done: Callable[[Outcome], None], durability: Durability | None = None
    ) -> None:
        self.queue.append((writes, done))
        if self.at_once:
            self.land()

    def land(self, outcome: Outcome = None, count: int | None = None) -> None:
        """The oldest commits (all, unless told how many) are over."""
        for _ in range(len(self.queue) if count is None else count):
            writes, done = self.queue.pop(0)
            if outcome is None:
                self.committed.append(writes)
                self.store.commit(writes, Durability.OS, lambda outcome: None)
            done(outcome)

    def fail(self) -> None:
        self.land(Refused("no"))

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> None:
        self.timers.append((monotonic_ms, callback))

    def advance(self, ms: int) -> None:
        """Let time pass, timers ringing on the way."""
        end = self.clock.now + ms
        self.loop.run()
        while self.timers:
            at, callback = min(self.timers, key=lambda timer: timer[0])
            if at > end:
                break
            self.timers.remove((at, callback))
            self.clock.now = max(self.clock.now, at)
            callback()
            self.loop.run()
        self.clock.now = end

    def topic(self, name: str, partitions: int = 1) -> Topic:
        """A new topic, in place of one of the same name."""
        old = self.catalog.get(name)
        writes = self.catalog.writes_delete(old) if old is not None else []
        topic = Topic(name, uuid.uuid4().bytes, self.catalog.allocate(partitions), self.clock.wall_ms())
        self.store.commit([*writes, *self.catalog.writes_create(topic)], Durability.OS, lambda outcome: None)
        self.catalog.changed(name, topic)
        return topic

    def drop_topic(self, name: str) -> None:
        topic = self.catalog.get(name)
        assert topic is not None
        self.store.commit(self.catalog.writes_delete(topic), Durability.OS, lambda outcome: None)
        self.catalog.changed(name, None)

    def restart(self, *flags: str) -> FakeBroker:
        """Another broker on the same store, its clocks going on."""
        after = FakeBroker(*flags, store=self.store)
        after.clock.now, after.clock.ahead = self.clock.now + 5_000_000, self.clock.ahead - 5_000_000
        return after
