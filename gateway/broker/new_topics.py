"""What may become a topic: its name, the room for it, its configs. And what is on its way to the disk."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.policies import check_topics
from gateway.config import topic_configs
from gateway.config.topic_table import PERSISTENCE
from gateway.wire.errors import Error
from semantics import names
from semantics.policies import MOST_PARTITIONS

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.node import Node
    from gateway.broker.transient import Transients
    from semantics.names import Namespace

CLUSTER_METADATA = "__cluster_metadata"
"""A name that nobody may take: tools take a topic of it for KRaft's log."""


def check_name(name: str) -> None:
    """Kafka's rule for topic names, of a name of the catalog. Raises KafkaError INVALID_TOPIC_EXCEPTION."""
    if names.is_canonical(name):
        return
    if len(name) > names.MAX_KAFKA_NAME:
        raise KafkaError(
            Error.INVALID_TOPIC_EXCEPTION,
            f"A topic's name has at most {names.MAX_KAFKA_NAME} characters; this one has {len(name)}.",
        )
    raise KafkaError(
        Error.INVALID_TOPIC_EXCEPTION,
        f"'{name}' is no legal topic name: use 1 to {names.MAX_KAFKA_NAME} of the characters a-z, A-Z, 0-9, '.', '_' "
        "and '-', and not '.' or '..'.",
    )


class NewTopics:
    """Topics that are not there yet, and partitions (`Topics.new`)."""

    def __init__(self, node: Node, catalog: Catalog, transients: Transients) -> None:
        self._node = node
        self._catalog = catalog
        self._transients = transients
        # names whose creation is on its way to the disk, by what they are without dots
        self._creating: dict[str, str] = {}
        # of those that are called like partitions, what they would be partitions of
        self._creating_under: Counter[str] = Counter()
        # partitions that are on their way to the disk
        self._coming: Counter[Namespace] = Counter()

    def check(self, name: str, partitions: int, configs: dict[str, str]) -> int:
        """What `Topics.create` would refuse, refused; else the number of partitions. Raises KafkaError."""
        check_name(name)
        if name == CLUSTER_METADATA:
            raise KafkaError(Error.INVALID_REQUEST, f"Topic '{name}' is Kafka's own log of its cluster.")
        other = self._creating.get(self._catalog.plain(name))
        there = self._catalog.get(name)
        if there is not None and there.transient != is_transient(configs):
            raise KafkaError(
                Error.TOPIC_ALREADY_EXISTS,
                f"There is {self._catalog.full(name)} already, and Kafka's clients call both '{name}'.",
            )
        if other == name or there is not None:
            raise KafkaError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = other or self._catalog.collision(name)
        if other is not None:
            raise KafkaError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topics: {other} (they differ only in '.' and '_').",
            )
        self._check_partition_names(name)
        namespace = self._check_namespace(name)
        if partitions == -1:
            partitions = self._node.settings.integer("num.partitions")
        if not 1 <= partitions <= MOST_PARTITIONS:
            raise KafkaError(
                Error.INVALID_PARTITIONS,
                f"Number of partitions must be between 1 and {MOST_PARTITIONS}; {partitions} was asked for.",
            )
        check_configs(configs)
        check_transient(configs)
        if is_transient(configs) and not self._transients.served:
            raise KafkaError(
                Error.INVALID_CONFIG,
                "This gateway serves no non-persistent topics: non.persistent.max.bytes is 0.",
            )
        self._check_room(namespace, partitions)
        return partitions

    def check_more(self, name: str, partitions: int) -> None:
        """Whether a topic that is there may have so many more partitions. Raises KafkaError POLICY_VIOLATION."""
        self._check_room(self._catalog.namespaces.full(name).namespace, partitions)

    def _check_room(self, namespace: Namespace, more: int) -> None:
        """Whether a namespace may have so many more partitions. Raises KafkaError POLICY_VIOLATION."""
        check_topics(self._node, self._catalog, namespace, self._coming[namespace], more)

    def _check_partition_names(self, name: str) -> None:
        """To Pulsar orders-partition-3 is a partition of orders: no topic beside it may be called so. Raises KafkaError
        INVALID_TOPIC_EXCEPTION.
        """
        named = names.partition_named(name)
        if named is not None:
            parent, index = named
            if (
                self._catalog.get(parent) is not None
                or self._creating.get(self._catalog.plain(parent)) == parent
            ):
                raise KafkaError(
                    Error.INVALID_TOPIC_EXCEPTION,
                    f"'{name}' is the name of partition {index} of topic '{parent}', and no topic of its own: use "
                    f"'{parent}', where Kafka's clients choose the partition by its number.",
                )
        other = self._catalog.partition_topic(name)
        if other is not None or self._creating_under[name]:
            raise KafkaError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' cannot be made beside '{other or name + names.PARTITION + 'N'}', which would be taken "
                "for one of its partitions.",
            )

    def _check_namespace(self, name: str) -> Namespace:
        """The namespace that the name says. Raises KafkaError INVALID_TOPIC_EXCEPTION where it takes no topics."""
        there = self._catalog.namespaces
        full = there.full(name)
        if full.local in names.SYSTEM_TOPICS:
            raise KafkaError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"'{full.local}' is what Pulsar calls a system topic of its own: the name is reserved.",
            )
        row = there.get(full.namespace)
        if row is None:
            raise KafkaError(Error.INVALID_TOPIC_EXCEPTION, f"There is no namespace {full.namespace}.")
        if row.deleted or full.namespace in there.going:
            raise KafkaError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"Namespace {full.namespace} is being deleted: it takes no new topics.",
            )
        return full.namespace

    def coming_named(self, prefix: str) -> str | None:
        """A topic whose name begins so and that is on its way to the disk, None where there is none."""
        return next((name for name in self._creating.values() if name.startswith(prefix)), None)

    @contextlib.contextmanager
    def taken(self, topic: Topic) -> Iterator[None]:
        """The name is somebody's while its topic is on its way to the disk."""
        self.take(topic)
        try:
            yield
        finally:
            self.free(topic)

    def take(self, topic: Topic) -> None:
        """The same from now on, until `free`."""
        name = topic.name
        self._creating[self._catalog.plain(name)] = name
        self._comes(name, len(topic.partitions))
        named = names.partition_named(name)
        if named is not None:
            self._creating_under[named[0]] += 1

    def free(self, topic: Topic) -> None:
        """The topic is there, or will not be."""
        name = topic.name
        del self._creating[self._catalog.plain(name)]
        self._comes(name, -len(topic.partitions))
        named = names.partition_named(name)
        if named is not None:
            self._creating_under -= Counter([named[0]])

    @contextlib.contextmanager
    def growing(self, name: str, partitions: int) -> Iterator[None]:
        """So many more of a topic that is there are on their way to the disk."""
        self._comes(name, partitions)
        try:
            yield
        finally:
            self._comes(name, -partitions)

    def _comes(self, name: str, partitions: int) -> None:
        """So many are on their way to the disk, or no longer."""
        self._coming[self._catalog.namespaces.full(name).namespace] += partitions
        self._coming += Counter()


