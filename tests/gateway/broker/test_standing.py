"""Where subscriptions stand, in use or not, and while their cursors are on their way to the store."""

from __future__ import annotations

from pathlib import Path

import uvloop

from gateway.broker import standing
from gateway.broker.subscriptions import positions
from tests.gateway.broker.compacted import filled, partition, run
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.subscriptions.world import World


async def first_open(world: World) -> int:
    found = world.broker.catalog.get("t")
    assert found is not None
    return await standing.first_open(world.store, world.broker.subscriptions, found, 0)


def test_the_first_that_any_subscription_has_open(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world)
        assert await first_open(world) == standing.first_open_in_use(partition(world)) == standing.NOBODY
        for name, count in (("g", 7), ("h", 5)):
            at = await world.subscribe(name)
            await world.fetch(at, limit=count)
            await world.ack(at, *range(count))
        assert await first_open(world) == standing.first_open_in_use(partition(world)) == 5
        # at once where it is moved, and before anything is stored of that
        positions.seek_all([(world.at("g"), 3)])
        assert standing.first_open_in_use(partition(world)) == 3
        await world.settled()
        await world.close()
        await world.start()
        assert await first_open(world) == 3
        assert standing.first_open_in_use(partition(world)) == standing.NOBODY

    run(test, tmp_path / "data")


def test_a_cursor_that_is_being_written_may_stand_anywhere() -> None:
    async def test() -> None:
        world, store = World(), HeldStore()
        await world.start(store)
        at = await world.subscribed(*[b"x"] * 40)
        await world.fetch(at)
        await world.ack(at, *range(40))
        assert await first_open(world) == 40
        store.holding = True
        positions.seek_all([(at, 7)])
        world.broker.turn.end()
        at.discard()
        assert await first_open(world) == 0
        store.release()
        await world.settled()
        assert await first_open(world) == 7

    uvloop.run(test())
