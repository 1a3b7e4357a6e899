"""At the start: permissions that were kept with topics and namespaces before there were rights become rows of ACLs.

That is done once, in one commit, which says so. From then on only the rows are read.
"""

from __future__ import annotations

import contextlib
import logging

import msgspec

from gateway.broker import acl_rows
from gateway.broker.catalog import Catalog
from semantics.access import bundles
from semantics.access.acl import ANYWHERE
from store.api import Durability, Family, Put, Store, StoreError, Write

log = logging.getLogger("magnetar.broker")

_DONE = b"permissions-are-rows"


async def to_rows(store: Store) -> int:
    """How many grants there were. Raises StoreError."""
    if store.get(Family.META, _DONE) is not None:
        return 0
    catalog = Catalog(store)
    namespaces = catalog.namespaces
    writes: list[Write] = []
    count = 0
    for tenant in namespaces.tenants():
        for namespace in namespaces.of_tenant(tenant):
            row = namespaces.get(namespace)
            if row is None or not row.permissions:
                continue
            count += len(row.permissions)
            for role, actions in row.permissions.items():
                rows = bundles.rows(namespace, ANYWHERE, role, actions)
                writes += [acl_rows.write(each, pulsars=True) for each in rows]
            writes.append(namespaces.write(namespace, msgspec.structs.replace(row, permissions={})))
    start = ""
    while page := catalog.granted(start):
        for topic in page:
            full = namespaces.full(topic.name)
            count += len(topic.permissions)
            for role, actions in topic.permissions.items():
                rows = bundles.rows(full.namespace, full.local, role, actions)
                writes += [acl_rows.write(each, pulsars=True) for each in rows]
            writes += catalog.writes_ungranted(topic)
        start = page[-1].name + "\0"
    done = Put(Family.META, _DONE, b"")
    if not writes:
        # the next start may look again: a store that takes nothing now is no reason not to start
        with contextlib.suppress(StoreError):
            await store.write([done], Durability.OS)
        return 0
    await store.write([*writes, done], Durability.FSYNC)
    log.info("permissions are ACLs now", extra={"count": count})
    return count
