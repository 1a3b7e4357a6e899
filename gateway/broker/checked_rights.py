"""The rights of one client, by the table: `gateway/rights.py` where rights are asked for.

What follows for a name is looked up once, all operations together, and kept until anything changes that rights go by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from gateway.rights import ALL_CLUSTER, ALL_GROUP, ALL_TOPIC
from semantics import group_names
from semantics.access.acl import CLUSTER_NAME, Operation, ResourceType
from semantics.access.roles import administers, is_super_user, role_of
from semantics.names import AUDIT, DEFAULT, Namespace

if TYPE_CHECKING:
    from gateway.broker.namespaces import Namespaces
    from semantics.access.table import Table

MOST_KEPT = 100_000
"""Names for which it is kept what follows, over all clients; beyond that all forget."""

_EVERYTHING = (1 << 16) - 1
"""All of Kafka's operations, as bits."""
_READ = 1 << Operation.READ
_TOLD = {ResourceType.TOPIC: ALL_TOPIC, ResourceType.GROUP: ALL_GROUP, ResourceType.CLUSTER: ALL_CLUSTER}


class Rules:
    """What the rights of all clients go by, and whether it has changed."""

    def __init__(self, table: Table, namespaces: Namespaces) -> None:
        self.table = table
        self.namespaces = namespaces
        self.version = 0
        """counts changes of anything that rights go by"""
        # names for which it is kept what follows, and who keeps them
        self.kept = 0
        self.rights: WeakSet[CheckedRights] = WeakSet()

    def keep(self) -> None:
        """One more is kept."""
        self.kept += 1
        if self.kept > MOST_KEPT:
            for each in self.rights:
                each.forget()
            self.kept = 1

    def place(self, name: str) -> tuple[Namespace, str]:
        """(its namespace, what it is called there) of a topic of the catalog, or of what can be none."""
        parts = name.split("/", 2)
        if len(parts) < 3:
            return DEFAULT, name
        # what can be no topic has a slash more before what its client calls it, and is of that client's home
        return (Namespace(parts[0], parts[1]), parts[2]) if parts[0] else (DEFAULT, parts[2])

    def may_all(self, principal: str, namespace: Namespace) -> bool:
        """Whether somebody may do everything in a namespace: super-users, and who administrates its tenant."""
        if is_super_user(principal, self.table.super_users):
            return True
        tenant = self.namespaces.tenant(namespace.tenant)
        return tenant is not None and administers(principal, (), tenant.admin_roles)

    def may_use(self, principal: str, namespace: Namespace, subscription: str) -> bool:
        """Whether a namespace leaves a subscription to somebody who may consume: Pulsar's permissions of subscriptions,
        and its mode in which their names begin with the role.
        """
        row = self.namespaces.get(namespace)
        if row is None:
            return True
        role = role_of(principal)
        if row.subscription_auth_mode == "Prefix" and (role is None or not subscription.startswith(role)):
            return False
        roles = row.subscription_permissions.get(subscription)
        return not roles or role in roles


