"""What who asks may do. Everything that answers a client asks the `Rights` of its peer, by the catalog's names.

The table that decides is `semantics/access`; `broker/access.py` keeps its rows and makes these.
"""

from __future__ import annotations

from typing import Protocol

from semantics.access.acl import Operation, ResourceType
from semantics.names import DEFAULT, Namespace

ALL_TOPIC = sum(1 << each for each in (3, 4, 5, 6, 7, 8, 10, 11))
ALL_GROUP = sum(1 << each for each in (3, 6, 8, 10, 11))
ALL_CLUSTER = sum(1 << each for each in (5, 7, 8, 9, 10, 11, 12))
"""Operations that there are on a kind of resource, as bits: what Kafka tells of one to whom everything is allowed."""


class Rules(Protocol):
    """What rights follow from."""

    @property
    def version(self) -> int:
        """0 or more, and another one when anything may be allowed or forbidden that was not."""
        ...


class Rights(Protocol):
    """Of one principal, from one address, at one home. Names are those of the catalog and of kept groups."""

    @property
    def checked(self) -> bool:
        """False where nobody asks for rights: everything else answers True then, and need not be called."""
        ...

    @property
    def rules(self) -> Rules:
        """Whoever remembers an answer, since asking again would be dear, remembers by which version it was given."""
        ...

    @property
    def principal(self) -> str:
        """Whose they are; "" where nobody asks."""
        ...

    @property
    def home(self) -> Namespace:
        """Where it is at home."""
        ...

    def topic(self, operation: Operation, name: str) -> bool: ...

    def group(self, operation: Operation, group_id: str) -> bool: ...

    def transactional_id(self, operation: Operation, transactional_id: str) -> bool: ...

    def cluster(self, operation: Operation) -> bool:
        """On the cluster as the client sees it: for a tenant, its namespace. That says nothing of a topic: a client may
        reach those of other namespaces (`cluster_of`)."""
        ...

    def cluster_of(self, operation: Operation, topic: str) -> bool:
        """On the cluster of the namespace that a topic is in, wherever the client is at home."""
        ...

    def node(self, operation: Operation) -> bool:
        """On the whole gateway: settings of the broker, others' users and quotas. Super-users, and who was allowed it
        on the cluster of public/default."""
        ...

    def any(self, kind: ResourceType, operation: Operation) -> bool:
        """Whether there is some resource of this kind that it may use so (authorizeByResourceType)."""
        ...

    def operations(self, kind: ResourceType, name: str) -> int:
        """What it may do to one resource, as bits (KIP-430)."""
        ...


class _Fixed:
    """Nothing of it changes."""

    __slots__ = ()
    version = 0


class Unchecked:
    """Where nobody asks."""

    __slots__ = ()
    checked = False
    rules = _Fixed()
    principal = ""
    home = DEFAULT

    def topic(self, operation: Operation, name: str) -> bool:
        return True

    def group(self, operation: Operation, group_id: str) -> bool:
        return True

    def transactional_id(self, operation: Operation, transactional_id: str) -> bool:
        return True

    def cluster(self, operation: Operation) -> bool:
        return True

    def cluster_of(self, operation: Operation, topic: str) -> bool:
        return True

    def node(self, operation: Operation) -> bool:
        return True

    def any(self, kind: ResourceType, operation: Operation) -> bool:
        return True

    def operations(self, kind: ResourceType, name: str) -> int:
        return {ResourceType.TOPIC: ALL_TOPIC, ResourceType.GROUP: ALL_GROUP}.get(kind, ALL_CLUSTER)


UNCHECKED = Unchecked()
