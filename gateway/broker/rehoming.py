"""Whose subscriptions are, once namespaces have got listeners of their own, or have lost them.

A subscription on a topic of such a namespace is kept under the id of the group of that home (`semantics.group_names`),
any other under its name. Listeners are read at the start: so whoever starts a store with other ones gives the rows
their names before anybody reads them. What a subscription remembers is kept by its number, and stays.
"""

from __future__ import annotations

import logging

import msgspec

from gateway.broker.catalog import Catalog, Topic
from gateway.broker.subscriptions import rows
from semantics.group_names import bare, shown
from semantics.names import Namespace
from store.api import Durability, Family, Put, Store, Write

log = logging.getLogger("magnetar.broker")

_HOMES = b"homes"
"""The row that says with which homes the store was started last."""


async def rehome(store: Store, homes: frozenset[Namespace]) -> int:
    """Give subscriptions, and the queue topics that serve them, to the groups of these homes, all in one commit: how
    many have changed. Nothing is looked at where the homes are those of the last start. Raises StoreError.
    """
    said = ",".join(sorted(map(str, homes))).encode()
    if (store.get(Family.META, _HOMES) or b"") == said:
        return 0
    catalog = Catalog(store)
    catalog.namespaces.homes = homes
    writes: list[Write] = []
    moved = 0
    for row in rows.every(store):
        group = catalog.namespaces.group_of(row.topic, bare(row.group))
        if group == row.group:
            continue
        if rows.find(store, group, row.topic_id) is not None:
            log.error("subscription %s of %s stays as it is: there are two", shown(group), row.topic)
            continue
        writes += rows.writes_renamed(row, group)
        moved += 1
    for topic in catalog.topics():
        if topic.queue is not None:
            writes += _of_queue(catalog, topic)
    await store.write([*writes, Put(Family.META, _HOMES, said)], Durability.FSYNC)
    if moved:
        log.info("subscriptions are of the groups of other listeners now", extra={"count": moved})
    return moved


def _of_queue(catalog: Catalog, topic: Topic) -> list[Write]:
    """What gives a queue topic to the group that its subscriptions have: it lies in their topics' namespace."""
    assert topic.queue is not None
    group = catalog.namespaces.group_of(topic.name, bare(topic.queue.subscription))
    if group == topic.queue.subscription:
        return []
    queue = msgspec.structs.replace(topic.queue, subscription=group)
    return catalog.writes_update(msgspec.structs.replace(topic, queue=queue))
