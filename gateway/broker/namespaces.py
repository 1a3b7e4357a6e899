"""The tenants and namespaces there are, and what their topics are called: rows of the store, read when asked for.

A topic of `public/default` has its own name in the catalog, one of another namespace `tenant/namespace/topic`
(`semantics/names.py`). So a name says its namespace by itself, whichever namespaces there are.

`public` and `public/default` are there without a row. Changes are writes to commit, then `changed`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from semantics import group_names, names
from semantics.homes import Homes
from semantics.names import DEFAULT, Namespace, TopicName
from store.api import Delete, Family, Put, Store, Write

_TENANT = b"tenant/"
_NAMESPACE = b"namespace/"
_CACHED = 20_000
"""Names that were looked up, found or not; beyond that all are forgotten and read again."""


class TenantRow(msgspec.Struct, omit_defaults=True):
    """What is kept of a tenant. The roles are users that may do everything in it, where rights are asked for."""

    # who may do everything in its namespaces
    admin_roles: list[str] = []
    # None: all there are
    allowed_clusters: list[str] | None = None
    # the resource group that its last namespace was in when that was deleted: the next one is in it
    resource_group: str = ""


class NamespaceRow(msgspec.Struct, omit_defaults=True):
    """What is kept of a namespace."""

    created_at: int = 0
    # None: all there are
    clusters: list[str] | None = None
    properties: dict[str, str] = {}
    # by the names of `semantics.policies`, as configs are written
    policies: dict[str, str] = {}
    # its topics are being deleted, and then it goes, too: nothing is made in it any more
    deleted: bool = False
    # by role, what it may do in all topics, as it was kept before there were rows of ACLs: see kept_permissions.py
    permissions: dict[str, list[str]] = {}
    # by subscription, the only roles that may use it
    subscription_permissions: dict[str, list[str]] = {}
    # whether names of subscriptions begin with the role that uses them, in Pulsar's words
    subscription_auth_mode: str = "None"
    # None: all there are
    allowed_clusters: list[str] | None = None
    # what its namespaces have in common is to be on different brokers; "" for none
    anti_affinity_group: str = ""
    # whose rates its topics have together with those of others; "" for none
    resource_group: str = ""


_tenants = msgspec.msgpack.Decoder(TenantRow)
_namespaces = msgspec.msgpack.Decoder(NamespaceRow)


class Namespaces:
    """Reads the rows, and translates names by them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: dict[Namespace, NamespaceRow | None] = {}
        # what names of topics mean
        self._full: dict[str, TopicName] = {}
        # whether there is another than public/default; None until somebody asks
        self._several: bool | None = None
        # counts every change
        self.version = 0
        # those that are on their way to the disk: what is made with them may be of them
        self.coming: set[Namespace] = set()
        # those of which it is on its way to the disk that they take no more topics
        self.going: set[Namespace] = set()
        # whether rights are asked for: then a name is of another namespace only for who may describe the topic
        self.guarded = False
        # those whose subscriptions are of the groups of clients at home there
        self.homes: Homes = frozenset()

    # -- what there is ----------------------------------------------------------------------------------------------

    def tenant(self, name: str) -> TenantRow | None:
        """The row of a tenant, None where there is no such tenant."""
        raw = self._store.get(Family.POLICY, _TENANT + name.encode())
        if raw is not None:
            return _tenants.decode(raw)
        return TenantRow() if name == DEFAULT.tenant else None

    def tenants(self) -> list[str]:
        """The names of all tenants, in byte order."""
        skip = len(_TENANT)
        found = {key[skip:].decode() for key, _ in self._store.scan(Family.POLICY, _TENANT)}
        return sorted(found | {DEFAULT.tenant})

    def get(self, namespace: Namespace) -> NamespaceRow | None:
        """The row of a namespace, None where there is no such namespace."""
        try:
            return self._cache[namespace]
        except KeyError:
            pass
        raw = self._store.get(Family.POLICY, _key(namespace))
        found = _namespaces.decode(raw) if raw is not None else None
        if found is None and namespace == DEFAULT:
            found = NamespaceRow()
        if len(self._cache) >= _CACHED:
            self._cache.clear()
        self._cache[namespace] = found
        return found

    def exists(self, namespace: Namespace) -> bool:
        return self.get(namespace) is not None

    def dotted(self, namespace: Namespace) -> bool:
        """Whether a pattern that begins with its dotted name is over its topics."""
        return not self.guarded and self.exists(namespace)

    def of_tenant(self, tenant: str) -> Iterator[Namespace]:
        """The namespaces of a tenant, in byte order; `public/default` first."""
        if tenant == DEFAULT.tenant:
            yield DEFAULT
        prefix = _NAMESPACE + tenant.encode() + b"/"
        for key, _ in self._store.scan(Family.POLICY, prefix):
            found = Namespace(tenant, key[len(prefix) :].decode())
            if found != DEFAULT:
                yield found

    @property
    def several(self) -> bool:
        """Whether there are others than `public/default`: where there are none, no name is of another."""
        if self._several is None:
            keys = (key for key, _ in self._store.scan(Family.POLICY, _NAMESPACE, None, 2))
            self._several = any(key != _key(DEFAULT) for key in keys)
        return self._several

    # -- names ------------------------------------------------------------------------------------------------------

    def full(self, name: str) -> TopicName:
        """Pulsar's name of a topic of the catalog."""
        found = self._full.get(name)
        if found is None:
            found = names.of_catalog(name)
            if len(self._full) >= _CACHED:
                self._full.clear()
            self._full[name] = found
        return found

    def policies_of(self, name: str) -> dict[str, str]:
        """What is set for the namespace of a topic of the catalog."""
        row = self.get(self.full(name).namespace)
        return row.policies if row is not None else {}

    def resource_group_of(self, name: str) -> str:
        """The resource group that the namespace of a topic of the catalog is in; "" for none."""
        row = self.get(self.full(name).namespace)
        return row.resource_group if row is not None else ""

    def resource_group_of_new(self, tenant: str) -> str:
        """The resource group that a new namespace of a tenant is in, where no super-user says it: that of all others,
        of several the first by name, and of the last there was where there are none. "" for none, and where others are
        in none.
        """
        groups = {
            row.resource_group for each in self.of_tenant(tenant) if (row := self.get(each)) is not None
        }
        if not groups:
            left = self.tenant(tenant)
            return left.resource_group if left is not None else ""
        return min(groups)

    def elsewhere(self, name: str, home: Namespace = DEFAULT) -> str | None:
        """What the catalog calls the topic of another namespace that a client's dotted name would mean, where its home
        has none of that name; None where it can mean none.
        """
        if not self.several:
            return None
        found = names.elsewhere(name, home, self.exists)
        return names.canonical(found) if found is not None else None

    def reads_as_elsewhere(self, name: str) -> bool:
        """Whether a topic of the catalog is called at its home as one of another namespace would be."""
        if name.count(".") < 2 or not names.is_canonical(name):
            return False
        full = self.full(name)
        return self.elsewhere(full.local, full.namespace) is not None

    def for_people(self, text: str) -> str:
        """A text with names of topics in it, as Kafka's clients call them."""
        return re.sub(rf"(?<![\w./:-]){names.SCOPE}", self.dots, text)

    def dots(self, found: re.Match[str]) -> str:
        """How a name begins for people that begins so in the catalog: what SCOPE has found, if there is such a
        namespace.
        """
        return f"{found[1]}.{found[2]}." if self.exists(Namespace(found[1], found[2])) else found[0]

    # -- groups -----------------------------------------------------------------------------------------------------

    def group_in(self, namespace: Namespace, subscription: str) -> str:
        """The id of the group whose subscriptions of this name are those on topics of a namespace."""
        return group_names.scoped(namespace, subscription) if namespace in self.homes else subscription

    def group_of(self, topic: str, subscription: str) -> str:
        """The id of the group whose subscription of this name is the one on a topic of the catalog."""
        return group_names.scoped(self.home_of(topic), subscription) if self.homes else subscription

    def may_subscribe(self, group_id: str, topic: str) -> bool:
        """Whether a group may have a subscription on a topic of the catalog: where its clients are at home, or where
        nobody is."""
        if not self.homes:
            return True
        home = group_names.home_of(group_id)
        return home == self.home_of(topic) or home == self.full(topic).namespace != DEFAULT

    def shows(self, group_id: str, topic: str) -> bool:
        """Whether what a group has read of a topic of the catalog is shown as a subscription: of groups that are at
        home there, and of those that were while the topic's namespace was a home.
        """
        home = group_names.home_of(group_id)
        if home == self.home_of(topic):
            return True
        return home not in self.homes and home == self.full(topic).namespace

    def home_of(self, topic: str) -> Namespace:
        """Where clients are at home whose group a subscription on a topic of the catalog has."""
        if not self.homes:
            return DEFAULT
        namespace = self.full(topic).namespace
        return namespace if namespace in self.homes else DEFAULT

    # -- changes ----------------------------------------------------------------------------------------------------

    @staticmethod
    def write_tenant(name: str, row: TenantRow | None) -> Write:
        """Keep a tenant; None: it goes."""
        key = _TENANT + name.encode()
        if row is None:
            return Delete(Family.POLICY, key)
        return Put(Family.POLICY, key, msgspec.msgpack.encode(row))

    @staticmethod
    def write(namespace: Namespace, row: NamespaceRow | None) -> Write:
        """Keep a namespace; None: it goes."""
        key = _key(namespace)
        if row is None:
            return Delete(Family.POLICY, key)
        return Put(Family.POLICY, key, msgspec.msgpack.encode(row))

    def changed(self, namespace: Namespace) -> None:
        """A change of a namespace is durable, or may be."""
        self.version += 1
        self._cache.pop(namespace, None)
        self._several = None


def prefix_of(namespace: Namespace) -> str:
    """How the names of a namespace's topics begin in the catalog; nothing for `public/default`."""
    return "" if namespace == DEFAULT else f"{namespace}/"


def _key(namespace: Namespace) -> bytes:
    return _NAMESPACE + str(namespace).encode()
