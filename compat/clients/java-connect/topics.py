"""What is in a topic, and how one is compacted without any tool but the client's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from common import Context, check
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from security import librdkafka

KEYLESS = b"compat-closes-a-segment"


def messages(ctx: Context, topic: str) -> Iterator[Message]:
    """All that is committed in a topic now, partition by partition; what comes meanwhile is not waited for."""
    consumer = Consumer(
        {
            **librdkafka(ctx.bootstrap),
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        for partition in sorted(_partitions(ctx, topic)):
            place = TopicPartition(topic, partition, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=ctx.left)
            consumer.assign([place])
            done = False
            for _ in ctx.wait(f"the end of {topic}"):
                for message in consumer.consume(1000, 0.2):
                    if message.error() is None:
                        yield message
                        done |= message.offset() + 1 >= end
                    else:
                        done |= message.error().code() == KafkaError._PARTITION_EOF
                if done:
                    break
    finally:
        consumer.close()


def entries(ctx: Context, topic: str) -> Counter[bytes]:
    """How often each key is in a topic."""
    return Counter(message.key() for message in messages(ctx, topic) if message.key() != KEYLESS)


def compact(ctx: Context, topic: str) -> None:
    """Have all but the last record of each key removed.

    Only what lies behind a segment's end is compacted, so short segments are asked for, and closed by one record more.
    """
    admin = AdminClient({**librdkafka(ctx.bootstrap)})
    quick = {"min.cleanable.dirty.ratio": "0.01", "segment.ms": "100", "max.compaction.lag.ms": "100"}
    wanted = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in quick.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=wanted)
    admin.incremental_alter_configs([resource])[resource].result(timeout=ctx.left)
    producer = Producer({**librdkafka(ctx.bootstrap)})
    for _ in ctx.wait(f"{topic} to be compacted"):
        found = entries(ctx, topic)
        check(found, f"{topic} is empty")
        if max(found.values()) == 1:
            return
        for partition in _partitions(ctx, topic):
            producer.produce(topic, b"{}", KEYLESS, partition)
        producer.flush(ctx.left)


def _partitions(ctx: Context, topic: str) -> list[int]:
    admin = AdminClient({**librdkafka(ctx.bootstrap)})
    return list(admin.list_topics(topic, timeout=ctx.left).topics[topic].partitions)
