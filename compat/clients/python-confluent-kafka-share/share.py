"""What the cases of share groups share: consumers that say what they hold, group configs, waiting for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from base import admin, config, create, failure, produce
from common import Context, Record, check, same, sample
from confluent_kafka import AcknowledgeType, KafkaException, Message, Producer, ShareConsumer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from security import librdkafka

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
LOCK_MS = 1500
"""A short lock: the least that the servers are set to allow is a second."""


class Sharer:
    """A member of a share group.

    `poll` gives what arrives within some 200 ms, all of it in hand until `acknowledge`; librdkafka refuses a poll
    while something is. With `explicit=False` the next poll accepts.
    """

    def __init__(
        self, ctx: Context, group: str, topic: str | Iterable[str], explicit: bool = True, **conf: Any
    ) -> None:
        self.ctx, self.group, self.topic = ctx, group, topic
        self.client = ShareConsumer(
            {
                **librdkafka(ctx.bootstrap),
                "group.id": group,
                "share.acknowledgement.mode": "explicit" if explicit else "implicit",
                "reconnect.backoff.max.ms": 500,
                **{key.replace("_", "."): value for key, value in conf.items()},
            }
        )
        self._open = True
        ctx.closing(self.close)
        self.client.subscribe([topic] if isinstance(topic, str) else list(topic))

    def poll(self, seconds: float = 0.2) -> list[Message]:
        found = list(self.client.poll(seconds))
        for message in found:
            if message.error():
                raise KafkaException(message.error())
        return found

    def some(self) -> list[Message]:
        """What the next poll that gives anything gives."""
        for _ in self.ctx.wait("records"):
            if found := self.poll():
                return found
        raise AssertionError("unreachable")

    def hold(self, count: int) -> list[Message]:
        """So many records, which come at once as they were there before."""
        found = self.some()
        same(len(found), count, "records in hand")
        return found

    def acknowledge(self, messages: Iterable[Message], kind: AcknowledgeType = ACCEPT) -> None:
        """Sent, and confirmed when this comes back."""
        for message in messages:
            self.client.acknowledge(message, kind)
        self.commit()

    def commit(self) -> None:
        for where, error in self.client.commit_sync(self.ctx.left).items():
            if error is not None:
                raise AssertionError(f"acknowledgements of {where.topic}-{where.partition}: {error}")

    def take(
        self, count: int, kind: AcknowledgeType = ACCEPT, fence: Callable[[Message], bool] | None = None
    ) -> list[Message]:
        """So many records, each acknowledged as it came; `fence` marks the last one instead."""
        found: list[Message] = []
        for _ in self.ctx.wait("the last record" if fence else f"{count} records"):
            if new := self.poll():
                self.acknowledge(new, kind)
                found += new
            if any(map(fence, new)) if fence else len(found) >= count:
                return found
        raise AssertionError("unreachable")

    def close(self) -> None:
        if self._open:
            self._open = False
            self.client.close()


def nothing_else(ctx: Context, sharer: Sharer, topic: str, partition: int = 0) -> None:
    """Nothing is available: a record that is produced now is the next one that comes."""
    mark = ctx.name("mark").encode()
    produce(ctx, topic, [Record(b"mark", mark)], partition)
    found = sharer.take(1, fence=lambda message: message.value() == mark)
    same([message.value() for message in found], [mark], "what came instead of nothing")


def share_group(ctx: Context, **configs: Any) -> str:
    """A group's name, its configs set: from the earliest record unless they say otherwise."""
    name = ctx.name("g")
    configure(ctx, name, **{"share__auto__offset__reset": "earliest", **configs})
    return name


def sharing(ctx: Context, count: int, **configs: Any) -> tuple[str, str, Sharer]:
    """What most cases begin with: a topic of so many records, a group with these configs, and its first member."""
    topic, group = create(ctx), share_group(ctx, **configs)
    produce(ctx, topic, sample(count))
    return topic, group, Sharer(ctx, group, topic)


def configure(ctx: Context, group: str, **configs: Any) -> None:
    """Set group configs, `a__b=1` for a.b, and wait until they are in force."""
    wanted = {key.replace("__", "."): str(value) for key, value in configs.items()}
    _alter(ctx, group, wanted)
    for _ in ctx.wait(f"the configs {wanted}"):
        found = config(ctx, group, ConfigResource.Type.GROUP)
        if all(name in found and found[name].value == value for name, value in wanted.items()):
            break


def refused_config(ctx: Context, group: str, name: str, value: str) -> str:
    """What the server says against a config."""
    error = failure(_alter, ctx, group, {name: value})
    return f"{error.name()}: {error.str()}"


def _alter(ctx: Context, group: str, values: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
    admin(ctx).incremental_alter_configs([resource])[resource].result(ctx.left)


def spread(ctx: Context, topic: str, count: int, a_batch: int = 10, partition: int = 0) -> None:
    """`count` records with the values b"0", b"1" …, in batches of so many."""
    producer = Producer({**librdkafka(ctx.bootstrap), "linger.ms": 5, "batch.num.messages": a_batch})
    for number in range(count):
        producer.produce(topic, b"%d" % number, b"key-%d" % number, partition=partition)
        producer.poll(0)
    check(producer.flush(ctx.left) == 0, "records left undelivered")


def offsets(messages: Iterable[Message]) -> list[int]:
    return [message.offset() for message in messages]


def counts(messages: Iterable[Message]) -> list[int]:
    """How often each was delivered, this delivery included."""
    return [message.delivery_count() for message in messages]
