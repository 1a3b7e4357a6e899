"""Topics and groups under the names that existing dashboards look for: kafka_exporter's and Pulsar's.

They are written when somebody scrapes and kept nowhere. The catalog is walked in pages and the loop is let go
in between: a scrape of 10,000 topics may take long, but holds up no client.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from gateway.admin import share_stats
from gateway.admin.context import CLUSTER, Context
from gateway.admin.groups import Span, backlog, span_of, views
from gateway.admin.stats import traffic
from gateway.admin.topics import every
from gateway.broker.errors import KafkaError
from gateway.metrics import escape, head, number
from semantics.names import DEFAULT, from_kafka
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
}
"""Of Shared and Key_Shared subscriptions, by partition"""
_KEPT = {
    "magnetar_retention_kept_bytes": "Bytes kept beyond the topic's retention, since subscriptions need them.",
    "magnetar_retention_kept_messages": "Messages that are kept so.",
    "magnetar_retention_hold_offset": "The first offset that a subscription needs of them; `state` says why.",
}
"""Of partitions that have any, as the last round of retention found it"""
_NAMESPACE = f'cluster="{CLUSTER}",namespace="{DEFAULT}"'


class _Families:
    """Lines by family, since a family's lines must stand together."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        self._since_pause = 0

    def open(self, families: dict[str, str]) -> None:
        for name, text in families.items():
            self._lines[name] = [head(name, "gauge", text)]

    def add(self, name: str, labels: str, value: float) -> None:
        self._lines[name].append(
            f"{name}{{{labels}}} {number(value)}" if labels else f"{name} {number(value)}"
        )
        self._since_pause += 1

    async def pause(self) -> None:
        """Let the loop breathe when enough was written."""
        if self._since_pause >= PAUSE_LINES:
            self._since_pause = 0
            await asyncio.sleep(0)

    def blocks(self) -> list[str]:
        return [line for lines in self._lines.values() if len(lines) > 1 for line in lines]


async def lines(context: Context) -> list[str]:
    """All lines, family by family."""
    families = _Families()
    families.open(
        {"kafka_brokers": "Brokers of the cluster.", "pulsar_version_info": "The version that runs."}
    )
    families.add("kafka_brokers", "", 1)
    version = escape(context.broker.version)
    families.add("pulsar_version_info", f'cluster="{CLUSTER}",version="{version}"', 1)
    families.open(_KAFKA)
    families.open(_PULSAR)
    walked = await _topics(context, families)
    await _groups(context, families, walked)
    await _kept(context, families, walked)
    return families.blocks()


class _Walked(NamedTuple):
    """A topic that was walked: Pulsar's labels and what is in it, by partition. None where it cannot be read."""

    labels: list[str]
    spans: list[Span | None]
    topic: Topic | None = None


async def _topics(context: Context, families: _Families) -> dict[str, _Walked]:
    """Every topic; returns them by Kafka name, for the lag of groups is counted from their ends."""
    broker = context.broker
    busy: dict[int, Partition] = {
        partition.id: partition
        for runtime in broker.runtimes()
        for partition in runtime.partitions
        if partition is not None
    }
    walked: dict[str, _Walked] = {}
    count = 0
    async for topic in every(broker):
        kafka = f'topic="{escape(topic.name)}"'
        full = from_kafka(topic.name)
        families.add("kafka_topic_partitions", kafka, len(topic.partitions))
        one = walked[topic.name] = _Walked([], [], topic)
        for index, partition_id in enumerate(topic.partitions):
            shown = full.with_partition(index) if topic.partitioned else full
            pulsar = f'{_NAMESPACE},topic="{escape(str(shown))}"'
            span = span_of(broker.store, partition_id)
            one.labels.append(pulsar)
            one.spans.append(span)
            if span is None:
                continue
            count += 1
            labels = f'{kafka},partition="{index}"'
            families.add("kafka_topic_partition_current_offset", labels, span.end)
            families.add("kafka_topic_partition_oldest_offset", labels, span.start)
            families.add("pulsar_storage_size", pulsar, span.size)
            partition = busy.get(partition_id)
            # an idle topic is left out, as one that is not loaded is in Pulsar
            if partition is not None:
                _traffic(families, pulsar, partition, context)
            await families.pause()
    families.add("pulsar_topics_count", _NAMESPACE, count)
    return walked


def _traffic(families: _Families, labels: str, partition: Partition, context: Context) -> None:
    rate = context.rates.of(partition, context.broker.loop.time())
    families.add("pulsar_rate_in", labels, rate.messages_in)
    families.add("pulsar_throughput_in", labels, rate.bytes_in)
    families.add("pulsar_throughput_out", labels, rate.bytes_out)
    bytes_in, bytes_out = traffic(context.broker, partition.id, partition)
    families.add("pulsar_in_messages_total", labels, partition.high_watermark)
    families.add("pulsar_in_bytes_total", labels, bytes_in)
    families.add("pulsar_out_bytes_total", labels, bytes_out)


