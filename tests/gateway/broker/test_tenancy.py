"""Namespaces that are deleted with their topics, where something refuses: before, or in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.broker.tenancy import TenancyError
from gateway.wire.errors import Error
from semantics.names import Namespace
from store import memory
from store.api import Refused
from tests.gateway.broker.queues.reading import FailingStore
from tests.gateway.broker.subscriptions.world import World, run

EU, US = Namespace("shop", "eu"), Namespace("shop", "us")


async def made(world: World) -> None:
    """Tenant shop with the namespaces shop/eu and shop/us."""
    await world.broker.tenancy.create_tenant("shop", TenantRow())
    for namespace in (EU, US):
        await world.broker.tenancy.create(namespace, NamespaceRow())


async def refused(call: Awaitable[object]) -> KafkaError:
    with pytest.raises(KafkaError) as error:
        await call
    return error.value


async def held(store: FailingStore, count: int) -> None:
    """Wait until so many commits are held."""
    for _ in range(100):
        if len(store.held) == count:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{len(store.held)} commits are held")


async def its_namespace(world: World) -> None:
    await world.broker.tenancy.delete(US, force=True)


async def its_tenant(world: World) -> None:
    await world.broker.tenancy.delete_tenant("shop", force=True)


def test_pulsars_own_tenant_is_nobodys() -> None:
    async def test(world: World) -> None:
        with pytest.raises(TenancyError, match="reserved") as caught:
            await world.broker.tenancy.create_tenant("pulsar", TenantRow())
        assert caught.value.status == 409
        await world.broker.tenancy.create_tenant("pulsars", TenantRow())

    run(test)


@pytest.mark.parametrize("delete", [its_namespace, its_tenant])
def test_where_topics_are_not_deleted_a_namespace_with_topics_stays_as_it_is(
    delete: Callable[[World], Awaitable[None]],
) -> None:
    async def test(world: World) -> None:
        await made(world)
        await world.topic("shop/us/orders")
        assert (await refused(delete(world))).code == Error.TOPIC_DELETION_DISABLED
        assert not world.broker.tenancy.namespace(US).deleted
        await world.topic("shop/us/parts")
        # one without topics can go, and is still there
        await world.broker.tenancy.delete(EU)

    run(test, None, "delete.topic.enable=false")


def test_a_deletion_that_stops_in_the_middle_goes_on_when_it_is_asked_for_again() -> None:
    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        await made(world)
        for name in ("a", "b"):
            await world.topic(f"shop/eu/{name}")
        async with world.broker.topics.changing("shop/eu/b"):
            deletion = asyncio.ensure_future(world.broker.tenancy.delete(EU, force=True))
            while world.broker.catalog.get("shop/eu/a") is not None:
                await world.settled()
            store.failing = True
        assert (await refused(deletion)).code == Error.KAFKA_STORAGE_ERROR
        store.failing = False
        await world.crash()
        assert world.broker.tenancy.namespace(EU).deleted
        assert (await refused(world.topic("shop/eu/c"))).code == Error.INVALID_TOPIC_EXCEPTION
        assert world.broker.catalog.names() == ["shop/eu/b"]
        await world.broker.tenancy.delete(EU, force=True)
        assert world.broker.catalog.names() == []
        with pytest.raises(TenancyError):
            world.broker.tenancy.namespace(EU)

    run(test)


@pytest.mark.parametrize("fails", [False, True])
def test_no_topic_comes_while_a_namespace_is_closed(fails: bool) -> None:
    """Else it would be taken along though nobody said --force."""

    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        await made(world)
        store.holding = True
        deletion = asyncio.ensure_future(world.broker.tenancy.delete(EU))
        await held(store, 1)
        creation = asyncio.ensure_future(world.topic("shop/eu/a"))
        await asyncio.sleep(0)
        if fails:
            store.fail(Refused("no"))
            assert (await refused(deletion)).code == Error.KAFKA_STORAGE_ERROR
        else:
            store.let_go()
            await deletion
        assert (await refused(creation)).code == Error.INVALID_TOPIC_EXCEPTION
        if fails:
            # it stays
            await world.topic("shop/eu/a")
        assert (world.broker.catalog.namespaces.get(EU) is not None) == fails

    run(test)


def test_a_topic_that_came_before_goes_with_its_namespace_or_fails_with_it() -> None:
    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        await made(world)
        for fails in (True, False):
            store.holding = True
            creation = asyncio.ensure_future(world.topic("shop/eu/a"))
            await held(store, 1)
            with pytest.raises(TenancyError):
                await world.broker.tenancy.delete(EU)
            deletion = asyncio.ensure_future(world.broker.tenancy.delete(EU, force=True))
            await held(store, 2)
            if fails:
                store.fail(Refused("no"))
                for each in (creation, deletion):
                    assert (await refused(each)).code == Error.KAFKA_STORAGE_ERROR
            else:
                store.let_go()
                await asyncio.gather(creation, deletion)
        assert world.broker.catalog.names() == []
        assert world.broker.catalog.namespaces.get(EU) is None

    run(test)


def test_a_namespace_comes_beside_topics_that_are_called_like_its_own() -> None:
    async def test(world: World) -> None:
        for name in ("shop.eu.a", "shop.eu_a"):
            await world.topic(name) if name == "shop.eu.a" else await refused(world.topic(name))
        await made(world)
        # each in its own namespace: they collide with nobody
        await world.topic("shop/eu/a")
        await world.topic("shop/eu/b.c")
        assert (await refused(world.topic("shop/eu/b_c"))).code == Error.INVALID_TOPIC_EXCEPTION
        await world.topic("b_c")
        await world.topic("shop/us/b_c")
        catalog = world.broker.catalog
        assert catalog.said("shop.eu.a") == "shop.eu.a"
        assert (catalog.said("shop.eu.b.c"), catalog.said("a", EU)) == ("shop/eu/b.c", "shop/eu/a")
        await world.broker.tenancy.delete(EU, force=True)
        assert catalog.names() == ["b_c", "shop.eu.a", "shop/us/b_c"]

    run(test)
