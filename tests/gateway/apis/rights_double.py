"""Rights made of a plain set, which a test changes while a gateway runs; and a gateway with a client that has them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable

from gateway.apis.rights_table import Kind
from gateway.server import Gateway
from semantics.access.acl import CLUSTER_NAME, Operation, ResourceType
from semantics.names import DEFAULT
from tests.gateway.serving import Client, serving

Granted = tuple[Kind, Operation, str]
"""A kind of resource, an operation, and the name in the catalog, or the id that is kept; "" of the cluster and the
gateway."""

_KINDS = {
    ResourceType.TOPIC: Kind.TOPIC,
    ResourceType.GROUP: Kind.GROUP,
    ResourceType.TRANSACTIONAL_ID: Kind.TRANSACTIONAL_ID,
    ResourceType.CLUSTER: Kind.CLUSTER,
}
_NAMELESS = (Kind.CLUSTER, Kind.GATEWAY)


class _Rules:
    """The set itself, whichever it is now."""

    def __init__(self, double: RightsDouble) -> None:
        self._double = double

    @property
    def version(self) -> int:
        return abs(hash(frozenset(self._double.granted)))


class RightsDouble:
    """What is in the set is allowed, and nothing follows from anything."""

    checked = True
    principal = "User:ada"
    home = DEFAULT

    @property
    def rules(self) -> _Rules:
        return _Rules(self)

    def __init__(self, granted: Iterable[Granted] = ()) -> None:
        self.granted = set(granted)

    def topic(self, operation: Operation, name: str) -> bool:
        return (Kind.TOPIC, operation, name) in self.granted

    def group(self, operation: Operation, group_id: str) -> bool:
        return (Kind.GROUP, operation, group_id) in self.granted

    def transactional_id(self, operation: Operation, transactional_id: str) -> bool:
        return (Kind.TRANSACTIONAL_ID, operation, transactional_id) in self.granted

    def cluster(self, operation: Operation) -> bool:
        return (Kind.CLUSTER, operation, "") in self.granted

    def cluster_of(self, operation: Operation, topic: str) -> bool:
        return self.cluster(operation)

    def node(self, operation: Operation) -> bool:
        return (Kind.GATEWAY, operation, "") in self.granted

    def any(self, kind: ResourceType, operation: Operation) -> bool:
        return any(each[:2] == (_KINDS[kind], operation) for each in self.granted)

    def operations(self, kind: ResourceType, name: str) -> int:
        own = "" if name == CLUSTER_NAME else name
        return sum(1 << each for known, each, of in self.granted if (known, of) == (_KINDS[kind], own))


def everything(*names: str) -> set[Granted]:
    """All operations on all resources of these names."""
    kinds = (Kind.TOPIC, Kind.GROUP, Kind.TRANSACTIONAL_ID)
    named = {(kind, operation, name) for kind in kinds for operation in Operation for name in names}
    return named | {(kind, operation, "") for kind in _NAMELESS for operation in Operation}


@contextlib.asynccontextmanager
async def client_with(
    gateway: Gateway, rights: RightsDouble, *, client_id: str = "test", principal: str = "User:ada"
) -> AsyncIterator[Client]:
    """A connection of that principal with these rights. Others must not connect at the same time."""
    before = {each for listener in gateway.listeners for each in listener.connections}
    client = await Client.connect(gateway, client_id)
    try:
        # it is known when it was answered
        await client.ask(18, 0, b"")
        (connection,) = {each for listener in gateway.listeners for each in listener.connections} - before
        connection.peer.rights = rights
        connection.peer.principal = principal
        yield client
    finally:
        client.close()


@contextlib.asynccontextmanager
async def two_clients(rights: RightsDouble, *flags: str) -> AsyncIterator[tuple[Gateway, Client, Client]]:
    """A gateway, a client that may do everything, and one that has these rights."""
    async with serving("group.initial.rebalance.delay.ms=0", *flags) as gateway:
        admin = await Client.connect(gateway, "admin")
        try:
            async with client_with(gateway, rights) as client:
                yield gateway, admin, client
        finally:
            admin.close()


def changed(gateway: Gateway) -> None:
    """Tell whatever remembers that rights are others now."""
    gateway.broker.rights_changed()
