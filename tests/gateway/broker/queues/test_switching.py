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
