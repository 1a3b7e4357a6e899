"""confluent-kafka (librdkafka): producing, consuming, groups, administration, errors."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import (
    HEADERS,
    TRICKY,
    Context,
    Record,
    case,
    check,
    codec_cases,
    main,
    restart_case,
    same,
    sample,
)

EARLIEST, END = confluent_kafka.OFFSET_BEGINNING, confluent_kafka.OFFSET_END


def admin(ctx: Context) -> AdminClient:
    # One for the case: results of an admin client that is collected end with _DESTROY.
    if "admin" not in ctx.shared:
        ctx.shared["admin"] = AdminClient({"bootstrap.servers": ctx.bootstrap})
    return ctx.shared["admin"]


def create(ctx: Context, partitions: int = 1, **configs: Any) -> str:
    """A new topic; `max__message__bytes=5` stands for the config max.message.bytes."""
    name = ctx.name()
    settings = {key.replace("__", "."): str(value) for key, value in configs.items()}
    topic = NewTopic(name, partitions, 1, config=settings)
    admin(ctx).create_topics([topic])[name].result(ctx.left)
    describe(ctx, name)
    return name


def produce(
    ctx: Context, topic: str, records: list[Record], partition: int = -1, **conf: Any
) -> list[Message]:
    """Produce and flush; the delivery reports in order. Raises on the first failed one."""
    producer = Producer({"bootstrap.servers": ctx.bootstrap, "linger.ms": 5, **_dots(conf)})
    reports: list[Message] = []
    errors: list[KafkaError] = []

    def report(error: KafkaError | None, message: Message) -> None:
        (errors if error else reports).append(error or message)

    for record in records:
        where = {"partition": partition} if partition >= 0 else {}
        producer.produce(
            topic, record.value, record.key, headers=list(record.headers), on_delivery=report, **where
        )
        producer.poll(0)
    check(producer.flush(ctx.left) == 0, "records left undelivered")
    if errors:
        raise KafkaException(errors[0])
    return reports


def consumer(ctx: Context, group: str | None = None, **conf: Any) -> Consumer:
    client = Consumer(
        {
            "bootstrap.servers": ctx.bootstrap,
            "group.id": group or ctx.name("g"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10000,
            "heartbeat.interval.ms": 500,
            "fetch.wait.max.ms": 100,
            **_dots(conf),
        }
    )
    ctx.closing(client.close)
    return client


def take(ctx: Context, client: Consumer, count: int) -> list[Message]:
    """The next `count` messages; raises what the client reports as an error."""
    messages: list[Message] = []
    for _ in ctx.wait(f"{count} messages"):
        for message in client.consume(count - len(messages), 0.2):
            if message.error():
                raise KafkaException(message.error())
            messages.append(message)
        if len(messages) == count:
            return messages
    raise AssertionError("unreachable")


def read(ctx: Context, topic: str, count: int, partitions: int = 1, **conf: Any) -> list[Message]:
    """All of a topic's messages by assignment, from the beginning."""
    client = consumer(ctx, **conf)
    client.assign([TopicPartition(topic, p, EARLIEST) for p in range(partitions)])
    return take(ctx, client, count)


def as_records(messages: list[Message]) -> list[Record]:
    return [Record(m.key(), m.value(), m.headers() or []) for m in messages]


def failure(action: Any, *arguments: Any, **named: Any) -> KafkaError:
    """The KafkaError that an action raises; fails when it raises nothing."""
    try:
        action(*arguments, **named)
    except KafkaException as error:
        return error.args[0]
    raise AssertionError("expected an error, got none")


def expect(error: KafkaError, *codes: int) -> None:
    check(error.code() in codes, f"expected error {codes}, got {error.code()} {error.str()}")


def _dots(conf: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "."): value for key, value in conf.items()}


# --- produce and consume


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
    producer = Producer({"bootstrap.servers": ctx.bootstrap})
    start = int(time.time() * 1000) - 60_000
    for n in range(5):
        producer.produce(topic, b"%d" % n, timestamp=start + n * 1000)
    producer.flush(ctx.left)
    got = [m.timestamp() for m in read(ctx, topic, 5)]
    same(got, [(confluent_kafka.TIMESTAMP_CREATE_TIME, start + n * 1000) for n in range(5)], "timestamps")


@case
def log_append_time(ctx: Context) -> None:
    topic = create(ctx, message__timestamp__type="LogAppendTime")
    producer = Producer({"bootstrap.servers": ctx.bootstrap})
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
    producer = Producer({"bootstrap.servers": ctx.bootstrap})
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


# --- consume


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
    producer = Producer({"bootstrap.servers": ctx.bootstrap, "linger.ms": 100})
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


# --- groups


