"""aiokafka: administration, and the errors of the broker."""

from __future__ import annotations

from typing import Any

import aiokafka.errors
from aiokafka import TopicPartition
from aiokafka.admin import NewPartitions, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from base import admin, case, consumer, create, describe, failure, make, produce, producer, read, take
from common import Context, check, same, sample


async def config(ctx: Context, name: str, kind: Any = ConfigResourceType.TOPIC) -> dict[str, tuple[str, int]]:
    """Config -> (value, source)."""
    response = (await (await admin(ctx)).describe_configs([ConfigResource(kind, name)]))[0]
    code, message, _, _, entries = response.resources[0]
    if code:
        raise aiokafka.errors.for_code(code)(message)
    return {entry[0]: (entry[1], entry[3]) for entry in entries}


async def alter(ctx: Context, topic: str, configs: dict[str, str]) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
    response = (await (await admin(ctx)).alter_configs([resource]))[0]
    code, message = response.resources[0][:2]
    if code:
        raise aiokafka.errors.for_code(code)(message)


@case
async def create_and_describe_topic(ctx: Context) -> None:
    topic = await create(ctx, 5, cleanup__policy="compact", retention__ms=1000)
    check(topic in await (await admin(ctx)).list_topics(), "not listed")
    found = (await describe(ctx, topic))["partitions"]
    same(sorted(p["partition"] for p in found), list(range(5)), "partitions")
    check(all(p["leader"] >= 0 for p in found), "a leader is missing")
    same((await config(ctx, topic))["cleanup.policy"][0], "compact", "config")


@case
async def validate_only(ctx: Context) -> None:
    name = ctx.name()
    await make(ctx, name, 2, validate_only=True)
    check(name not in await (await admin(ctx)).list_topics(), "the topic was created")


@case
async def delete_topic(ctx: Context) -> None:
    topic = await create(ctx)
    await produce(ctx, topic, sample(10))
    client = await admin(ctx)
    same((await client.delete_topics([topic])).topic_error_codes[0][1], 0, "error code")
    for _ in ctx.wait("the topic to go"):
        if topic not in await client.list_topics():
            break
    await make(ctx, topic)
    for _ in ctx.wait("the new topic"):
        if (await describe(ctx, topic))["error_code"] == 0:
            break
    await produce(ctx, topic, sample(3))
    same(len(await read(ctx, topic, 3)), 3, "records of the new topic")


@case
async def create_partitions(ctx: Context) -> None:
    topic = await create(ctx, 1)
    await (await admin(ctx)).create_partitions({topic: NewPartitions(4)})
    for _ in ctx.wait("four partitions"):
        if len((await describe(ctx, topic))["partitions"]) == 4:
            break
    await produce(ctx, topic, sample(10), partition=3)
    same(len(await read(ctx, topic, 10, 4)), 10, "records")


@case
async def describe_configs(ctx: Context) -> None:
    topic = await create(ctx, retention__ms=5000)
    found = await config(ctx, topic)
    same(found["retention.ms"], ("5000", 1), "retention.ms: value and source")
    same(found["cleanup.policy"], ("delete", 5), "cleanup.policy: value and source")
    brokers = (await (await admin(ctx)).describe_cluster())["brokers"]
    broker = await config(ctx, str(brokers[0]["node_id"]), ConfigResourceType.BROKER)
    check({"num.partitions", "message.max.bytes"} <= set(broker), "broker configs missing")


@case
async def alter_configs_legacy(ctx: Context) -> None:
    topic = await create(ctx, retention__ms=5000)
    await alter(ctx, topic, {"max.message.bytes": "3000"})
    for _ in ctx.wait("the new set"):
        found = await config(ctx, topic)
        if found["max.message.bytes"][0] == "3000" and found["retention.ms"][1] == 5:
            break


@case
async def delete_records(ctx: Context) -> None:
    topic = await create(ctx)
    await produce(ctx, topic, sample(100), max_batch_size=1000)
    where, client = TopicPartition(topic, 0), await admin(ctx)
    same(await client.delete_records({where: RecordsToDelete(35)}), {where: 35}, "low watermark")
    same(await (await consumer(ctx)).beginning_offsets([where]), {where: 35}, "beginning")
    same((await read(ctx, topic, 65))[0].offset, 35, "first offset")
    beyond = client.delete_records({where: RecordsToDelete(101)})
    await failure(aiokafka.errors.OffsetOutOfRangeError, beyond)


@case
async def describe_cluster(ctx: Context) -> None:
    found = await (await admin(ctx)).describe_cluster()
    node = found["brokers"][0]
    same(f"{node['host']}:{node['port']}", ctx.bootstrap, "advertised address")
    check(found["cluster_id"], "no cluster id")
    same(found["controller_id"], node["node_id"], "controller")


@case
async def error_topic_exists(ctx: Context) -> None:
    await failure(aiokafka.errors.TopicAlreadyExistsError, make(ctx, await create(ctx)))


@case
async def error_invalid_topic_name(ctx: Context) -> None:
    for name in ("not a name!", "x" * 250, ".."):
        await failure(aiokafka.errors.InvalidTopicError, make(ctx, name))


@case
async def error_invalid_partitions(ctx: Context) -> None:
    await failure(aiokafka.errors.InvalidPartitionsError, make(ctx, ctx.name(), 0))
    topic = await create(ctx, 3)
    fewer = (await admin(ctx)).create_partitions({topic: NewPartitions(2)})
    await failure(aiokafka.errors.InvalidPartitionsError, fewer)


@case
async def error_invalid_replication(ctx: Context) -> None:
    await failure(aiokafka.errors.InvalidReplicationFactorError, make(ctx, ctx.name(), replicas=3))


@case
async def error_bad_config_value(ctx: Context) -> None:
    for settings in ({"retention.ms": "soon"}, {"no.such.config": "1"}, {"cleanup.policy": "shred"}):
        await failure(aiokafka.errors.InvalidConfigurationError, make(ctx, ctx.name(), configs=settings))
    bad = alter(ctx, await create(ctx), {"retention.ms": "soon"})
    await failure(aiokafka.errors.InvalidConfigurationError, bad)


@case
async def error_message_too_large(ctx: Context) -> None:
    topic = await create(ctx, max__message__bytes=2000)
    await failure(aiokafka.errors.MessageSizeTooLargeError, produce(ctx, topic, sample(1, 10_000)))
    await produce(ctx, topic, sample(1, 1000))


@case
async def error_offset_out_of_range(ctx: Context) -> None:
    topic = await create(ctx)
    await produce(ctx, topic, sample(10))
    client, where = await consumer(ctx, auto_offset_reset="none"), TopicPartition(topic, 0)
    client.assign([where])
    client.seek(where, 1000)
    await failure(aiokafka.errors.OffsetOutOfRangeError, take(ctx, client, 1))


@case
async def transactions(ctx: Context) -> None:
    topic = await create(ctx)
    try:
        client = await producer(ctx, transactional_id=ctx.name("x"), request_timeout_ms=10_000)
    except aiokafka.errors.KafkaTimeoutError:
        raise
    except aiokafka.errors.KafkaError as error:
        ctx.refused = str(error) or type(error).__name__
        return
    for n, commit in enumerate((True, False, True)):
        await client.begin_transaction()
        await client.send_and_wait(topic, b"%d" % n)
        await (client.commit_transaction if commit else client.abort_transaction)()
    got = await read(ctx, topic, 2, isolation_level="read_committed")
    same([r.value for r in got], [b"0", b"2"], "committed records")
