"""Share groups of confluent-kafka: where they begin, what becomes of their topics, the group's configs."""

from __future__ import annotations

import time

from base import admin, config, create, describe, known, produce
from common import Context, Record, case, check, same, sample
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic
from security import librdkafka
from share import Sharer, configure, nothing_else, offsets, refused_config, share_group, sharing

HOUR = 3_600_000


@case
def share_reset_earliest(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx, share__auto__offset__reset="earliest")
    produce(ctx, topic, sample(10))
    same(offsets(Sharer(ctx, group, topic).take(10)), list(range(10)), "offsets")


@case
def share_reset_latest(ctx: Context) -> None:
    topic, _, member = sharing(ctx, 10, share__auto__offset__reset="latest")
    for n in range(10, 1000):  # it joins at some moment: what is produced before is not for it
        produce(ctx, topic, [Record(None, b"%d" % n)])
        if found := member.poll(0.3):
            break
    check(min(offsets(found)) >= 10, f"offsets {offsets(found)}")
    member.acknowledge(found)
    nothing_else(ctx, member, topic)


@case
def share_reset_by_duration(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx, share__auto__offset__reset="by_duration:PT1H")
    now = int(time.time() * 1000)
    producer = Producer({**librdkafka(ctx.bootstrap)})
    for n, age in enumerate((3, 2, 0.5, 0)):
        producer.produce(topic, b"%d" % n, timestamp=round(now - age * HOUR))
        producer.flush(ctx.left)
    same(offsets(Sharer(ctx, group, topic).take(2)), [2, 3], "offsets of the last hour")


@case
def share_read_committed(ctx: Context) -> None:
    topic, _, member = sharing(ctx, 10, share__isolation__level="read_committed")
    same(offsets(member.take(10)), list(range(10)), "offsets")
    nothing_else(ctx, member, topic)


@case
def share_topic_made_later(ctx: Context) -> None:
    topic, group = ctx.name(), share_group(ctx)
    member = Sharer(ctx, group, topic, topic_metadata_refresh_interval_ms=500)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        same(member.poll(), [], "records")
    admin(ctx).create_topics([NewTopic(topic, 2, 1)])[topic].result(ctx.left)
    describe(ctx, topic)
    produce(ctx, topic, sample(10), 1)
    same(offsets(member.take(10)), list(range(10)), "offsets")


@case
def share_topic_recreated(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    produce(ctx, topic, sample(10))
    member = Sharer(ctx, group, topic, topic_metadata_refresh_interval_ms=500)
    member.take(10)
    old = str(describe(ctx, topic).topic_id)
    admin(ctx).delete_topics([topic])[topic].result(ctx.left)
    for _ in ctx.wait("the topic to go"):
        if topic not in admin(ctx).list_topics(timeout=10).topics:
            break
    admin(ctx).create_topics([NewTopic(topic, 1, 1)])[topic].result(ctx.left)
    check(str(describe(ctx, topic).topic_id) != old, "the new topic has the old id")
    produce(ctx, topic, sample(3))
    found = member.take(3)
    same(offsets(found), [0, 1, 2], "offsets in the new topic")
    nothing_else(ctx, member, topic)


@case
def share_partitions_added(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    produce(ctx, topic, sample(5))
    member = Sharer(ctx, group, topic, topic_metadata_refresh_interval_ms=500)
    member.take(5)
    admin(ctx).create_partitions([NewPartitions(topic, 3)])[topic].result(ctx.left)
    for _ in ctx.wait("three partitions"):
        if len(describe(ctx, topic).partitions) == 3:
            break
    produce(ctx, topic, sample(5), 2)
    found = member.take(5)
    same([(m.partition(), m.offset()) for m in found], [(2, n) for n in range(5)], "records")


@case
def share_group_configs(ctx: Context) -> None:
    group = ctx.name("g")
    defaults = {
        "share.auto.offset.reset": "latest",
        "share.isolation.level": "read_uncommitted",
        "share.record.lock.duration.ms": "30000",
        "share.delivery.count.limit": "5",
        "share.partition.max.record.locks": "2000",
        "share.session.timeout.ms": "45000",
        "share.renew.acknowledge.enable": "true",
    }
    found = config(ctx, group, ConfigResource.Type.GROUP)
    same({name: found[name].value for name in defaults}, defaults, "defaults")
    configure(ctx, group, share__delivery__count__limit=7, share__isolation__level="read_committed")
    entry = ConfigEntry("share.delivery.count.limit", None, incremental_operation=AlterConfigOpType.DELETE)
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
    known(ctx, lambda: admin(ctx).incremental_alter_configs([resource])[resource])
    for _ in ctx.wait("the default"):
        found = config(ctx, group, ConfigResource.Type.GROUP)
        if found["share.delivery.count.limit"].value == "5":
            break
    same(found["share.isolation.level"].value, "read_committed", "the other config")
    check(found["share.delivery.count.limit"].is_default, "a default is called set")
    check(not found["share.isolation.level"].is_default, "a set value is called a default")


@case
def share_error_bad_config(ctx: Context) -> None:
    group = ctx.name("g")
    for name, value in (
        ("share.auto.offset.reset", "sometimes"),
        ("share.record.lock.duration.ms", "soon"),
        ("share.isolation.level", "read_everything"),
        ("share.delivery.count.limit", "-1"),
        ("share.no.such.config", "1"),
    ):
        said = refused_config(ctx, group, name, value)
        check(said.startswith("INVALID_CONFIG"), f"{name}={value}: {said}")
        check(name in said, f"{name}={value} does not name the config: {said}")
