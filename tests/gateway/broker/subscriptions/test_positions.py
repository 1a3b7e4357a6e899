"""Where a subscription stands, and moving it: bounds, what is delivered again, and that it is durable."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions.positions import Position, position, seek
from gateway.wire.errors import Error
from store.api import Refused, StoreError
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.subscriptions.world import World, run

VALUES = (b"a", b"b", b"c", b"d")


def test_it_stands_at_its_first_open_record_and_lags_by_those_that_are_open() -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(*VALUES)
        there = world.subscription()
        assert position(there, 0) == Position(0, 4)
        await world.fetch(at)
        assert position(there, 0) == Position(0, 4), "what is in hand is open"
        await world.ack(at, 1)
        assert position(there, 0) == Position(0, 3)
        await world.ack(at, 0)
        assert position(there, 0) == Position(2, 2)
        with pytest.raises(KafkaError) as refused:
            position(there, 1)
        assert refused.value.code == Error.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


@pytest.mark.parametrize(
    ("offset", "start"), [(-1, 2), (0, 2), (1, 2), (2, 2), (3, 3), (4, 4), (5, 4), (2**62, 4)]
)
def test_a_place_outside_of_the_log_is_its_nearest_end(offset: int, start: int) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(*VALUES)
        await world.broker.topics.delete_records(at.partition, 2)
        await seek(world.subscription(), {0: offset})
        assert position(world.subscription(), 0) == Position(start, 4 - start)

    run(test)


def test_what_was_settled_from_there_on_is_delivered_again_also_after_a_crash(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(*VALUES)
        await world.fetch(at)
        assert not await world.ack(at, 0, 1, 2, 3)
        await seek(world.subscription(), {0: 2})
        await world.crash()
        assert list(await world.fetch(world.at())) == [2, 3]

    run(test, folder)


def test_partitions_that_are_not_named_stay_where_they_are() -> None:
    async def test(world: World) -> None:
        await world.topic(partitions=3)
        await world.subscribe()
        for index in range(3):
            await world.produce(*VALUES, index=index)
        await seek(world.subscription(), {0: 1, 2: 3})
        assert [position(world.subscription(), index).start for index in range(3)] == [1, 0, 3]

    run(test)


def test_one_that_cannot_be_stored_is_told_and_did_not_happen() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        at = await world.subscribed(*VALUES)
        await world.fetch(at)
        await world.ack(at, 0)
        store.holding = True
        moved = world.broker.loop.create_task(seek(world.subscription(), {0: 3}))
        await store.has(1)
        store.holding = False
        store.fail(Refused("no"))
        with pytest.raises(StoreError):
            await moved
        assert position(world.subscription(), 0) == Position(1, 3)

    run(test)
