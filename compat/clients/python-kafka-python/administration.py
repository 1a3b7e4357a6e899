"""kafka-python: administration, and the errors of the broker."""

from __future__ import annotations

import time
from typing import Any

import kafka.errors
from base import admin, consumer, create, failure, make, produce, producer, read, take
from common import Context, Record, case, check, same, sample
from kafka import TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, OffsetSpec
from kafka.structs import OffsetAndMetadata


def config(ctx: Context, name: str, kind: str = "TOPIC") -> dict[str, Any]:
    found = admin(ctx).describe_configs([ConfigResource(kind, name)], config_filter="all")
    return found[kind.lower()][name]


def alter(ctx: Context, topic: str, changes: dict[str, Any], **more: Any) -> str:
    """ "OK" or the error's text."""
    resource = ConfigResource("TOPIC", topic, changes)
    return admin(ctx).alter_configs([resource], raise_on_unknown=False, **more)["topic"][topic]


@case
def create_and_describe_topic(ctx: Context) -> None:
    topic = create(ctx, 5, cleanup__policy="compact", retention__ms=1000)
    check(topic in admin(ctx).list_topics(), "not listed")
    for found in (
        admin(ctx).describe_topics([topic])[0],
        admin(ctx).describe_topic_partitions([topic])["topics"][0],
    ):
        same([p["partition_index"] for p in found["partitions"]], list(range(5)), "partitions")
        check(all(p["leader_id"] >= 0 for p in found["partitions"]), "a leader is missing")
    same(config(ctx, topic)["cleanup.policy"]["value"], "compact", "config")


@case
def validate_only(ctx: Context) -> None:
    name = ctx.name()
    admin(ctx).create_topics({name: {"num_partitions": 2, "replication_factor": 1}}, validate_only=True)
    check(name not in admin(ctx).list_topics(), "the topic was created")


@case
def delete_topic(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(10))
    old = admin(ctx).describe_topics([topic])[0]["topic_id"]
    admin(ctx).delete_topics([topic])
    for _ in ctx.wait("the topic to go"):
        if topic not in admin(ctx).list_topics():
            break
    make(ctx, topic)
    admin(ctx).wait_for_topics([topic])
    check(admin(ctx).describe_topics([topic])[0]["topic_id"] != old, "the new topic has the old id")
    produce(ctx, topic, sample(3))
    same(len(read(ctx, topic, 3)), 3, "records of the new topic")


@case
def create_partitions(ctx: Context) -> None:
    topic = create(ctx, 1)
    admin(ctx).create_partitions({topic: 4})
    for _ in ctx.wait("four partitions"):
        if len(admin(ctx).describe_topics([topic])[0]["partitions"]) == 4:
            break
    produce(ctx, topic, sample(10), partition=3)
    same(len(read(ctx, topic, 10, 4)), 10, "records")


@case
def describe_configs(ctx: Context) -> None:
    topic = create(ctx, retention__ms=5000)
    found = config(ctx, topic)
    same(found["retention.ms"]["value"], "5000", "retention.ms")
    same(found["retention.ms"]["config_source"], "DYNAMIC_TOPIC_CONFIG", "source")
    same(found["cleanup.policy"]["config_source"], "DEFAULT_CONFIG", "source")
    same(found["retention.ms"]["config_type"], "LONG", "type")
    node = str(admin(ctx).describe_cluster()["brokers"][0]["broker_id"])
    check(
        {"num.partitions", "message.max.bytes"} <= set(config(ctx, node, "BROKER")), "broker configs missing"
    )
    resource = ConfigResource("TOPIC", topic, ["retention.ms"])
    asked = admin(ctx).describe_configs([resource], include_synonyms=True, config_filter="all")
    same(list(asked["topic"][topic]), ["retention.ms"], "only the config asked for")
    names = [synonym["name"] for synonym in asked["topic"][topic]["retention.ms"]["synonyms"]]
    same(names[0], "retention.ms", "the first synonym")


