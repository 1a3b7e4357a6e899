"""confluent-kafka: producing and consuming."""

from __future__ import annotations

import time

import confluent_kafka
from base import EARLIEST, END, as_records, consumer, create, produce, read, take
from common import HEADERS, TRICKY, Context, Record, case, check, codec_cases, same, sample
from confluent_kafka import KafkaError, Producer, TopicPartition
from security import librdkafka


@codec_cases
def produce_and_read(ctx: Context, codec: str) -> None:
    topic = create(ctx)
    records = sample(500)
    produce(ctx, topic, records, compression_type=codec, acks="all")
    same(as_records(read(ctx, topic, 500)), records, "records")


@case
def acks(ctx: Context) -> None:
    topic = create(ctx)
    for level in ("0", "1"):
        produce(ctx, topic, sample(50), acks=level)
    same(len(read(ctx, topic, 100)), 100, "records")


@case
def headers(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, [Record(b"k", b"v", HEADERS), Record(b"k", b"none")])
    got = as_records(read(ctx, topic, 2))
    same(got[0].headers, HEADERS, "headers")
    same(got[1].headers, [], "no headers")


@case
def null_key_and_value(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, TRICKY)
    same(as_records(read(ctx, topic, len(TRICKY))), TRICKY, "records")


@case
def idempotent_producer(ctx: Context) -> None:
    topic = create(ctx, 3)
    records = sample(3000)
    reports = produce(ctx, topic, records, enable_idempotence=True, batch_num_messages=20, linger_ms=0)
    same(len(reports), 3000, "delivery reports")
    got = read(ctx, topic, 3000, 3)
    for p in range(3):
        mine = [m for m in got if m.partition() == p]
        same([m.offset() for m in mine], list(range(len(mine))), "offsets")
        order = [int(m.key().split(b"-")[1]) for m in mine]
        same(order, sorted(set(order)), f"order in partition {p}")


@case
def timestamps(ctx: Context) -> None:
    topic = create(ctx)
    producer = Producer({**librdkafka(ctx.bootstrap)})
    start = int(time.time() * 1000) - 60_000
    for n in range(5):
        producer.produce(topic, b"%d" % n, timestamp=start + n * 1000)
    producer.flush(ctx.left)
    got = [m.timestamp() for m in read(ctx, topic, 5)]
    same(got, [(confluent_kafka.TIMESTAMP_CREATE_TIME, start + n * 1000) for n in range(5)], "timestamps")


@case
def log_append_time(ctx: Context) -> None:
    topic = create(ctx, message__timestamp__type="LogAppendTime")
    producer = Producer({**librdkafka(ctx.bootstrap)})
    before = int(time.time() * 1000)
    producer.produce(topic, b"x", timestamp=1_000_000_000_000)
    producer.flush(ctx.left)
    kind, stamp = read(ctx, topic, 1)[0].timestamp()
    same(kind, confluent_kafka.TIMESTAMP_LOG_APPEND_TIME, "timestamp type")
    check(before - 1000 <= stamp <= time.time() * 1000 + 1000, f"timestamp {stamp} is not the broker's")


@case
def auto_create_topic(ctx: Context) -> None:
    topic = ctx.name()
    produce(ctx, topic, sample(10))
    same(len(read(ctx, topic, 10)), 10, "records")


@case
def many_partitions(ctx: Context) -> None:
    topic = create(ctx, 60)
    producer = Producer({**librdkafka(ctx.bootstrap)})
    for n in range(1200):
        producer.produce(topic, b"%d" % n, partition=n % 60)
    check(producer.flush(ctx.left) == 0, "undelivered")
    got = read(ctx, topic, 1200, 60)
    same({(m.partition(), int(m.value())) for m in got}, {(n % 60, n) for n in range(1200)}, "records")


@case
def large_message(ctx: Context) -> None:
    topic = create(ctx)
    big = sample(1, 1_000_000)
    produce(ctx, topic, big, message_max_bytes=1_048_000)  # its own default leaves no room for overhead
    same(as_records(read(ctx, topic, 1)), big, "1 MB message")
    topic = create(ctx, max__message__bytes=4_000_000)
    big = sample(1, 3_000_000)
    produce(ctx, topic, big, message_max_bytes=4_000_000)
    same(as_records(read(ctx, topic, 1)), big, "3 MB message")


@case
def batch_larger_than_fetch(ctx: Context) -> None:
    topic = create(ctx)
    records = sample(200, 1000)
    produce(ctx, topic, records, linger_ms=200)
    got = read(ctx, topic, 200, fetch_message_max_bytes=1000, fetch_max_bytes=1000, message_max_bytes=1000)
    same(as_records(got), records, "records")


@case
def many_batches(ctx: Context) -> None:
    topic = create(ctx)
    records = sample(20_000)
    produce(ctx, topic, records, batch_num_messages=100, queue_buffering_max_messages=100_000)
    got = read(ctx, topic, 20_000)
    same([m.offset() for m in got], list(range(20_000)), "offsets")
    same([m.key() for m in got], [r.key for r in records], "keys")


