"""Subscriptions made, found, deleted and let go: what they read, and what stays of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.server import Gateway
from gateway.wire.errors import Error
from semantics.subscriptions.states import Ending
from store.api import Family, StoreError, Unknown
from tests.gateway.broker.held import HeldStore, run_held
from tests.gateway.broker.subscriptions.world import ACCEPT, RELEASE, Waiter, World, run
from tests.gateway.serving import Client, create


@pytest.mark.parametrize(
    "starts", [[1], [1, 0, 0, 0, 0]], ids=["before it grew", "of one with more partitions"]
)
def test_starts_that_were_given_for_another_number_of_partitions_do_not_keep_a_subscription_from_being_made(
    folder: Path | None, starts: list[int]
) -> None:
    async def test(world: World) -> None:
        await world.topic(partitions=3)
        await world.produce(b"skipped", b"read")
        await world.produce(b"added", index=2)
        await world.broker.subscriptions.ensure("g", "t", starts)
        assert await world.fetch(world.at()) == {1: (b"read", 1)}
        assert await world.fetch(world.at(index=2)) == {0: (b"added", 1)}

    run(test, folder)


def test_partitions_that_are_added_are_read_from_their_first_record(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.produce(b"before")
        await world.subscribe(reset="latest")
        await world.broker.topics.grow("t", 2)
        await world.produce(b"added", index=1)
        assert await world.fetch(world.at()) == {}
        assert await world.fetch(world.at(index=1)) == {0: (b"added", 1)}

    run(test, folder)


def test_a_topic_that_is_deleted_takes_its_subscriptions_along_and_a_new_one_has_none(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(b"a", b"b")
        await world.fetch(at)
        await world.ack(at, 0, kind=RELEASE)
        waiter = Waiter("w")
        at.attach("w")
        at.parked.add(waiter)
        await world.broker.topics.delete("t")
        assert waiter.times, "it is told"
        with pytest.raises(KafkaError):
            await world.fetch(at)
        with pytest.raises(KafkaError):
            at.acknowledge("c", [(1, 1, ACCEPT)])
        at.detach("c", Ending.CRASHED)
        at.detach("w", Ending.CRASHED)
        await world.settled()
        for family in (Family.SUBSCRIPTION, Family.CURSOR, Family.ACK, Family.COUNT, Family.DUE):
            assert not list(world.store.scan(family)), family
        await world.topic()
        assert world.broker.subscriptions.get("g", "t") is None
        await world.produce(b"new")
        at = await world.subscribe()
        assert await world.fetch(at) == {0: (b"new", 1)}

    run(test, folder)


def test_a_subscription_that_is_deleted_forgets_everything(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.topic("u")
        at = await world.subscribe()
        await world.subscribe(topic="u")
        await world.subscribe("other")
        await world.produce(b"a", b"b")
        await world.fetch(at)
        await world.ack(at, 0)
        topic = world.broker.catalog.get("t")
        assert topic is not None
        assert await world.broker.subscriptions.delete("g", topic.topic_id) == 1
        assert world.broker.subscriptions.get("g", "t") is None
        assert [row.topic for row in world.broker.subscriptions.of_group("g")] == ["u"]
        assert [row.group for row in world.broker.subscriptions.of_topic(topic.topic_id)] == ["other"]
        with pytest.raises(KafkaError):
            await world.fetch(at)
        at = await world.subscribe()
        assert list(await world.fetch(at)) == [0, 1]

    run(test, folder)


def test_a_subscription_that_is_deleted_as_soon_as_it_is_stored_was_deleted() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        subscriptions = gateway.broker.subscriptions
        store.holding = True
        made = asyncio.ensure_future(subscriptions.ensure("g", "t"))
        await store.has(1)
        # its first step comes before the one that follows from the commit
        deleted = asyncio.ensure_future(subscriptions.delete("g"))
        store.release()
        with pytest.raises(KafkaError, match="was deleted"):
            await made
        assert await deleted == 1
        assert subscriptions.get("g", "t") is None

    run_held(test)


def test_one_whose_deletion_nobody_waits_for_any_more_is_found_by_nobody_meanwhile() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        subscriptions = gateway.broker.subscriptions
        await subscriptions.ensure("g", "t")
        store.holding = True
        deleted = asyncio.ensure_future(subscriptions.delete("g"))
        await store.has(1)
        deleted.cancel()
        await asyncio.sleep(0)
        assert subscriptions.get("g", "t") is None
        store.release()
        with pytest.raises(asyncio.CancelledError):
            await deleted
        assert subscriptions.get("g", "t") is None
        assert not list(subscriptions.live())

    run_held(test)


@pytest.mark.parametrize("gone", [True, False], ids=["it was stored", "it was not"])
def test_where_nobody_knows_whether_a_deletion_was_stored_the_store_says_what_is_left(gone: bool) -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        at = await world.subscribed(b"a", b"b")
        await world.fetch(at)
        await world.ack(at, 0)
        number, subscriptions = at.subscription.id, world.broker.subscriptions
        partition = world.broker.topics.get("t").partitions[0]
        store.holding = True
        deleted = asyncio.ensure_future(subscriptions.delete("g"))
        await store.has(1)
        if gone:
            store.land_unknown()
        else:
            store.fail(Unknown("who knows"))
        store.release()
        with pytest.raises(KafkaError) as refused:
            await deleted
        assert refused.value.code == Error.KAFKA_STORAGE_ERROR
        assert (subscriptions.get("g", "t") is None) == gone
        counted = subscriptions.counted.of(number, partition)
        assert (not counted) == gone, "what was counted goes with it, and with nothing else"

    run(test)


def test_retries_that_were_not_stored_are_an_error_and_nothing_of_them_is_there() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        await world.topic()
        subscriptions = world.broker.subscriptions
        store.holding = True
        made = asyncio.ensure_future(subscriptions.make_retries("g", "t", "t-g-RETRY"))
        await store.has(1)
        store.holding = False
        store.fail(StoreError("no"))
        with pytest.raises(KafkaError) as refused:
            await made
        assert refused.value.code == Error.KAFKA_STORAGE_ERROR
        assert world.broker.catalog.get("t-g-RETRY") is None
        await subscriptions.make_retries("g", "t", "t-g-RETRY")
        assert subscriptions.get("g", "t-g-RETRY") is not None

    run(test)


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_whoever_waits_at_a_subscription_that_is_deleted_does_not_bring_it_back(kind: str) -> None:
    class Searcher(Waiter):
        """As a parked fetch does: woken, it looks for what serves its partition now."""

        def __init__(self, world: World) -> None:
            super().__init__("c")
            self._there = world.broker.subscriptions

        def wake(self, at: SubscriptionPartition) -> None:
            self.times += 1
            assert at.gone
            found = self._there.by_id("g", at.subscription.topic_id)
            if found is not None:
                found.partition(0).attach(self.consumer)

    async def test(world: World) -> None:
        topic = await world.topic()
        await world.configure("g", pulsar__subscription__type=kind)
        at = await world.subscribe()
        searcher = Searcher(world)
        at.attach("c")
        await world.settled()
        at.parked.add(searcher)
        assert await world.broker.subscriptions.delete("g", topic.topic_id) == 1
        await world.settled()
        assert searcher.times == 1
        assert not world.broker.subscriptions.of_group("g")
        assert world.broker.subscriptions.get("g", "t") is None
        await world.produce(b"a")
        at = await world.subscribe()
        at.attach("d")
        await world.settled()
        assert await world.fetch(at, "d") == {0: (b"a", 1)}
        assert len(world.broker.subscriptions.of_topic(topic.topic_id)) == 1

    run(test)


def test_a_cursor_that_nobody_uses_is_let_go_and_knows_everything_when_it_is_back(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(b"a", b"b", b"c")
        await world.fetch(at)
        await world.ack(at, 1)
        subscriptions = world.broker.subscriptions
        for _ in range(3):
            subscriptions.release_idle()
        assert list(subscriptions.live()), "it has a consumer"
        at.detach("c", Ending.STOPPED)
        await world.settled()
        for _ in range(2):
            subscriptions.release_idle()
        assert not list(subscriptions.live())
        assert list(await world.fetch(world.at())) == [0, 2]

    run(test, folder)
