"""Pulsar's subscriptions with confluent-kafka: dead letters and retry letters, counted exactly."""

from __future__ import annotations

import time
from collections import Counter

from base import admin, consumer, create, describe, produce, read
from common import Context, Record, case, check, restart_case, same, sample
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from security import librdkafka
from share import (
    ACCEPT,
    REJECT,
    RELEASE,
    Sharer,
    configure,
    counts,
    nothing_else,
    offsets,
    share_group,
    sharing,
)


def headers(message: Message) -> dict[str, bytes]:
    return dict(message.headers() or [])


def dead_letters(ctx: Context, topic: str, count: int, partitions: int = 1) -> list[Message]:
    """All records of a dead letter topic, which then holds so many and no more."""
    for _ in ctx.wait(f"the topic {topic}"):
        if topic in admin(ctx).list_topics(timeout=10).topics:
            break
    same(len(describe(ctx, topic).partitions), partitions, "partitions of the dead letter topic")
    found = read(ctx, topic, count, partitions)
    same(written(ctx, topic, partitions), count, "records in the dead letter topic")
    return found


def written(ctx: Context, topic: str, partitions: int = 1) -> int:
    client = consumer(ctx)
    return sum(
        client.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1] for p in range(partitions)
    )


@case
def pulsar_dead_letters(ctx: Context) -> None:
    topic, group = create(ctx, 3), share_group(ctx, pulsar__max__redeliver__count=2)
    sent = {p: [Record(b"k%d" % n, b"%d" % n, [("a", b"%d" % p)]) for n in range(20)] for p in range(3)}
    for partition, records in sent.items():
        produce(ctx, topic, records, partition)
    member, deliveries, accepted = Sharer(ctx, group, topic), Counter[tuple[int, int]](), 0
    for _ in ctx.wait("all records to be settled"):
        for message in member.poll():
            where = message.partition(), message.offset()
            deliveries[where] += 1
            same(message.delivery_count(), deliveries[where], f"delivery count of {where}")
            good = message.offset() % 4 != 0
            accepted += good
            member.client.acknowledge(message, ACCEPT if good else RELEASE)
        member.commit()
        if accepted == 45 and sum(deliveries.values()) >= 45 + 15 * 3:
            break
    found = dead_letters(ctx, f"{topic}-{group}-DLQ", 15, 3)
    for partition in range(3):
        nothing_else(ctx, member, topic, partition)
    bad = {where: n for where, n in deliveries.items() if where[1] % 4 == 0}
    same(bad, {(p, n): 3 for p in range(3) for n in range(0, 20, 4)}, "deliveries of what was never accepted")
    origins = Counter()
    for message in found:
        told = headers(message)
        where = int(told["__dlq.errors.partition"]), int(told["__dlq.errors.offset"])
        origins[where] += 1
        original = sent[where[0]][where[1]]
        same((message.key(), message.value()), (original.key, original.value), "key and value")
        same(message.headers()[0], original.headers[0], "first header")
        same(message.partition(), where[0], "partition of a dead letter")
        expected = {
            "REAL_TOPIC": f"persistent://public/default/{topic}",
            "REAL_SUBSCRIPTION": group,
            "__dlq.errors.topic": topic,
            "__dlq.errors.group": group,
            "__dlq.errors.delivery.count": "3",
            "pulsar-dead-letter-reason": "MAX_DELIVERIES",
        }
        got = {name: told.get(name, b"").decode() for name in expected}
        check(got.pop("REAL_TOPIC").startswith(expected.pop("REAL_TOPIC")), f"REAL_TOPIC {told}")
        same(got, expected, "headers")
        check("ORIGIN_MESSAGE_ID" in told, f"no ORIGIN_MESSAGE_ID in {told}")
    same(origins, Counter(bad.keys()), "dead letters by origin")


@case
def pulsar_rejected(ctx: Context) -> None:
    name = ctx.name("dead")
    topic, group = create(ctx), share_group(ctx, pulsar__dead__letter__topic=name)
    produce(ctx, topic, [*sample(9), Record(None, None)])
    member = Sharer(ctx, group, topic)
    for message in member.hold(10):
        member.client.acknowledge(message, REJECT if message.offset() in (2, 3, 9) else ACCEPT)
    member.commit()
    found = dead_letters(ctx, name, 3)
    same([int(headers(m)["__dlq.errors.offset"]) for m in found], [2, 3, 9], "dead letters")
    same((found[2].key(), found[2].value()), (None, None), "a dead letter of a record of nulls")
    same({headers(m)["pulsar-dead-letter-reason"] for m in found}, {b"REJECTED"}, "reasons")
    same({headers(m)["__dlq.errors.delivery.count"] for m in found}, {b"1"}, "delivery counts")
    nothing_else(ctx, member, topic)


@case
def pulsar_no_dead_letters(ctx: Context) -> None:
    topic, group, member = sharing(ctx, 5, pulsar__dead__letter__enable="false")
    member.acknowledge(member.hold(5), REJECT)
    nothing_else(ctx, member, topic)
    check(
        f"{topic}-{group}-DLQ" not in admin(ctx).list_topics(timeout=10).topics,
        "a dead letter topic was made",
    )


