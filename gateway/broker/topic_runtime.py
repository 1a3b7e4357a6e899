"""A topic in use, and what its partitions need of the node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from gateway.broker.node import Time

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.damage import Damage
    from gateway.broker.partition import Partition
    from gateway.broker.quota_gate import Gate, Refusals
    from gateway.broker.resource_groups import ResourceGroup
    from gateway.broker.traffic import Traffic
    from gateway.broker.turn import Turn
    from gateway.broker.undelayed import Undelayed
    from gateway.config.topic_configs import TopicConfig
    from gateway.metrics_catalog import GatewayMetrics
    from store.api import Store, Write


class Transactions(Protocol):
    """Who knows which producer has a transaction open, and with which partitions."""

    def admit(self, producer_id: int, epoch: int, partition: Partition, implicit: bool) -> list[Write]:
        """A batch of a transaction is about to be stored, and is if nothing is raised: rows to be stored with it.

        `implicit`: the partition joins the transaction by that (KIP-890), and begins it if need be. Raises KafkaError.
        """
        ...


class Home(Time, Protocol):
    """As much of a node as a partition needs."""

    @property
    def transactions(self) -> Transactions: ...

    @property
    def turn(self) -> Turn: ...

    @property
    def metrics(self) -> GatewayMetrics: ...

    @property
    def damage(self) -> Damage: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def undelayed(self) -> Undelayed: ...

    @property
    def decompression_limit(self) -> int:
        """Bytes that one batch may unfold to."""
        ...

    def store_of(self, topic: Topic) -> Store:
        """Where a topic's records are."""
        ...

    def retries_into(self, topic: str) -> tuple[str, str] | None:
        """(full name of the topic, subscription) when this is a retry letter topic."""
        ...

    def full_name(self, topic: str) -> str:
        """Pulsar's name of a topic of this name in the catalog."""
        ...

    def resource_group_of(self, topic: str) -> ResourceGroup | None:
        """The group that the namespace of a topic of the catalog is in."""
        ...

    def measure_backlog(self, partition: Partition, gate: Gate) -> asyncio.Future[None]:
        """Begin to measure what subscriptions have not acknowledged, or join who does."""
        ...

    def waited_for(self, topic_id: bytes, index: int) -> bool:
        """Whether batches wait until a partition's backlog is smaller."""
        ...

    @property
    def refusals(self) -> Refusals:
        """Batches that were told to come again."""
        ...


class TopicRuntime:
    """A topic in use: its row, its effective configuration, and those of its partitions that are in use."""

    __slots__ = ("config", "deleting", "ending", "name", "name_utf8", "partitions", "topic", "topic_id")

    def __init__(self, topic: Topic, config: TopicConfig) -> None:
        self.topic = topic
        self.config = config
        self.name = topic.name
        self.name_utf8 = topic.name.encode()
        self.topic_id = topic.topic_id
        self.partitions: list[Partition | None] = [None] * len(topic.partitions)
        # True while its deletion is on its way to the disk: no partition is opened any more
        self.deleting = False
        # partitions of which it is on its way to the disk that they take no more messages
        self.ending: frozenset[int] = frozenset()

    def forget(self, partition: Partition) -> None:
        """The next user of this partition gets a fresh one."""
        if self.partitions[partition.index] is partition:
            self.partitions[partition.index] = None
