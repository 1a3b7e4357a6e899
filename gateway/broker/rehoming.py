"""Whose subscriptions are, once namespaces have become homes, or are none any more (`semantics.homes`): with listeners
of their own, or all of them, with the first start that asks for rights.

A subscription on a topic of such a namespace is kept under the id of the group of that home (`semantics.group_names`),
any other under its name. Settings are read at the start: so whoever starts a store with other ones gives the rows
their names before anybody reads them. What a subscription remembers is kept by its number, and stays.

No two on a topic have one name. Where that is taken in a home that is new, the one that comes is called after the old
one, `public/default//billing`, and by its name again when it goes back. One that comes back and finds another stays as
it is: it is shown as `shop/eu//billing`, which is its name for Pulsar's admin API.
"""

from __future__ import annotations

import logging

import msgspec

from gateway.broker.catalog import Catalog, Topic
from gateway.broker.subscriptions import rows
from semantics.group_names import bare, full, home_of, parts, scoped, shown
from semantics.homes import Homes, written
from semantics.names import DEFAULT, Namespace
from store.api import Durability, Family, Put, Store, Write

log = logging.getLogger("magnetar.broker")

_HOMES = b"homes"
"""The row that says with which homes the store was started last: their names, or `*` for all."""


async def rehome(store: Store, homes: Homes) -> int:
    """Give subscriptions, and the queue topics that serve them, to the groups of these homes, all in one commit: how
    many have changed. Nothing is looked at where the homes are those of the last start. Raises StoreError.
    """
    said = written(homes)
    if (store.get(Family.META, _HOMES) or b"") == said:
        return 0
    catalog = Catalog(store)
    catalog.namespaces.homes = homes
    writes: list[Write] = []
    moved = 0
    home = catalog.namespaces.home_of
    # who goes back to a name of before has it first
    moving = sorted(
        (row for row in rows.every(store) if home_of(row.group) != home(row.topic)),
        key=lambda row: parts(bare(row.group)) is None,
    )
    # (what it was called, its topic's id) -> what it is called
    called: dict[tuple[str, bytes], str] = {}
    taken: set[tuple[str, bytes]] = set()
    for row in moving:
        group = _group(home(row.topic), row.group)
        if (group, row.topic_id) in taken or rows.find(store, group, row.topic_id) is not None:
            group = _group(home(row.topic), row.group, apart=True)
            log.error(
                "there are two subscriptions %s of %s: the other one is called %s",
                bare(row.group),
                row.topic,
                bare(group) if home_of(group) == home(row.topic) else shown(group),
            )
        called[row.group, row.topic_id] = group
        if group != row.group:
            taken.add((group, row.topic_id))
            writes += rows.writes_renamed(row, group)
            moved += 1
    for topic in catalog.topics():
        if topic.queue is not None:
            of = topic.queue
            group = _group(home(topic.name), of.subscription)
            writes += _of_queue(catalog, topic, called.get((of.subscription, of.topic_id), group))
    await store.write([*writes, Put(Family.META, _HOMES, said)], Durability.FSYNC)
    if moved:
        log.info("subscriptions are of the groups of other homes now", extra={"count": moved})
    return moved


def _group(home: Namespace, group_id: str, *, apart: bool = False) -> str:
    """The group of a home that gets what a group had, of this or another home. `apart`: it has such a one already."""
    own, name = home_of(group_id), bare(group_id)
    if own == home:
        return group_id
    if apart:
        return scoped(home, full(own, name)) if home != DEFAULT else group_id
    said = parts(name)
    return scoped(home, said[1] if said is not None and said[0] == home else name)


def _of_queue(catalog: Catalog, topic: Topic, group: str) -> list[Write]:
    """What gives a queue topic to the group that its subscriptions have: it lies in their topics' namespace."""
    assert topic.queue is not None
    if group == topic.queue.subscription:
        return []
    queue = msgspec.structs.replace(topic.queue, subscription=group)
    return catalog.writes_update(msgspec.structs.replace(topic, queue=queue))
