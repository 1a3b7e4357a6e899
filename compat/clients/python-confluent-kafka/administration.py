"""confluent-kafka: administration."""

from __future__ import annotations

import time
from typing import Any

from base import END, admin, config, consumer, create, describe, produce, read
from common import Context, case, check, same, sample
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from groups import Member, settle
from security import librdkafka


@case
def create_and_describe_topic(ctx: Context) -> None:
    topic = create(ctx, 5, cleanup__policy="compact", retention__ms=1000)
    check(topic in admin(ctx).list_topics(timeout=10).topics, "not listed")
    found = describe(ctx, topic)
    same([p.id for p in found.partitions], list(range(5)), "partitions")
    check(
        all(p.leader is not None and len(p.isr) == 1 for p in found.partitions), "leaders or replicas missing"
    )
    same(config(ctx, topic)["cleanup.policy"].value, "compact", "config")


@case
def validate_only(ctx: Context) -> None:
    name = ctx.name()
    admin(ctx).create_topics([NewTopic(name, 2, 1)], validate_only=True)[name].result(ctx.left)
    check(name not in admin(ctx).list_topics(timeout=10).topics, "the topic was created")


@case
def delete_topic(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(10))
    old = str(describe(ctx, topic).topic_id)
    admin(ctx).delete_topics([topic])[topic].result(ctx.left)
    for _ in ctx.wait("the topic to go"):
        if topic not in admin(ctx).list_topics(timeout=10).topics:
            break
    admin(ctx).create_topics([NewTopic(topic, 1, 1)])[topic].result(ctx.left)
    check(str(describe(ctx, topic).topic_id) != old, "the new topic has the old id")
    for _ in ctx.wait("the new topic to be empty"):
        if consumer(ctx).get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 0):
            break
    produce(ctx, topic, sample(3))
    same(len(read(ctx, topic, 3)), 3, "records of the new topic")


@case
def create_partitions(ctx: Context) -> None:
    topic = create(ctx, 1)
    admin(ctx).create_partitions([NewPartitions(topic, 4)])[topic].result(ctx.left)
    for _ in ctx.wait("four partitions"):
        if len(describe(ctx, topic).partitions) == 4:
            break
    produce(ctx, topic, sample(10), partition=3)
    same(len(read(ctx, topic, 10, 4)), 10, "records")


@case
def describe_configs(ctx: Context) -> None:
    topic = create(ctx, retention__ms=5000)
    found = config(ctx, topic)
    check(not found["retention.ms"].is_default, "a set value is called a default")
    same(found["retention.ms"].value, "5000", "retention.ms")
    check(found["cleanup.policy"].is_default, "a default is called set")
    same(found["cleanup.policy"].value, "delete", "cleanup.policy")
    expected = {
        "max.message.bytes",
        "segment.bytes",
        "compression.type",
        "min.insync.replicas",
        "retention.bytes",
    }
    check(expected <= set(found), f"missing: {expected - set(found)}")
    node = next(iter(admin(ctx).list_topics(timeout=10).brokers))
    broker = config(ctx, str(node), ConfigResource.Type.BROKER)
    check(
        {"num.partitions", "message.max.bytes", "log.retention.ms"} <= set(broker), "broker configs missing"
    )
    check(broker["node.id" if "node.id" in broker else "broker.id"].is_read_only, "node.id is not read-only")


def alter(ctx: Context, topic: str, name: str, value: str | None, operation: Any) -> None:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin(ctx).incremental_alter_configs([resource])[resource].result(ctx.left)


@case
def alter_configs(ctx: Context) -> None:
    topic = create(ctx, retention__ms=5000)
    alter(ctx, topic, "max.message.bytes", "2000", AlterConfigOpType.SET)
    for _ in ctx.wait("the new value"):
        if config(ctx, topic)["max.message.bytes"].value == "2000":
            break
    same(config(ctx, topic)["retention.ms"].value, "5000", "the other value")
    alter(ctx, topic, "retention.ms", None, AlterConfigOpType.DELETE)
    for _ in ctx.wait("the default"):
        if config(ctx, topic)["retention.ms"].is_default:
            break
    alter(ctx, topic, "cleanup.policy", "compact", AlterConfigOpType.APPEND)
    for _ in ctx.wait("the appended value"):
        if config(ctx, topic)["cleanup.policy"].value == "delete,compact":
            break