async def _groups(context: Context, families: _Families, walked: dict[str, _Walked]) -> None:
    families.open(_GROUPS)
    # by Pulsar's labels of a partition: how many subscriptions, and their backlog together
    totals: dict[str, list[int]] = {}
    async for group in views(context.broker):
        name = escape(group.group_id)
        who = f'consumergroup="{name}"'
        families.add("kafka_consumergroup_members", who, group.members)
        for topic, offsets in group.offsets.items():
            labels, spans, _ = walked.get(topic, _NOWHERE)
            where = f'{who},topic="{escape(topic)}"'
            lag_sum = 0
            for index, offset in offsets.items():
                place = f'{where},partition="{index}"'
                families.add("kafka_consumergroup_current_offset", place, offset)
                span = spans[index] if index < len(spans) else None
                if span is None:
                    continue
                lag = max(0, span.end - offset)
                lag_sum += lag
                families.add("kafka_consumergroup_lag", place, lag)
                waiting = backlog(span, offset)
                families.add(
                    "pulsar_subscription_back_log", f'{labels[index]},subscription="{name}"', waiting
                )
                total = totals.setdefault(labels[index], [0, 0])
                total[0] += 1
                total[1] += waiting
            families.add("kafka_consumergroup_lag_sum", where, lag_sum)
        await families.pause()
    await _shared(context, families, walked, totals)
    for pulsar, (count, waiting) in totals.items():
        families.add("pulsar_subscriptions_count", pulsar, count)
        families.add("pulsar_msg_backlog", pulsar, waiting)
        await families.pause()


async def _shared(
    context: Context, families: _Families, walked: dict[str, _Walked], totals: dict[str, list[int]]
) -> None:
    """Subscriptions of share groups, topic by topic; adds them to the totals."""
    families.open(_SHARED)
    for one in walked.values():
        if one.topic is None:
            continue
        indexes = [index for index, span in enumerate(one.spans) if span is not None]
        # one by one, since the loop is let go in between: a topic may have thousands
        async for row in context.broker.subscriptions.each_of_topic(one.topic.topic_id):
            try:
                found = share_stats.of_subscription(context.broker, row, indexes)
            except (KafkaError, StoreError):
                # deleted while we walked, or not to be read at present: the log says so
                continue
            for index, stats in found.items():
                where = one.labels[index]
                labels = f'{where},subscription="{escape(row.group)}"'
                own = stats["magnetar"]
                for family, value in (
                    ("pulsar_subscription_back_log", stats["msgBacklog"]),
                    ("pulsar_subscription_back_log_no_delayed", stats["msgBacklogNoDelayed"]),
                    ("pulsar_subscription_delayed", stats["msgDelayed"]),
                    ("pulsar_subscription_unacked_messages", stats["unackedMessages"]),
                    ("pulsar_subscription_in_replay", stats["msgInReplay"]),
                    (
                        "pulsar_subscription_blocked_on_unacked_messages",
                        int(stats["blockedSubscriptionOnUnackedMsgs"]),
                    ),
                    ("pulsar_subscription_consumers_count", len(stats["consumers"])),
                    ("magnetar_subscription_backoff", own["states"]["backoff"]),
                    ("magnetar_subscription_dying", own["states"]["dying"]),
                    ("pulsar_subscription_total_msg_expired", stats["totalMsgExpired"]),
                    ("magnetar_subscription_draining_hashes", stats.get("drainingHashesCount", 0)),
                ):
                    families.add(family, labels, value)
                total = totals.setdefault(where, [0, 0])
                total[0] += 1
                total[1] += stats["msgBacklog"]
            await families.pause()


async def _kept(context: Context, families: _Families, walked: dict[str, _Walked]) -> None:
    """What is kept beyond the policies."""
    families.open(_KEPT)
    known = context.broker.retention.kept
    if not known:
        return
    for one in walked.values():
        for labels, partition in zip(
            one.labels, one.topic.partitions if one.topic is not None else (), strict=True
        ):
            kept = known.get(partition)
            if kept is None:
                continue
            families.add("magnetar_retention_kept_bytes", labels, kept.size)
            families.add("magnetar_retention_kept_messages", labels, kept.records)
            for name, offset, state in kept.holds:
                who = f'{labels},subscription="{escape(name)}",state="{state}"'
                families.add("magnetar_retention_hold_offset", who, offset)
        await families.pause()


_NOWHERE = _Walked([], [])
