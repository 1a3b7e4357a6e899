"""kafka-python: producing and consuming."""

from __future__ import annotations

import time
from typing import Any

from base import LONG_POLL, admin, as_records, consumer, create, produce, producer, read, take
from common import HEADERS, TRICKY, Context, Record, case, check, codec_cases, same, sample
from kafka import TopicPartition


@codec_cases
def produce_and_read(ctx: Context, codec: str) -> None:
    topic = create(ctx)
    records = sample(500)
    produce(ctx, topic, records, compression_type=None if codec == "none" else codec, acks="all")
    same(as_records(read(ctx, topic, 500)), records, "records")


@case
def acks(ctx: Context) -> None:
    topic = create(ctx)
    for level in (0, 1):
        produce(ctx, topic, sample(50), acks=level, enable_idempotence=False)
    same(len(read(ctx, topic, 100)), 100, "records")


@case
def headers(ctx: Context) -> None:
    topic = create(ctx)
    sent = [header for header in HEADERS if header[1] is not None]  # kafka-python sends no null header
    produce(ctx, topic, [Record(b"k", b"v", sent), Record(b"k", b"none")])
    got = as_records(read(ctx, topic, 2))
    same(got[0].headers, sent, "headers")
    same(got[1].headers, [], "no headers")


@case
def null_key_and_value(ctx: Context) -> None:
    topic = create(ctx)
    sent = [r for r in TRICKY if r[:2] != (None, None)]  # kafka-python wants one of them
    produce(ctx, topic, sent)
    same(as_records(read(ctx, topic, len(sent))), sent, "records")


@case
def idempotent_producer(ctx: Context) -> None:
    topic = create(ctx, 3)
    produce(ctx, topic, sample(2000), enable_idempotence=True, batch_size=2000)
    got = read(ctx, topic, 2000, 3)
    for p in range(3):
        mine = [r for r in got if r.partition == p]
        same([r.offset for r in mine], list(range(len(mine))), "offsets")
        order = [int(r.key.split(b"-")[1]) for r in mine]
        same(order, sorted(set(order)), f"order in partition {p}")


@case
def timestamps(ctx: Context) -> None:
    topic = create(ctx)
    client = producer(ctx)
    start = int(time.time() * 1000) - 60_000
    for n in range(5):
        client.send(topic, b"%d" % n, timestamp_ms=start + n * 1000)
    client.flush()
    got = [(r.timestamp_type, r.timestamp) for r in read(ctx, topic, 5)]
    same(got, [(0, start + n * 1000) for n in range(5)], "timestamps")


@case
def log_append_time(ctx: Context) -> None:
    topic = create(ctx, message__timestamp__type="LogAppendTime")
    before = int(time.time() * 1000)
    sent = producer(ctx).send(topic, b"x", timestamp_ms=1_000_000_000_000).get(timeout=ctx.left)
    got = read(ctx, topic, 1)[0]
    same(got.timestamp_type, 1, "timestamp type")
    check(before - 1000 <= got.timestamp <= time.time() * 1000 + 1000, f"{got.timestamp} is not the broker's")
    same(sent.timestamp, got.timestamp, "timestamp in the produce response")


@case
def auto_create_topic(ctx: Context) -> None:
    topic = ctx.name()
    produce(ctx, topic, sample(10))
    same(len(read(ctx, topic, 10)), 10, "records")


@case
def many_partitions(ctx: Context) -> None:
    topic = create(ctx, 60)
    client = producer(ctx)
    for n in range(600):
        client.send(topic, b"%d" % n, partition=n % 60)
    client.flush(timeout=ctx.left)
    got = read(ctx, topic, 600, 60)
    same({(r.partition, int(r.value)) for r in got}, {(n % 60, n) for n in range(600)}, "records")


@case
def large_message(ctx: Context) -> None:
    topic = create(ctx)
    big = sample(1, 1_000_000)
    produce(ctx, topic, big)
    same(as_records(read(ctx, topic, 1)), big, "1 MB message")
    topic = create(ctx, max__message__bytes=4_000_000)
    big = sample(1, 3_000_000)
    produce(ctx, topic, big, max_request_size=4_000_000)
    same(as_records(read(ctx, topic, 1)), big, "3 MB message")


@case
def batch_larger_than_fetch(ctx: Context) -> None:
    topic = create(ctx)
    records = sample(200, 1000)
    produce(ctx, topic, records, linger_ms=200, batch_size=100_000)
    got = read(ctx, topic, 200, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)
    same(as_records(got), records, "records")


@case
def many_batches(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(20_000), batch_size=8000)
    got = read(ctx, topic, 20_000)
    same([r.offset for r in got], list(range(20_000)), "offsets")
    same([r.key for r in got], [b"key-%d" % n for n in range(20_000)], "keys")


@case
def compacted_topic(ctx: Context) -> None:
    topic = create(ctx, cleanup__policy="compact")
    produce(ctx, topic, [Record(b"a", b"1"), Record(b"b", b"2"), Record(b"a", None)])
    same(as_records(read(ctx, topic, 3))[-1], Record(b"a", None), "tombstone")