@case
def alter_configs_legacy(ctx: Context) -> None:
    topic = create(ctx, retention__ms=5000)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config={"max.message.bytes": "3000"})
    admin(ctx).alter_configs([resource])[resource].result(ctx.left)
    for _ in ctx.wait("the new set"):
        found = config(ctx, topic)
        if found["max.message.bytes"].value == "3000" and found["retention.ms"].is_default:
            break


@case
def delete_records(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(100), batch_num_messages=10)
    where = TopicPartition(topic, 0, 35)
    result = admin(ctx).delete_records([where])[where].result(ctx.left)
    same(result.low_watermark, 35, "low watermark")
    same(consumer(ctx).get_watermark_offsets(TopicPartition(topic, 0), timeout=10), (35, 100), "watermarks")
    same(read(ctx, topic, 65)[0].offset(), 35, "first offset")
    everything = TopicPartition(topic, 0, END)
    result = admin(ctx).delete_records([everything])[everything].result(ctx.left)
    same(result.low_watermark, 100, "low watermark of an emptied log")


@case
def list_offsets(ctx: Context) -> None:
    topic = create(ctx)
    producer = Producer({**librdkafka(ctx.bootstrap)})
    start = int(time.time() * 1000) - 600_000
    for n in (0, 1, 5, 3, 4):
        producer.produce(topic, b"x", timestamp=start + n * 1000)
    producer.flush(ctx.left)
    asked = {
        "earliest": (OffsetSpec.earliest(), 0),
        "latest": (OffsetSpec.latest(), 5),
        "max timestamp": (OffsetSpec.max_timestamp(), 2),
        "by time": (OffsetSpec.for_timestamp(start + 1500), 2),
        "after all": (OffsetSpec.for_timestamp(start + 10**6), -1),
    }
    for what, (spec, expected) in asked.items():
        for isolation in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
            where = TopicPartition(topic, 0)
            found = admin(ctx).list_offsets({where: spec}, isolation_level=isolation)[where].result(ctx.left)
            same(found.offset, expected, what)


@case
def list_and_describe_groups(ctx: Context) -> None:
    topic, group = create(ctx, 2), ctx.name("g")
    member = Member(ctx, topic, group, client_id="compat-client")
    settle(ctx, [member], [2])
    listed = {g.group_id: g for g in admin(ctx).list_consumer_groups().result(ctx.left).valid}
    check(group in listed, "not listed")
    found = admin(ctx).describe_consumer_groups([group])[group].result(ctx.left)
    same(found.state, ConsumerGroupState.STABLE, "state")
    same(len(found.members), 1, "members")
    same(found.members[0].client_id, "compat-client", "client id")
    assigned = {(p.topic, p.partition) for p in found.members[0].assignment.topic_partitions}
    same(assigned, {(topic, 0), (topic, 1)}, "assignment")
    member.client.close()
    for _ in ctx.wait("the group to be empty"):
        found = admin(ctx).describe_consumer_groups([group])[group].result(ctx.left)
        if found.state == ConsumerGroupState.EMPTY:
            break


def committed_group(ctx: Context, topic: str, offset: int = 3) -> str:
    """A group without members that has committed an offset."""
    group = ctx.name("g")
    client = consumer(ctx, group)
    client.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    client.close()
    return group


@case
def delete_group(ctx: Context) -> None:
    group = committed_group(ctx, create(ctx))
    admin(ctx).delete_consumer_groups([group])[group].result(ctx.left)
    listed = {g.group_id for g in admin(ctx).list_consumer_groups().result(ctx.left).valid}
    check(group not in listed, "still listed")


@case
def group_offsets(ctx: Context) -> None:
    topic = create(ctx, 2)
    group = committed_group(ctx, topic)

    def offsets() -> dict[int, int]:
        asked = [ConsumerGroupTopicPartitions(group)]
        found = admin(ctx).list_consumer_group_offsets(asked)[group].result(ctx.left)
        return {p.partition: p.offset for p in found.topic_partitions}

    same(offsets(), {0: 3}, "offsets")
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1), TopicPartition(topic, 1, 7)])
    admin(ctx).alter_consumer_group_offsets([wanted])[group].result(ctx.left)
    same(offsets(), {0: 1, 1: 7}, "altered offsets")


@case
def describe_cluster(ctx: Context) -> None:
    found = admin(ctx).describe_cluster().result(ctx.left)
    check(found.cluster_id, "no cluster id")
    check(found.controller is not None and found.nodes, "no controller or nodes")
    same(f"{found.nodes[0].host}:{found.nodes[0].port}", ctx.bootstrap, "advertised address")
    metadata = admin(ctx).list_topics(timeout=10)
    same(metadata.cluster_id, found.cluster_id, "cluster id of Metadata")