@case
def compacted_topic(ctx: Context) -> None:
    topic = create(ctx, cleanup__policy="compact")
    produce(ctx, topic, [Record(b"a", b"1"), Record(b"b", b"2"), Record(b"a", None)])
    got = as_records(read(ctx, topic, 3))
    same(got[-1], Record(b"a", None), "tombstone")


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
    produce(ctx, topic, sample(300))
    client = consumer(ctx)
    client.assign([TopicPartition(topic, 0, EARLIEST), TopicPartition(topic, 2, EARLIEST)])
    ends = {p: client.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1] for p in (0, 2)}
    got = take(ctx, client, sum(ends.values()))
    same({m.partition() for m in got}, {0, 2}, "partitions")


@case
def consume_by_group(ctx: Context) -> None:
    topic = create(ctx, 3)
    records = sample(300)
    produce(ctx, topic, records)
    client = consumer(ctx)
    client.subscribe([topic])
    same(sorted(as_records(take(ctx, client, 300))), sorted(records), "records")


@case
def subscribe_pattern(ctx: Context) -> None:
    prefix = ctx.name()
    for suffix in ("one", "two"):
        produce(ctx, f"{prefix}.{suffix}", sample(10))
    client = consumer(ctx, topic_metadata_refresh_interval_ms=500)
    client.subscribe([f"^{prefix}\\..*"])
    same({m.topic() for m in take(ctx, client, 20)}, {f"{prefix}.one", f"{prefix}.two"}, "topics")
    produce(ctx, f"{prefix}.three", sample(10))
    for _ in ctx.wait("the later topic"):  # nothing was committed: the others may come again
        if take(ctx, client, 1)[0].topic() == f"{prefix}.three":
            break


@case
def seek_into_batch(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(100), linger_ms=200, compression_type="lz4")
    client = consumer(ctx)
    client.assign([TopicPartition(topic, 0, 57)])
    same([m.offset() for m in take(ctx, client, 43)], list(range(57, 100)), "offsets after assign")
    client.seek(TopicPartition(topic, 0, 33))
    same(take(ctx, client, 1)[0].offset(), 33, "offset after seek")


@case
def seek_by_time(ctx: Context) -> None:
    topic = create(ctx)
    producer = Producer({**librdkafka(ctx.bootstrap), "linger.ms": 100})
    start = int(time.time() * 1000) - 600_000
    for n in range(100):
        producer.produce(topic, b"%d" % n, timestamp=start + n * 1000)
    producer.flush(ctx.left)
    client = consumer(ctx)
    found = client.offsets_for_times([TopicPartition(topic, 0, start + 39_500)], timeout=10)
    same(found[0].offset, 40, "offset for a time between records")
    found = client.offsets_for_times([TopicPartition(topic, 0, start + 10**6)], timeout=10)
    same(found[0].offset, END, "offset for a time after all records")
    client.assign([TopicPartition(topic, 0, 40)])
    same(take(ctx, client, 1)[0].value(), b"40", "value at the offset")


@case
def beginning_and_end_offsets(ctx: Context) -> None:
    topic = create(ctx)
    client = consumer(ctx)
    same(client.get_watermark_offsets(TopicPartition(topic, 0), timeout=10), (0, 0), "empty")
    produce(ctx, topic, sample(25))
    same(client.get_watermark_offsets(TopicPartition(topic, 0), timeout=10), (0, 25), "written")


@case
def empty_poll(ctx: Context) -> None:
    topic = create(ctx)
    client = consumer(ctx, enable_partition_eof=True)
    client.assign([TopicPartition(topic, 0, EARLIEST)])
    for _ in ctx.wait("the end of the partition"):
        message = client.poll(0.5)
        if message is not None:
            same(message.error().code(), KafkaError._PARTITION_EOF, "event")
            break
    produce(ctx, topic, sample(1))
    for _ in ctx.wait("the record"):
        message = client.poll(0.5)
        if message is not None and not message.error():
            break


@case
def reset_latest(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(10))
    client = consumer(ctx, auto_offset_reset="latest")
    client.subscribe([topic])
    for _ in ctx.wait("a new record"):  # it may look up the end after we wrote: write again
        produce(ctx, topic, [Record(b"new", b"new")])
        message = client.poll(0.5)
        if message is not None and not message.error():
            same(message.key(), b"new", "first record")
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
    both = [TopicPartition(topic, p, EARLIEST) for p in range(2)]
    client.assign(both)
    client.pause(both[:1])
    same({m.partition() for m in take(ctx, client, 20)}, {1}, "partitions while paused")
    client.resume(both[:1])
    same({m.partition() for m in take(ctx, client, 20)}, {0}, "partitions after resume")
