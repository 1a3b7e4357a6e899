"""A node as subscriptions need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.broker.node import Node

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.group_configs import GroupConfigs
    from gateway.broker.in_use import InUse
    from gateway.broker.topics import Topics
    from gateway.broker.turn import Turn
    from store.api import Store


class Sessions(Protocol):
    """Of whom consumers are members. Times are monotonic ms."""

    def wants(self, group: str, member: str, since: int, /) -> bool:
        """Whether a member has asked for records since then, or waits for some."""
        ...

    def member_gone(self, group: str, member: str, *, graceful: bool) -> None:
        """It left its group (graceful), or ran out."""
        ...


class Delivering(Node, Protocol):
    """See the module."""

    @property
    def turn(self) -> Turn: ...

    @property
    def catalog(self) -> Catalog: ...

    @property
    def in_use(self) -> InUse: ...

    @property
    def topics(self) -> Topics: ...

    @property
    def group_configs(self) -> GroupConfigs: ...

    @property
    def share_sessions(self) -> Sessions: ...

    @property
    def durable(self) -> Store:
        """The store of all that is not in memory only."""
        ...

    def store_of(self, topic: Topic) -> Store:
        """Where a topic's records are, and the cursors that read them."""
        ...

    @property
    def decompression_limit(self) -> int:
        """Bytes that one batch may unfold to."""
        ...