@case
def pulsar_dead_letter_subscription(ctx: Context) -> None:
    topic, other = create(ctx), ctx.name("g")
    group = share_group(ctx, pulsar__dead__letter__initial__subscription=other)
    produce(ctx, topic, sample(5))
    member = Sharer(ctx, group, topic)
    member.acknowledge(member.hold(5), REJECT)
    # It begins with the first dead letter although share.auto.offset.reset is latest.
    mourner = Sharer(ctx, other, f"{topic}-{group}-DLQ")
    same(offsets(mourner.take(5)), [0, 1, 2, 3, 4], "dead letters of the subscription")
    # Any other group may read them too.
    same(
        len(Sharer(ctx, share_group(ctx), f"{topic}-{group}-DLQ").take(5)), 5, "dead letters of another group"
    )
    nothing_else(ctx, member, topic)


def again(ctx: Context, message: Message, retry: str, delay: int) -> None:
    """What a consumer does that wants a message later: produce it with its headers and a delay."""
    producer = Producer({**librdkafka(ctx.bootstrap)})
    kept = [(name, value) for name, value in message.headers() or [] if name != "DELAY_TIME"]
    producer.produce(retry, message.value(), message.key(), headers=[*kept, ("DELAY_TIME", b"%d" % delay)])
    same(producer.flush(ctx.left), 0, "records left undelivered")


@case
def pulsar_retry_letters(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx, pulsar__max__reconsume__count=2)
    retry = f"{topic}-{group}-RETRY"
    produce(ctx, topic, [Record(b"k", b"stubborn", [("own", b"header")]), Record(b"k", b"fine")])
    admin(ctx).create_topics([NewTopic(retry, 1, 1)])[retry].result(ctx.left)
    describe(ctx, retry)
    member = Sharer(ctx, group, [topic, retry])
    for message in member.take(2):
        if message.value() == b"stubborn":
            again(ctx, message, retry, 400)
    for times in (1, 2):
        (message,) = member.hold(1)
        told = headers(message)
        same((message.topic(), message.value()), (retry, b"stubborn"), "topic and value")
        waited = time.time() * 1000 - message.timestamp()[1]
        check(waited >= 400 - 2, f"a retry letter came {400 - waited} ms early")
        same(message.delivery_count(), 1, "delivery count")
        same(
            (told["RECONSUMETIMES"], told["own"]),
            (b"%d" % times, b"header"),
            "RECONSUMETIMES and the own header",
        )
        check(told["REAL_TOPIC"].decode().endswith(topic), f"REAL_TOPIC {told['REAL_TOPIC']!r}")
        same(told["REAL_SUBSCRIPTION"].decode(), group, "REAL_SUBSCRIPTION")
        check(told["RETRY_TOPIC"].decode().endswith(retry), f"RETRY_TOPIC {told['RETRY_TOPIC']!r}")
        again(ctx, message, retry, 400)
        member.acknowledge([message])
    for _ in ctx.wait("the dead letter"):  # whoever polls has the server look at what is due
        same(member.poll(), [], "a third retry letter")
        if f"{topic}-{group}-DLQ" in admin(ctx).list_topics(timeout=10).topics:
            break
    (dead,) = dead_letters(ctx, f"{topic}-{group}-DLQ", 1)
    told = headers(dead)
    same((dead.key(), dead.value(), told["own"]), (b"k", b"stubborn", b"header"), "the dead letter")
    same(told["pulsar-dead-letter-reason"], b"MAX_DELIVERIES", "reason")
    check(told["REAL_TOPIC"].decode().endswith(topic), f"REAL_TOPIC {told['REAL_TOPIC']!r}")
    nothing_else(ctx, member, topic)


@restart_case
def restart_pulsar_counts(ctx: Context) -> None:
    topic, group, first = sharing(ctx, 10, pulsar__max__redeliver__count=3)
    first.acknowledge(first.hold(10), RELEASE)
    found = first.hold(10)
    same(counts(found), [2] * 10, "delivery counts before the restart")
    for message in found:
        first.client.acknowledge(message, RELEASE if message.offset() < 5 else REJECT)
    first.commit()
    first.close()
    ctx.restart()
    second = Sharer(ctx, group, topic)
    third = second.take(5, RELEASE)
    same((offsets(third), counts(third)), ([0, 1, 2, 3, 4], [3] * 5), "offsets and delivery counts after it")
    same(counts(second.take(5, RELEASE)), [4] * 5, "delivery counts of the last delivery")
    dead = dead_letters(ctx, f"{topic}-{group}-DLQ", 10)
    same(
        Counter(headers(m)["__dlq.errors.offset"] for m in dead),
        Counter(b"%d" % n for n in range(10)),
        "dead letters",
    )
    nothing_else(ctx, second, topic)


@case
def pulsar_configs_of_a_running_group(ctx: Context) -> None:
    topic, group, member = sharing(ctx, 2)
    member.acknowledge(member.hold(2), RELEASE)
    configure(ctx, group, pulsar__max__redeliver__count=1)  # in force at once: the next delivery is the last
    same(counts(member.take(2, RELEASE)), [2, 2], "delivery counts")
    same(len(dead_letters(ctx, f"{topic}-{group}-DLQ", 2)), 2, "dead letters")
    nothing_else(ctx, member, topic)
