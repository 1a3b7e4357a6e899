"""Topics and groups under the names that existing dashboards look for: kafka_exporter's and Pulsar's. `families.py`
has their list.

They are written when somebody scrapes and kept nowhere. Topics that nobody uses have no lines of their own unless the
setting `metrics.topics` asks for them: then the catalog is walked in pages and the loop is let go in between, so that a
scrape of a million topics may take long, but holds up no client.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from gateway.admin import lane_stats, share_stats
from gateway.admin.context import CLUSTER, Context
from gateway.admin.dropped import came
from gateway.admin.families import (
    GROUPS,
    KAFKA,
    KEPT,
    NODE,
    OURS,
    PULSAR,
    RESOURCE_GROUPS,
    SHARED,
    WRITE_LATENCY,
    Families,
)
from gateway.admin.groups import Span, backlog, span_of, views
from gateway.admin.stats import traffic
from gateway.admin.topics import loaded
from gateway.broker.errors import KafkaError
from gateway.metrics import escape
from semantics import group_names
from semantics.backlog_quota import Usage
from semantics.names import DEFAULT, Namespace, dotted
from semantics.subscriptions.rows import RowError
from store.api import StoreError

if TYPE_CHECKING:
    from collections.abc import Collection

    from gateway.admin.groups import GroupView
    from gateway.admin.text import Piece
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition

READ_LINES = 20
"""As many lines could be written while one batch is read for its time."""


def _labels_of(namespace: Namespace) -> str:
    return f'cluster="{CLUSTER}",namespace="{namespace}"'


class Shown(StrEnum):
    """The setting `metrics.topics`: which topics have lines of their own."""

    # those that somebody uses, or that a group has still to read
    ACTIVE = "active"
    ALL = "all"
    # sums only
    NONE = "none"


async def pieces(context: Context) -> list[Piece]:
    """All lines, family by family."""
    broker = context.broker
    shown = Shown(broker.settings.text("metrics.topics"))
    families = Families()
    families.open(NODE)
    _node(context, families)
    families.open(KAFKA)
    families.open(PULSAR)
    walk = _Walk(context, families, shown)
    await walk.topics()
    counts = await broker.catalog.partition_counts()
    if counts is not None:
        for namespace, count in ({DEFAULT: 0} | dict(counts)).items():
            families.add("pulsar_topics_count", _labels_of(namespace), count)
            await families.pause()
    families.open(RESOURCE_GROUPS)
    for group in broker.resource_groups:
        for monitored, used in (("Publish", group.published), ("Dispatch", group.dispatched)):
            labels = f'cluster="{CLUSTER}",ResourceGroup="{escape(group.name)}",MonitoringClass="{monitored}"'
            families.add("pulsar_resource_group_bytes_used", labels, used.bytes)
            families.add("pulsar_resource_group_messages_used", labels, used.messages)
    families.open(OURS)
    families.add("magnetar_metrics_partitions_shown", "", walk.count)
    await walk.groups()
    await walk.kept()
    return families.pieces()


def _node(context: Context, families: Families) -> None:
    broker = context.broker
    cluster = f'cluster="{CLUSTER}"'
    families.add("kafka_brokers", "", 1)
    families.add("pulsar_version_info", f'{cluster},version="{escape(broker.version)}"', 1)
    families.add("magnetar_ready", "", int(context.not_ready() is None))
    writes = context.recent.writes(broker.loop.time())
    families.add("pulsar_storage_write_rate", cluster, writes.rate)
    for name, count in zip(WRITE_LATENCY, writes.by_latency, strict=True):
        families.add(name, cluster, count)


class _Place(NamedTuple):
    """Where a topic's lines go: Pulsar's labels and what is in it, by partition. None where it cannot be read."""

    labels: list[str]
    spans: list[Span | None]
    active: bool
    # of a queue topic, whose partitions have no records of their own
    lanes: bool
    # whose groups have bare names as subscriptions there
    home: Namespace = DEFAULT


def _traffic(families: Families, labels: str, partition: Partition, context: Context) -> None:
    rate = context.rates.of(partition, context.broker.loop.time())
    families.add("pulsar_rate_in", labels, rate.messages_in)
    families.add("pulsar_throughput_in", labels, rate.bytes_in)
    families.add("pulsar_throughput_out", labels, rate.bytes_out)
    bytes_in, bytes_out = traffic(context.broker, partition.id, partition)
    families.add(
        "pulsar_in_messages_total",
        labels,
        came(context.broker, partition.topic.topic, partition.high_watermark),
    )
    families.add("pulsar_in_bytes_total", labels, bytes_in)
    families.add("pulsar_out_bytes_total", labels, bytes_out)
    families.add("pulsar_producers_count", labels, len(partition.publishers))


class _Walk:
    """One scrape's way through topics, groups and subscriptions. Nothing is kept by topic: there may be a million."""

    def __init__(self, context: Context, families: Families, shown: Shown) -> None:
        self._context = context
        self._broker = context.broker
        self._families = families
        self._shown = shown
        # partitions with lines of their own
        self.count = 0
        # what clients use now: a topic that nobody has asked for a minute or two is a row on the disk
        self._busy: dict[int, Partition] = {
            partition.id: partition
            for runtime in self._broker.runtimes()
            for partition in runtime.partitions
            if partition is not None
        }
        self._active = {partition.topic.topic.name for partition in self._busy.values()}
        # by Pulsar's labels of a partition: how many subscriptions (0 where not all are looked at), their backlog and
        # their consumers
        self._totals: dict[str, list[int]] = {}
        # the same: the store's id, and where the slowest of the subscriptions with cursors stands
        self._slowest: dict[str, tuple[int, int]] = {}
        # dead letter topics of those subscriptions, which may not be there
        self._letters: set[str] = set()
        # partitions whose backlog their quota has measured
        self._measured: set[str] = set()
        # what is kept beyond the policies; and the labels of those, which all have a backlog and so are looked at
        self._kept = self._broker.retention.kept
        self._keeping: dict[int, tuple[str, Namespace]] = {}
        # the last one that was looked at: groups and subscriptions come by topic
        self._place: tuple[str, _Place] = ("", _NOWHERE)

    async def topics(self) -> None:
        if self._shown is Shown.ALL:
            async for topic in self._broker.catalog.every():
                await self._topic(topic)
        elif self._shown is Shown.ACTIVE:
            for name in sorted(self._active):
                found = self._broker.catalog.get(name)
                if found is not None:
                    await self._topic(found)

    def _kafka(self, name: str) -> str:
        """What Kafka's clients call a topic; one that they reach only by its namespace, since public/default has one of
        that name, as the catalog does: no two topics have the same labels.
        """
        told = dotted(name)
        return name if told != name and self._broker.catalog.get(told) is not None else told

    async def _topic(self, topic: Topic) -> None:
        families = self._families
        kafka = f'topic="{escape(self._kafka(topic.name))}"'
        families.add("kafka_topic_partitions", kafka, len(topic.partitions))
        place = await self._where(topic)
        for index, (pulsar, span) in enumerate(zip(place.labels, place.spans, strict=True)):
            if span is None:
                continue
            self.count += 1
            labels = f'{kafka},partition="{index}"'
            families.add("kafka_topic_partition_current_offset", labels, span.end)
            families.add("kafka_topic_partition_oldest_offset", labels, span.start)
            families.add("pulsar_storage_size", pulsar, span.size)
            partition = self._busy.get(topic.partitions[index])
            # an idle partition is left out, as one that is not loaded is in Pulsar
            if partition is not None:
                _traffic(families, pulsar, partition, self._context)
                await self._quota(pulsar, partition)
            await families.pause()

    async def _quota(self, labels: str, partition: Partition) -> None:
        """How much of its backlog quota a partition has used up, if it has one."""
        if partition.gate is None or not partition.gate.quota.limits:
            return
        try:
            usage = await self._broker.backlog_quotas.usage(partition) or Usage(0, -1)
        except (StoreError, RowError, KeyError):
            # it is being deleted, or cannot be read: its log says so
            return
        families = self._families
        self._measured.add(labels)
        families.add("pulsar_storage_backlog_size", labels, usage.size)
        quota = partition.gate.quota
        families.add("pulsar_storage_backlog_quota_limit", labels, quota.size)
        families.add("pulsar_storage_backlog_quota_limit_time", labels, quota.age // 1000)
        families.add("pulsar_storage_backlog_age_seconds", labels, self._age(usage.oldest))

    def _age(self, published: int) -> float:
        """Seconds since a time in ms since 1970; -1 for none."""
        return max(0, self._broker.clock.wall_ms() - published) / 1000 if published >= 0 else -1

    async def _where(self, topic: Topic | None) -> _Place:
        if topic is None:
            return _NOWHERE
        if self._place[0] != topic.name:
            full = self._broker.catalog.full_of(topic)
            where = _labels_of(full.namespace)
            labels = [
                f'{where},topic="{escape(str(full.with_partition(index) if topic.partitioned else full))}"'
                for index in range(len(topic.partitions))
            ]
            home = self._broker.catalog.namespaces.home_of(topic.name)
            await loaded(self._broker, topic.partitions)
            there = self._broker.catalog.holds(topic)
            store = self._broker.store
            spans = [span_of(store, partition) if there else None for partition in topic.partitions]
            if topic.queue is not None:
                for view in lane_stats.views(self._broker, topic):
                    spans[view.lane] = Span(view.start, view.end, 0)
            for partition, label in zip(topic.partitions, labels, strict=True):
                if partition in self._kept:
                    self._keeping[partition] = label, home
            active = self._shown is Shown.ALL or topic.name in self._active
            self._place = (topic.name, _Place(labels, spans, active, topic.queue is not None, home))
        return self._place[1]

    async def groups(self) -> None:
        families = self._families
        families.open(GROUPS)
        async for group in views(self._broker):
            name = escape(group_names.shown(group.group_id))
            families.add("kafka_consumergroup_members", f'consumergroup="{name}"', group.members)
            if self._shown is not Shown.NONE:
                await self._group(group)
            await families.pause()
        families.open(SHARED)
        if self._shown is not Shown.NONE:
            await self._subscriptions()
            await self._backlogs()
            await self._dead_letters()
        for pulsar, (count, waiting, consumers) in self._totals.items():
            if count:
                families.add("pulsar_subscriptions_count", pulsar, count)
                families.add("pulsar_consumers_count", pulsar, consumers)
            families.add("pulsar_msg_backlog", pulsar, waiting)
            await families.pause()

    async def kept(self) -> None:
        """What is kept beyond the policies."""
        families = self._families
        families.open(KEPT)
        for partition, (labels, home) in self._keeping.items():
            kept = self._kept.get(partition)
            if kept is None:
                continue
            families.add("magnetar_retention_kept_bytes", labels, kept.size)
            families.add("magnetar_retention_kept_messages", labels, kept.records)
            for name, offset, state in kept.holds:
                who = f'{labels},subscription="{escape(group_names.shown(name, home))}",state="{state}"'
                families.add("magnetar_retention_hold_offset", who, offset)
            await families.pause()

    async def _group(self, group: GroupView) -> None:
        """What a group has still to read."""
        name = escape(group_names.shown(group.group_id))
        assigned = self._assigned(group)
        ages: list[float] = []
        for topic, offsets in group.offsets.items():
            await self._lag(group.group_id, topic, offsets, assigned.get(topic, ()), group.members > 0, ages)
            await self._families.pause()
        if ages:
            labels = f'cluster_name="{CLUSTER}",group="{name}"'
            self._families.add("kafka_consumergroup_group_max_lag_seconds", labels, max(ages))

    def _assigned(self, group: GroupView) -> dict[str, set[int]]:
        """By topic the partitions that the members of a loaded group have."""
        found: dict[str, set[int]] = {}
        if not group.members:
            return found
        try:
            its = self._broker.committing.of(group.group_id)
            kind = self._broker.groups if its is self._broker.groups else self._broker.consumer_groups
            assignment = kind.assignment(group.group_id)
        except KafkaError:
            return found
        for topics in assignment.values():
            for topic, indexes in topics.items():
                found.setdefault(topic, set()).update(indexes)
        return found

    async def _lag(
        self,
        group_id: str,
        topic: str,
        offsets: dict[int, int],
        assigned: Collection[int],
        used: bool,
        ages: list[float],
    ) -> None:
        """Of one topic, where a group goes on at these offsets. Adds to `ages` how old what it has not read is."""
        there = self._broker.catalog.get(topic)
        labels, spans, active, lanes, home = await self._where(there)
        name = escape(group_names.shown(group_id))
        # where it has none, Pulsar has no subscription of it either
        called = (
            escape(group_names.shown(group_id, home))
            if self._broker.catalog.namespaces.shows(group_id, topic)
            else None
        )
        found = [
            (index, offset, spans[index] if index < len(spans) else None) for index, offset in offsets.items()
        ]
        lag_sum = sum(max(0, span.end - offset) for _, offset, span in found if span is not None)
        if not (active or used or lag_sum):
            return
        families = self._families
        kafka = f'topic="{escape(self._kafka(topic))}"'
        for index, offset, span in found:
            one = f'consumergroup="{name}",{kafka},partition="{index}"'
            families.add("kafka_consumergroup_current_offset", one, offset)
            if span is None or there is None:
                continue
            lag = max(0, span.end - offset)
            families.add("kafka_consumergroup_lag", one, lag)
            one = f'cluster_name="{CLUSTER}",group="{name}",{kafka},partition="{index}"'
            families.add("kafka_consumergroup_group_lag", one, lag)
            if lanes:
                # its backlog is that of the base topic, and so is the age of it
                continue
            waiting = backlog(span, offset)
            age = await self._age_at(there.partitions[index], max(offset, span.start)) if waiting else 0
            if age >= 0:
                families.add("kafka_consumergroup_group_lag_seconds", one, age)
                ages.append(age)
            if called is None:
                continue
            who = f'{labels[index]},subscription="{called}"'
            families.add("pulsar_subscription_back_log", who, waiting)
            families.add("pulsar_subscription_consumers_count", who, int(index in assigned))
            self._count(labels[index], active, waiting, int(index in assigned))
        families.add("kafka_consumergroup_lag_sum", f'consumergroup="{name}",{kafka}', lag_sum)

    async def _age_at(self, partition: int, offset: int) -> float:
        """How old the record at an offset is, in seconds; -1 where nobody can say. The partition by the store's id."""
        self._families.worked(READ_LINES)
        return self._age(await self._context.batch_times.of(self._broker.store, partition, offset))

    def _count(self, labels: str, active: bool, waiting: int, consumers: int) -> None:
        total = self._totals.setdefault(labels, [0, 0, 0])
        # of a topic that is not active, subscriptions that have nothing to read are not looked at
        total[0] += active
        total[1] += waiting
        total[2] += consumers

    async def _subscriptions(self) -> None:
        """Subscriptions of share groups; one by one, since the loop is let go in between."""
        configs = self._broker.subscriptions.configs
        async for row in self._broker.subscriptions.every():
            topic = self._broker.catalog.by_id(row.topic_id)
            place = await self._where(topic)
            if (loading := self._broker.group_kinds.load((row.group,))) is not None:
                await loading
            indexes = [index for index, span in enumerate(place.spans) if span is not None]
            try:
                found = share_stats.of_subscription(self._broker, row, indexes)
                base = configs.base_of(row) or row.topic
                self._letters.add(configs.of(row).dead_letters_of(row.group, base))
            except (KafkaError, StoreError):
                # deleted while we walked, or not to be read at present: the log says so
                continue
            used = place.active or self._broker.subscriptions.in_use(row.group, row.topic_id) is not None
            if topic is not None and (used or any(stats["msgBacklog"] for stats in found.values())):
                queue = self._broker.queues.serving(topic, row.group)
                # to a cursor each lane is a consumer, whether somebody reads it or not
                readers = lane_stats.readers(self._broker, queue) if queue is not None else None
                for index, stats in found.items():
                    labels, number = place.labels[index], topic.partitions[index]
                    consumers = readers if readers is not None else len(stats["consumers"])
                    self._shared(
                        f'{labels},subscription="{escape(group_names.shown(row.group, place.home))}"',
                        row.id,
                        number,
                        stats,
                        consumers,
                    )
                    self._count(labels, place.active, stats["msgBacklog"], consumers)
                    start = stats["magnetar"]["markDeleteOffset"] + 1
                    self._slowest[labels] = number, min(self._slowest.get(labels, (0, start))[1], start)
            await self._families.pause()

    async def _backlogs(self) -> None:
        """What the slowest subscriptions have not acknowledged, and for how long, where no quota has measured it."""
        families = self._families
        for labels, (number, start) in self._slowest.items():
            span = span_of(self._broker.store, number) if labels not in self._measured else None
            if span is None:
                continue
            waits = start < span.end
            start = max(start, span.start)
            size = self._broker.store.log(number).size_from(start) if waits else 0
            families.add("pulsar_storage_backlog_size", labels, size)
            age = await self._age_at(number, start) if waits else -1
            families.add("pulsar_storage_backlog_age_seconds", labels, age)
            await families.pause()

    async def _dead_letters(self) -> None:
        """How many letters wait for a person: of topics that mostly nobody uses, so they are shown all the same."""
        for name in sorted(self._letters):
            topic = self._broker.catalog.get(name)
            if topic is None:
                continue
            await loaded(self._broker, topic.partitions)
            spans = [span_of(self._broker.store, partition) for partition in topic.partitions]
            full = self._broker.catalog.full_of(topic)
            self._families.add(
                "magnetar_dead_letter_topic_messages",
                f'{_labels_of(full.namespace)},topic="{escape(str(full))}"',
                sum(span.end - span.start for span in spans if span is not None),
            )
            await self._families.pause()

    def _shared(
        self, labels: str, subscription: int, partition: int, stats: share_stats.Stats, consumers: int
    ) -> None:
        """`subscription` and `partition` by their ids."""
        own = stats["magnetar"]
        states = own["states"]
        rates = self._context.recent.deliveries(subscription, partition, states, self._broker.loop.time())
        for family, value in (
            ("pulsar_subscription_back_log", stats["msgBacklog"]),
            ("pulsar_subscription_back_log_no_delayed", stats["msgBacklogNoDelayed"]),
            ("pulsar_subscription_delayed", stats["msgDelayed"]),
            ("pulsar_subscription_unacked_messages", stats["unackedMessages"]),
            ("pulsar_subscription_in_replay", stats["msgInReplay"]),
            ("pulsar_subscription_total_msg_expired", stats["totalMsgExpired"]),
            (
                "pulsar_subscription_blocked_on_unacked_messages",
                int(stats["blockedSubscriptionOnUnackedMsgs"]),
            ),
            ("pulsar_subscription_consumers_count", consumers),
            ("pulsar_subscription_out_messages_total", states["delivered"]),
            ("pulsar_subscription_msg_rate_out", rates.out),
            ("pulsar_subscription_msg_rate_redeliver", rates.redelivered),
            ("magnetar_subscription_acknowledged_total", states["acknowledged"]),
            ("magnetar_subscription_dead_letters_total", states["buried"]),
            ("magnetar_subscription_backoff", states["backoff"]),
            ("magnetar_subscription_dying", states["dying"]),
            ("magnetar_subscription_draining_hashes", stats.get("drainingHashesCount", 0)),
            ("magnetar_subscription_deep_hashes", own.get("deepHashesCount", 0)),
        ):
            self._families.add(family, labels, value)


_NOWHERE = _Place([], [], False, False)
