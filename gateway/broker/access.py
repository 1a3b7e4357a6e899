"""Who may do what: the rows of ACLs, kept and in force, and the rights that follow for a client.

A change is one commit, and is in force when that is durable. Rights go by more than rows: by the admin roles of
tenants, by what namespaces say of their subscriptions, and by which namespaces there are. Whatever of it changes counts
`version` up, and `watchers` are told: who has decided something earlier looks again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker import acl_rows
from gateway.broker.changing import stored
from gateway.broker.checked_rights import CheckedRights, Rules
from gateway.broker.errors import KafkaError
from gateway.rights import UNCHECKED, Rights
from gateway.wire.errors import Error
from semantics.access import bundles
from semantics.access.acl import Acl, PatternType, ResourceType
from semantics.access.roles import role_of
from semantics.access.table import Table
from semantics.names import DEFAULT, Namespace
from store.api import Write

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.node import Node

    Follows = tuple[list[Write], Callable[[], None]]
    """What is to be written with something else, and to be called when that is durable."""

MOST = 100_000
"""Rows in all."""
MOST_OF_TENANTS = 20_000
"""Rows of a namespace, save those of public/default."""
MOST_OF_TENANT = MOST // 4
"""Rows of all namespaces of a tenant, save those of public: who administers one makes namespaces as it likes."""
_CACHED = 10_000
"""Clients whose rights are kept for those who are the same."""


class Change(NamedTuple):
    """Rows that come and rows that go; those that come may be of Pulsar's verbs."""

    add: Sequence[Acl] = ()
    remove: Sequence[Acl] = ()
    pulsars: bool = False


