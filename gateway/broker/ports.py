"""A node as the requests of consumers need it: each kind says here what it depends on. The broker is all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.broker.node import Node

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog
    from gateway.broker.fetch_sessions import FetchSessions
    from gateway.broker.group_configs import GroupConfigs
    from gateway.broker.in_use import InUse
    from gateway.broker.share_groups import ShareGroups
    from gateway.broker.share_sessions import ShareSessions
    from gateway.broker.subscriptions.registry import Subscriptions


class Answering(Node, Protocol):
    """For whatever may have large answers."""

    unsent_bytes: int
    """that clients have not taken yet, and what is being read for them"""

    @property
    def memory_limit(self) -> int:
        """Unsent bytes from which on answers are small."""
        ...

    @property
    def fetch_max_bytes(self) -> int:
        """Bytes of records in one answer, unless its first batch has more."""
        ...

    @property
    def in_use(self) -> InUse: ...


class Reading(Answering, Protocol):
    """For fetches."""

    @property
    def fetch_sessions(self) -> FetchSessions: ...


class Sharing(Answering, Protocol):
    """For the fetches and acknowledgements of share groups."""

    @property
    def catalog(self) -> Catalog: ...

    @property
    def subscriptions(self) -> Subscriptions: ...

    @property
    def share_groups(self) -> ShareGroups: ...

    @property
    def share_sessions(self) -> ShareSessions: ...

    @property
    def group_configs(self) -> GroupConfigs: ...
