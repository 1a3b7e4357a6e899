"""The broker: what the APIs and the admin server talk to. It owns the open turn, the topics in use and the timers.

Read `turn.py` (how writes become commits), `partition.py` (append and read), `fetching.py` (read many, wait) next.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gateway.broker.broker_configs import BrokerConfigs
from gateway.broker.catalog import Catalog, Topic
from gateway.broker.clock_watch import ClockWatch, last_seen
from gateway.broker.damage import Damage
from gateway.broker.errors import KafkaError
from gateway.broker.fetch_sessions import FetchSessions
from gateway.broker.group_configs import GroupConfigs
from gateway.broker.group_kinds import GroupKinds
from gateway.broker.groups import Groups
from gateway.broker.partition import Partition, TopicRuntime
from gateway.broker.producer_ids import ProducerIds
from gateway.broker.receiving import Receiving
from gateway.broker.retention import Retention
from gateway.broker.share_groups import ShareGroups
from gateway.broker.share_sessions import ShareSessions
from gateway.broker.subscriptions.registry import Subscriptions
from gateway.broker.topics import Topics
from gateway.broker.traffic import Traffic
from gateway.broker.turn import Turn
from gateway.config.topic_configs import effective
from gateway.wire.errors import Error
from store.api import Durability, Family, Log, Outcome, Put, Store, StoreError, Write

if TYPE_CHECKING:
    from gateway.clock import Clock
    from gateway.config import Settings
    from gateway.config.topic_configs import TopicConfig
    from gateway.metrics_catalog import GatewayMetrics


log = logging.getLogger("magnetar.broker")

DECOMPRESSION_LIMIT = 64 * 1024 * 1024
"""Bytes that one batch may unfold to where its records must be looked at: 8 KB of zstd can grow to 256 MB."""


_PROBE = b"probe"


class Answering(Protocol):
    """A connection that has answers ready to leave."""

    def flush(self) -> None: ...


class Broker:
    """One node. Everything runs on its event loop."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        metrics: GatewayMetrics,
        loop: asyncio.AbstractEventLoop,
        *,
        cluster_id: bytes,
        version: str,
        data: Path | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock
        self.clock_ns = time.perf_counter_ns
        self.metrics = metrics
        self.loop = loop
        self.version = version
        self.data = data
        self.cluster_id = base64.urlsafe_b64encode(cluster_id).decode().rstrip("=")
        self.started_at = clock.wall_ms()
        self.turn = Turn(self)
        self.catalog = Catalog(store)
        self.broker_configs = BrokerConfigs(self)
        self.group_configs = GroupConfigs(self)
        self.receiving = Receiving(settings.integer("memory.max.bytes"))
        self.topics = Topics(self)
        self.clock_watch = ClockWatch(clock, last_seen(store))
        self.damage = Damage(metrics, clock.monotonic_ms)
        self.producer_ids = ProducerIds(self)
        self.fetch_sessions = FetchSessions(settings.integer("max.incremental.fetch.session.cache.slots"))
        self.share_sessions = ShareSessions(self, lambda group: self.share_groups.look(group))
        # listener name -> (host, port) that clients are told
        self.endpoints: dict[str, tuple[str, int]] = {}
        # connections with answers ready, until the end of the group's callbacks
        self.answering: list[Answering] = []
        # one batch at a time is prepared in a thread: see preparing.py
        self.preparing = asyncio.Lock()
        # bytes of requests that wait for that
        self.preparing_bytes = 0
        # answers to Metadata by (version, listener, request bytes), as long as the catalog stays as it is
        self.metadata_cache: dict[tuple[int, str, bytes], bytes] = {}
        self._metadata_version = -1
        # bytes that clients have not taken yet, over all connections
        self.unsent_bytes = 0
        self.decompression_limit = DECOMPRESSION_LIMIT
        # why commits fail at present, or empty
        self.failing_reason = ""
        self._by_name: dict[bytes, TopicRuntime] = {}
        self._by_id: dict[bytes, TopicRuntime] = {}
        self.traffic = Traffic()
        self.subscriptions = Subscriptions(self)
        self.retention = Retention(
            self,
            watch=self.clock_watch,
            catalog=self.catalog,
            topics=self.topics,
            subscriptions=self.subscriptions,
            effective=self.effective,
            in_use=self.runtimes,
            unfolds_to=self.decompression_limit,
        )
        self.group_kinds = GroupKinds(self)
        self._produce_seconds = metrics.request_seconds.labels("Produce")
        self.reconfigure()
        self.broker_configs.load()
        self.groups = Groups(self, self.group_kinds, self.catalog, self.clock_watch)
        self.share_groups = ShareGroups(
            self, self.group_kinds, self.catalog, self.group_configs, self.subscriptions, self.share_sessions
        )
        self.subscriptions.configs.members_of = self.share_groups.members
        self.subscriptions.configs.members_on = self.share_groups.members_on
        self.group_kinds.add(self.groups)
        self.group_kinds.add(self.share_groups)

    # -- settings ---------------------------------------------------------------------------------------------------

    def reconfigure(self) -> None:
        """Take over settings that may change while the broker runs."""
        settings = self.settings
        self.node_id = settings.integer("node.id")
        self.durability = Durability(settings.text("durability"))
        self.memory_limit = settings.integer("memory.max.bytes")
        self.fetch_max_bytes = settings.integer("fetch.max.bytes")
        self.group_configs.forget()
        self.subscriptions.configs.settings_changed()
        for runtime in self._by_name.values():
            self._configure(runtime)

    def _configure(self, runtime: TopicRuntime) -> None:
        runtime.config = effective(runtime.topic.configs, self.settings)
        for partition in runtime.partitions:
            if partition is not None:
                partition.configure(runtime.config)

    def effective(self, configs: dict[str, str]) -> TopicConfig:
        """A topic's configuration as it is in force."""
        return effective(configs, self.settings)

    def advertised(self, listener: str) -> tuple[str, int]:
        """Host and port that clients which came in by this listener are told."""
        return self.endpoints[listener]

    @property
    def failing(self) -> bool:
        """Whether the last commit that wrote something failed."""
        return bool(self.failing_reason)

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
        future: asyncio.Future[None] = self.loop.create_future()

        def done(outcome: Outcome) -> None:
            if outcome is None and then is not None:
                then()
            if future.cancelled():
                return
            if outcome is None:
                future.set_result(None)
            else:
                future.set_exception(outcome)

        self.turn.write(writes, done, durability)
        await asyncio.shield(future)

    def commit_failed(self, outcome: StoreError) -> None:
        """Count it, and say why in the log."""
        self.metrics.commits_failed.inc()
        if self.failing_reason != str(outcome):
            # Once for each reason: clients try again many times a second.
            self.failing_reason = str(outcome)
            log.error("writes fail, clients are told to try again: %s", outcome)

    def probe(self) -> None:
        """While writes fail, try a small one: when no client writes, nothing else would find out that they
        succeed again. Does nothing while one is under way.
        """
        if self.failing and not self.turn.in_flight:
            row = Put(Family.META, _PROBE, self.clock.wall_ms().to_bytes(8, "big"))
            self.commit([row], lambda outcome: None)

    def observe_commit(self, seconds: float, requests: int, partitions: int) -> None:
        metrics = self.metrics
        metrics.commit_seconds.observe(seconds)
        metrics.commit_requests.observe(requests)
        metrics.commit_partitions.observe(partitions)

    def commit_succeeded(self) -> None:
        """The first commit that is done after some that were not."""
        self.failing_reason = ""
        log.warning("writes succeed again")

    def observe_produce(self, seconds: float, requests: int, batches: int, messages: int, size: int) -> None:
        metrics = self.metrics
        self._produce_seconds.observe(seconds, requests)
        metrics.produced_batches.value += batches
        metrics.produced_messages.value += messages
        metrics.produced_bytes.value += size

    def flush_connections(self) -> None:
        """Send the answers that a group's callbacks made ready: one write a connection."""
        connections = self.answering
        if connections:
            self.answering = []
            for connection in connections:
                connection.flush()

    # -- topics in use ----------------------------------------------------------------------------------------------

    def topic(self, name: bytes) -> TopicRuntime | None:
        """The topic of that name (UTF-8), made ready for use."""
        runtime = self._by_name.get(name)
        if runtime is None:
            try:
                topic = self.catalog.get(name.decode())
            except UnicodeDecodeError:
                return None
            if topic is not None:
                runtime = self._open(topic)
        return runtime

    def topic_by_id(self, topic_id: bytes) -> TopicRuntime | None:
        runtime = self._by_id.get(topic_id)
        if runtime is None:
            topic = self.catalog.by_id(topic_id)
            if topic is not None:
                runtime = self._open(topic)
        return runtime

    def partition_of(self, runtime: TopicRuntime, index: int) -> Partition:
        """Raises KafkaError when the topic has no such partition."""
        partitions = runtime.partitions
        if not 0 <= index < len(partitions):
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        partition = partitions[index]
        if partition is None:
            try:
                partition = partitions[index] = Partition(self, runtime, index)
            except StoreError as error:
                raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error
            except KeyError:
                # The topic went between the look into the catalog and this one.
                raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION) from None
        return partition

    def store_of(self, topic: Topic) -> Store:
        """Where a topic's records are, and the cursors that read them."""
        return self.store

    def log_of(self, topic: Topic, index: int) -> Log:
        """The log of a partition, in use or not. Raises KafkaError: the catalog may still have a topic whose deletion
        the store has done already.
        """
        try:
            return self.store_of(topic).log(topic.partitions[index])
        except KeyError:
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, "The topic is being deleted.") from None
        except StoreError as error:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error

    def partition(self, topic: Topic, index: int) -> Partition:
        runtime = self.topic(topic.name.encode())
        if runtime is None or runtime.topic_id != topic.topic_id:
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partition_of(runtime, index)

    def _open(self, topic: Topic) -> TopicRuntime:
        runtime = TopicRuntime(topic, effective(topic.configs, self.settings))
        self._by_name[runtime.name_utf8] = runtime
        self._by_id[topic.topic_id] = runtime
        return runtime

    def runtimes(self) -> list[TopicRuntime]:
        """The topics in use."""
        return list(self._by_name.values())

    def partitions_in_use(self) -> list[Partition]:
        return [each for runtime in self._by_name.values() for each in runtime.partitions if each is not None]

    def topic_changed(self, name: str, topic: Topic | None) -> None:
        """A catalog change is durable: forget or renew what is derived from the old row."""
        self.catalog.changed(name, topic)
        self.metadata_cache.clear()
        old = self._by_name.get(name.encode())
        if old is None:
            return
        if topic is None or topic.topic_id != old.topic_id:
            del self._by_name[old.name_utf8]
            self._by_id.pop(old.topic_id, None)
            for partition in old.partitions:
                if partition is not None:
                    partition.retire()
            for number in old.topic.partitions:
                self.traffic.forget(number)
            return
        old.topic = topic
        old.partitions.extend([None] * (len(topic.partitions) - len(old.partitions)))
        self._configure(old)

    def release_idle(self) -> None:
        """Let go of partitions that nobody uses: an idle topic is a row on the disk."""
        for runtime in list(self._by_name.values()):
            busy = runtime.deleting
            for index, partition in enumerate(runtime.partitions):
                if partition is None:
                    continue
                activity = partition.bytes_in + partition.bytes_out
                if partition.waiters or partition.next_offset != partition.high_watermark:
                    busy = True
                elif activity == partition.idle_mark:
                    partition.let_go()
                    runtime.partitions[index] = None
                else:
                    partition.idle_mark = activity
                    busy = True
            if not busy:
                del self._by_name[runtime.name_utf8]
                self._by_id.pop(runtime.topic_id, None)

    # -- what the admin server calls --------------------------------------------------------------------------------

    async def create_topic(
        self, name: str, partitions: int, configs: dict[str, str], **options: Any
    ) -> Topic:
        """Raises KafkaError."""
        return await self.topics.create(name, partitions, configs, **options)

    async def delete_topic(self, name: str) -> None:
        """Raises KafkaError."""
        await self.topics.delete(name)

    async def create_partitions(self, name: str, count: int) -> None:
        """Grow a topic to `count` partitions. Raises KafkaError."""
        await self.topics.grow(name, count)

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
