"""confluent-kafka: the errors that a client must show well."""

from __future__ import annotations

import itertools
import time

from administration import alter
from base import admin, consumer, create, expect, failure, produce, read, take
from common import Context, Record, case, check, same, sample
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, NewPartitions, NewTopic
from groups import Member, settle
from security import librdkafka


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
    producer = Producer({**librdkafka(ctx.bootstrap)})
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
    producer = Producer({**librdkafka(ctx.bootstrap), "transactional.id": ctx.name("x")})
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