@case
def alter_configs(ctx: Context) -> None:
    topic = create(ctx, retention__ms=5000)
    same(alter(ctx, topic, {"max.message.bytes": "2000"}), "OK", "result")
    for _ in ctx.wait("the new value"):
        if config(ctx, topic)["max.message.bytes"]["value"] == "2000":
            break
    same(config(ctx, topic)["retention.ms"]["value"], "5000", "the other value")
    same(alter(ctx, topic, {"retention.ms": (AlterConfigOp.DELETE, None)}), "OK", "result")
    for _ in ctx.wait("the default"):
        if config(ctx, topic)["retention.ms"]["config_source"] == "DEFAULT_CONFIG":
            break
    same(alter(ctx, topic, {"cleanup.policy": (AlterConfigOp.APPEND, "compact")}), "OK", "result")
    for _ in ctx.wait("the appended value"):
        if config(ctx, topic)["cleanup.policy"]["value"] == "delete,compact":
            break
    same(alter(ctx, topic, {"cleanup.policy": (AlterConfigOp.SUBTRACT, "delete")}), "OK", "result")
    for _ in ctx.wait("the rest"):
        if config(ctx, topic)["cleanup.policy"]["value"] == "compact":
            break


@case
def alter_configs_legacy(ctx: Context) -> None:
    topic = create(ctx, retention__ms=5000)
    # This client sends the values that were set before again, so that they stay.
    same(alter(ctx, topic, {"max.message.bytes": "3000"}, incremental=False), "OK", "result")
    for _ in ctx.wait("the new set"):
        found = config(ctx, topic)
        if (found["max.message.bytes"]["value"], found["retention.ms"]["value"]) == ("3000", "5000"):
            break


@case
def delete_records(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(100), batch_size=1000)
    where = TopicPartition(topic, 0)
    same(admin(ctx).delete_records({where: 35})[where]["low_watermark"], 35, "low watermark")
    same(consumer(ctx).beginning_offsets([where]), {where: 35}, "beginning")
    same(read(ctx, topic, 65)[0].offset, 35, "first offset")
    failure(kafka.errors.OffsetOutOfRangeError, admin(ctx).delete_records, {where: 101})
    same(admin(ctx).delete_records({where: -1})[where]["low_watermark"], 100, "low watermark when emptied")


@case
def list_offsets(ctx: Context) -> None:
    topic = create(ctx)
    client = producer(ctx)
    start = int(time.time() * 1000) - 600_000
    for n in (0, 1, 5, 3, 4):
        client.send(topic, b"x", timestamp_ms=start + n * 1000)
    client.flush()
    where = TopicPartition(topic, 0)
    asked = {
        "earliest": (OffsetSpec.EARLIEST, 0),
        "latest": (OffsetSpec.LATEST, 5),
        "max timestamp": (OffsetSpec.MAX_TIMESTAMP, 2),
        "by time": (start + 1500, 2),
        "after all": (start + 10**6, -1),
    }
    for what, (spec, expected) in asked.items():
        same(admin(ctx).list_partition_offsets({where: spec})[where].offset, expected, what)


def committed_group(ctx: Context, topic: str, offset: int = 3) -> str:
    """A group without members that has committed an offset."""
    group, where = ctx.name("g"), TopicPartition(topic, 0)
    client = consumer(ctx, group)
    client.assign([where])
    client.commit({where: OffsetAndMetadata(offset, "", -1)})
    client.close(autocommit=False)
    return group


@case
def delete_group(ctx: Context) -> None:
    group = committed_group(ctx, create(ctx))
    same(admin(ctx).delete_groups([group]), {group: "OK"}, "result")
    check(group not in {g["group_id"] for g in admin(ctx).list_groups()}, "still listed")


@case
def group_offsets(ctx: Context) -> None:
    topic = create(ctx, 2)
    group = committed_group(ctx, topic)
    zero, one = (TopicPartition(topic, p) for p in range(2))

    def offsets() -> dict[TopicPartition, int]:
        return {
            where: found.offset
            for where, found in admin(ctx).list_group_offsets({group: None})[group].items()
        }

    same(offsets(), {zero: 3}, "offsets")
    altered = {zero: OffsetAndMetadata(1, "", -1), one: OffsetAndMetadata(7, "m", -1)}
    admin(ctx).alter_group_offsets(group, altered)
    same(offsets(), {zero: 1, one: 7}, "altered offsets")
    admin(ctx).delete_group_offsets(group, [zero])
    same(offsets(), {one: 7}, "offsets after one was deleted")


@case
def describe_cluster(ctx: Context) -> None:
    found = admin(ctx).describe_cluster()
    check(found["cluster_id"], "no cluster id")
    node = found["brokers"][0]
    same(f"{node['host']}:{node['port']}", ctx.bootstrap, "advertised address")


