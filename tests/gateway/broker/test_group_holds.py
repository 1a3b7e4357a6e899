"""Consumer groups that hold what they have not read: what retention keeps for them, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.coordinators import offsets
from semantics.retention import Hold
from store.api import Delete, Family, Put
from tests.gateway.broker.retained import SMALL, kept, put, span
from tests.gateway.broker.subscriptions.world import World, run

PULSARS = {"pulsar__retention__ms": "1000", "pulsar__retention__bytes": "-1"}
HOLDS = {"pulsar__group__holds__backlog": "true"}


async def commit(world: World, group: str, offset: int) -> None:
    topic = world.broker.topics.get("t")
    row = offsets.encode(offset, -1, 0, -1, topic.topic_id, None)
    await world.broker.write([Put(Family.OFFSET, offsets.key(group, "t", 0), row)])


async def round_of(world: World) -> tuple[int, int]:
    """The log after a round of retention, a minute later."""
    await world.pass_time(60_000)
    await world.broker.retention.apply()
    return span(world)


@pytest.mark.parametrize("subscribed", [False, True])
def test_what_the_slowest_group_has_not_read_stays(folder: Path | None, subscribed: bool) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **SMALL, **PULSARS, **HOLDS)
        at = await world.subscribe() if subscribed else None
        await put(world, 6)
        await commit(world, "slow", 2)
        await commit(world, "quick", 5)
        if at is not None:
            await world.fetch(at)
            assert not await world.ack(at, *range(6))
        assert await round_of(world) == (2, 6)
        found = kept(world)
        assert found is not None
        assert found[1] == [Hold("slow", 2, "OPEN"), Hold("quick", 5, "OPEN")]
        await world.crash()
        await commit(world, "slow", 4)
        assert (await round_of(world))[0] == 4
        # a group that is forgotten holds nothing
        for group in ("slow", "quick"):
            await world.broker.write([Delete(Family.OFFSET, offsets.key(group, "t", 0))])
        assert (await round_of(world))[0] >= 5

    run(test, folder)


@pytest.mark.parametrize("by", ["topic", "broker"])
def test_groups_hold_only_where_that_is_said(by: str) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **SMALL, **PULSARS)
        await put(world, 6)
        await commit(world, "slow", 2)
        if by == "broker":
            await world.broker.broker_configs.alter("", lambda old: {"pulsar.group.holds.backlog": "true"})
            assert (await round_of(world))[0] == 2
            await world.broker.broker_configs.alter("", lambda old: {})
        assert (await round_of(world))[0] >= 5

    run(test)


def test_a_limit_of_kafkas_kind_takes_it_all_the_same() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **SMALL, **HOLDS, retention__ms="1000")
        await put(world, 6)
        await commit(world, "slow", 2)
        assert (await round_of(world))[0] >= 5

    run(test)


def test_the_offsets_of_a_topic_that_was_deleted_hold_nothing() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **SMALL, **PULSARS, **HOLDS)
        await commit(world, "slow", 2)
        before = world.broker.topics.get("t")
        row = world.broker.store.get(Family.OFFSET, offsets.key("slow", "t", 0))
        assert row is not None
        await world.broker.topics.delete("t")
        await world.topic("t", 1, **SMALL, **PULSARS, **HOLDS)
        assert world.broker.topics.get("t").topic_id != before.topic_id
        await world.broker.write([Put(Family.OFFSET, offsets.key("slow", "t", 0), row)])
        await put(world, 6)
        assert (await round_of(world))[0] >= 5
        assert span(world)[1] == 6

    run(test)


def test_an_offset_that_cannot_be_read_stops_no_round() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **SMALL, **PULSARS, **HOLDS)
        await put(world, 6)
        await commit(world, "slow", 4)
        await world.broker.write([Put(Family.OFFSET, offsets.key("broken", "t", 0), b"?")])
        assert (await round_of(world))[0] == 4

    run(test)
