"""Facts of both stores, those of non-persistent topics: in order with what is durable only, and whole or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.broker.errors import KafkaError
from store.api import Family
from store.transient import Beside, is_transient
from tests.gateway.broker.queues.test_lane_waits import failing
from tests.gateway.broker.subscriptions.world import World, run
from tests.gateway.broker.test_transient import memory_topic


def test_ids_of_subscriptions_do_not_go_back(folder: Path | None) -> None:
    """Their next id is a row that a fact of both stores writes between others of the same turn."""

    async def test(world: World) -> None:
        await memory_topic(world, "m")
        for name in ("a", "b", "c"):
            await world.topic(name)
        make = world.broker.subscriptions.make
        await asyncio.gather(*(make("g", name, [0], {}, {}) for name in ("a", "m", "b")))
        await world.crash()
        await world.broker.subscriptions.make("g", "c", [0], {}, {})
        ids = [row.id for row in world.broker.subscriptions.of_group("g")]
        assert len(ids) == len(set(ids)) == 4

    run(test, folder)


def test_ids_of_partitions_do_not_go_back(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await memory_topic(world, "m")
        await world.topic("a")
        await asyncio.gather(
            world.topic("b"),
            world.broker.subscriptions.make("g", "m", [0], {}, {}, "m-g-RETRY"),
            memory_topic(world, "n"),
        )
        await world.crash()
        await memory_topic(world, "o")
        await world.topic("c")
        ids = [partition for topic in world.broker.catalog.topics() for partition in topic.partitions]
        assert len(ids) == len(set(ids))
        assert sum(map(is_transient, ids)) >= 3

    run(test, folder)


def test_one_that_is_not_stored_leaves_nothing_in_memory() -> None:
    async def test(world: World) -> None:
        store = await failing(world)
        await memory_topic(world, "m", 2)
        assert isinstance(world.broker.store, Beside)
        kept = world.broker.store.transient
        before = {family: list(kept.scan(family)) for family in Family}
        store.failing = True
        with pytest.raises(KafkaError):
            await world.broker.subscriptions.make("g", "m", [0, 0], {}, {})
        store.failing = False
        assert {family: list(kept.scan(family)) for family in Family} == before
        assert world.broker.subscriptions.get("g", "m") is None
        await world.broker.subscriptions.make("g", "m", [0, 0], {}, {})
        assert len(list(kept.scan(Family.CURSOR))) == 2

    run(test)
