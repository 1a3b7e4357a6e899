"""Tenants and namespaces made, changed and deleted: each is one commit. Their rows are `namespaces.py`'s."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from gateway.broker.changing import stored
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.namespaces import NamespaceRow, Namespaces, TenantRow, prefix_of
from gateway.wire.errors import Error
from semantics.names import DEFAULT, SYSTEM_TENANT, Namespace
from store.api import StoreError, Write
from store.steps import step

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.node import Node
    from gateway.broker.topics import Topics

    Follows = tuple[list[Write], Callable[[], None]]
    """What is written with a change, and called when that is durable."""

log = logging.getLogger("magnetar.tenancy")


class TenancyError(Exception):
    """What cannot be done to a tenant or a namespace; `status` as Pulsar's admin API answers it."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Tenancy:
    """The verbs. One change at a time: each begins with what the one before it left."""

    def __init__(
        self,
        node: Node,
        catalog: Catalog,
        topics: Topics,
        policies_changed: Callable[[Namespace, Mapping[str, str], Mapping[str, str]], None],
    ) -> None:
        """`policies_changed` is called with what a namespace's policies were and what they are, when that is durable
        and in force.
        """
        self._policies_changed = policies_changed
        self._node = node
        self._catalog = catalog
        self._topics = topics
        self._there: Namespaces = catalog.namespaces
        self._lock = asyncio.Lock()
        self.watchers: list[Callable[[], None]] = []
        """called when a change of a tenant or a namespace is durable, or may be"""
        self.doubting: list[Callable[[], None]] = []
        """who has rows in memory that are stored with those of namespaces, and reads them again: called when nobody
        knows whether a change is durable"""
        self.leaving: list[Callable[[Namespace], Awaitable[None]]] = []
        """whoever has something that goes before a namespace, which has no topics by then; KafkaError, StoreError"""
        self.gone_with: list[Callable[[Namespace], Follows]] = []
        """who has something that goes with a namespace, which takes nothing new by then"""

    # -- tenants ----------------------------------------------------------------------------------------------------

    def tenant(self, name: str) -> TenantRow:
        """Raises TenancyError (404)."""
        row = self._there.tenant(name)
        if row is None:
            raise TenancyError(404, f"There is no tenant {name[:80]!r}: `tenants create` makes one.")
        return row

    async def create_tenant(self, name: str, row: TenantRow) -> None:
        """Raises TenancyError (409), KafkaError."""
        if name == SYSTEM_TENANT:
            raise TenancyError(409, f"Tenant {name} is Pulsar's own: the name is reserved.")
        async with self._lock:
            if self._there.tenant(name) is not None:
                raise TenancyError(409, f"Tenant {name} is there already.")
            await self._write([self._there.write_tenant(name, row)])
            log.info("tenant made", extra={"tenant": name})

    async def update_tenant(self, name: str, change: Callable[[TenantRow], TenantRow]) -> None:
        """Raises TenancyError (404), KafkaError."""
        async with self._lock:
            row = change(self.tenant(name))
            await self._write([self._there.write_tenant(name, row)])

    async def delete_tenant(
        self, name: str, *, force: bool = False, begin: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """With `force` its namespaces go before it, with their topics: `begin` is awaited before the first, and where
        that fails nothing goes. Raises TenancyError, KafkaError; what `begin` raises.
        """
        if name == DEFAULT.tenant:
            raise TenancyError(412, f"Tenant {name} has {DEFAULT}, the home of Kafka clients, and stays.")
        self.tenant(name)
        if force:
            namespaces = list(self._there.of_tenant(name))
            if any(self._held(namespace) for namespace in namespaces):
                self._topics.check_delete()
            if namespaces and begin is not None:
                await begin()
            for namespace in namespaces:
                await self.delete(namespace, force=True)
        async with self._lock:
            self.tenant(name)
            left = next(self._there.of_tenant(name), None)
            if left is not None:
                raise TenancyError(
                    409,
                    f"Tenant {name} has namespaces, such as {left}: delete them first, or the tenant with --force.",
                )
            await self._write([self._there.write_tenant(name, None)])
            log.info("tenant deleted", extra={"tenant": name})

    # -- namespaces -------------------------------------------------------------------------------------------------

    def namespace(self, namespace: Namespace) -> NamespaceRow:
        """Raises TenancyError (404)."""
        row = self._there.get(namespace)
        if row is None:
            raise TenancyError(404, f"There is no namespace {namespace}: `namespaces create` makes one.")
        return row

    async def create(
        self,
        namespace: Namespace,
        row: NamespaceRow,
        made_with: Callable[[], Follows] | None = None,
    ) -> None:
        """`made_with`: what else is in its commit. Raises what that raises; TenancyError: 404 without its tenant, 409
        if it is there; KafkaError.
        """
        async with self._lock:
            self.tenant(namespace.tenant)
            if self._there.exists(namespace):
                raise TenancyError(409, f"Namespace {namespace} is there already.")
            self._there.coming.add(namespace)
            try:
                row.created_at = self._node.clock.wall_ms()
                writes, done = made_with() if made_with is not None else ([], None)
                await self._write(
                    [self._there.write(namespace, row), *writes], namespace, () if done is None else [done]
                )
            finally:
                self._there.coming.discard(namespace)
            log.info("namespace made", extra={"namespace": str(namespace)})

    async def change(self, namespace: Namespace, change: Callable[[NamespaceRow], NamespaceRow]) -> None:
        """Raises TenancyError (404), KafkaError."""
        async with self._lock:
            before = self.namespace(namespace)
            row = change(msgspec.structs.replace(before))

            def follow() -> None:
                now = self._there.get(namespace) or NamespaceRow()
                if (now.policies, now.resource_group) != (before.policies, before.resource_group):
                    self._policies_changed(namespace, before.policies, now.policies)

            await self._write([self._there.write(namespace, row)], namespace, follow=follow)

    async def delete(
        self,
        namespace: Namespace,
        *,
        force: bool = False,
        begin: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """With `force` its topics go before it: `begin` is awaited before the first, and where that fails nothing goes.
        Who is at home there, its groups and its transactional ids go in any case. It takes no new topics from then on,
        also when something fails or a gateway dies meanwhile: then it is to be deleted again, and that goes on where
        this ended. Where topics are not deleted at all it stays as it is.
        Raises TenancyError (404, 409, 412), KafkaError; what `begin` raises.
        """
        if namespace == DEFAULT:
            raise TenancyError(
                412,
                f"Namespace {DEFAULT} is the home of Kafka clients, and stays; its topics can be deleted.",
            )
        async with self._lock:
            row = self.namespace(namespace)
            if self._held(namespace) is not None:
                if not force:
                    raise TenancyError(
                        409,
                        f"Namespace {namespace} has topics: delete them first, or the namespace with --force.",
                    )
                self._topics.check_delete()
                if begin is not None:
                    await begin()
            if not row.deleted:
                await self._close(namespace, row)
            while (name := self._held(namespace)) is not None:
                try:
                    if self._catalog.get(name) is None:
                        # one that was begun before: it is there when what is on its way is stored
                        await self._write([])
                        continue
                    await self._topics.delete(name)
                except KafkaError as error:
                    # it went with its base, or somebody else was quicker
                    if error.code != Error.UNKNOWN_TOPIC_OR_PARTITION:
                        raise
            for leaves in self.leaving:
                try:
                    await leaves(namespace)
                except StoreError as error:
                    raise from_store(error) from error
            gone = [each(namespace) for each in self.gone_with]
            theirs = [write for writes, _ in gone for write in writes]
            theirs += self._group_stays(namespace, row)
            await self._write(
                [self._there.write(namespace, None), *theirs], namespace, [done for _, done in gone]
            )
            log.info("namespace deleted", extra={"namespace": str(namespace)})

    def _group_stays(self, namespace: Namespace, row: NamespaceRow) -> list[Write]:
        """A tenant does not leave its rates by deleting its last namespace: the next one is in the same group."""
        tenant = self._there.tenant(namespace.tenant)
        if tenant is None or any(each != namespace for each in self._there.of_tenant(namespace.tenant)):
            return []
        kept = msgspec.structs.replace(tenant, resource_group=row.resource_group)
        return [self._there.write_tenant(namespace.tenant, kept)] if kept != tenant else []

    async def _close(self, namespace: Namespace, row: NamespaceRow) -> None:
        """From now on it takes no topics; if that cannot be stored it takes some again. Raises KafkaError."""
        closed = msgspec.structs.replace(row, deleted=True)
        self._there.going.add(namespace)
        try:
            await self._write([self._there.write(namespace, closed)], namespace)
        finally:
            self._there.going.discard(namespace)

    def _held(self, namespace: Namespace) -> str | None:
        """A topic that it has, or that is on its way to the disk; None where there is none."""
        prefix = prefix_of(namespace)
        return self._catalog.first_named(prefix) or self._topics.new.coming_named(prefix)

    async def topics_of(self, namespace: Namespace) -> AsyncIterator[Topic]:
        """The topics of a namespace, by name, a page at a time."""
        prefix = prefix_of(namespace)
        async for topic in self._catalog.every(prefix):
            if prefix or self._there.full(topic.name).namespace == namespace:
                yield topic

    @step("namespace.before", "namespace.after")
    async def _write(
        self,
        writes: list[Write],
        namespace: Namespace | None = None,
        then: Iterable[Callable[[], None]] = (),
        follow: Callable[[], None] | None = None,
    ) -> None:
        """`then` is called when it is durable; `follow`, which reads the namespace's row, also when it may be."""

        def shows(whoever: Iterable[Callable[[], None]]) -> None:
            if namespace is not None:
                self._there.changed(namespace)
            for each in whoever:
                each()
            if writes:
                for each in self.watchers:
                    each()
            if follow is not None:
                follow()

        await stored(self._node, writes, lambda: shows(then), lambda: shows(self.doubting))
