"""aiokafka: producing and consuming."""

from __future__ import annotations

import time

from aiokafka import TopicPartition
from base import as_records, case, consumer, create, produce, producer, read, take
from common import HEADERS, TRICKY, Context, Record, check, same, sample


@case
async def produce_and_read(ctx: Context, codec: str) -> None:
    topic = await create(ctx)
    records = sample(500)
    await produce(ctx, topic, records, compression_type=None if codec == "none" else codec, acks="all")
    same(as_records(await read(ctx, topic, 500)), records, "records")


@case
async def acks(ctx: Context) -> None:
    topic = await create(ctx)
    for level in (0, 1):
        await produce(ctx, topic, sample(50), acks=level)
    same(len(await read(ctx, topic, 100)), 100, "records")


@case
async def headers(ctx: Context) -> None:
    topic = await create(ctx)
    await produce(ctx, topic, [Record(b"k", b"v", HEADERS), Record(b"k", b"none")])
    got = as_records(await read(ctx, topic, 2))
    same(got[0].headers, HEADERS, "headers")
    same(got[1].headers, [], "no headers")


@case
async def null_key_and_value(ctx: Context) -> None:
    topic = await create(ctx)
    sent = [record for record in TRICKY if record.value is not None or record.key]  # aiokafka wants one
    await produce(ctx, topic, sent)
    same(as_records(await read(ctx, topic, len(sent))), sent, "records")


@case
async def idempotent_producer(ctx: Context) -> None:
    topic = await create(ctx, 3)
    await produce(ctx, topic, sample(2000), enable_idempotence=True, max_batch_size=2000)
    got = await read(ctx, topic, 2000, 3)
    for p in range(3):
        mine = [r for r in got if r.partition == p]
        same([r.offset for r in mine], list(range(len(mine))), "offsets")
        order = [int(r.key.split(b"-")[1]) for r in mine]
        same(order, sorted(set(order)), f"order in partition {p}")


@case
async def timestamps(ctx: Context) -> None:
    topic = await create(ctx)
    client = await producer(ctx)
    start = int(time.time() * 1000) - 60_000
    for n in range(5):
        await client.send_and_wait(topic, b"%d" % n, timestamp_ms=start + n * 1000)
    got = [(r.timestamp_type, r.timestamp) for r in await read(ctx, topic, 5)]
    same(got, [(0, start + n * 1000) for n in range(5)], "timestamps")


@case
async def log_append_time(ctx: Context) -> None:
    topic = await create(ctx, message__timestamp__type="LogAppendTime")
    before = int(time.time() * 1000)
    sent = await (await producer(ctx)).send_and_wait(topic, b"x", timestamp_ms=1_000_000_000_000)
    got = (await read(ctx, topic, 1))[0]
    same(got.timestamp_type, 1, "timestamp type")
    check(before - 1000 <= got.timestamp <= time.time() * 1000 + 1000, f"{got.timestamp} is not the broker's")
    same(sent.timestamp, got.timestamp, "timestamp in the produce response")


@case
async def auto_create_topic(ctx: Context) -> None:
    topic = ctx.name()
    await produce(ctx, topic, sample(10))
    same(len(await read(ctx, topic, 10)), 10, "records")


@case
async def many_partitions(ctx: Context) -> None:
    topic = await create(ctx, 60)
    client = await producer(ctx)
    futures = [await client.send(topic, b"%d" % n, partition=n % 60) for n in range(600)]
    for future in futures:
        await future
    got = await read(ctx, topic, 600, 60)
    same({(r.partition, int(r.value)) for r in got}, {(n % 60, n) for n in range(600)}, "records")


@case
async def large_message(ctx: Context) -> None:
    topic = await create(ctx)
    big = sample(1, 1_000_000)
    await produce(ctx, topic, big)
    same(as_records(await read(ctx, topic, 1)), big, "1 MB message")
    topic = await create(ctx, max__message__bytes=4_000_000)
    big = sample(1, 3_000_000)
    await produce(ctx, topic, big, max_request_size=4_000_000)
    same(as_records(await read(ctx, topic, 1)), big, "3 MB message")


@case
async def batch_larger_than_fetch(ctx: Context) -> None:
    topic = await create(ctx)
    records = sample(200, 1000)
    await produce(ctx, topic, records, linger_ms=200, max_batch_size=100_000)
    got = await read(ctx, topic, 200, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)
    same(as_records(got), records, "records")


@case
async def many_batches(ctx: Context) -> None:
    topic = await create(ctx)
    await produce(ctx, topic, sample(20_000), max_batch_size=8000)
    got = await read(ctx, topic, 20_000)
    same([r.offset for r in got], list(range(20_000)), "offsets")
    same([r.key for r in got], [b"key-%d" % n for n in range(20_000)], "keys")


@case
async def compacted_topic(ctx: Context) -> None:
    topic = await create(ctx, cleanup__policy="compact")
    await produce(ctx, topic, [Record(b"a", b"1"), Record(b"b", b"2"), Record(b"a", None)])
    same(as_records(await read(ctx, topic, 3))[-1], Record(b"a", None), "tombstone")


