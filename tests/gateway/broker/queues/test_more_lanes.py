"""A queue topic gets more lanes while it is read: nothing moves before its time, and everybody hears of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.catalog import MOST_LANES
from gateway.broker.errors import KafkaError
from gateway.broker.queues.more_lanes import NEWS_MS
from gateway.wire.errors import Error
from tests.gateway.broker.queues.reading import Client, at_of, given, numbers, queue_of, queued, read_all
from tests.gateway.broker.subscriptions.world import World, run

NAME = "t-g-QUEUE"
KEYS = [b"k%d" % n for n in range(64)]


async def grow(world: World, lanes: int) -> None:
    await world.broker.topics.grow(NAME, lanes)
    for _ in range(3):
        await world.settled()


def test_what_lanes_have_stays_and_new_ones_get_what_comes(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, 2)
        await world.produce(*numbers(0, 10))
        one = Client(world)
        first = await one.read()
        assert given(first) == list(range(10))
        await grow(world, 4)
        await world.produce(*numbers(10, 20))
        late = Client(world, 3)
        assert given(await late.read()) == list(range(10, 20))
        again = Client(world)
        assert (again.position, await again.read()) == (0, first)
        for client in (again, late):
            await client.commit()
        assert world.at().ready().start == 20
        await world.crash()
        assert len(queue_of(world).at) == 4

    run(test, folder)


def test_a_slot_moves_when_nothing_of_it_is_open(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, 1, kind="key_shared")
        await world.produce(*numbers(0, 30), key=KEYS[:30])
        one = Client(world)
        assert given(await one.read()) == list(range(30))
        await grow(world, 2)
        await world.produce(*numbers(30, 60), key=KEYS[:30])
        one, two = Client(world), Client(world, 1)
        stays = [number for number in given(await one.read()) if number >= 30]
        assert given(await two.read()) == [], "the first lane has an earlier record of each of their keys"
        assert 0 < len(stays) < 30
        await one.commit()
        moved = given(await two.read())
        assert sorted(stays + moved) == list(range(30, 60))
        await two.commit()
        assert world.at().ready().start == 60

    run(test, folder)


def test_lanes_that_nobody_has_used_yet_can_be_more(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, 2, kind="key_shared")
        await world.crash()
        await grow(world, 5)
        await world.produce(*numbers(0, 64), key=KEYS)
        clients = [Client(world, index) for index in range(5)]
        counts = []
        for client in clients:
            counts.append(len(await client.read()))
        assert sum(counts) == 64
        assert min(counts) > 0

    run(test, folder)


def test_each_connection_hears_of_it_once_for_each_lane() -> None:
    async def test(world: World) -> None:
        await queued(world, 2)
        old, *others = [world.broker.connection_numbers.next() for _ in range(3)]
        assert not at_of(world).news_for(old)
        await grow(world, 3)
        assert [at_of(world, lane).news_for(old) for lane in (0, 0, 1, 2)] == [True, False, True, True]
        assert at_of(world).news_for(others[0])
        later = world.broker.connection_numbers.next()
        assert not at_of(world).news_for(later), "it has looked for the leader just now"
        queue_of(world).throw_away("for a test")
        await world.settled()
        assert not at_of(world).news_for(old), "nor again when it is read again"
        await world.pass_time(NEWS_MS)
        assert not at_of(world).news_for(others[1]), "by then they have looked for themselves"

    run(test)


def test_a_fetch_that_waits_is_woken() -> None:
    async def test(world: World) -> None:
        await queued(world, 1)
        client = Client(world)
        await client.read()
        lane, woken = client.lane, client.woken
        assert lane is not None
        await grow(world, 2)
        assert lane.stale
        assert client.woken > woken

    run(test)


def test_there_are_bounds() -> None:
    async def test(world: World) -> None:
        await queued(world, 2)
        for lanes in (1, 2, MOST_LANES + 1):
            with pytest.raises(KafkaError) as error:
                await world.broker.topics.grow(NAME, lanes)
            assert error.value.code == Error.INVALID_PARTITIONS
        await world.produce(*numbers(0, 4))
        assert await read_all([Client(world)]) == [0, 1, 2, 3]

    run(test)
