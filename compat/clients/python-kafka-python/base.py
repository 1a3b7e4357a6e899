"""What the cases of kafka-python share: making clients, topics, records."""

from __future__ import annotations

from typing import Any

from common import Context, Record, check
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.consumer.fetcher import ConsumerRecord
from security import kafka_python

# kafka-python forgets a join that is under way when a short poll ends just then, and never joins again. A poll
# comes back as soon as there are records, so a long one costs nothing.
LONG_POLL = 3000


def admin(ctx: Context) -> KafkaAdminClient:
    if "admin" not in ctx.shared:
        ctx.shared["admin"] = KafkaAdminClient(**kafka_python(ctx.bootstrap), request_timeout_ms=15000)
        ctx.closing(ctx.shared["admin"].close)
    return ctx.shared["admin"]


def create(ctx: Context, partitions: int = 1, **configs: Any) -> str:
    """A new topic; `max__message__bytes=5` stands for the config max.message.bytes."""
    name = ctx.name()
    make(ctx, name, partitions, {key.replace("__", "."): str(value) for key, value in configs.items()})
    admin(ctx).wait_for_topics([name])
    return name


def make(
    ctx: Context, name: str, partitions: int = 1, configs: dict[str, str] | None = None, **more: Any
) -> None:
    options = {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}
    admin(ctx).create_topics({name: {**options, **more}})


def producer(ctx: Context, **conf: Any) -> KafkaProducer:
    client = KafkaProducer(**kafka_python(ctx.bootstrap), max_block_ms=15000, **conf)
    ctx.closing(lambda: client.close(timeout=5))
    return client


def produce(
    ctx: Context, topic: str, records: list[Record], partition: int | None = None, **conf: Any
) -> Any:
    """Produce, flush, and give each record's metadata; raises on the first failed one."""
    client = producer(ctx, **conf)
    futures = [
        client.send(topic, record.value, record.key, headers=list(record.headers), partition=partition)
        for record in records
    ]
    client.flush(timeout=ctx.left)
    return [future.get(timeout=ctx.left) for future in futures]


def consumer(ctx: Context, group: str | None = None, **conf: Any) -> KafkaConsumer:
    settings = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": 10000,
        "heartbeat_interval_ms": 500,
        "fetch_max_wait_ms": 100,
    }
    client = KafkaConsumer(**kafka_python(ctx.bootstrap), group_id=group, **{**settings, **conf})
    ctx.closing(lambda: client.close(autocommit=False, timeout_ms=3000))
    return client


def take(ctx: Context, client: KafkaConsumer, count: int) -> list[ConsumerRecord]:
    """The next `count` records."""
    records: list[ConsumerRecord] = []
    for _ in ctx.wait(f"{count} records"):
        for batch in client.poll(LONG_POLL, max_records=count - len(records)).values():
            records.extend(batch)
        if len(records) >= count:
            return records
    raise AssertionError("unreachable")


def read(ctx: Context, topic: str, count: int, partitions: int = 1, **conf: Any) -> list[ConsumerRecord]:
    """All of a topic's records by assignment, from the beginning."""
    client = consumer(ctx, **conf)
    client.assign([TopicPartition(topic, p) for p in range(partitions)])
    client.seek_to_beginning()
    return take(ctx, client, count)


def as_records(records: list[ConsumerRecord]) -> list[Record]:
    return [Record(r.key, r.value, [tuple(h) for h in r.headers]) for r in records]


def failure(kind: Any, action: Any, *arguments: Any, **named: Any) -> Exception:
    """The error that an action raises; fails when it is not of this kind."""
    try:
        action(*arguments, **named)
    except kind as error:
        return error
    check(False, f"expected {kind}, got no error")
    raise AssertionError("unreachable")
