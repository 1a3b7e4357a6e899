"""Pulsar's subscriptions with confluent-kafka: what is said of shared records inside of transactions."""

from __future__ import annotations

from base import create, produce, read
from common import Context, Record, case, same
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from letters import dead_letters
from security import librdkafka
from share import Sharer, counts, nothing_else, offsets, share_group


@case
def pulsar_transaction(ctx: Context) -> None:
    topic, made, group = create(ctx), create(ctx), share_group(ctx, pulsar__max__redeliver__count=1)
    produce(ctx, topic, [Record(b"k", b"%d" % n) for n in range(4)])
    member = Sharer(ctx, group, topic)
    producer = Producer({**librdkafka(ctx.bootstrap), "transactional.id": ctx.name("x")})
    producer.init_transactions(20)
    metadata = Consumer({**librdkafka(ctx.bootstrap), "group.id": group})
    ctx.closing(metadata.close)

    def end(messages: list[Message], *, commit: bool) -> None:
        """What was made of some messages, and that they are done."""
        producer.begin_transaction()
        for message in messages:
            producer.produce(made, b"of " + (message.value() or b""))
        said = ",".join(f"{message.offset()}@{message.delivery_count()}" for message in messages)
        place = TopicPartition(topic, 0, 0, metadata=f"ack1;a={said}")
        producer.send_offsets_to_transaction([place], metadata.consumer_group_metadata(), 20)
        (producer.commit_transaction if commit else producer.abort_transaction)(20)
        for message in messages:
            # the client wants to hear something of all that it gave; by now this says nothing
            member.client.acknowledge(message)
        member.commit()

    first = member.hold(4)
    end(first[:2], commit=False)
    end(first[2:], commit=True)
    again = member.hold(2)
    same((offsets(again), counts(again)), ([0, 1], [2, 2]), "what was aborted comes again")
    end(again[:1], commit=True)
    end(again[1:], commit=False)
    nothing_else(ctx, member, topic)
    found = read(ctx, made, 3, isolation_level="read_committed")
    same(sorted(message.value() for message in found), [b"of 0", b"of 2", b"of 3"], "what was made")
    letters = dead_letters(ctx, f"{topic}-{group}-DLQ", 1)
    same([message.value() for message in letters], [b"1"], "the second failure was the last")