@case
def describe_log_dirs(ctx: Context) -> None:
    topic = create(ctx, 2)
    produce(ctx, topic, sample(10), partition=1)
    folders = admin(ctx).describe_log_dirs([topic])[0]["log_dirs"]
    check(all(folder["error_code"] == 0 and folder["log_dir"] for folder in folders), "error or no folder")
    sizes = {
        (t["name"], p["partition_index"]): p["partition_size"]
        for folder in folders
        for t in folder["topics"]
        for p in t["partitions"]
    }
    same(set(sizes), {(topic, 0), (topic, 1)}, "partitions")
    check(sizes[topic, 0] == 0 and sizes[topic, 1] > 500, f"sizes: {sizes}")


@case
def list_config_resources(ctx: Context) -> None:
    topic = create(ctx)
    found = admin(ctx).list_config_resources(["TOPIC"])
    check(topic in found["topic"], "the topic is missing")
    check(admin(ctx).list_config_resources()["broker"], "no broker")


@case
def describe_features(ctx: Context) -> None:
    admin(ctx).describe_features()  # which ones is the server's affair
    check(admin(ctx).api_versions(), "no api versions")


@case
def error_topic_exists(ctx: Context) -> None:
    failure(kafka.errors.TopicAlreadyExistsError, make, ctx, create(ctx))


@case
def error_invalid_topic_name(ctx: Context) -> None:
    for name in ("not a name!", "x" * 250, ".."):
        failure(kafka.errors.InvalidTopicError, make, ctx, name)


@case
def error_invalid_partitions(ctx: Context) -> None:
    failure(kafka.errors.InvalidPartitionsError, make, ctx, ctx.name(), 0)
    topic = create(ctx, 3)
    failure(kafka.errors.InvalidPartitionsError, admin(ctx).create_partitions, {topic: 2})


@case
def error_invalid_replication(ctx: Context) -> None:
    failure(kafka.errors.InvalidReplicationFactorError, make, ctx, ctx.name(), replication_factor=3)


@case
def error_bad_config_value(ctx: Context) -> None:
    for settings in ({"retention.ms": "soon"}, {"no.such.config": "1"}, {"cleanup.policy": "shred"}):
        failure(kafka.errors.InvalidConfigurationError, make, ctx, ctx.name(), configs=settings)
    topic = create(ctx)
    check("InvalidConfig" in alter(ctx, topic, {"retention.ms": "soon"}), "a bad value was taken")


@case
def error_message_too_large(ctx: Context) -> None:
    topic = create(ctx, max__message__bytes=2000)
    failure(kafka.errors.MessageSizeTooLargeError, produce, ctx, topic, sample(1, 10_000))
    produce(ctx, topic, sample(1, 1000))


@case
def error_offset_out_of_range(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(10))
    client, where = consumer(ctx, auto_offset_reset="none"), TopicPartition(topic, 0)
    client.assign([where])
    client.seek(where, 1000)
    failure(kafka.errors.OffsetOutOfRangeError, take, ctx, client, 1)


@case
def error_no_key_on_compacted(ctx: Context) -> None:
    topic = create(ctx, cleanup__policy="compact")
    failure(kafka.errors.InvalidRecordError, produce, ctx, topic, [Record(None, b"no key")])


@case
def error_timestamp_out_of_bounds(ctx: Context) -> None:
    topic = create(ctx, message__timestamp__after__max__ms=60_000)
    later = int(time.time() * 1000) + 3_600_000
    sent = producer(ctx).send(topic, b"x", timestamp_ms=later)
    failure(kafka.errors.InvalidTimestampError, sent.get, timeout=ctx.left)


@case
def error_unknown_group(ctx: Context) -> None:
    group = ctx.name("g")
    same(admin(ctx).delete_groups([group]), {group: "GroupIdNotFoundError"}, "result")


@case
def transactions(ctx: Context) -> None:
    topic = create(ctx)
    client = producer(ctx, transactional_id=ctx.name("x"))
    try:
        client.init_transactions()
    except kafka.errors.KafkaTimeoutError:
        raise
    except kafka.errors.KafkaError as error:
        ctx.refused = str(error) or type(error).__name__
        return
    for n, commit in enumerate((True, False, True)):
        client.begin_transaction()
        client.send(topic, b"%d" % n)
        client.flush()
        (client.commit_transaction if commit else client.abort_transaction)()
    got = read(ctx, topic, 2, isolation_level="read_committed")
    same([r.value for r in got], [b"0", b"2"], "committed records")