def is_transient(configs: dict[str, str]) -> bool:
    """Whether a topic with these configs is in memory only."""
    return configs.get(PERSISTENCE) == names.NON_PERSISTENT


def as_base(topic: Topic) -> dict[str, str]:
    """The configs of a topic that is made for the letters of this one: both are in the same store."""
    return {PERSISTENCE: names.NON_PERSISTENT} if topic.transient else {}


def check_transient(configs: dict[str, str], before: dict[str, str] | None = None) -> None:
    """Raises KafkaError INVALID_CONFIG for what a non-persistent topic cannot do. `before`: what it has already stays,
    for older gateways took it.
    """
    if not is_transient(configs):
        return
    if configs.get("durability") == "fsync":
        raise KafkaError(
            Error.INVALID_CONFIG,
            "durability=fsync is for what is stored, and the messages of a non-persistent topic are in memory only.",
        )
    policy = configs.get("cleanup.policy", "")
    if "compact" in policy and policy != (before or {}).get("cleanup.policy"):
        raise KafkaError(
            Error.INVALID_CONFIG,
            "A non-persistent topic is not compacted: its messages are in memory only, for who reads it now.",
        )


def check_configs(configs: dict[str, str]) -> None:
    """Raises KafkaError INVALID_CONFIG with the reason and the nearest right spelling."""
    for name, value in configs.items():
        problem = topic_configs.validate(name, value)
        if problem is not None:
            raise KafkaError(Error.INVALID_CONFIG, problem)
    least, most = configs.get("min.compaction.lag.ms"), configs.get("max.compaction.lag.ms")
    if least is not None and most is not None and int(least) > int(most):
        raise KafkaError(
            Error.INVALID_CONFIG,
            f"min.compaction.lag.ms is {least}, which is more than max.compaction.lag.ms, {most}.",
        )
