"""As much of a broker as groups need, with commits and clock in the test's hand."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gateway.broker.catalog import Catalog, Topic
from gateway.broker.classic_requests import ClassicRequests
from gateway.broker.clock_watch import ClockWatch
from gateway.broker.commit_watch import CommitWatch
from gateway.broker.committing import Committing
from gateway.broker.consumer_groups import ConsumerGroups
from gateway.broker.errors import KafkaError
from gateway.broker.group_configs import GroupConfigs
from gateway.broker.group_kinds import GroupKinds, Listed
from gateway.broker.group_sweep import Sweep
from gateway.broker.groups import Groups
from gateway.broker.housekeeping import IDLE_MS
from gateway.broker.internal_topics import InternalTopics
from gateway.broker.jobs import Job, Jobs
from gateway.broker.lane_members import LaneMembers
from gateway.broker.placement import OneNode, Placement
from gateway.broker.producer_ids import ProducerIds
from gateway.broker.share_groups import ShareGroups
from gateway.broker.share_sessions import ShareSessions
from gateway.broker.transactions import Transactions
from gateway.config import Settings
from gateway.config.group_configs import GroupConfig
from gateway.metrics_catalog import GatewayMetrics
from store import memory
from store.api import Durability, Outcome, Refused, Write

LOOP = asyncio.new_event_loop()
"""Runs only while somebody waits for something: time is the fake clock's."""


class Ring:
    """A call that was asked for."""

    def __init__(self, at: int, callback: Callable[[], None]) -> None:
        self.at = at
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    def __init__(self) -> None:
        self.now = 1_000_000
        # the wall clock is another one
        self.ahead = 1_700_000_000_000

    def monotonic_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return self.now + self.ahead


class FakeConfigs:
    """Subscriptions have no configs of their own."""

    def __init__(self, groups: GroupConfigs) -> None:
        self._groups = groups

    def on(self, group: str, topic: str) -> GroupConfig:
        return self._groups.get(group)


class FakeSubscriptions:
    """Which there are, and who is gone; `failing` lets nobody have one."""

    def __init__(self, configs: GroupConfigs) -> None:
        self.configs = FakeConfigs(configs)
        self.made: list[tuple[str, str]] = []
        self.deleted: list[tuple[str, bytes | None]] = []
        self.gone: list[tuple[str, str, bool]] = []
        self.failing: KafkaError | None = None
        # group -> a queue topic
        self.queues: dict[str, str] = {}

    async def ensure(
        self, group: str, topic: str, starts: Sequence[int] | None = None, *, asked: bool = True
    ) -> None:
        if self.failing is not None:
            raise self.failing
        self.made.append((group, topic))

    def check_ensure(self, group: str, topic: str, *, asked: bool = True) -> None:
        """Nothing is forbidden."""

    def lanes_of(self, group: str) -> str | None:
        return self.queues.get(group)

    async def make_retries(self, group: str, topic: str, retries: str) -> None:
        self.made.append((group, retries))

    async def delete(
        self, group: str, topic_id: bytes | None = None, with_it: Callable[[], None] = lambda: None
    ) -> int:
        with_it()
        self.deleted.append((group, topic_id))
        return 1

    def consumers(self, topic: Topic) -> int:
        return 0

    def member_gone(self, group: str, member: str, *, graceful: bool = False) -> None:
        self.gone.append((group, member, graceful))


def listing(broker: FakeBroker) -> list[Listed]:
    """Every group there is."""
    found = broker.group_kinds.listing()
    assert isinstance(found, list), "the store has them at hand"
    return found


class FakeQueues:
    """There are no queue topics; what they would have been told of groups."""

    def bases_of(self, group: str) -> list[Topic]:
        return []

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []

    def load(self, topics: Iterable[Topic]) -> None:
        assert all(topic.queue is None for topic in topics)

    def serving(self, topic: Topic, group: str) -> None:
        return None

    def of_group(self, group: str) -> list[Topic]:
        return []

    def serves(self, group: str) -> bool:
        return False

    def assigned(self, group: str) -> None:
        self.told.append((group, "assigned"))

    def moved(self, group: str, owners: Mapping[tuple[bytes, int], str | None], *, whole: bool) -> None:
        self.told.append((group, "moved"))

    def member_gone(self, group: str, member: str, *, crashed: bool) -> None:
        self.told.append((group, member, "crashed" if crashed else "left"))