@case
def topic_compression(ctx: Context) -> None:
    for codec in ("gzip", "uncompressed", "zstd"):
        topic = create(ctx, compression__type=codec)
        records = sample(100)
        produce(ctx, topic, records, compression_type="lz4")
        same(as_records(read(ctx, topic, 100)), records, f"records stored as {codec}")


@case
def consume_by_assignment(ctx: Context) -> None:
    topic = create(ctx, 3)
    for p in range(3):
        produce(ctx, topic, sample(20), partition=p)
    client = consumer(ctx)
    client.assign([TopicPartition(topic, 0), TopicPartition(topic, 2)])
    client.seek_to_beginning()
    same({r.partition for r in take(ctx, client, 40)}, {0, 2}, "partitions")


@case
def consume_by_group(ctx: Context) -> None:
    topic = create(ctx, 3)
    records = sample(300)
    produce(ctx, topic, records)
    client = consumer(ctx, ctx.name("g"))
    client.subscribe([topic])
    same(sorted(as_records(take(ctx, client, 300))), sorted(records), "records")


@case
def subscribe_pattern(ctx: Context) -> None:
    prefix = ctx.name()
    for suffix in ("one", "two"):
        produce(ctx, f"{prefix}.{suffix}", sample(10))
    client = consumer(ctx, ctx.name("g"), metadata_max_age_ms=500)
    client.subscribe(pattern=f"^{prefix}\\..*")
    same({r.topic for r in take(ctx, client, 20)}, {f"{prefix}.one", f"{prefix}.two"}, "topics")
    produce(ctx, f"{prefix}.three", sample(10))
    for _ in ctx.wait("the later topic"):
        if take(ctx, client, 1)[0].topic == f"{prefix}.three":
            break


@case
def seek_into_batch(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(100), linger_ms=200, compression_type="lz4")
    client = consumer(ctx)
    where = TopicPartition(topic, 0)
    client.assign([where])
    client.seek(where, 57)
    same([r.offset for r in take(ctx, client, 43)], list(range(57, 100)), "offsets")
    client.seek(where, 33)
    same(take(ctx, client, 1)[0].offset, 33, "offset after seek")


@case
def seek_by_time(ctx: Context) -> None:
    topic = create(ctx)
    client = producer(ctx, linger_ms=100)
    start = int(time.time() * 1000) - 600_000
    for n in range(100):
        client.send(topic, b"%d" % n, timestamp_ms=start + n * 1000)
    client.flush()
    where, reader = TopicPartition(topic, 0), consumer(ctx)
    same(reader.offsets_for_times({where: start + 39_500})[where].offset, 40, "offset for a time")
    same(reader.offsets_for_times({where: start + 10**6})[where], None, "a time after all records")
    reader.assign([where])
    reader.seek(where, 40)
    same(take(ctx, reader, 1)[0].value, b"40", "value at the offset")


@case
def beginning_and_end_offsets(ctx: Context) -> None:
    topic = create(ctx)
    where, client = TopicPartition(topic, 0), consumer(ctx)

    def offsets() -> tuple[int, int]:
        return client.beginning_offsets([where])[where], client.end_offsets([where])[where]

    same(offsets(), (0, 0), "empty")
    produce(ctx, topic, sample(25))
    same(offsets(), (0, 25), "written")


@case
def empty_poll(ctx: Context) -> None:
    topic = create(ctx)
    client = consumer(ctx)
    client.assign([TopicPartition(topic, 0)])
    same(client.poll(300), {}, "records of an empty topic")
    produce(ctx, topic, sample(1))
    take(ctx, client, 1)


@case
def reset_latest(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(10))
    client = consumer(ctx, ctx.name("g"), auto_offset_reset="latest")
    client.subscribe([topic])
    for _ in ctx.wait("a new record"):  # it may look up the end after we wrote: write again
        produce(ctx, topic, [Record(b"new", b"new")])
        got: list[Any] = [r.key for batch in client.poll(LONG_POLL).values() for r in batch]
        if got:
            same(set(got), {b"new"}, "keys")
            break


@case
def read_committed(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(100), enable_idempotence=True)
    same(len(read(ctx, topic, 100, isolation_level="read_committed")), 100, "records")


@case
def pause_and_resume(ctx: Context) -> None:
    topic = create(ctx, 2)
    for p in range(2):
        produce(ctx, topic, sample(20), partition=p)
    client = consumer(ctx)
    zero, one = (TopicPartition(topic, p) for p in range(2))
    client.assign([zero, one])
    client.seek_to_beginning()
    client.pause(zero)
    same({r.partition for r in take(ctx, client, 20)}, {1}, "partitions while paused")
    client.resume(zero)
    same({r.partition for r in take(ctx, client, 20)}, {0}, "partitions after resume")


@case
def describe_producers(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(10), enable_idempotence=True)
    where = TopicPartition(topic, 0)
    active = admin(ctx).describe_producers([where])[where].active_producers
    same(len(active), 1, "producers")
    same(active[0].last_sequence, 9, "last sequence")
