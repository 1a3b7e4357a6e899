"""Commits of a queue topic's consumer as parts of transactions."""

from __future__ import annotations

from adapter import LIBRARY
from common import Context, case, same
from confluent_kafka import Consumer, Producer, TopicPartition
from queue_topics.library import Delivery
from queue_topics.topic import QueueTopic, numbers, take
from security import librdkafka


def _made(ctx: Context, topic: str) -> list[bytes]:
    """What readers of committed records find."""
    client = Consumer(
        {**librdkafka(ctx.bootstrap), "group.id": ctx.name("g"), "isolation.level": "read_committed"}
    )
    ctx.closing(client.close)
    client.assign([TopicPartition(topic, 0, 0)])
    found = [message for message in client.consume(100, 3) if not message.error()]
    return [message.value() or b"" for message in found]


@case
def queue_transaction(ctx: Context) -> None:
    for kind in ("shared", "key_shared"):
        _of(ctx, kind)


def _of(ctx: Context, kind: str) -> None:
    queue = QueueTopic(ctx, 1, partitions=1, type=kind, max__redeliver__count=1)
    made = ctx.name("made")
    LIBRARY.create(ctx.bootstrap, made, 1, {})
    producer = Producer({**librdkafka(ctx.bootstrap), "transactional.id": ctx.name("x")})
    producer.init_transactions(20)
    group = Consumer({**librdkafka(ctx.bootstrap), "group.id": queue.group})
    ctx.closing(group.close)

    def end(deliveries: list[Delivery], said: str = "", *, commit: bool) -> None:
        """What was made of some deliveries, and that they are done."""
        producer.begin_transaction()
        for one in deliveries:
            producer.produce(made, b"of %d" % one.number)
        place = TopicPartition(queue.name, 0, deliveries[-1].offset + 1, metadata=said)
        producer.send_offsets_to_transaction([place], group.consumer_group_metadata(), 20)
        (producer.commit_transaction if commit else producer.abort_transaction)(20)

    queue.feed(range(6))
    consumer = queue.join()
    first = take(ctx, consumer, 6)
    end(first[:3], commit=False)
    again = take(ctx, consumer, 3)
    same(numbers(again), [0, 1, 2], "what was aborted comes again")
    same([one.offset for one in again], [6, 7, 8], "as new deliveries")
    end(first[3:] + again, commit=True)
    same(queue.committed()[0], 9, "the first open delivery")
    same(consumer.poll(0.5), [], "further deliveries")
    same(sorted(_made(ctx, made)), [b"of %d" % n for n in range(6)], "what was made")
    # the second failure is the last
    queue.feed([7])
    (bad,) = take(ctx, consumer, 1)
    end([bad], commit=False)
    (bad,) = take(ctx, consumer, 1)
    end([bad], commit=False)
    same([one.number for one in queue.dead_letters(1)], [7], "dead letters")
