"""What the cases of aiokafka share: making clients, topics, records."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import common
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code
from aiokafka.structs import ConsumerRecord
from common import Context, Record
from security import aiokafka


def case(function: Callable[[Context], Any]) -> Callable[[Context], Any]:
    """Register a case, a coroutine function; the clients it makes are stopped when it ends."""

    @functools.wraps(function)
    async def run(ctx: Context, **named: Any) -> None:
        async with AsyncExitStack() as stack:
            ctx.shared["stack"] = stack
            await function(ctx, **named)

    if function.__name__.startswith("restart_"):
        return common.restart_case(run)
    if function.__name__ == "produce_and_read":
        return common.codec_cases(run)
    return common.case(run)


async def enter(ctx: Context, client: Any) -> Any:
    return await ctx.shared["stack"].enter_async_context(client)


async def admin(ctx: Context) -> AIOKafkaAdminClient:
    if "admin" not in ctx.shared:
        client = AIOKafkaAdminClient(**aiokafka(ctx.bootstrap), request_timeout_ms=15000)
        await client.start()
        ctx.shared["stack"].push_async_callback(client.close)
        ctx.shared["admin"] = client
    return ctx.shared["admin"]


async def make(ctx: Context, name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> None:
    """Create a topic; raises what the broker answers. `configs` are its configs."""
    topic = NewTopic(name, partitions, replicas, topic_configs=more.pop("configs", {}))
    response = await (await admin(ctx)).create_topics([topic], **more)
    for _, code, message in response.topic_errors:
        if code:
            raise for_code(code)(message)


async def create(ctx: Context, partitions: int = 1, **configs: Any) -> str:
    """A new topic; `max__message__bytes=5` stands for the config max.message.bytes."""
    name = ctx.name()
    settings = {key.replace("__", "."): str(value) for key, value in configs.items()}
    await make(ctx, name, partitions, configs=settings)
    for _ in ctx.wait("the topic's leaders"):
        if (await describe(ctx, name))["error_code"] == 0:
            return name
    raise AssertionError("unreachable")


async def describe(ctx: Context, topic: str) -> dict[str, Any]:
    return (await (await admin(ctx)).describe_topics([topic]))[0]


async def producer(ctx: Context, **conf: Any) -> AIOKafkaProducer:
    return await enter(ctx, AIOKafkaProducer(**aiokafka(ctx.bootstrap), **conf))


async def produce(
    ctx: Context, topic: str, records: list[Record], partition: int | None = None, **conf: Any
) -> list[Any]:
    """Produce and wait; each record's metadata. Raises on the first failed one."""
    client = await producer(ctx, **conf)
    futures = [
        await client.send(topic, record.value, record.key, partition=partition, headers=list(record.headers))
        for record in records
    ]
    return [await future for future in futures]


async def consumer(ctx: Context, *topics: str, group: str | None = None, **conf: Any) -> AIOKafkaConsumer:
    settings = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": 10000,
        "heartbeat_interval_ms": 500,
        "fetch_max_wait_ms": 100,
        "group_id": group,
    }
    client = AIOKafkaConsumer(*topics, **aiokafka(ctx.bootstrap), **{**settings, **conf})
    return await enter(ctx, client)


async def take(ctx: Context, client: AIOKafkaConsumer, count: int) -> list[ConsumerRecord]:
    """The next `count` records."""
    records: list[ConsumerRecord] = []
    for _ in ctx.wait(f"{count} records"):
        batches = await client.getmany(timeout_ms=200, max_records=count - len(records))
        for batch in batches.values():
            records.extend(batch)
        if len(records) >= count:
            return records
    raise AssertionError("unreachable")


async def read(
    ctx: Context, topic: str, count: int, partitions: int = 1, **conf: Any
) -> list[ConsumerRecord]:
    """All of a topic's records by assignment, from the beginning."""
    client = await consumer(ctx, **conf)
    client.assign([TopicPartition(topic, p) for p in range(partitions)])
    await client.seek_to_beginning()
    return await take(ctx, client, count)


def as_records(records: list[ConsumerRecord]) -> list[Record]:
    return [Record(r.key, r.value, [tuple(h) for h in r.headers]) for r in records]


async def failure(kind: Any, awaitable: Any) -> Exception:
    """The error that a coroutine raises; fails when it is not of this kind."""
    try:
        await awaitable
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, got no error")
