"""confluent-kafka: groups, and going on after a restart of the server."""

from __future__ import annotations

from typing import Any

from base import admin, as_records, config, consumer, create, describe, produce, read, take
from common import Context, case, check, restart_case, same, sample
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions
from security import librdkafka


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
    producer = Producer({**librdkafka(ctx.bootstrap), "reconnect.backoff.max.ms": 500})
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
            **librdkafka(ctx.bootstrap),
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