@case
def commit_and_resume(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, sample(100))
    first = consumer(ctx, group)
    first.subscribe([topic])
    got = take(ctx, first, 30)
    first.commit(message=got[-1], asynchronous=False)
    first.close()
    second = consumer(ctx, group)
    second.subscribe([topic])
    same([m.offset() for m in take(ctx, second, 70)], list(range(30, 100)), "offsets after resume")


@case
def commit_metadata(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    text = 'käse {"a": [1, 2]} ' + "x" * 500
    client = consumer(ctx, group)
    client.commit(offsets=[TopicPartition(topic, 0, 0, text)], asynchronous=False)
    back = client.committed([TopicPartition(topic, 0)], timeout=10)[0]
    same((back.offset, back.metadata), (0, text), "offset and metadata")


@case
def auto_commit(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, sample(10))
    client = consumer(ctx, group, enable_auto_commit=True, auto_commit_interval_ms=100)
    client.subscribe([topic])
    take(ctx, client, 10)
    for _ in ctx.wait("the automatic commit"):
        client.poll(0.2)
        if client.committed([TopicPartition(topic, 0)], timeout=10)[0].offset == 10:
            break


class Member:
    """A consumer that counts its rebalances."""

    def __init__(self, ctx: Context, topic: str, group: str, **conf: Any) -> None:
        self.changes = 0
        self.seen: list[int] = []
        self.client = consumer(ctx, group, **conf)
        self.client.subscribe([topic], on_assign=self._changed, on_revoke=self._changed)

    def _changed(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        self.changes += 1

    def poll(self) -> None:
        message = self.client.poll(0.05)
        if message is not None:
            if message.error():
                raise KafkaException(message.error())
            self.seen.append(int(message.key().split(b"-")[1]))

    @property
    def partitions(self) -> set[int]:
        return {p.partition for p in self.client.assignment()}


def settle(ctx: Context, members: list[Member], counts: list[int]) -> None:
    """Poll until each member has so many partitions, all of them apart."""
    for _ in ctx.wait(f"shares of {counts}"):
        for member in members:
            member.poll()
        shares = [member.partitions for member in members]
        if sorted(map(len, shares)) == sorted(counts) and len(set().union(*shares)) == sum(counts):
            return


def rebalance(ctx: Context, strategy: str) -> None:
    topic, group = create(ctx, 4), ctx.name("g")
    produce(ctx, topic, sample(200))
    first = Member(ctx, topic, group, partition_assignment_strategy=strategy)
    settle(ctx, [first], [4])
    second = Member(ctx, topic, group, partition_assignment_strategy=strategy)
    settle(ctx, [first, second], [2, 2])
    first.client.close()
    settle(ctx, [second], [4])
    for _ in ctx.wait("every record"):
        second.poll()
        if set(first.seen) | set(second.seen) == set(range(200)):
            break


@case
def rebalance_eager(ctx: Context) -> None:
    rebalance(ctx, "range")


@case
def rebalance_cooperative(ctx: Context) -> None:
    rebalance(ctx, "cooperative-sticky")


@case
def static_membership(ctx: Context) -> None:
    topic, group = create(ctx, 4), ctx.name("g")
    one = Member(ctx, topic, group, group_instance_id="one")
    two = Member(ctx, topic, group, group_instance_id="two")
    settle(ctx, [one, two], [2, 2])
    changes, share = one.changes, two.partitions
    two.client.close()
    again = Member(ctx, topic, group, group_instance_id="two")
    settle(ctx, [one, again], [2, 2])
    same(again.partitions, share, "the returning member's partitions")
    same(one.changes, changes, "rebalances of the other member")


@case
def member_timeout(ctx: Context) -> None:
    topic, group = create(ctx, 2), ctx.name("g")
    brief = {"session_timeout_ms": 6000, "max_poll_interval_ms": 6000}
    lazy = Member(ctx, topic, group, **brief)
    settle(ctx, [lazy], [2])
    eager = Member(ctx, topic, group)
    # The lazy one never polls again, so it never rejoins.
    settle(ctx, [eager], [2])


@case
def new_partitions_in_group(ctx: Context) -> None:
    topic, group = create(ctx, 1), ctx.name("g")
    member = Member(ctx, topic, group, topic_metadata_refresh_interval_ms=500)
    settle(ctx, [member], [1])
    admin(ctx).create_partitions([NewPartitions(topic, 3)])[topic].result(ctx.left)
    settle(ctx, [member], [3])
    produce(ctx, topic, sample(5), partition=2)
    for _ in ctx.wait("records of the new partition"):
        member.poll()
        if len(member.seen) == 5:
            break


# --- restart of the server


@restart_case
def restart_resume_group(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    records = sample(100)
    produce(ctx, topic, records, compression_type="zstd")
    first = consumer(ctx, group)
    first.subscribe([topic])
    first.commit(message=take(ctx, first, 40)[-1], asynchronous=False)
    first.close()
    ctx.restart()
    second = consumer(ctx, group)
    second.subscribe([topic])
    same([m.offset() for m in take(ctx, second, 60)], list(range(40, 100)), "offsets after the restart")
    same(as_records(read(ctx, topic, 100)), records, "records from the beginning")


@restart_case
def restart_live_clients(ctx: Context) -> None:
    topic, group = create(ctx, 2), ctx.name("g")
    producer = Producer({"bootstrap.servers": ctx.bootstrap, "reconnect.backoff.max.ms": 500})
    client = consumer(ctx, group, reconnect_backoff_max_ms=500)
    client.subscribe([topic])
    for n in range(50):
        producer.produce(topic, b"%d" % n, b"%d" % n)
    producer.flush(ctx.left)
    got = [int(m.value()) for m in take(ctx, client, 50)]
    client.commit(asynchronous=False)
    ctx.restart()
    for n in range(50, 100):
        producer.produce(topic, b"%d" % n, b"%d" % n)
    check(producer.flush(ctx.left) == 0, "records undelivered after the restart")
    for _ in ctx.wait("the records after the restart"):
        message = client.poll(0.2)
        # A lost connection is an event of its own in librdkafka, not the end.
        if message is not None and not message.error():
            got.append(int(message.value()))
        if set(got) == set(range(100)):
            break


@restart_case
def restart_idempotent(ctx: Context) -> None:
    topic = create(ctx)
    producer = Producer(
        {
            "bootstrap.servers": ctx.bootstrap,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 500,
            "linger.ms": 0,
        }
    )
    failed: list[str] = []

    def report(error: KafkaError | None, message: Message) -> None:
        if error:
            failed.append(error.str())

    for n in range(100):
        producer.produce(topic, b"%d" % n, on_delivery=report)
        producer.poll(0)
    producer.flush(ctx.left)
    ctx.restart()
    for n in range(100, 200):
        producer.produce(topic, b"%d" % n, on_delivery=report)
        producer.poll(0)
    check(producer.flush(ctx.left) == 0, "undelivered")
    same(failed, [], "failed deliveries")
    same([int(m.value()) for m in read(ctx, topic, 200)], list(range(200)), "records")


@restart_case
def restart_topic_settings(ctx: Context) -> None:
    topic = create(ctx, 3, retention__ms=123_456_789)
    produce(ctx, topic, sample(30))
    before = describe(ctx, topic)
    ctx.restart()
    after = describe(ctx, topic)
    same(str(after.topic_id), str(before.topic_id), "topic id")
    same(len(after.partitions), 3, "partitions")
    same(config(ctx, topic)["retention.ms"].value, "123456789", "config")


# --- administration


def describe(ctx: Context, topic: str) -> Any:
    return known(ctx, lambda: admin(ctx).describe_topics(TopicCollection([topic]))[topic])


def config(ctx: Context, name: str, kind: Any = ConfigResource.Type.TOPIC) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    return known(ctx, lambda: admin(ctx).describe_configs([resource])[resource])


def known(ctx: Context, ask: Callable[[], Any]) -> Any:
    """The answer once the topic is known: Kafka answers CreateTopics before its brokers know of it."""
    for _ in ctx.wait("the topic to be known"):
        try:
            return ask().result(ctx.left)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return None


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
    producer = Producer({"bootstrap.servers": ctx.bootstrap})
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


# --- errors


def creation(ctx: Context, topic: NewTopic) -> KafkaError:
    return failure(admin(ctx).create_topics([topic])[topic.topic].result, ctx.left)


@case
def error_unknown_topic(ctx: Context) -> None:
    topic = ctx.name()
    client = consumer(ctx)
    client.subscribe([topic])
    for _ in ctx.wait("the error"):
        message = client.poll(0.5)
        if message is not None:
            expect(message.error(), KafkaError.UNKNOWN_TOPIC_OR_PART)
            break
    check(topic not in admin(ctx).list_topics(timeout=10).topics, "the topic was created")
    unknown = failure(admin(ctx).delete_topics([topic])[topic].result, ctx.left)
    expect(unknown, KafkaError.UNKNOWN_TOPIC_OR_PART)


@case
def error_topic_exists(ctx: Context) -> None:
    expect(creation(ctx, NewTopic(create(ctx), 1, 1)), KafkaError.TOPIC_ALREADY_EXISTS)


@case
def error_invalid_topic_name(ctx: Context) -> None:
    for name in ("not a name!", "x" * 250, ".."):
        expect(creation(ctx, NewTopic(name, 1, 1)), KafkaError.TOPIC_EXCEPTION)


@case
def error_invalid_partitions(ctx: Context) -> None:
    topic = create(ctx, 3)
    fewer = failure(admin(ctx).create_partitions([NewPartitions(topic, 2)])[topic].result, ctx.left)
    expect(fewer, KafkaError.INVALID_PARTITIONS)
    ctx.detail = fewer.str()


@case
def error_invalid_replication(ctx: Context) -> None:
    expect(creation(ctx, NewTopic(ctx.name(), 1, 3)), KafkaError.INVALID_REPLICATION_FACTOR)


@case
def error_bad_config_value(ctx: Context) -> None:
    for settings in ({"retention.ms": "soon"}, {"no.such.config": "1"}, {"cleanup.policy": "shred"}):
        error = creation(ctx, NewTopic(ctx.name(), 1, 1, config=settings))
        expect(error, KafkaError.INVALID_CONFIG)
        check(next(iter(settings)) in error.str(), f"the message does not name the config: {error.str()}")
    topic = create(ctx)
    expect(
        failure(alter, ctx, topic, "retention.ms", "soon", AlterConfigOpType.SET), KafkaError.INVALID_CONFIG
    )


@case
def error_message_too_large(ctx: Context) -> None:
    topic = create(ctx, max__message__bytes=2000)
    expect(failure(produce, ctx, topic, sample(1, 10_000)), KafkaError.MSG_SIZE_TOO_LARGE)
    produce(ctx, topic, sample(1, 1000))


@case
def error_offset_out_of_range(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, sample(10))
    client = consumer(ctx, auto_offset_reset="error")
    client.assign([TopicPartition(topic, 0, 1000)])
    expect(failure(take, ctx, client, 1), KafkaError._AUTO_OFFSET_RESET)


@case
def error_no_key_on_compacted(ctx: Context) -> None:
    topic = create(ctx, cleanup__policy="compact")
    expect(failure(produce, ctx, topic, [Record(None, b"no key")]), KafkaError.INVALID_RECORD)


@case
def error_timestamp_out_of_bounds(ctx: Context) -> None:
    topic = create(ctx, message__timestamp__after__max__ms=60_000)
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": ctx.bootstrap})
    later = int(time.time() * 1000) + 3_600_000
    producer.produce(topic, b"x", timestamp=later, on_delivery=lambda e, m: errors.append(e))
    producer.flush(ctx.left)
    expect(errors[0], KafkaError.INVALID_TIMESTAMP)


@case
def error_unknown_group(ctx: Context) -> None:
    group = ctx.name("g")
    gone = failure(admin(ctx).delete_consumer_groups([group])[group].result, ctx.left)
    expect(gone, KafkaError.GROUP_ID_NOT_FOUND)


@case
def error_group_not_empty(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    settle(ctx, [Member(ctx, topic, group)], [1])
    expect(
        failure(admin(ctx).delete_consumer_groups([group])[group].result, ctx.left),
        KafkaError.NON_EMPTY_GROUP,
    )


@case
def error_unknown_member(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    settle(ctx, [Member(ctx, topic, group)], [1])
    # A commit from outside (no member id, no generation) while the group has members.
    outsider = consumer(ctx, group)
    error = failure(outsider.commit, offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    expect(error, KafkaError.UNKNOWN_MEMBER_ID)


@case
def error_fenced_instance(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    first = Member(ctx, topic, group, group_instance_id="same")
    settle(ctx, [first], [1])
    second = Member(ctx, topic, group, group_instance_id="same")
    settle(ctx, [second], [1])

    def go_on() -> None:
        for _ in ctx.wait("the first to be fenced"):
            first.poll()
            second.poll()

    expect(failure(go_on), KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL)


@case
def error_inconsistent_protocol(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    settle(ctx, [Member(ctx, topic, group, partition_assignment_strategy="range")], [1])
    other = Member(ctx, topic, group, partition_assignment_strategy="cooperative-sticky")

    def go_on() -> None:
        for _ in ctx.wait("the refusal"):
            other.poll()

    expect(failure(go_on), KafkaError.INCONSISTENT_GROUP_PROTOCOL)


@case
def transactions(ctx: Context) -> None:
    topic = create(ctx)
    producer = Producer({"bootstrap.servers": ctx.bootstrap, "transactional.id": ctx.name("x")})
    try:
        producer.init_transactions(10)
    except KafkaException as error:
        check(error.args[0].code() != KafkaError._TIMED_OUT, "not refused, only timed out")
        ctx.refused = error.args[0].str()
        return
    for n, commit in zip(itertools.count(), (True, False, True)):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % n)
        (producer.commit_transaction if commit else producer.abort_transaction)(10)
    got = read(ctx, topic, 2, isolation_level="read_committed")
    same([m.value() for m in got], [b"0", b"2"], "committed records")


if __name__ == "__main__":
    main(
        "python-confluent-kafka",
        f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})",
    )
