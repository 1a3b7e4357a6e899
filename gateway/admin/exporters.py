"""Topics and groups under the names that existing dashboards look for: kafka_exporter's and Pulsar's.

They are written when somebody scrapes and kept nowhere. Topics that nobody uses have no lines of their own unless the
setting `metrics.topics` asks for them: then the catalog is walked in pages and the loop is let go in between, so that a
scrape of a million topics may take long, but holds up no client.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from gateway.admin import lane_stats, share_stats
from gateway.admin.context import CLUSTER, Context
from gateway.admin.groups import Span, backlog, span_of, views
from gateway.admin.stats import traffic
from gateway.admin.text import Lines, Piece
from gateway.admin.topics import loaded
from gateway.broker.errors import KafkaError
from gateway.metrics import escape, head, number
from semantics.backlog_quota import Usage
from semantics.names import DEFAULT, Namespace
from semantics.subscriptions.rows import RowError
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition

PAUSE_LINES = 2_000
"""Lines that are made before the loop may do something else."""

# name, help; all are gauges, as those who publish these names type them
_KAFKA = {
    "kafka_topic_partitions": "Partitions of the topic.",
    "kafka_topic_partition_current_offset": "One past the last record of the partition.",
    "kafka_topic_partition_oldest_offset": "The first record that is kept.",
}
_PULSAR = {
    "pulsar_topics_count": "Topics, each partition counted.",
    "pulsar_storage_size": "Bytes stored.",
    "pulsar_storage_backlog_size": "Bytes of the partition that its slowest subscription has not acknowledged.",
    "pulsar_storage_backlog_quota_limit": "How many there may be; -1 without a limit.",
    "pulsar_storage_backlog_quota_limit_time": "Seconds that the oldest may wait; -1 without a limit.",
    "pulsar_storage_backlog_age_seconds": "Seconds that the oldest has waited; -1 where there is none.",
    "pulsar_rate_in": "Messages a second coming in.",
    "pulsar_throughput_in": "Bytes a second coming in.",
    "pulsar_throughput_out": "Bytes a second going out.",
    "pulsar_in_messages_total": "Messages that ever came in.",
    "pulsar_in_bytes_total": "Bytes that came in since the gateway started.",
    "pulsar_out_bytes_total": "Bytes that went out since the gateway started.",
}
_GROUPS = {
    "kafka_consumergroup_members": "Members of the group.",
    "kafka_consumergroup_current_offset": "The offset that the group has committed.",
    "kafka_consumergroup_lag": "Records between the committed offset and the end of the partition.",
    "kafka_consumergroup_lag_sum": "The lag over all partitions of a topic.",
    "pulsar_subscription_back_log": "Messages that the subscription has still to acknowledge.",
    "pulsar_subscriptions_count": "Subscriptions of the topic.",
    "pulsar_msg_backlog": "Messages that its subscriptions have still to acknowledge, together.",
}
_SHARED = {
    "pulsar_subscription_back_log_no_delayed": "The same without those that wait for the time their producer set.",
    "pulsar_subscription_delayed": "Messages that wait for the time their producer set.",
    "pulsar_subscription_unacked_messages": "Messages in the hands of consumers.",
    "pulsar_subscription_in_replay": "Messages that failed and can be delivered again.",
    "pulsar_subscription_blocked_on_unacked_messages": "1 while no more may be delivered before some are acknowledged.",
    "pulsar_subscription_consumers_count": "Consumers connected.",
    "magnetar_subscription_backoff": "Messages that were nacked or timed out and wait.",
    "magnetar_subscription_dying": "Messages on their way to the dead letter topic.",
    "pulsar_subscription_total_msg_expired": "Messages that retention took before they were acknowledged.",
    "magnetar_subscription_draining_hashes": "Slots of keys whose holder does not own them any more.",
    "magnetar_subscription_deep_hashes": "Hashes with so much waiting that most of it is left out of the look-ahead.",
}
"""Of Shared and Key_Shared subscriptions, by partition"""
_KEPT = {
    "magnetar_retention_kept_bytes": "Bytes kept beyond the topic's retention, since subscriptions need them.",
    "magnetar_retention_kept_messages": "Messages kept beyond the topic's retention, since subscriptions need them.",
    "magnetar_retention_hold_offset": "The first offset that a subscription needs of them; `state` says why.",
}
"""Of partitions that have any, as the last round of retention found it"""
_OURS = {
    "magnetar_metrics_partitions_shown": "Partitions that have lines of their own here (metrics.topics).",
}


def _labels_of(namespace: Namespace) -> str:
    return f'cluster="{CLUSTER}",namespace="{namespace}"'


class _Families:
    """Lines by family, since a family's lines must stand together."""

    def __init__(self) -> None:
        self._lines: dict[str, Lines] = {}
        self._heads: dict[str, str] = {}
        self._since_pause = 0

    def open(self, families: dict[str, str]) -> None:
        for name, text in families.items():
            self._lines[name] = Lines()
            self._heads[name] = head(name, "gauge", text)

    def add(self, name: str, labels: str, value: float) -> None:
        lines = self._lines[name]
        if lines.empty:
            lines.add(self._heads[name])
        lines.add(f"{name}{{{labels}}} {number(value)}" if labels else f"{name} {number(value)}")
        self._since_pause += 1

    async def pause(self) -> None:
        """Let the loop breathe when enough was written."""
        if self._since_pause >= PAUSE_LINES:
            self._since_pause = 0
            await asyncio.sleep(0)

    def pieces(self) -> list[Piece]:
        return [piece for lines in self._lines.values() for piece in lines.pieces()]


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
    families = _Families()
    families.open(
        {"kafka_brokers": "Brokers of the cluster.", "pulsar_version_info": "The version that runs."}
    )
    families.add("kafka_brokers", "", 1)
    version = escape(broker.version)
    families.add("pulsar_version_info", f'cluster="{CLUSTER}",version="{version}"', 1)
    families.open(_KAFKA)
    families.open(_PULSAR)
    walk = _Walk(context, families, shown)
    await walk.topics()
    counts = await broker.catalog.partition_counts()
    if counts is not None:
        for namespace, count in ({DEFAULT: 0} | dict(counts)).items():
            families.add("pulsar_topics_count", _labels_of(namespace), count)
            await families.pause()
    families.open(_OURS)
    families.add("magnetar_metrics_partitions_shown", "", walk.count)
    await walk.groups()
    await walk.kept()
    return families.pieces()


