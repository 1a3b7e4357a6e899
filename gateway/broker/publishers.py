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

    __slots__ = ("allowed", "bytes", "peer", "records", "since")

    def __init__(self, peer: Peer, since: int) -> None:
        self.peer = peer
        self.since = since
        """ms since 1970"""
        self.allowed = -1
        """the version of the rules by which it may write there, if that was asked (`Rights.rules`)"""
        self.records = 0
        self.bytes = 0
        """of batches, as they came"""


class Place(Protocol):
    """A partition, as far as it matters here."""

    @property
    def topic_name(self) -> str: ...

    @property
    def topic_id(self) -> bytes: ...

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

    __slots__ = ("_clock", "_closed", "_peer", "at", "groups", "topics")

    def __init__(self, peer: Peer, clock: Clock) -> None:
        self._peer = peer
        self._clock = clock
        self._closed = False
        self.at: dict[Place, Publisher] = {}
        self.groups: set[object] = set()
        """resource groups of which it is told for how long to wait: it has published there, and not before what was
        owed as it came was paid"""
        self.topics: set[bytes] = set()
        """ids of those that it has ever published to"""

    @property
    def client(self) -> str:
        """What the connection's client calls itself."""
        return self._peer.client_id

    def check(self, partition: Place) -> None:
        """Whether it may become one there. Raises KafkaError POLICY_VIOLATION where there are as many as may be."""
        most, topic = partition.most_producers, partition.topic_name
        if most and len(partition.publishers) >= most:
            raise KafkaError(
                Error.POLICY_VIOLATION,
                f"Partition {partition.index} of topic {topic} may have no more than {most} producers. The limit is "
                f"set with: magnetar-admin topicPolicies set-max-producers {topic} -p N",
            )

    def begin(self, partition: Place) -> Publisher:
        """It has published there: from now on it is one."""
        publisher = Publisher(self._peer, self._clock.wall_ms())
        # what it sent before it was closed is taken all the same
        if not self._closed:
            partition.publishers[self] = self.at[partition] = publisher
            self.topics.add(partition.topic_id)
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
