"""What the cases of confluent-kafka share: making clients, topics, records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import confluent_kafka
from common import Context, Record, check
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewTopic
from security import librdkafka

EARLIEST, END = confluent_kafka.OFFSET_BEGINNING, confluent_kafka.OFFSET_END


def admin(ctx: Context) -> AdminClient:
    # One for the case: results of an admin client that is collected end with _DESTROY.
    if "admin" not in ctx.shared:
        ctx.shared["admin"] = AdminClient({**librdkafka(ctx.bootstrap)})
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
    producer = Producer({**librdkafka(ctx.bootstrap), "linger.ms": 5, **_dots(conf)})
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
    """A config that is None is left out."""
    configs = {
        **librdkafka(ctx.bootstrap),
        "group.id": group or ctx.name("g"),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 10000,
        "heartbeat.interval.ms": 500,
        "fetch.wait.max.ms": 100,
        **_dots(conf),
    }
    client = Consumer({name: value for name, value in configs.items() if value is not None})
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