class _Place(NamedTuple):
    """Where a topic's lines go: Pulsar's labels and what is in it, by partition. None where it cannot be read."""

    labels: list[str]
    spans: list[Span | None]
    active: bool
    # of a queue topic, whose partitions have no records of their own
    lanes: bool


def _traffic(families: _Families, labels: str, partition: Partition, context: Context) -> None:
    rate = context.rates.of(partition, context.broker.loop.time())
    families.add("pulsar_rate_in", labels, rate.messages_in)
    families.add("pulsar_throughput_in", labels, rate.bytes_in)
    families.add("pulsar_throughput_out", labels, rate.bytes_out)
    bytes_in, bytes_out = traffic(context.broker, partition.id, partition)
    families.add("pulsar_in_messages_total", labels, partition.high_watermark)
    families.add("pulsar_in_bytes_total", labels, bytes_in)
    families.add("pulsar_out_bytes_total", labels, bytes_out)


class _Walk:
    """One scrape's way through topics, groups and subscriptions. Nothing is kept by topic: there may be a million."""

    def __init__(self, context: Context, families: _Families, shown: Shown) -> None:
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
        # by Pulsar's labels of a partition: how many subscriptions (0 where not all are looked at), their backlog
        self._totals: dict[str, list[int]] = {}
        # what is kept beyond the policies; and the labels of those, which all have a backlog and so are looked at
        self._kept = self._broker.retention.kept
        self._keeping: dict[int, str] = {}
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

    async def _topic(self, topic: Topic) -> None:
        families = self._families
        kafka = f'topic="{escape(topic.name)}"'
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
        families, now = self._families, self._broker.clock.wall_ms()
        families.add("pulsar_storage_backlog_size", labels, usage.size)
        quota = partition.gate.quota
        families.add("pulsar_storage_backlog_quota_limit", labels, quota.size)
        families.add("pulsar_storage_backlog_quota_limit_time", labels, quota.age // 1000)
        age = max(0, now - usage.oldest) / 1000 if usage.oldest >= 0 else -1
        families.add("pulsar_storage_backlog_age_seconds", labels, age)

    async def _where(self, topic: Topic | None) -> _Place:
        if topic is None:
            return _NOWHERE
        if self._place[0] != topic.name:
            full = self._broker.catalog.namespaces.full(topic.name)
            where = _labels_of(full.namespace)
            labels = [
                f'{where},topic="{escape(str(full.with_partition(index) if topic.partitioned else full))}"'
                for index in range(len(topic.partitions))
            ]
            await loaded(self._broker, topic.partitions)
            there = self._broker.catalog.holds(topic)
            store = self._broker.store
            spans = [span_of(store, partition) if there else None for partition in topic.partitions]
            if topic.queue is not None:
                for view in lane_stats.views(self._broker, topic):
                    spans[view.lane] = Span(view.start, view.end, 0)
            for partition, label in zip(topic.partitions, labels, strict=True):
                if partition in self._kept:
                    self._keeping[partition] = label
            active = self._shown is Shown.ALL or topic.name in self._active
            self._place = (topic.name, _Place(labels, spans, active, topic.queue is not None))
        return self._place[1]

    async def groups(self) -> None:
        families = self._families
        families.open(_GROUPS)
        async for group in views(self._broker):
            name = escape(group.group_id)
            who = f'consumergroup="{name}"'
            families.add("kafka_consumergroup_members", who, group.members)
            if self._shown is not Shown.NONE:
                for topic, offsets in group.offsets.items():
                    place = await self._where(self._broker.catalog.get(topic))
                    self._lag(name, f'{who},topic="{escape(topic)}"', offsets, place, group.members > 0)
                    await families.pause()
            await families.pause()
        families.open(_SHARED)
        if self._shown is not Shown.NONE:
            await self._subscriptions()
        for pulsar, (count, waiting) in self._totals.items():
            if count:
                families.add("pulsar_subscriptions_count", pulsar, count)
            families.add("pulsar_msg_backlog", pulsar, waiting)
            await families.pause()

    async def kept(self) -> None:
        """What is kept beyond the policies."""
        families = self._families
        families.open(_KEPT)
        for partition, labels in self._keeping.items():
            kept = self._kept.get(partition)
            if kept is None:
                continue
            families.add("magnetar_retention_kept_bytes", labels, kept.size)
            families.add("magnetar_retention_kept_messages", labels, kept.records)
            for name, offset, state in kept.holds:
                who = f'{labels},subscription="{escape(name)}",state="{state}"'
                families.add("magnetar_retention_hold_offset", who, offset)
            await families.pause()

    def _lag(self, name: str, where: str, offsets: dict[int, int], place: _Place, used: bool) -> None:
        """What a group has still to read of a topic."""
        labels, spans, active, lanes = place
        found = [
            (index, offset, spans[index] if index < len(spans) else None) for index, offset in offsets.items()
        ]
        lag_sum = sum(max(0, span.end - offset) for _, offset, span in found if span is not None)
        if not (active or used or lag_sum):
            return
        families = self._families
        for index, offset, span in found:
            one = f'{where},partition="{index}"'
            families.add("kafka_consumergroup_current_offset", one, offset)
            if span is None:
                continue
            families.add("kafka_consumergroup_lag", one, max(0, span.end - offset))
            if lanes:
                # its backlog is that of the base topic
                continue
            waiting = backlog(span, offset)
            families.add("pulsar_subscription_back_log", f'{labels[index]},subscription="{name}"', waiting)
            self._count(labels[index], active, waiting)
        families.add("kafka_consumergroup_lag_sum", where, lag_sum)

    def _count(self, labels: str, active: bool, waiting: int) -> None:
        total = self._totals.setdefault(labels, [0, 0])
        # of a topic that is not active, subscriptions that have nothing to read are not looked at
        total[0] += active
        total[1] += waiting

    async def _subscriptions(self) -> None:
        """Subscriptions of share groups; one by one, since the loop is let go in between."""
        async for row in self._broker.subscriptions.every():
            topic = self._broker.catalog.by_id(row.topic_id)
            place = await self._where(topic)
            if (loading := self._broker.group_kinds.load((row.group,))) is not None:
                await loading
            indexes = [index for index, span in enumerate(place.spans) if span is not None]
            try:
                found = share_stats.of_subscription(self._broker, row, indexes)
            except (KafkaError, StoreError):
                # deleted while we walked, or not to be read at present: the log says so
                continue
            used = place.active or self._broker.subscriptions.in_use(row.group, row.topic_id) is not None
            if used or any(stats["msgBacklog"] for stats in found.values()):
                for index, stats in found.items():
                    self._shared(f'{place.labels[index]},subscription="{escape(row.group)}"', stats)
                    self._count(place.labels[index], place.active, stats["msgBacklog"])
            await self._families.pause()

    def _shared(self, labels: str, stats: share_stats.Stats) -> None:
        own = stats["magnetar"]
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
            ("pulsar_subscription_consumers_count", len(stats["consumers"])),
            ("magnetar_subscription_backoff", own["states"]["backoff"]),
            ("magnetar_subscription_dying", own["states"]["dying"]),
            ("magnetar_subscription_draining_hashes", stats.get("drainingHashesCount", 0)),
            ("magnetar_subscription_deep_hashes", own.get("deepHashesCount", 0)),
        ):
            self._families.add(family, labels, value)


_NOWHERE = _Place([], [], False, False)
