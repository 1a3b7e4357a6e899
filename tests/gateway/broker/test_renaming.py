"""A data folder of a Magnetar that called topics of other namespaces by dotted names is served as before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.broker import acl_rows
from gateway.broker.catalog import Catalog, Topic
from gateway.broker.kept_permissions import to_rows
from gateway.broker.namespaces import NamespaceRow, Namespaces
from gateway.broker.renaming import rename
from gateway.broker.subscriptions import rows
from gateway.coordinators import offsets
from gateway.wire import properties
from semantics.access.acl import Operation
from semantics.names import Namespace
from semantics.transactions.events import EndTxn
from semantics.transactions.states import Producer
from store import memory, rocksdb
from store.api import FORMAT, NEWEST_FORMAT, Durability, Family, Put, Store, StoreError, Write
from store.rocksdb import rows as store_rows
from tests.gateway.broker.older_folder import SCOPED, unpack
from tests.gateway.broker.queues.reading import Client, queue_of
from tests.gateway.broker.rights import EU, row
from tests.gateway.broker.subscriptions.world import World


def opened(tmp_path: Path, test: Callable[[World], Awaitable[None]]) -> None:
    """A test in a world over the older folder, which was renamed."""

    async def main() -> None:
        folder = unpack(tmp_path)
        store = await rocksdb.open(folder)
        assert await rename(store) > 0
        await store.close()
        world = World(folder)
        await world.start()
        try:
            async with asyncio.timeout(60):
                await test(world)
        finally:
            await world.close()

    asyncio.run(main())


def test_topics_have_their_records_their_configs_and_their_namespaces(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        catalog = world.broker.catalog
        for name, said in (
            ("orders", "orders"),
            ("a.b.c", "a.b.c"),
            ("shop/eu/orders", "shop.eu.orders"),
            ("shop/eu/pay.ments", "shop.eu.pay.ments"),
        ):
            assert [each.value for each in await world.read(name)] == [
                f"{said} {n}".encode() for n in range(4)
            ]
            topic = catalog.get(name)
            assert topic is not None
            assert catalog.by_id(topic.topic_id) == topic
            assert catalog.said(said) == name
        assert all("shop." not in name for name in catalog.names())
        orders = catalog.get("shop/eu/orders")
        assert orders is not None
        assert (len(orders.partitions), orders.configs) == (2, {"retention.ms": "86400000"})
        assert [each.name async for each in world.broker.tenancy.topics_of(Namespace("shop", "us"))] == [
            "shop/us/base", "shop/us/base-g-QUEUE",
        ]  # fmt: skip
        # what differs in dots alone is refused as before, and only there
        assert (catalog.collision("shop/eu/pay_ments"), catalog.collision("shop/us/pay_ments")) == (
            "shop/eu/pay.ments",
            None,
        )

    opened(tmp_path, test)


def test_a_subscription_goes_on_where_it_stood(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        at = world.at("shares", "shop/eu/orders")
        assert at.subscription.config.dead_letters_of("shares", "shop/eu/orders") == "shop/eu/graves"
        (letter,) = await world.read("shop/eu/graves")
        assert letter.value == b"shop.eu.orders 2"
        headers = dict(letter.headers)
        assert headers[properties.REAL_TOPIC] == b"persistent://shop/eu/orders"
        # the fourth was in hand, which a restart forgets, and the second comes when its hour is over
        await world.pass_time(60_000)
        assert await world.fetch(at) == {3: (b"shop.eu.orders 3", 1)}
        await world.ack(at, 3)
        await world.pass_time(3_600_000)
        assert await world.fetch(at) == {1: (b"shop.eu.orders 1", 2)}

    opened(tmp_path, test)


def test_lanes_go_on(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        queue = queue_of(world, "shop/us/base-g-QUEUE")
        assert sum(each.lane.end for each in queue.at) == 2
        await world.produce(b"three", topic="shop/us/base")
        found: set[bytes | None] = set()
        for index in (0, 1):
            found.update((await Client(world, index, name="shop/us/base-g-QUEUE").read()).values())
        assert b"three" in found
        (row,) = rows.of_group(world.store, "g")
        assert (row.topic, row.queue) == ("shop/us/base", "shop/us/base-g-QUEUE")
        assert row.overrides["pulsar.dead.letter.topic"] == "shop/us/dead"

    opened(tmp_path, test)


def test_offsets_and_groups_know_their_topics(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        groups = world.broker.groups
        assert {topic.name: dict(found)[0].offset for topic, found in groups.all_committed("g1")} == {
            "shop/eu/orders": 7,
        }
        stored = {offsets.place(key).topic for key, _ in world.store.scan(Family.OFFSET)}
        assert stored == {"shop/eu/orders", "shop/eu/pay.ments", "a.b.c"}
        readers = world.broker.consumer_groups.get("readers")
        assert readers is not None
        assert list(readers.topics) == ["orders", "shop/eu/orders"]
        # what was no topic's name is none
        assert readers.members["m"].names == ("//a/b/c", "orders", "shop/eu/orders")
        shared = world.broker.share_groups.get(SCOPED)
        assert shared is not None
        assert sorted(shared.subscribed()) == ["shop/eu//a/b", "shop/eu/orders"]

    opened(tmp_path, test)


def test_what_a_transaction_has_staged_is_committed_with_it(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        topic = world.broker.catalog.get("shop/eu/orders")
        assert topic is not None
        assert world.broker.groups.committed("g1", topic, [1]) == [None]
        await world.broker.transactions.run("moves", EndTxn(None, Producer(9, 0), True, False))
        (found,) = world.broker.groups.committed("g1", topic, [1])
        assert found is not None
        assert (found.offset, found.metadata) == (7, "said")

    opened(tmp_path, test)


def test_an_older_program_refuses_the_folder_and_nothing_is_renamed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        folder = unpack(tmp_path)
        store = await rocksdb.open(folder)
        assert store.get(Family.META, FORMAT) == b"1"
        assert await rename(store) == 5
        assert store.get(Family.META, FORMAT) == NEWEST_FORMAT
        assert [key for key, _ in store.scan(Family.CATALOG) if b"shop." in key] == []
        # one of public/default that is called like a topic of shop/eu, which older ones did not allow
        beside = Topic("shop.eu.orders", b"n" * 16, [99], 0)
        await store.write(Catalog(store).writes_create(beside), Durability.OS)
        assert await rename(store) == 0
        assert Catalog(store).get("shop.eu.orders") == beside
        await store.close()
        monkeypatch.setattr(store_rows, "FORMATS", (b"1",))
        with pytest.raises(StoreError, match="newer Magnetar"):
            await rocksdb.open(folder)

    asyncio.run(test())


def test_a_new_folder_has_the_newest_format(tmp_path: Path) -> None:
    async def test() -> None:
        store = await rocksdb.open(tmp_path / "data")
        assert store.get(Family.META, FORMAT) == NEWEST_FORMAT
        assert await rename(store) == 0
        await store.close()

    asyncio.run(test())


async def older(store: Store, topics: int) -> None:
    """A store of format 1 with so many topics of shop/eu."""
    await store.write([Namespaces.write(Namespace("shop", "eu"), NamespaceRow())], Durability.OS)
    catalog = Catalog(store)
    writes: list[Write] = [Put(Family.META, FORMAT, b"1")]
    for number in range(topics):
        topic = Topic(f"shop.eu.t{number}", number.to_bytes(16, "big"), [number + 1], 0)
        writes += catalog.writes_create(topic)
        key = offsets.key("g", topic.name, 0)
        writes.append(Put(Family.OFFSET, key, offsets.encode(1, -1, 1, -1, topic.topic_id, None)))
    await store.write(writes, Durability.OS)


def test_all_of_it_is_one_commit_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        store = memory.open()
        await older(store, 3)
        before = {family: list(store.scan(family)) for family in Family}

        async def fails(writes: object, durability: Durability) -> None:
            raise StoreError("no")

        with monkeypatch.context() as patched:
            patched.setattr(store, "write", fails)
            with pytest.raises(StoreError):
                await rename(store)
        assert {family: list(store.scan(family)) for family in Family} == before
        assert await rename(store) == 3
        assert Catalog(store).names() == ["shop/eu/t0", "shop/eu/t1", "shop/eu/t2"]
        assert {offsets.place(key).topic for key, _ in store.scan(Family.OFFSET)} == set(
            Catalog(store).names()
        )

    asyncio.run(test())


def test_many_topics_are_renamed() -> None:
    async def test() -> None:
        store = memory.open()
        await older(store, 2_000)
        assert await rename(store) == 2_000
        assert Catalog(store).first_named("shop.") is None
        assert [key for key, _ in store.scan(Family.CATALOG) if b"shop." in key] == []
        assert Catalog(store).collision("shop/eu/t_1") is None

    asyncio.run(test())


def test_what_was_granted_on_a_topic_follows_its_name_and_becomes_rows() -> None:
    async def test() -> None:
        store = memory.open()
        await older(store, 2)
        granted = Topic("shop.eu.t1", (1).to_bytes(16, "big"), [2], 0, permissions={"ada": ["produce"]})
        writes = Catalog(store).writes_update(granted)
        await store.write([*writes, Put(Family.CATALOG, b"g/shop.eu.t1", b"")], Durability.OS)
        await rename(store)
        assert await to_rows(store) == 1
        assert {row for row, _ in acl_rows.read(store)} == {
            row("t1", operation, namespace=EU) for operation in (Operation.WRITE, Operation.CREATE)
        }
        assert Catalog(store).granted() == []

    asyncio.run(test())
