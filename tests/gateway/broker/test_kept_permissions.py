"""Permissions that an older gateway kept become rows of ACLs, once."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gateway.broker import kept_permissions
from gateway.broker.catalog import Catalog
from gateway.broker.namespaces import NamespaceRow
from semantics.access import bundles
from semantics.names import DEFAULT
from store.api import Delete, Durability, Family, Put
from tests.gateway.broker.rights import EU, shop
from tests.gateway.broker.subscriptions.world import World, run


async def older(world: World) -> None:
    """What such a gateway left."""
    await shop(world, permissions={"ada": ["produce"], "bob": ["functions"]}, properties={"a": "1"})
    catalog = world.broker.catalog
    for name in ("shop/eu/orders", "home"):
        topic = msgspec.structs.replace(
            await world.topic(name), permissions={"ada": ["consume"]}, properties={"b": "2"}
        )
        granted = Put(Family.CATALOG, b"g/" + name.encode(), b"")
        await world.store.write([*catalog.writes_update(topic), granted], Durability.OS)


def test_they_become_rows_once(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await older(world)
        assert await kept_permissions.to_rows(world.store) == 4
        await world.crash()
        permissions, catalog = world.broker.permissions, world.broker.catalog
        assert permissions.on(EU) == {"ada": ["produce"], "bob": ["functions"]}
        assert await permissions.on_topics(EU) == {"orders": {"ada": ["consume"]}}
        assert await permissions.on_topics(DEFAULT) == {"home": {"ada": ["consume"]}}
        # nothing else of the rows is lost
        row, topic = catalog.namespaces.get(EU), catalog.get("shop/eu/orders")
        assert row is not None
        assert topic is not None
        assert (row.permissions, row.properties) == ({}, {"a": "1"})
        assert (topic.permissions, topic.properties) == ({}, {"b": "2"})
        assert not catalog.granted()
        # they go with their topic, as what Pulsar's verbs allow
        await world.broker.topics.delete("home")
        assert await permissions.on_topics(DEFAULT) == {}
        assert not any(bundles.is_grant(each) for each in world.broker.access.rows(DEFAULT))

    run(test, folder)


def test_once_and_not_again() -> None:
    async def test(world: World) -> None:
        assert await kept_permissions.to_rows(world.store) == 0
        # a gateway from before, that runs on this store meanwhile: what it keeps is nothing any more
        await older(world)
        assert await kept_permissions.to_rows(world.store) == 0
        assert world.broker.access.rows() == []

    run(test)


def test_however_many_there_are() -> None:
    async def test(world: World) -> None:
        count = 1_100
        writes = []
        for number in range(count):
            name = f"t{number:05}"
            topic = msgspec.structs.replace(
                world.broker.topics._new(name, 1, {}), permissions={"ada": ["sinks"]}
            )
            writes += world.broker.catalog.writes_create(topic)
            writes.append(Put(Family.CATALOG, b"g/" + name.encode(), b""))
        await world.store.write(writes, Durability.OS)
        assert await kept_permissions.to_rows(world.store) == count
        await world.start()
        assert len(await world.broker.permissions.on_topics(DEFAULT)) == count
        assert not Catalog(world.store).granted()
        await world.store.write([Delete(Family.META, b"permissions-are-rows")], Durability.OS)
        assert await kept_permissions.to_rows(world.store) == 0

    run(test)


def test_rows_of_before_are_read() -> None:
    """Their fields stay, so that they are found."""
    raw = msgspec.msgpack.encode({"permissions": {"ada": ["sinks"]}})
    assert msgspec.msgpack.decode(raw, type=NamespaceRow).permissions == {"ada": ["sinks"]}
