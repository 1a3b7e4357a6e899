"""The families that are written at a scrape, with their help; and their lines, which must stand together by family.

Names that begin with `kafka_` and `pulsar_` are those that existing dashboards look for: kafka_exporter's, Kafka lag
exporter's and Pulsar's. All are gauges, also where a name ends in `_total`, as those who publish them type them.
"""

from __future__ import annotations

from gateway.admin.slices import turn
from gateway.admin.text import Lines, Piece
from gateway.metrics import head, number

PAUSE_LINES = 2_000
"""Lines that are made before the loop may do something else."""

NODE = {
    "kafka_brokers": "Brokers of the cluster.",
    "pulsar_version_info": "The version that runs.",
    "magnetar_ready": "1 while the gateway takes traffic, as /health/ready says.",
    "pulsar_storage_write_rate": "Batches stored a second, of all topics.",
}
WRITE_LATENCY = tuple(
    f"pulsar_storage_write_latency_{bound}"
    for bound in (
        "le_0_5", "le_1", "le_5", "le_10", "le_20", "le_50", "le_100", "le_200", "le_1000", "overflow",
    )
)  # fmt: skip
"""In ms; each batch counts in one of them, as with Pulsar."""
NODE |= dict.fromkeys(
    WRITE_LATENCY, "Batches of the last minute, of all topics, that the store took within so many ms."
)
KAFKA = {
    "kafka_topic_partitions": "Partitions of the topic.",
    "kafka_topic_partition_current_offset": "One past the last record of the partition.",
    "kafka_topic_partition_oldest_offset": "The first record that is kept.",
}
PULSAR = {
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
    "pulsar_producers_count": "Connections that have published to the partition.",
}
GROUPS = {
    "kafka_consumergroup_members": "Members of the group.",
    "kafka_consumergroup_current_offset": "The offset that the group has committed.",
    "kafka_consumergroup_lag": "Records between the committed offset and the end of the partition.",
    "kafka_consumergroup_lag_sum": "The lag over all partitions of a topic.",
    "kafka_consumergroup_group_lag": "The same as kafka_consumergroup_lag, as Kafka lag exporter calls it.",
    "kafka_consumergroup_group_lag_seconds": "Age of the first record that the group has not read; 0 without lag.",
    "kafka_consumergroup_group_max_lag_seconds": "The largest of these of a group.",
    "pulsar_subscription_back_log": "Messages that the subscription has still to acknowledge.",
    "pulsar_subscription_consumers_count": "Consumers connected that read the partition.",
    "pulsar_subscriptions_count": "Subscriptions of the topic.",
    "pulsar_consumers_count": "Consumers of its subscriptions, together.",
    "pulsar_msg_backlog": "Messages that its subscriptions have still to acknowledge, together.",
}
SHARED = {
    "pulsar_subscription_back_log_no_delayed": "The same without those that wait for the time their producer set.",
    "pulsar_subscription_delayed": "Messages that wait for the time their producer set.",
    "pulsar_subscription_unacked_messages": "Messages in the hands of consumers.",
    "pulsar_subscription_in_replay": "Messages that failed and can be delivered again.",
    "pulsar_subscription_blocked_on_unacked_messages": "1 while no more may be delivered before some are acknowledged.",
    "pulsar_subscription_out_messages_total": "Messages delivered since the gateway started, redeliveries included.",
    "pulsar_subscription_msg_rate_out": "Messages delivered a second, redeliveries included.",
    "pulsar_subscription_msg_rate_redeliver": "Messages delivered again a second.",
    "pulsar_subscription_total_msg_expired": "Messages that retention took before they were acknowledged.",
    "magnetar_subscription_acknowledged_total": "Messages acknowledged since the gateway started.",
    "magnetar_subscription_dead_letters_total": "Messages put into the dead letter topic since the gateway started.",
    "magnetar_dead_letter_topic_messages": "Messages in a dead letter topic, idle or not, over its partitions.",
    "magnetar_subscription_backoff": "Messages that were nacked or timed out and wait.",
    "magnetar_subscription_dying": "Messages on their way to the dead letter topic.",
    "magnetar_subscription_draining_hashes": "Slots of keys whose holder does not own them any more.",
    "magnetar_subscription_deep_hashes": "Hashes with so much waiting that most of it is left out of the look-ahead.",
}
"""Of Shared and Key_Shared subscriptions, by partition"""
KEPT = {
    "magnetar_retention_kept_bytes": "Bytes kept beyond the topic's retention, since subscriptions need them.",
    "magnetar_retention_kept_messages": "Messages kept beyond the topic's retention, since subscriptions need them.",
    "magnetar_retention_hold_offset": "The first offset that a subscription needs of them; `state` says why.",
}
"""Of partitions that have any, as the last round of retention found it"""
RESOURCE_GROUPS = {
    "pulsar_resource_group_bytes_used": "Bytes that namespaces in the group have published, or read.",
    "pulsar_resource_group_messages_used": "Messages that namespaces in the group have published, or read.",
}
"""Since the gateway started"""
OURS = {
    "magnetar_metrics_partitions_shown": "Partitions that have lines of their own here (metrics.topics).",
}

EVERY = {**NODE, **KAFKA, **PULSAR, **GROUPS, **SHARED, **KEPT, **RESOURCE_GROUPS, **OURS}


def kind_of(name: str) -> str:
    """What a family of this name is typed as."""
    return "counter" if name.startswith("magnetar_") and name.endswith("_total") else "gauge"


class Families:
    """Lines by family."""

    def __init__(self) -> None:
        self._lines: dict[str, Lines] = {}
        self._heads: dict[str, str] = {}
        self._since_pause = 0

    def open(self, families: dict[str, str]) -> None:
        """They come next, in this order."""
        for name, text in families.items():
            self._lines[name] = Lines()
            self._heads[name] = head(name, kind_of(name), text)

    def add(self, name: str, labels: str, value: float) -> None:
        """One line. `labels` are written out, without braces."""
        lines = self._lines[name]
        if lines.empty:
            lines.add(self._heads[name])
        lines.add(f"{name}{{{labels}}} {number(value)}" if labels else f"{name} {number(value)}")
        self._since_pause += 1

    def worked(self, lines: int) -> None:
        """Something took as long as so many lines."""
        self._since_pause += lines

    async def pause(self) -> None:
        """Let the loop breathe when enough was written."""
        if self._since_pause >= PAUSE_LINES:
            self._since_pause = 0
            await turn()

    def pieces(self) -> list[Piece]:
        """All lines, family by family."""
        return [piece for lines in self._lines.values() for piece in lines.pieces()]
