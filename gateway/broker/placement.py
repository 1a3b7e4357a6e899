"""Who leads a partition, who coordinates a group, and which nodes there are: what clients are told of it, in one place.

APIs ask the broker's `Placement`, and conclude nothing from this node's own id, which is its identity: it names its
configs. So far a node is alone, and everything is on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic


class Advertised(NamedTuple):
    """A node as the clients of one listener are told of it."""

    id: int
    host: str
    port: int
    rack: str | None


class Placement(Protocol):
    """All of this is known without waiting: Metadata is asked for by every client, again and again."""

    @property
    def version(self) -> int:
        """Counts changes, also of leader epochs, so that answers which are kept know when they are old."""
        ...

    @property
    def controller(self) -> int:
        """The node that is told to clients as the one which changes topics and configs."""
        ...

    @property
    def ids(self) -> Sequence[int]:
        """Of all nodes, ascending."""
        ...

    def nodes(self, listener: str) -> Sequence[Advertised]:
        """Those that can be reached, with the addresses for clients that came in by a listener of this name."""
        ...

    def replicas(self, topic: Topic) -> Sequence[list[int]]:
        """The nodes that have each partition, by index: first the one that leads it, and so far no other.

        Asked once a topic, which may have 10,000 partitions. The lists are shared, and not to be changed.
        """
        ...

    def coordinator(self, key: str) -> int:
        """The node that coordinates a group, or the transactions of a transactional id."""
        ...


class OneNode:
    """A node alone."""

    version = 0

    def __init__(self, id: int, endpoints: Mapping[str, tuple[str, int]], rack: str | None) -> None:
        """`endpoints` are (host, port) by listener; looked up when asked for."""
        self.controller = id
        self.ids = (id,)
        self._alone = [[id]]
        self._endpoints = endpoints
        self._rack = rack

    def nodes(self, listener: str) -> Sequence[Advertised]:
        host, port = self._endpoints[listener]
        return (Advertised(self.controller, host, port, self._rack),)

    def replicas(self, topic: Topic) -> Sequence[list[int]]:
        return self._alone * len(topic.partitions)

    def coordinator(self, key: str) -> int:
        return self.controller
