"""Who publishes where: a connection that has published to a partition is a producer of it, until it closes.

Kafka has no producers that open and close. As with Pulsar's, stats name them, and a policy limits their number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error

if TYPE_CHECKING:
    from gateway.clock import Clock
    from gateway.peer import Peer


class Publisher:
    """One connection at one partition."""

    __slots__ = ("bytes", "peer", "records", "since")

    def __init__(self, peer: Peer, since: int) -> None:
        self.peer = peer
        self.since = since
        """ms since 1970"""
        self.records = 0
        self.bytes = 0
        """of batches, as they came"""


class Place(Protocol):
    """A partition, as far as it matters here."""

    @property
    def topic_name(self) -> str: ...

    @property
    def index(self) -> int: ...

    @property
    def publishers(self) -> dict[Publishing, Publisher]: ...

    @property
    def most_producers(self) -> int:
        """0 is no limit."""
        ...


class Publishing:
    """Of one connection: where it is a producer."""

    __slots__ = ("_clock", "_closed", "_peer", "at")

    def __init__(self, peer: Peer, clock: Clock) -> None:
        self._peer = peer
        self._clock = clock
        self._closed = False
        self.at: dict[Place, Publisher] = {}

    def begin(self, partition: Place) -> Publisher:
        """From now on it is one there. Raises KafkaError POLICY_VIOLATION where there are as many as may be."""
        if self._closed:
            # what it sent before is taken now
            return Publisher(self._peer, self._clock.wall_ms())
        most, topic = partition.most_producers, partition.topic_name
        if most and len(partition.publishers) >= most:
            raise KafkaError(
                Error.POLICY_VIOLATION,
                f"Partition {partition.index} of topic {topic} may have no more than {most} producers. The limit is "
                f"set with: magnetar-admin topicPolicies set-max-producers {topic} -p N",
            )
        publisher = Publisher(self._peer, self._clock.wall_ms())
        partition.publishers[self] = self.at[partition] = publisher
        return publisher

    def forget(self, partition: Place) -> None:
        """That one leaves memory."""
        self.at.pop(partition, None)

    def close(self) -> None:
        """The connection is closed."""
        self._closed = True
        for partition in self.at:
            partition.publishers.pop(self, None)
        self.at.clear()
