"""Topics in use: made once, renewed when their rows change, let go when nobody uses them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from gateway.broker.catalog import Catalog, Topic
from gateway.broker.commit_watch import CommitWatch
from gateway.broker.damage import Damage
from gateway.broker.errors import KafkaError
from gateway.broker.in_use import InUse
from gateway.broker.partition import Partition
from gateway.broker.quota_gate import Refusals
from gateway.broker.readable import Readable
from gateway.broker.topic_runtime import TopicRuntime, Transactions
from gateway.broker.traffic import Traffic
from gateway.broker.transient import Transients
from gateway.broker.turn import Turn
from gateway.broker.undelayed import Undelayed
from gateway.clock import SystemClock
from gateway.config import Settings
from gateway.config.topic_configs import TopicConfig, effective
from gateway.metrics_catalog import GatewayMetrics
from gateway.wire import records
from gateway.wire.errors import Error
from store import memory
from store.api import Durability, Write
from tests.gateway.serving import batch

NOW = 1_000_000


class Loop:
    """Its calls wait for the test."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object], /) -> None:
        self.calls.append(callback)

    def run(self) -> None:
        while self.calls:
            self.calls.pop(0)()


class Home:
    """A node with a store in memory."""

    decompression_limit = 1_000_000
    durability = Durability.OS

    def __init__(self) -> None:
        self.store = self.durable = memory.open(clock=lambda: NOW)
        self.metrics = GatewayMetrics()
        self.damage = Damage(self.metrics, lambda: NOW)
        self.traffic = Traffic()
        self.undelayed = Undelayed()
        self.loop = Loop()
        self.turn = Turn(self, CommitWatch(self.metrics), lambda: None)

    clock = SystemClock()

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> Any:
        raise AssertionError("no topic has a rate")

    def clock_ns(self) -> int:
        return 0

    def store_of(self, topic: Topic) -> memory.MemoryStore:
        return self.store

    def store_for(self, writes: Sequence[Write]) -> memory.MemoryStore:
        return self.store

    def retries_into(self, topic: str) -> tuple[str, str] | None:
        return None

    @property
    def transients(self) -> Transients:
        raise AssertionError("no topic is non-persistent")

    def full_name(self, topic: str) -> str:
        return f"persistent://public/default/{topic}"

    def resource_group_of(self, topic: str) -> None:
        return None

    def measure_backlog(self, partition: Any, gate: Any) -> Any:
        raise AssertionError("no topic has a quota")

    def waited_for(self, topic_id: bytes, index: int) -> bool:
        return False

    refusals = Refusals()

    @property
    def transactions(self) -> Transactions:
        raise AssertionError("no batch is of a transaction")


class World:
    def __init__(self) -> None:
        self.home = Home()
        self.catalog = Catalog(self.home.store)
        self.settings = Settings.load([], None, {})
        self.in_use = InUse(self.home, self.catalog, self.effective, self._lane, lambda topic_id: False)

    def _lane(self, runtime: TopicRuntime, index: int) -> Readable:
        raise AssertionError("there are no queue topics")

    def effective(self, topic: Topic) -> TopicConfig:
        return effective(topic.configs, self.settings)

    def make(self, name: str, partitions: int = 1, **configs: str) -> Topic:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        topic = Topic(name, uuid.uuid4().bytes, self.catalog.allocate(partitions), NOW, named)
        self.commit(self.catalog.writes_create(topic), name, topic)
        return topic

    def configure(self, topic: Topic, configs: dict[str, str]) -> None:
        changed = Topic(topic.name, topic.topic_id, topic.partitions, NOW, configs)
        self.commit(self.catalog.writes_update(changed), topic.name, changed)

    def commit(self, writes: list[Write], name: str, topic: Topic | None) -> None:
        changes = self.catalog.begin(writes)
        self.home.turn.write(writes, lambda outcome: None)
        self.home.loop.run()
        self.catalog.changed(name, topic)
        self.catalog.end(changes)
        self.in_use.topic_changed(name, topic)

    def topic(self, name: str) -> TopicRuntime:
        runtime = self.in_use.topic(name.encode())
        assert runtime is not None
        return runtime

    def append(self, partition: Partition, value: bytes) -> int:
        """Not committed before the loop runs."""
        data = batch(value)
        partition.append(data, records.header(data), NOW)
        return len(data)


@pytest.fixture
def world() -> World:
    return World()


def test_each_is_made_once_whoever_asks(world: World) -> None:
    topic = world.make("t", 2)
    runtime = world.topic("t")
    assert world.in_use.topic_by_id(topic.topic_id) is runtime
    first = world.in_use.partition_of(runtime, 1)
    assert world.in_use.partition(topic, 1) is first
    assert (world.in_use.runtimes(), world.in_use.partitions()) == ([runtime], [first])


@pytest.mark.parametrize("name", [b"other", b"\xff", b""])
def test_what_is_not_there_is_none(world: World, name: bytes) -> None:
    world.make("t")
    assert world.in_use.topic(name) is None
    assert world.in_use.topic_by_id(bytes(16)) is None


@pytest.mark.parametrize("index", [-1, 2])
def test_a_partition_that_is_not_there_is_refused(world: World, index: int) -> None:
    topic = world.make("t", 2)
    with pytest.raises(KafkaError) as told:
        world.in_use.partition(topic, index)
    assert told.value.code == Error.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_was_made_again_is_another(world: World) -> None:
    old = world.make("t")
    partition = world.in_use.partition(old, 0)
    new = world.make("t")
    assert partition.stale
    assert world.in_use.topic_by_id(old.topic_id) is None
    assert world.in_use.partition(new, 0).id != partition.id
    with pytest.raises(KafkaError):
        world.in_use.partition(old, 0)


