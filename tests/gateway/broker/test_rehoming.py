"""Subscriptions of a namespace that gets a listener of its own are that one's clients', with all that they remember."""

from __future__ import annotations

import uvloop

from gateway.broker.catalog import Catalog, QueueOf, Topic
from gateway.broker.namespaces import NamespaceRow
from gateway.broker.rehoming import rehome
from gateway.broker.subscriptions import rows
from gateway.broker.subscriptions.rows import SubscriptionRow
from semantics.group_names import scoped
from semantics.homes import EVERYWHERE
from semantics.names import Namespace
from store import memory
from store.api import Durability, Store, Write

EU = Namespace("shop", "eu")
EU_ID, HOME_ID, QUEUE_ID = (bytes([n]) * 16 for n in range(3))
KEPT = scoped(EU, "billing")


async def filled() -> Store:
    """`billing` on a topic of shop/eu, which lanes serve, and on one of public/default."""
    store = memory.open()
    catalog = Catalog(store)
    writes: list[Write] = [catalog.namespaces.write(EU, NamespaceRow())]
    queue = "shop/eu/orders-billing-QUEUE"
    for topic in (
        Topic("shop/eu/orders", EU_ID, [1], 0),
        Topic("orders", HOME_ID, [2], 0),
        Topic(queue, QUEUE_ID, [3], 0, queue=QueueOf(EU_ID, "billing")),
    ):
        writes += catalog.writes_create(topic)
    for number, (name, topic_id) in enumerate((("shop/eu/orders", EU_ID), ("orders", HOME_ID)), 1):
        row = SubscriptionRow(number, "billing", name, topic_id, 5, "shared", properties={"team": "a"})
        writes += rows.writes_registered(row)
    await store.write(writes, Durability.OS)
    return store


def subscriptions(store: Store) -> dict[tuple[str, str], int]:
    found = {(row.group, row.topic): row.id for row in rows.every(store)}
    for topic_id in (EU_ID, HOME_ID):
        # by topic the same is found
        for row in rows.of_topic(store, topic_id):
            assert found[row.group, row.topic] == row.id
            assert row.properties == {"team": "a"}
    return found


def queue_of(store: Store) -> str:
    topic = Catalog(store).by_id(QUEUE_ID)
    assert topic is not None
    assert topic.queue is not None
    return topic.queue.subscription


def test_what_is_of_the_namespace_goes_there_and_back() -> None:
    async def test() -> None:
        store = await filled()
        plain = {("billing", "shop/eu/orders"): 1, ("billing", "orders"): 2}
        assert await rehome(store, frozenset()) == 0
        assert (subscriptions(store), queue_of(store)) == (plain, "billing")
        assert await rehome(store, frozenset({EU})) == 1
        assert subscriptions(store) == {(KEPT, "shop/eu/orders"): 1, ("billing", "orders"): 2}
        assert queue_of(store) == KEPT
        assert len(list(rows.of_topic(store, EU_ID))) == 1
        # another start with the same listeners looks at nothing
        extra = SubscriptionRow(9, "extra", "shop/eu/orders", EU_ID, 5, "shared", properties={"team": "a"})
        await store.write(rows.writes_registered(extra), Durability.OS)
        assert await rehome(store, frozenset({EU})) == 0
        assert subscriptions(store)["extra", "shop/eu/orders"] == 9
        await store.write(rows.writes_removed(extra), Durability.OS)
        assert await rehome(store, frozenset({Namespace("shop", "us")})) == 1
        assert (subscriptions(store), queue_of(store)) == (plain, "billing")

    uvloop.run(test())


def test_with_rights_each_namespace_is_a_home_and_is_none_without() -> None:
    async def test() -> None:
        store = await filled()
        plain = {("billing", "shop/eu/orders"): 1, ("billing", "orders"): 2}
        homed = {(KEPT, "shop/eu/orders"): 1, ("billing", "orders"): 2}
        assert await rehome(store, EVERYWHERE) == 1
        assert (subscriptions(store), queue_of(store)) == (homed, KEPT)
        # another start with rights looks at nothing, whichever namespaces have come
        extra = SubscriptionRow(9, "extra", "shop/eu/orders", EU_ID, 5, "shared", properties={"team": "a"})
        await store.write(rows.writes_registered(extra), Durability.OS)
        assert await rehome(store, EVERYWHERE) == 0
        assert subscriptions(store)["extra", "shop/eu/orders"] == 9
        await store.write(rows.writes_removed(extra), Durability.OS)
        # a listener for it is a home without rights, too
        assert await rehome(store, frozenset({EU})) == 0
        assert (subscriptions(store), queue_of(store)) == (homed, KEPT)
        assert await rehome(store, EVERYWHERE) == 0
        assert await rehome(store, frozenset()) == 1
        assert (subscriptions(store), queue_of(store)) == (plain, "billing")

    uvloop.run(test())


def test_a_queue_topic_over_a_pattern_goes_with_the_topics_of_its_namespace() -> None:
    async def test() -> None:
        store = await filled()
        catalog = Catalog(store)
        names = ("billing-QUEUE", "shop/eu/billing-QUEUE")
        writes: list[Write] = []
        for number, (name, pattern) in enumerate(
            zip(names, (".*", "persistent://shop/eu/.*"), strict=True), 4
        ):
            queue = QueueOf(b"", "billing", pattern)
            writes += catalog.writes_create(Topic(name, bytes([number]) * 16, [number], 0, queue=queue))
        await store.write(writes, Durability.OS)

        def groups() -> list[str]:
            return [
                topic.queue.subscription
                for topic in Catalog(store).over_patterns()
                if topic.queue is not None
            ]

        assert groups() == ["billing", "billing"]
        await rehome(store, frozenset({EU}))
        assert groups() == ["billing", KEPT]
        await rehome(store, frozenset())
        assert groups() == ["billing", "billing"]

    uvloop.run(test())


def test_where_a_name_is_taken_each_has_one_that_can_be_said() -> None:
    async def test() -> None:
        store = await filled()
        other = SubscriptionRow(7, KEPT, "shop/eu/orders", EU_ID, 5, "shared", properties={"team": "a"})
        await store.write(rows.writes_registered(other), Durability.OS)
        assert await rehome(store, frozenset({EU})) == 1
        come = scoped(EU, "public/default//billing")
        homed = {(KEPT, "shop/eu/orders"): 7, (come, "shop/eu/orders"): 1, ("billing", "orders"): 2}
        assert (subscriptions(store), queue_of(store)) == (homed, come)
        # back: the one of public/default has its name, and the other is shown as shop/eu//billing
        assert await rehome(store, frozenset({Namespace("shop", "us")})) == 1
        back = {(KEPT, "shop/eu/orders"): 7, ("billing", "shop/eu/orders"): 1, ("billing", "orders"): 2}
        assert (subscriptions(store), queue_of(store)) == (back, "billing")
        assert await rehome(store, frozenset({EU})) == 1
        assert (subscriptions(store), queue_of(store)) == (homed, come)

    uvloop.run(test())
