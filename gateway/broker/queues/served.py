"""Which topics a queue topic serves, and which queue topic serves a topic: its base or all that match, and retries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gateway.broker.catalog import QueueOf, Topic
from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions import letter_names
from gateway.wire.errors import Error
from semantics.group_names import bare

if TYPE_CHECKING:
    from gateway.broker.queues.patterned import PatternedQueues
    from gateway.broker.subscriptions.node import Delivering
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.subscription import Subscription


def name_of(topic: str, subscription: str) -> str:
    """What the queue topic of a subscription is called."""
    return f"{topic}-{bare(subscription)}{letter_names.QUEUE}"


class Served:
    """As the catalog and the rows of subscriptions say it."""

    def __init__(self, node: Delivering, subscriptions: Subscriptions, patterned: PatternedQueues) -> None:
        self._node = node
        self._subscriptions = subscriptions
        self._patterned = patterned

    def named(self, name: str) -> tuple[str, str] | None:
        """(topic, subscription) that a name is the queue topic of, of topics that exist; None for any other name. Where
        it may be of two, of the one whose subscription is there, else of the topic with the longer name.
        """
        found = list(letter_names.bases(self._node.catalog, name, letter_names.QUEUE))
        if len(found) > 1:
            there = (each for each in found if self._subscriptions.row(each[1], each[0]) is not None)
            return next(there, found[0])
        return found[0] if found else None

    def serving(self, topic: Topic, group: str) -> Topic | None:
        """The queue topic that gives a group's subscription on a topic, or the retries that a topic has for it, to
        consumers of lanes; None where none does.
        """
        catalog = self._node.catalog
        if topic.queue is not None:
            return None
        found = catalog.get(name_of(topic.name, group))
        if found is not None and found.queue == QueueOf(topic.topic_id, group):
            return found
        over = self._patterned.serving(topic, group)
        if over is not None:
            return over
        suffix = f"-{bare(group)}{letter_names.RETRY}"
        if topic.name.endswith(suffix) and "/" not in suffix:
            base = catalog.get(topic.name.removesuffix(suffix))
            if base is not None and base.queue is None:
                return self.serving(base, group)
        return None

    def of_group(self, group: str) -> list[Topic]:
        """The queue topics whose deliveries a group acknowledges. Raises StoreError."""
        catalog = self._node.catalog
        served = dict.fromkeys(row.queue for row in self._subscriptions.of_group(group) if row.queue)
        # though no topic matches as yet
        served |= dict.fromkeys(over.name for over in letter_names.over_patterns(catalog, group))
        return [topic for name in served if (topic := catalog.get(name)) is not None]

    def bases_of(self, group: str) -> list[Topic]:
        """The topics, without those of retries, whose messages a group is given by lanes. Raises StoreError."""
        found: list[Topic] = []
        for topic in self.of_group(group):
            queue = topic.queue
            if queue is not None:
                ids = self._patterned.bases(topic) if queue.pattern else [queue.topic_id]
                bases = [self._node.catalog.by_id(topic_id) for topic_id in ids]
                found += [base for base in bases if base is not None]
        return found

    def read(self, topic: Topic) -> Iterator[tuple[Topic, Subscription]]:
        """The topics that lanes are given records of, with the subscriptions on them: the base, and its retries; all
        bases that match a pattern, each once. Raises KafkaError.
        """
        queue = topic.queue
        assert queue is not None
        if not queue.pattern:
            yield from self._read_base(topic, queue, queue.topic_id)
            return
        read: set[bytes] = set()
        for topic_id in self._patterned.bases(topic):
            if self._node.catalog.by_id(topic_id) is None:
                continue
            for found, its in self._read_base(topic, queue, topic_id):
                if found.topic_id not in read:
                    read.add(found.topic_id)
                    yield found, its

    def _read_base(
        self, topic: Topic, queue: QueueOf, topic_id: bytes
    ) -> Iterator[tuple[Topic, Subscription]]:
        node, known = self._node, self._subscriptions
        base = node.catalog.by_id(topic_id)
        subscription = known.by_id(queue.subscription, topic_id) if base is not None else None
        if base is None or subscription is None:
            raise KafkaError(
                Error.UNKNOWN_TOPIC_OR_PARTITION,
                f"The subscription of queue topic '{topic.name}' was deleted.",
            )
        yield base, subscription
        retries = node.catalog.get(subscription.config.retries_of(queue.subscription, base.name))
        following = known.by_id(queue.subscription, retries.topic_id) if retries is not None else None
        if retries is not None and following is not None:
            yield retries, following

    def may_read(self, topic: Topic, name: str) -> bool:
        """Whether lanes are given records of the topic of this name, if it is there."""
        queue = topic.queue
        assert queue is not None
        if queue.pattern:
            return self._patterned.concerns(topic, name)
        base = self._node.catalog.by_id(queue.topic_id)
        if base is None or name == base.name:
            return True
        return name == self._node.group_configs.get(queue.subscription).retries_of(
            queue.subscription, base.name
        )