class Access:
    """The rows. One change at a time: each begins with what the one before it left."""

    def __init__(self, node: Node, catalog: Catalog) -> None:
        self._node = node
        self._catalog = catalog
        settings = node.settings
        self.asked = settings.authorization
        """whether rights are asked for; rows are kept in any case"""
        self.table = Table(
            super_users=settings.super_users, everyone=settings.flag("allow.everyone.if.no.acl.found")
        )
        self.watchers: list[Callable[[], None]] = []
        """called after each change of what rights go by"""
        self._rules = Rules(self.table, catalog.namespaces)
        # rows of Pulsar's verbs
        self._pulsars: set[Acl] = set()
        self._read()
        # rows that are on their way to the disk
        self._coming: Sequence[Acl] = ()
        # by topic, rows that go with it, which is on its way
        self._going: dict[str, list[Acl]] = {}
        self._rights: dict[tuple[str, str, Namespace, bool], CheckedRights] = {}
        self._lock = asyncio.Lock()
        catalog.gone_with.append(self._goes_with)
        catalog.watchers.append(self._topic_changed)

    def _read(self) -> None:
        for row, pulsars in acl_rows.read(self._node.store):
            self.table.add(row)
            if pulsars:
                self._pulsars.add(row)

    # -- what follows -----------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Counts changes of anything that rights go by."""
        return self._rules.version

    def rights_of(self, principal: str, host: str, namespace: Namespace, *, at_home: bool = True) -> Rights:
        """Of a client at home in a namespace; or not `at_home`, of one that asks for it. `host` with Kafka's slash or
        without.
        """
        if not self.asked:
            return UNCHECKED
        host = host.removeprefix("/")
        key = (principal, host, namespace, at_home)
        found = self._rights.get(key)
        if found is None:
            if len(self._rights) >= _CACHED:
                self._rights.clear()
            found = self._rights[key] = CheckedRights(
                self._rules, principal, host, namespace, at_home=at_home
            )
        return found

    def changed(self) -> None:
        """Something that rights go by is different from now on."""
        self._rules.version += 1
        for each in self.watchers:
            each()

    # -- rows -------------------------------------------------------------------------------------------------------

    def rows(self, namespace: Namespace | None = None) -> list[Acl]:
        """Those of a namespace, or all; also those that Kafka has no words for."""
        return list(self.table.rows(namespace))

    async def add(self, acls: Sequence[Acl]) -> None:
        """All of them or none; those that are there already stay. Raises KafkaError: INVALID_REQUEST for what is too
        long, POLICY_VIOLATION where it would be too many rows.
        """
        await self.change(lambda: Change(add=acls))

    async def remove(self, acls: Sequence[Acl]) -> None:
        """Those of them that are there. Raises KafkaError."""
        await self.change(lambda: Change(remove=acls))

    async def change(self, make: Callable[[], Change]) -> None:
        """What `make` says when nobody else changes rows. Raises KafkaError, and what `make` raises."""
        async with self._lock:
            change = make()
            writes, done = self.changing(change)
            if not writes:
                return
            self._coming = change.add
            try:
                await stored(self._node, writes, done, self.read_again)
            finally:
                self._coming = ()

    def read_again(self) -> None:
        """Nobody knows whether a change was stored: what there is now the store says."""
        for row in self.rows():
            self.table.remove(row)
        self._pulsars.clear()
        self._read()
        self.changed()

    def changing(self, change: Change) -> Follows:
        """The same as part of another commit. Raises KafkaError."""
        add = list(dict.fromkeys(change.add))
        for row in add:
            self.check(row)
        self._check_room(add)
        staying = set(add)
        remove = [row for row in dict.fromkeys(change.remove) if row in self.table and row not in staying]
        # what somebody has made as it is stays theirs
        pulsars = {row for row in add if change.pulsars and (row not in self.table or row in self._pulsars)}
        writes = [acl_rows.write_gone(row) for row in remove]
        # also those that are there: one may be about to go with its topic
        writes += [acl_rows.write(row, pulsars=row in pulsars) for row in add]

        def done() -> None:
            for row in remove:
                self.table.remove(row)
            for row in add:
                self.table.add(row)
            self._pulsars.difference_update(remove, add)
            self._pulsars |= pulsars
            self.changed()

        return writes, done

    def check(self, row: Acl) -> None:
        """Whether it could be kept, if there is room. Raises KafkaError INVALID_REQUEST."""
        for what, text, most in (
            ("resource's name", row.name, acl_rows.MOST_NAME),
            ("principal", row.principal, acl_rows.MOST_PRINCIPAL),
            ("host", row.host, acl_rows.MOST_HOST),
        ):
            if len(text) > most:
                raise KafkaError(
                    Error.INVALID_REQUEST,
                    f"A {what} has at most {most} characters here; {text[:40]}… has {len(text)}.",
                )
        if not self._takes_rows(row.namespace):
            raise KafkaError(Error.INVALID_REQUEST, f"There is no namespace {row.namespace}.")

    def _check_room(self, add: Iterable[Acl]) -> None:
        more: Counter[Namespace] = Counter()
        for row in add:
            more[row.namespace] += row not in self.table
        if not more:
            return
        if len(self.table) + more.total() > MOST:
            raise KafkaError(Error.POLICY_VIOLATION, f"There are at most {MOST} ACLs.")
        for namespace, count in more.items():
            if namespace != DEFAULT and self.table.count(namespace) + count > MOST_OF_TENANTS:
                raise KafkaError(
                    Error.POLICY_VIOLATION, f"There are at most {MOST_OF_TENANTS} ACLs in {namespace}."
                )
        of_tenants: Counter[str] = Counter()
        for namespace, count in more.items():
            of_tenants[namespace.tenant] += count
        for tenant, count in of_tenants.items():
            if count and tenant != DEFAULT.tenant and self.table.count_of(tenant) + count > MOST_OF_TENANT:
                raise KafkaError(
                    Error.POLICY_VIOLATION, f"There are at most {MOST_OF_TENANT} ACLs in tenant {tenant}."
                )

    def _takes_rows(self, namespace: Namespace) -> bool:
        namespaces = self._catalog.namespaces
        if namespace in namespaces.coming:
            # its first ones are made with it
            return True
        row = namespaces.get(namespace)
        return row is not None and not row.deleted and namespace not in namespaces.going

    # -- what goes with others --------------------------------------------------------------------------------------

    def namespace_goes(self, namespace: Namespace) -> Follows:
        """All rows of a namespace that takes no more: who makes one of this name later does not inherit them."""

        def done() -> None:
            for row in self.rows(namespace):
                self.table.remove(row)
                self._pulsars.discard(row)

        return [acl_rows.write_all_gone(namespace)], done

    def _goes_with(self, topic: Topic) -> list[Write]:
        """Of Pulsar's verbs, what they allow on a topic. ACLs that were made as such stay, as Kafka's do."""
        full = self._catalog.namespaces.full(topic.name)
        found = [
            row
            for row in self.table.named(full.namespace, ResourceType.TOPIC, full.local)
            if row in self._pulsars and row.pattern is PatternType.LITERAL
        ]
        if not found:
            return []
        found += self.unused_groups(full.namespace, found)
        self._going[topic.name] = found
        return [acl_rows.write_gone(row) for row in found]

    def _topic_changed(self, name: str, topic: Topic | None) -> None:
        if topic is not None or name not in self._going:
            return
        for row in self._going.pop(name):
            self.table.remove(row)
            self._pulsars.discard(row)
        self.changed()

    def unused_groups(self, namespace: Namespace, gone: Sequence[Acl]) -> list[Acl]:
        """When these rows go, the rows on groups of roles that consume nothing any more; of Pulsar's verbs only."""
        found = []
        without = set(gone)
        for role in dict.fromkeys(role_of(row.principal) for row in gone):
            if role is None:
                continue
            row = bundles.groups_row(namespace, role)
            if row not in self._pulsars or row in without:
                continue
            theirs = self.table.rows(namespace, ResourceType.TOPIC, row.principal)
            coming = (each for each in self._coming if each.namespace == namespace)
            left = [each for each in (*theirs, *coming) if each not in without]
            if not any(each.principal == row.principal for each in bundles.consumed(left)):
                found.append(row)
        return found
