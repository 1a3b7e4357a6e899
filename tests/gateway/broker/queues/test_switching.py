"""A subscription is served by a share group or by lanes: it is switched while nobody reads it, and keeps its place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from semantics.subscriptions.states import Ending
from tests.gateway.broker.queues.members import alone
from tests.gateway.broker.queues.reading import Client, given, numbers, queue_of, queued
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


async def retype(world: World, whose: str, kind: str) -> None:
    new = {"pulsar.subscription.type": kind}
    if whose == "its own":
        await world.broker.subscriptions.configs.alter_properties("g", "t", new)
    else:
        await world.broker.group_configs.alter("g", lambda old: {**old, **new})


@pytest.mark.parametrize("kinds", [("shared", "key_shared"), ("key_shared", "shared")])
@pytest.mark.parametrize("whose", ["its own", "its group's"])
@pytest.mark.parametrize("when", ["in use", "after a crash", "crashed at once"])
def test_its_type_is_changed_while_nobody_is_a_member(
    whose: str, kinds: tuple[str, str], when: str, folder: Path | None
) -> None:
    """What was open is given anew: an earlier and a later record of a key are not on two lanes."""
    before, after = kinds

    async def test(world: World) -> None:
        broker = world.broker
        await world.topic()
        await world.configure("g", share__auto__offset__reset="earliest", pulsar__subscription__type=before)
        if whose == "its own":
            await world.subscribe()
        await broker.queues.make("t", "g", 2)
        await settled(world)
        keys = [b"k%d" % n for n in range(6)]
        await world.produce(*numbers(0, 6), key=keys)
        had = [Client(world, index) for index in range(2)]
        first = [await each.read() for each in had]
        done = set(given(first[0])[:2])
        await had[0].commit(offset=list(first[0])[2] if len(first[0]) > 2 else None)
        for each in had:
            each.leave()
        if when == "after a crash":
            # nobody has asked for the lanes since
            await world.crash()
        await retype(world, whose, after)
        if when == "crashed at once":
            await world.crash()
        # lanes get their slots as they are loaded
        queue_of(world)
        await settled(world)
        await world.produce(*numbers(6, 12), key=keys)
        lanes = [Client(world, index) for index in range(2)]
        by_lane = [given(await each.read()) for each in lanes]
        assert sorted(by_lane[0] + by_lane[1]) == sorted(set(range(12)) - done)
        if after == "key_shared":
            assert all(by_lane), "by slot, on both"
            for lane in by_lane:
                # a key is of one lane, and in order there
                assert all(n + 6 in lane for n in lane if n < 6)
                assert lane == sorted(lane)
        for each in lanes:
            await each.commit()
        assert world.at().ready().start == 12

    run(test, folder)


@pytest.mark.parametrize("whose", ["its own", "its group's"])
def test_its_type_stays_while_somebody_is_a_member(whose: str) -> None:
    async def test(world: World) -> None:
        await world.topic()
        if whose == "its own":
            await world.subscribe()
        await world.broker.queues.make("t", "g", 2)
        await settled(world)
        await alone(world, 0, 1)
        for _ in range(2):
            with pytest.raises(
                KafkaError, match=r"is shared and cannot become .* it has consumers \(1\): stop them"
            ) as refused:
                await retype(world, whose, "key_shared")
            assert refused.value.code == Error.INVALID_CONFIG
            # nor where the lanes are not in memory
            await world.crash()
            await settled(world)

    run(test)


def test_nobody_reads_lanes_whose_type_is_being_changed() -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.configure("g", share__auto__offset__reset="earliest")
        queue = await world.broker.queues.make("t", "g", 1)
        await settled(world)
        await world.produce(*numbers(0, 2))
        client = Client(world)
        change = asyncio.ensure_future(retype(world, "its group's", "key_shared"))
        while not world.broker.subscriptions.configs.retyping("g"):
            await asyncio.sleep(0)
        with pytest.raises(KafkaError) as caught:
            await client.poll()
        assert caught.value.code == Error.NOT_LEADER_OR_FOLLOWER
        await change
        await settled(world)
        assert world.broker.queues.of(queue).lanes.shared is False
        assert given(await Client(world).read()) == [0, 1]

    run(test)