class FakeBroker:
    """Commits wait for `land` unless `at_once`; time passes with `advance`."""

    def __init__(self, *flags: str, store: Any = None, at_once: bool = True) -> None:
        self.settings = Settings.load(list(flags), None, {})
        self.clock = FakeClock()
        self.clock_watch = ClockWatch(self.clock, None)
        self.store = store or memory.open(clock=self.clock.wall_ms)
        self.metrics = GatewayMetrics()
        self.catalog = Catalog(self.store)
        self.internal_topics = InternalTopics(self, self.catalog, CommitWatch(self.metrics), "", lambda: None)
        self.loop = LOOP
        self.placement: Placement = OneNode(7, {"plain": ("plain.example", 9092)}, None)
        self.at_once = at_once
        self.queue: list[tuple[Sequence[Write], Callable[[Outcome], None]]] = []
        self.timers: list[Ring] = []
        self.committed: list[Sequence[Write]] = []
        self.group_configs = GroupConfigs(self)
        self.subscriptions = FakeSubscriptions(self.group_configs)
        self.group_kinds = GroupKinds(self)
        self.queues = FakeQueues()
        nowhere: Any = None
        self.transactions = Transactions(
            self,
            store=self.store,
            turn=lambda: nowhere,
            in_use=nowhere,
            producer_ids=ProducerIds(self),
            groups=lambda: self.committing,
            subscriptions=lambda: nowhere,
            watch=self.clock_watch,
        )
        self.groups: Groups = Groups(
            self,
            self.group_kinds,
            self.catalog,
            self.group_configs,
            self.clock_watch,
            self.queues,
            staged=lambda group: self.transactions.staged.of_group(group),
            beats=self.transactions.beaten,
        )
        self.share_sessions = ShareSessions(self, lambda group: self.share_groups.look(group))
        self.share_groups: ShareGroups = ShareGroups(
            self, self.group_kinds, self.catalog, self.group_configs, self.subscriptions, self.share_sessions
        )
        self.consumer_groups: ConsumerGroups = ConsumerGroups(
            self,
            self.group_kinds,
            self.catalog,
            self.group_configs,
            self.clock_watch,
            self.queues,
            staged=lambda group: self.transactions.staged.of_group(group),
            beats=self.transactions.beaten,
            classic=self.groups,
        )
        self.committing: Committing = Committing(self.group_kinds, self.groups, self.consumer_groups)
        self.classic_requests = ClassicRequests(self.committing, self.groups, self.consumer_groups)
        self.lane_members = LaneMembers(self.committing, self.groups, self.consumer_groups)
        self.group_kinds.add(self.groups)
        self.group_kinds.add(self.consumer_groups)
        self.group_kinds.add(self.share_groups)
        self.failing = False
        interval = self.settings.integer("offsets.retention.check.interval.ms")
        self.jobs = Jobs(
            self,
            [
                Job("groups", interval, Sweep(self, self.group_kinds).run, first_ms=0),
                Job("idle groups", IDLE_MS, self.group_kinds.release_idle),
            ],
        )
        self.jobs.start()

    def commit(
        self, writes: Sequence[Write], done: Callable[[Outcome], None], durability: Durability | None = None
    ) -> None:
        self.queue.append((writes, done))
        if self.at_once:
            self.land()

    async def write(
        self,
        writes: Sequence[Write],
        durability: Durability | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        future: asyncio.Future[Outcome] = LOOP.create_future()
        self.commit(writes, future.set_result, durability)
        outcome = await future
        if outcome is not None:
            raise outcome
        if then is not None:
            then()

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

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> Ring:
        ring = Ring(monotonic_ms, callback)
        self.timers.append(ring)
        return ring

    def ring(self) -> None:
        """What is due now, and all that comes of it without more time."""
        self.settle()
        while due := [ring for ring in self.timers if ring.at <= self.clock.now]:
            first = min(due, key=lambda ring: ring.at)
            self.timers.remove(first)
            if not first.cancelled:
                first.callback()
            self.settle()

    def settle(self) -> None:
        """Let the loop turn while jobs go on: those that wait for something stay where they are."""
        for _ in range(1000):
            LOOP.run_until_complete(asyncio.sleep(0))
            if not self.jobs.running:
                return

    def advance(self, ms: int) -> None:
        """Let time pass, timers ringing on the way."""
        end = self.clock.now + ms
        while True:
            self.ring()
            if not self.timers or (at := min(ring.at for ring in self.timers)) > end:
                break
            self.clock.now = at
        self.clock.now = end

    def topic(self, name: str, partitions: int = 1) -> Topic:
        """A new topic, in place of one of the same name."""
        old = self.catalog.get(name)
        writes = self.catalog.writes_delete(old) if old is not None else []
        topic = Topic(name, uuid.uuid4().bytes, self.catalog.allocate(partitions), self.clock.wall_ms())
        self._commit([*writes, *self.catalog.writes_create(topic)], name, topic)
        return topic

    def drop_topic(self, name: str) -> None:
        topic = self.catalog.get(name)
        assert topic is not None
        self._commit(self.catalog.writes_delete(topic), name, None)

    def _commit(self, writes: list[Write], name: str, topic: Topic | None) -> None:
        changes = self.catalog.begin(writes)
        self.store.commit(writes, Durability.OS, lambda outcome: None)
        self.catalog.changed(name, topic)
        self.catalog.end(changes)

    def restart(self, *flags: str) -> FakeBroker:
        """Another broker on the same store, its clocks going on."""
        after = FakeBroker(*flags, store=self.store)
        after.clock.now, after.clock.ahead = self.clock.now + 5_000_000, self.clock.ahead - 5_000_000
        return after
