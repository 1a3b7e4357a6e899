"""A subscription is served by a share group or by lanes: it is switched while nobody reads it, and keeps its place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from semantics.subscriptions.states import Ending
from tests.gateway.broker.queues.reading import Client, given, numbers, queued
from tests.gateway.broker.subscriptions.world import World, run


async def settled(world: World) -> None:
    for _ in range(5):
        await world.settled()
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_from_a_share_group_to_lanes_and_back(kind: str, folder: Path | None) -> None:
    async def test(world: World) -> None:
        broker = world.broker
        await world.topic()
        await world.configure("g", pulsar__subscription__type=kind)
        await broker.share_groups.make("g")
        at = await world.subscribe()
        await world.produce(*numbers(0, 6), key=[b"k%d" % n for n in range(6)])
        found = await world.fetch(at)
        if not found:
            # Key_Shared deals slots first
            await settled(world)
            found = await world.fetch(at)
        assert len(found) == 6
        assert not await world.ack(at, 0, 1)
        at.detach("c", Ending.STOPPED)
        await settled(world)
        queue = await broker.queues.make("t", "g", 2)
        await settled(world)
        assert broker.share_groups.get("g") is None
        clients = [Client(world, index) for index in range(2)]
        by_lane = [given(await client.read()) for client in clients]
        assert sorted(by_lane[0] + by_lane[1]) == [2, 3, 4, 5]
        await clients[0].commit()
        done = {0, 1, *by_lane[0]}
        await broker.topics.delete(queue.name)
        await settled(world)
        again = await world.subscribe()
        if not (values := await world.fetch(again)):
            await settled(world)
            values = await world.fetch(again)
        assert {int(value or b"") for value, _ in values.values()} == set(range(6)) - done

    run(test, folder)


def test_nobody_is_switched_who_has_consumers() -> None:
    async def test(world: World) -> None:
        await world.topic()
        at = await world.subscribe()
        at.attach("c")
        with pytest.raises(KafkaError) as caught:
            await world.broker.queues.make("t", "g", 2)
        assert caught.value.code == Error.NON_EMPTY_GROUP

    run(test)


def test_an_id_is_free_again_when_its_lanes_are_gone() -> None:
    async def test(world: World) -> None:
        queue = await queued(world, 2)
        assert world.broker.subscriptions.lanes_of("g") == queue.name
        await world.broker.topics.delete(queue.name)
        await settled(world)
        assert world.broker.subscriptions.lanes_of("g") is None

    run(test)


@pytest.mark.parametrize("whose", ["its own", "its group's"])
def test_its_type_is_changed_between_two_queue_topics(whose: str, folder: Path | None) -> None:
    async def change(world: World) -> None:
        new = {"pulsar.subscription.type": "key_shared"}
        if whose == "its own":
            await world.broker.subscriptions.configs.alter_properties("g", "t", new)
        else:
            await world.broker.group_configs.alter("g", lambda old: {**old, **new})

    async def test(world: World) -> None:
        broker = world.broker
        await world.topic()
        await world.configure("g", share__auto__offset__reset="earliest")
        if whose == "its own":
            await world.subscribe()
        queue = await broker.queues.make("t", "g", 2)
        await settled(world)
        keys = [b"k%d" % n for n in range(6)]
        await world.produce(*numbers(0, 6), key=keys)
        client = Client(world)
        assert given(await client.read()) == [0, 1, 2, 3, 4, 5]
        await client.commit(offset=2)
        with pytest.raises(KafkaError, match=r"is shared and cannot become .* delete 't-g-QUEUE'") as refused:
            await change(world)
        assert refused.value.code == Error.INVALID_CONFIG
        await broker.topics.delete(queue.name)
        await settled(world)
        await change(world)
        await broker.queues.make("t", "g", 2)
        await settled(world)
        await world.produce(*numbers(6, 12), key=keys)
        by_lane = [given(await Client(world, index).read()) for index in range(2)]
        assert sorted(by_lane[0] + by_lane[1]) == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
        for lane in by_lane:
            # a key is of one lane, and in order there
            assert all(n + 6 in lane for n in lane if 2 <= n < 6)
            assert lane == sorted(lane)

    run(test, folder)
