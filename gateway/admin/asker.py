"""Who asks over HTTP, and what it may do.

Where no rights are asked for, everybody may do everything. Elsewhere three things are known: whether it is a
super-user, whether it looks after a tenant, and its rights in a namespace, which are Kafka's (`gateway/rights.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.peer import HOME, NOBODY, Identity
from gateway.rights import UNCHECKED
from semantics.access.acl import Operation, ResourceType
from semantics.access.roles import administers, is_super_user
from semantics.group_names import bare, scoped
from semantics.names import AUDIT, DEFAULT

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.namespaces import Namespaces
    from gateway.rights import Rights
    from semantics.names import Namespace


class Access(Protocol):
    """Who keeps the rights."""

    def rights_of(
        self, principal: str, host: str, namespace: Namespace, *, at_home: bool = True
    ) -> Rights: ...


class Asker:
    """One caller. Names of topics are those of the catalog, ids of groups those that are kept."""

    __slots__ = ("_access", "_namespaces", "_super_users", "checked", "host", "identity")

    def __init__(
        self,
        identity: Identity = NOBODY,
        host: str = "",
        *,
        namespaces: Namespaces | None = None,
        super_users: frozenset[str] = frozenset(),
        access: Access | None = None,
    ) -> None:
        """`host` is its address. Without `namespaces` and `access` nobody asks for its rights."""
        self.identity = identity
        self.host = host
        self._namespaces = namespaces
        self._super_users = super_users
        self._access = access
        self.checked = namespaces is not None and not is_super_user(identity.principal, super_users)
        """False for who may do everything"""

    @property
    def principal(self) -> str:
        return self.identity.principal

    def administers(self, tenant: str) -> bool:
        """Whether it looks after a tenant."""
        if not self.checked or self._namespaces is None:
            return True
        row = self._namespaces.tenant(tenant)
        return row is not None and administers(self.principal, self._super_users, row.admin_roles)

    def rights(self, namespace: Namespace) -> Rights:
        """What it may do there, by the names that a client at home there says."""
        if not self.checked:
            return UNCHECKED
        assert self._access is not None, "somebody keeps the rights that are checked"
        at_home = str(namespace) == (self.identity.home or HOME)
        return self._access.rights_of(self.principal, self.host, namespace, at_home=at_home)

    def topic(self, operation: Operation, name: str, namespace: Namespace) -> bool:
        """Whether it may use a topic of a namespace so."""
        if name == AUDIT and self.checked:
            # it tells of all tenants
            return False
        if self.administers(namespace.tenant):
            return True
        return self.rights(namespace).topic(operation, name)

    def group(self, operation: Operation, group_id: str, namespace: Namespace) -> bool:
        """Whether it may use a subscription on topics of a namespace so. It is the namespace that says so, as in
        Pulsar, also where the group behind it is that of clients at home elsewhere.
        """
        if self.administers(namespace.tenant):
            return True
        return self.rights(namespace).group(operation, scoped(namespace, bare(group_id)))

    def node(self, operation: Operation) -> bool:
        """Whether it may do this to the whole gateway."""
        return self.rights(DEFAULT).node(operation)

    def any_topic(self, operation: Operation, namespace: Namespace) -> bool:
        """Whether there is some topic in a namespace that it may use so."""
        if self.administers(namespace.tenant):
            return True
        return self.rights(namespace).any(ResourceType.TOPIC, operation)

    def sees(self, name: str) -> bool:
        """Whether a topic shows to it, in a list."""
        if not self.checked or self._namespaces is None:
            return True
        return self.topic(Operation.DESCRIBE, name, self._namespaces.full(name).namespace)


EVERYBODY = Asker()
"""Where nobody is asked."""


def asker_of(broker: Broker, identity: Identity, host: str) -> Asker:
    """Who asks, with what this gateway knows of it."""
    settings = broker.settings
    if not settings.authorization:
        return Asker(identity, host)
    return Asker(
        identity,
        host,
        namespaces=broker.catalog.namespaces,
        super_users=settings.super_users,
        access=broker.access,
    )