def test_of_a_deleted_topic_nothing_is_kept(world: World) -> None:
    topic = world.make("t")
    partition = world.in_use.partition(topic, 0)
    world.append(partition, b"v")
    world.home.loop.run()
    world.commit(world.catalog.writes_delete(topic), "t", None)
    assert partition.stale
    assert world.home.traffic.of(topic.partitions[0]) == (0, 0)
    assert world.in_use.topic(b"t") is None
    assert world.in_use.runtimes() == []


def test_who_asks_late_for_a_partition_of_a_deleted_topic_is_refused(world: World) -> None:
    topic = world.make("t")
    runtime = world.topic("t")
    world.in_use.release_idle()
    world.commit(world.catalog.writes_delete(topic), "t", None)
    for late in (lambda: world.in_use.partition_of(runtime, 0), lambda: world.in_use.log_of(topic, 0)):
        with pytest.raises(KafkaError) as told:
            late()
        assert told.value.code == Error.UNKNOWN_TOPIC_OR_PARTITION


def test_who_asks_late_for_a_partition_gets_the_one_that_others_have(world: World) -> None:
    """Not a second object for one log."""
    world.make("t")
    runtime = world.topic("t")
    world.in_use.release_idle()
    assert world.topic("t") is not runtime
    assert world.in_use.partition_of(runtime, 0) is world.in_use.partition_of(world.topic("t"), 0)


def test_a_topic_that_grew_has_more_partitions_and_keeps_those_it_had(world: World) -> None:
    topic = world.make("t")
    partition = world.in_use.partition(topic, 0)
    grown = Topic("t", topic.topic_id, [*topic.partitions, *world.catalog.allocate(1)], NOW)
    world.commit(world.catalog.writes_update(grown, grown=True), "t", grown)
    assert world.in_use.partition(grown, 0) is partition
    assert world.in_use.partition(grown, 1).id == grown.partitions[1]


def test_new_configs_and_new_settings_show_in_what_is_in_use(world: World) -> None:
    topic = world.make("t")
    other = world.in_use.partition(world.make("other", max_message_bytes="5000"), 0)
    partition = world.in_use.partition(topic, 0)
    world.configure(topic, {"max.message.bytes": "7000"})
    assert (partition.max_message_bytes, other.max_message_bytes) == (7000, 5000)
    world.configure(topic, {})
    world.settings = world.settings.with_dynamic({"message.max.bytes": "9000"}, {})
    world.in_use.reconfigure()
    assert (partition.max_message_bytes, other.max_message_bytes) == (9000, 5000)


@dataclass(eq=False)
class Waiting:
    """Somebody who waits for a partition."""

    woken: int = 0

    def wake(self, partition: object, appended: int) -> None:
        self.woken += 1


class TestIdle:
    def test_who_was_used_since_the_last_look_stays(self, world: World) -> None:
        partition = world.in_use.partition(world.make("t"), 0)
        world.in_use.release_idle()
        size = world.append(partition, b"v")
        world.home.loop.run()
        world.in_use.release_idle()
        assert world.in_use.partitions() == [partition]
        world.in_use.release_idle()
        assert (world.in_use.partitions(), world.in_use.runtimes()) == ([], [])
        # what it had counted is not lost, and what it had stored is there
        assert world.home.traffic.of(partition.id) == (size, 0)
        assert world.in_use.partition_of(world.topic("t"), 0).high_watermark == 1

    def test_who_is_waited_for_stays(self, world: World) -> None:
        partition = world.in_use.partition(world.make("t"), 0)
        waiting = Waiting()
        partition.watchers.add(waiting)
        for _ in range(3):
            world.in_use.release_idle()
        assert world.in_use.partitions() == [partition]

    def test_who_has_something_on_its_way_to_the_disk_stays(self, world: World) -> None:
        partition = world.in_use.partition(world.make("t"), 0)
        world.append(partition, b"v")
        for _ in range(3):
            world.in_use.release_idle()
        assert world.in_use.partitions() == [partition]

    def test_a_topic_on_its_way_out_stays(self, world: World) -> None:
        world.make("t")
        runtime = world.topic("t")
        runtime.deleting = True
        world.in_use.release_idle()
        assert world.in_use.runtimes() == [runtime]


def test_what_is_in_force_is_known_of_topics_in_use_by_their_present_row(world: World) -> None:
    topic, idle = world.make("t", retention_ms="1"), world.make("idle")
    runtime = world.topic("t")
    assert world.in_use.config_of(topic) is runtime.config
    assert world.in_use.config_of(idle) is None
    changed = msgspec.structs.replace(topic, configs={"retention.ms": "2"})
    world.commit(world.catalog.writes_update(changed), "t", changed)
    found = world.in_use.config_of(changed)
    assert found is not None
    assert found.retention_ms == 2
    # who still has the row of before gets nothing that is not by it
    assert world.in_use.config_of(topic) is None
    world.settings = Settings.load(["log.segment.bytes=2000000"])
    world.in_use.reconfigure()
    found = world.in_use.config_of(changed)
    assert found is not None
    assert (found.retention_ms, found.segment_bytes) == (2, 2_000_000)
    world.commit(world.catalog.writes_delete(changed), "t", None)
    assert world.in_use.config_of(changed) is None
