"""Topics and groups under the names that existing dashboards look for: kafka_exporter's and Pulsar's.

They are written when somebody scrapes and kept nowhere. The catalog is walked in pages and the loop is let go
in between: a scrape of 10,000 topics may take long, but holds up no client.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.admin.context import CLUSTER, Context
from gateway.admin.groups import GroupView, views
from gateway.admin.rates import ZERO
from gateway.admin.topics import every
from gateway.metrics import escape, head, number
from semantics.names import DEFAULT, from_kafka
from store.api import StoreError

if TYPE_CHECKING:
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
    "pulsar_storage_size": "Bytes stored.",
    "pulsar_rate_in": "Messages a second coming in.",
    "pulsar_rate_out": "Messages a second going out.",
    "pulsar_throughput_in": "Bytes a second coming in.",
    "pulsar_throughput_out": "Bytes a second going out.",
    "pulsar_in_messages_total": "Messages that came in while the topic has been in use.",
    "pulsar_in_bytes_total": "Bytes that came in while the topic has been in use.",
    "pulsar_out_messages_total": "Messages that went out while the topic has been in use.",
    "pulsar_out_bytes_total": "Bytes that went out while the topic has been in use.",
}


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
    families.add("pulsar_version_info", f'cluster="{CLUSTER}",version="{escape(context.broker.version)}"', 1)
    families.open(_KAFKA)
    families.open(_PULSAR)
    ends = await _topics(context, families)
    await _groups(families, views(context.broker), ends)
    return families.blocks()


async def _topics(context: Context, families: _Families) -> dict[str, list[int]]:
    """Every topic. Returns the ends of the partitions by Kafka name, which lag is counted from."""
    broker = context.broker
    busy: dict[int, Partition] = {
        partition.id: partition
        for runtime in broker.runtimes()
        for partition in runtime.partitions
        if partition is not None
    }
    namespace = f'cluster="{CLUSTER}",namespace="{DEFAULT}"'
    families.open({"pulsar_topics_count": "Topics, each partition counted."})
    ends: dict[str, list[int]] = {}
    count = 0
    now = broker.loop.time()
    async for topic in every(broker):
        kafka = f'topic="{escape(topic.name)}"'
        full = from_kafka(topic.name)
        families.add("kafka_topic_partitions", kafka, len(topic.partitions))
        ends[topic.name] = []
        for index, partition_id in enumerate(topic.partitions):
            try:
                log = broker.store.log(partition_id)
            except (KeyError, StoreError):
                # deleted while we walked, or quarantined: the store says so elsewhere
                ends[topic.name].append(-1)
                continue
            count += 1
            ends[topic.name].append(log.end_offset)
            labels = f'{kafka},partition="{index}"'
            families.add("kafka_topic_partition_current_offset", labels, log.end_offset)
            families.add("kafka_topic_partition_oldest_offset", labels, log.start_offset)
            shown = str(full.with_partition(index)) if topic.partitioned else str(full)
            _pulsar(
                families,
                f'{namespace},topic="{escape(shown)}"',
                log.size,
                busy.get(partition_id),
                context,
                now,
            )
            await families.pause()
    families.add("pulsar_topics_count", namespace, count)
    return ends


def _pulsar(
    families: _Families, labels: str, size: int, partition: Partition | None, context: Context, now: float
) -> None:
    families.add("pulsar_storage_size", labels, size)
    if partition is None:
        # idle: Pulsar, too, leaves out a topic that is not loaded
        return
    rate = context.rates.of(partition, now) if partition is not None else ZERO
    families.add("pulsar_rate_in", labels, rate.messages_in)
    families.add("pulsar_rate_out", labels, rate.messages_out)
    families.add("pulsar_throughput_in", labels, rate.bytes_in)
    families.add("pulsar_throughput_out", labels, rate.bytes_out)
    families.add("pulsar_in_messages_total", labels, partition.messages_in)
    families.add("pulsar_in_bytes_total", labels, partition.bytes_in)
    families.add("pulsar_out_messages_total", labels, partition.messages_out)
    families.add("pulsar_out_bytes_total", labels, partition.bytes_out)


async def _groups(families: _Families, groups: list[GroupView], ends: dict[str, list[int]]) -> None:
    families.open(
        {
            "kafka_consumergroup_members": "Members of the group.",
            "kafka_consumergroup_current_offset": "The offset that the group has committed.",
            "kafka_consumergroup_lag": "Records between the committed offset and the end of the partition.",
            "kafka_consumergroup_lag_sum": "The lag over all partitions of a topic.",
        }
    )
    for group in groups:
        who = f'consumergroup="{escape(group.group_id)}"'
        families.add("kafka_consumergroup_members", who, group.members)
        for topic, offsets in group.offsets.items():
            where = f'{who},topic="{escape(topic)}"'
            total = 0
            partitions = ends.get(topic, [])
            for index, offset in offsets.items():
                labels = f'{where},partition="{index}"'
                families.add("kafka_consumergroup_current_offset", labels, offset)
                if index < len(partitions) and partitions[index] >= 0:
                    lag = max(0, partitions[index] - offset)
                    total += lag
                    families.add("kafka_consumergroup_lag", labels, lag)
            families.add("kafka_consumergroup_lag_sum", where, total)
        await families.pause()
