"""A topic with a queue topic over it, and what the cases do with both."""

from __future__ import annotations

from collections.abc import Iterable

from adapter import LIBRARY
from common import Context, Record, same

from queue_topics.library import Consumer, Delivery, Member


class QueueTopic:
    """Made by CreateTopics, as any admin client can do it."""

    def __init__(self, ctx: Context, lanes: int = 2, *, partitions: int = 2, **configs: object) -> None:
        """`type="key_shared"` and `max__redeliver__count=2` stand for pulsar.subscription.type and
        pulsar.max.redeliver.count."""
        self.ctx = ctx
        self.base, self.group = ctx.name(), ctx.name("g")
        self.name = f"{self.base}-{self.group}-QUEUE"
        self.dead, self.retry = f"{self.base}-{self.group}-DLQ", f"{self.base}-{self.group}-RETRY"
        settings = {f"pulsar.{key.replace('__', '.')}": str(value) for key, value in configs.items()}
        if "pulsar.type" in settings:
            settings["pulsar.subscription.type"] = settings.pop("pulsar.type")
        LIBRARY.create(ctx.bootstrap, self.base, partitions, {})
        LIBRARY.create(ctx.bootstrap, self.name, lanes, settings)

    def produce(self, records: Iterable[Record], topic: str = "") -> None:
        LIBRARY.produce(self.ctx.bootstrap, topic or self.base, list(records))

    def feed(self, numbers: Iterable[int], keys: int = 10) -> None:
        """Records whose values are these numbers, dealt to so many keys."""
        self.produce(Record(b"key-%d" % (number % keys), b"%d" % number) for number in numbers)

    def join(self, group: str = "", topic: str = "", **how: object) -> Consumer:
        """A member, closed when the case ends unless `leave` closed it before."""
        member = Member(self.ctx.bootstrap, group or self.group, topic or self.name, **how)
        consumer = Closing(LIBRARY.consumer(member))
        self.ctx.closing(consumer.close)
        return consumer

    def committed(self, lane: int = 0) -> tuple[int, str]:
        return LIBRARY.committed(self.ctx.bootstrap, self.group, self.name, lane)

    def dead_letters(self, count: int) -> list[Delivery]:
        """All records of the dead letter topic, which then holds so many and no more."""
        for _ in self.ctx.wait(f"the topic {self.dead}"):
            if self.dead in LIBRARY.topics(self.ctx.bootstrap):
                break
        reader = self.join(self.ctx.name("look"), self.dead)
        found = take(self.ctx, reader, count)
        same(reader.poll(0.5), [], "further dead letters")
        reader.close()
        return found


class Closing:
    """A consumer that may be closed twice."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._open = True
        self.poll, self.commit, self.seek, self.lanes = (
            consumer.poll,
            consumer.commit,
            consumer.seek,
            consumer.lanes,
        )

    def close(self) -> None:
        if self._open:
            self._open = False
            self._consumer.close()


def take(ctx: Context, consumer: Consumer, count: int) -> list[Delivery]:
    """The next so many, and no more than were asked for."""
    found: list[Delivery] = []
    for _ in ctx.wait(f"{count} deliveries"):
        found += consumer.poll(0.2, most=count - len(found))
        if len(found) == count:
            return found
    raise AssertionError("unreachable")


def behind(deliveries: Iterable[Delivery], metadata: str = "") -> dict[int, tuple[int, str]]:
    """To commit all of these: lane -> (the offset behind its last one, metadata)."""
    found: dict[int, tuple[int, str]] = {}
    for delivery in deliveries:
        offset = max(delivery.offset + 1, found.get(delivery.lane, (0, ""))[0])
        found[delivery.lane] = offset, metadata
    return found


def numbers(deliveries: Iterable[Delivery]) -> list[int]:
    return sorted(delivery.number for delivery in deliveries)


def places(deliveries: Iterable[Delivery]) -> set[tuple[int, int]]:
    return {(delivery.lane, delivery.offset) for delivery in deliveries}


def finish(ctx: Context, consumer: Consumer, count: int) -> list[Delivery]:
    """So many more, each poll committed; then there is nothing else."""
    found: list[Delivery] = []
    for _ in ctx.wait(f"{count} deliveries"):
        if some := consumer.poll(0.2):
            consumer.commit(behind(some))
            found += some
        if len(found) >= count:
            break
    same(consumer.poll(0.5), [], "further deliveries")
    return found
