"""Tenants that one listener serves, told apart by their users: each has subscriptions and queue topics of its own."""

from __future__ import annotations

from gateway.broker.subscriptions import rows
from semantics.group_names import scoped
from store import memory
from tests.gateway.apis.users_asking import EU, Users, joined, made, run


def test_a_share_group_has_subscriptions_of_its_own_where_its_user_is_at_home() -> None:
    async def test(users: Users) -> None:
        boss, root = await users.login("shop.boss"), await users.login("root")
        for client in (boss, root):
            assert (await made(client, "orders"))[0] == 0
            assert await joined(client, "billing", "orders") == (0, "")
        kept = users.broker.subscriptions
        assert [row.topic for row in kept.of_group(scoped(EU, "billing"))] == ["shop/eu/orders"]
        assert [row.topic for row in kept.of_group("billing")] == ["orders"]

    run(test)


def test_a_tenants_queue_topic_serves_its_own_group() -> None:
    async def test(users: Users) -> None:
        boss = await users.login("shop.boss")
        assert (await made(boss, "orders"))[0] == 0
        assert (await made(boss, "orders-billing-QUEUE"))[:2] == (0, "")
        queue = users.broker.catalog.get("shop/eu/orders-billing-QUEUE")
        assert queue is not None
        assert queue.queue is not None
        assert queue.queue.subscription == scoped(EU, "billing")

    run(test)


def test_what_a_tenant_has_is_the_same_after_a_restart() -> None:
    store = memory.open()

    async def fill(users: Users) -> None:
        boss = await users.login("shop.boss")
        await made(boss, "orders")
        assert await joined(boss, "billing", "orders") == (0, "")

    async def look(users: Users) -> None:
        found = [(row.group, row.topic) for row in rows.every(users.broker.durable)]
        assert found == [(scoped(EU, "billing"), "shop/eu/orders")]

    run(fill, store)
    run(look, store, first=False)