@case
async def topic_compression(ctx: Context) -> None:
    for codec in ("gzip", "uncompressed", "zstd"):
        topic = await create(ctx, compression__type=codec)
        records = sample(100)
        await produce(ctx, topic, records, compression_type="lz4")
        same(as_records(await read(ctx, topic, 100)), records, f"records stored as {codec}")


@case
async def consume_by_assignment(ctx: Context) -> None:
    topic = await create(ctx, 3)
    for p in range(3):
        await produce(ctx, topic, sample(20), partition=p)
    client = await consumer(ctx)
    client.assign([TopicPartition(topic, 0), TopicPartition(topic, 2)])
    same({r.partition for r in await take(ctx, client, 40)}, {0, 2}, "partitions")


@case
async def consume_by_group(ctx: Context) -> None:
    topic = await create(ctx, 3)
    records = sample(300)
    await produce(ctx, topic, records)
    client = await consumer(ctx, topic, group=ctx.name("g"))
    same(sorted(as_records(await take(ctx, client, 300))), sorted(records), "records")


@case
async def subscribe_pattern(ctx: Context) -> None:
    prefix = ctx.name()
    for suffix in ("one", "two"):
        await produce(ctx, f"{prefix}.{suffix}", sample(10))
    client = await consumer(ctx, group=ctx.name("g"), metadata_max_age_ms=500)
    client.subscribe(pattern=f"^{prefix}\\..*")
    found = {r.topic for r in await take(ctx, client, 20)}
    same(found, {f"{prefix}.one", f"{prefix}.two"}, "topics")
    await produce(ctx, f"{prefix}.three", sample(10))
    for _ in ctx.wait("the later topic"):
        if (await take(ctx, client, 1))[0].topic == f"{prefix}.three":
            break


@case
async def seek_into_batch(ctx: Context) -> None:
    topic = await create(ctx)
    await produce(ctx, topic, sample(100), linger_ms=200, compression_type="lz4")
    client, where = await consumer(ctx), TopicPartition(topic, 0)
    client.assign([where])
    client.seek(where, 57)
    same([r.offset for r in await take(ctx, client, 43)], list(range(57, 100)), "offsets")
    client.seek(where, 33)
    same((await take(ctx, client, 1))[0].offset, 33, "offset after seek")


@case
async def seek_by_time(ctx: Context) -> None:
    topic = await create(ctx)
    client = await producer(ctx, linger_ms=100)
    start = int(time.time() * 1000) - 600_000
    futures = [await client.send(topic, b"%d" % n, timestamp_ms=start + n * 1000) for n in range(100)]
    for future in futures:
        await future
    where, reader = TopicPartition(topic, 0), await consumer(ctx)
    same((await reader.offsets_for_times({where: start + 39_500}))[where].offset, 40, "offset for a time")
    same((await reader.offsets_for_times({where: start + 10**6}))[where], None, "a time after all records")
    reader.assign([where])
    reader.seek(where, 40)
    same((await take(ctx, reader, 1))[0].value, b"40", "value at the offset")


@case
async def beginning_and_end_offsets(ctx: Context) -> None:
    topic = await create(ctx)
    where, client = TopicPartition(topic, 0), await consumer(ctx)

    async def offsets() -> tuple[int, int]:
        return (await client.beginning_offsets([where]))[where], (await client.end_offsets([where]))[where]

    same(await offsets(), (0, 0), "empty")
    await produce(ctx, topic, sample(25))
    same(await offsets(), (0, 25), "written")


@case
async def empty_poll(ctx: Context) -> None:
    topic = await create(ctx)
    client = await consumer(ctx)
    client.assign([TopicPartition(topic, 0)])
    same(await client.getmany(timeout_ms=300), {}, "records of an empty topic")
    await produce(ctx, topic, sample(1))
    await take(ctx, client, 1)


@case
async def reset_latest(ctx: Context) -> None:
    topic = await create(ctx)
    await produce(ctx, topic, sample(10))
    client = await consumer(ctx, topic, group=ctx.name("g"), auto_offset_reset="latest")
    for _ in ctx.wait("a new record"):  # it may look up the end after we wrote: write again
        await produce(ctx, topic, [Record(b"new", b"new")])
        got = [r.key for batch in (await client.getmany(timeout_ms=500)).values() for r in batch]
        if got:
            same(set(got), {b"new"}, "keys")
            break


@case
async def read_committed(ctx: Context) -> None:
    topic = await create(ctx)
    await produce(ctx, topic, sample(100), enable_idempotence=True)
    same(len(await read(ctx, topic, 100, isolation_level="read_committed")), 100, "records")


@case
async def pause_and_resume(ctx: Context) -> None:
    topic = await create(ctx, 2)
    for p in range(2):
        await produce(ctx, topic, sample(20), partition=p)
    client = await consumer(ctx)
    zero, one = (TopicPartition(topic, p) for p in range(2))
    client.assign([zero, one])
    client.pause(zero)
    same({r.partition for r in await take(ctx, client, 20)}, {1}, "partitions while paused")
    client.resume(zero)
    same({r.partition for r in await take(ctx, client, 20)}, {0}, "partitions after resume")