class CheckedRights:
    """Of one principal, from one address, at one home."""

    __slots__ = (
        "__weakref__",
        "_any",
        "_groups",
        "_host",
        "_ids",
        "_lives",
        "_topics",
        "_version",
        "home",
        "principal",
        "rules",
    )
    checked = True

    def __init__(
        self, rules: Rules, principal: str, host: str, home: Namespace, *, at_home: bool = True
    ) -> None:
        """`host` is an address, without a slash. Who asks for a namespace and lives elsewhere is not `at_home`:
        what no row is about is not open to it.
        """
        self.rules = rules
        self.principal = principal
        self._host = host
        self.home = home
        self._lives = at_home
        # the version of the rules that these follow from
        self._version = rules.version
        # operations as bits, by the catalog's name, or the id as it is kept
        self._topics: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._ids: dict[str, int] = {}
        # a bit for each operation that there is a resource for, by type; and what was asked
        self._any: dict[tuple[ResourceType, Operation], bool] = {}
        rules.rights.add(self)

    def __repr__(self) -> str:
        return f"<CheckedRights {self.principal} {self._host} {self.home}>"

    # -- what APIs ask ----------------------------------------------------------------------------------------------

    def topic(self, operation: Operation, name: str) -> bool:
        if self._version != self.rules.version:
            self.forget()
        bits = self._topics.get(name)
        if bits is None:
            bits = self._look_at_topic(name)
        return (bits >> operation & 1) == 1

    def group(self, operation: Operation, group_id: str) -> bool:
        if self._version != self.rules.version:
            self.forget()
        bits = self._groups.get(group_id)
        if bits is None:
            bits = self._look_at_group(group_id)
        return (bits >> operation & 1) == 1

    def transactional_id(self, operation: Operation, transactional_id: str) -> bool:
        if self._version != self.rules.version:
            self.forget()
        bits = self._ids.get(transactional_id)
        if bits is None:
            bits = self._look_at_id(transactional_id)
        return (bits >> operation & 1) == 1

    def cluster(self, operation: Operation) -> bool:
        return bool(self._bits(self.home, ResourceType.CLUSTER, CLUSTER_NAME) >> operation & 1)

    def cluster_of(self, operation: Operation, topic: str) -> bool:
        namespace, _ = self.rules.place(topic)
        return bool(self._bits(namespace, ResourceType.CLUSTER, CLUSTER_NAME) >> operation & 1)

    def node(self, operation: Operation) -> bool:
        table = self.rules.table
        if self.principal in table.super_users:
            return True
        # who administrates the tenant public is none for the gateway's sake
        return self.home == DEFAULT and table.decide(
            DEFAULT,
            self.principal,
            self._host,
            operation,
            ResourceType.CLUSTER,
            CLUSTER_NAME,
            # the gateway is nobody's home
            at_home=False,
        )

    def any(self, kind: ResourceType, operation: Operation) -> bool:
        if self._version != self.rules.version:
            self.forget()
        found = self._any.get((kind, operation))
        if found is None:
            rules, home = self.rules, self.home
            found = rules.may_all(self.principal, home) or rules.table.any(
                home, self.principal, self._host, operation, kind, at_home=self._lives
            )
            self._any[kind, operation] = found
        return found

    def operations(self, kind: ResourceType, name: str) -> int:
        if self._version != self.rules.version:
            self.forget()
        if kind is ResourceType.TOPIC:
            bits = self._topics.get(name)
            bits = self._look_at_topic(name) if bits is None else bits
        elif kind is ResourceType.GROUP:
            bits = self._groups.get(name)
            bits = self._look_at_group(name) if bits is None else bits
        else:
            bits = self._bits(self.home, kind, name)
        return bits & _TOLD.get(kind, _EVERYTHING)

    # -- what follows for a name ------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Everything is looked up anew."""
        self._version = self.rules.version
        self.rules.kept -= len(self._topics) + len(self._groups) + len(self._ids)
        for each in (self._topics, self._groups, self._ids):
            each.clear()
        self._any.clear()

    def _bits(self, namespace: Namespace, kind: ResourceType, name: str) -> int:
        rules = self.rules
        if rules.may_all(self.principal, namespace):
            return _EVERYTHING
        at_home = self._lives and namespace == self.home
        return rules.table.operations(
            namespace, self.principal, self._host, kind, name, _EVERYTHING, at_home=at_home
        )

    def _look_at_topic(self, name: str) -> int:
        namespace, local = self.rules.place(name)
        bits = self._bits(namespace, ResourceType.TOPIC, local)
        if name == AUDIT and not is_super_user(self.principal, self.rules.table.super_users):
            # it tells of all tenants
            bits = 0
        self.rules.keep()
        self._topics[name] = bits
        return bits

    def _look_at_group(self, group_id: str) -> int:
        namespace, name = group_names.home_of(group_id), group_names.bare(group_id)
        bits = self._bits(namespace, ResourceType.GROUP, name)
        rules = self.rules
        if (
            bits & _READ
            and not rules.may_use(self.principal, namespace, name)
            and not rules.may_all(self.principal, namespace)
        ):
            bits &= ~_READ
        rules.keep()
        self._groups[group_id] = bits
        return bits

    def _look_at_id(self, transactional_id: str) -> int:
        # kept as a group's id is
        namespace, name = group_names.home_of(transactional_id), group_names.bare(transactional_id)
        bits = self._bits(namespace, ResourceType.TRANSACTIONAL_ID, name)
        self.rules.keep()
        self._ids[transactional_id] = bits
        return bits
