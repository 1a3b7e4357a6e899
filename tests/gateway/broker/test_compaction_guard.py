"""What changes while a pass is at work: it puts nothing in place that may not go by then, and that is no failure."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.broker import compaction_guard, standing
from gateway.broker.compaction import State
from gateway.broker.subscriptions import positions
from store.api import Durability, Family, Trim
from store.rocksdb.segments import REWRITTEN
from tests.gateway.broker.compacted import applied, files, filled, held, offsets, partition, put, run
from tests.gateway.broker.subscriptions.world import World


def test_a_log_that_is_trimmed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world)
        begun, go = held(world)
        task = asyncio.create_task(applied(world))
        await begun.wait()
        await world.store.write([Trim(partition(world).id, 12)], Durability.OS)
        there = len(files(world))
        go.set()
        await task
        assert await offsets(world) == [*range(12, 40)]
        assert world.broker.metrics.compactions.labels("error").value == 0
        await world.store.checkpoint()
        assert len(files(world)) < there
        assert not any(int(path.stem.split("-")[2]) >= REWRITTEN for path in files(world))
        # it comes to it again
        await applied(world)
        assert len(await offsets(world)) < 12

    run(test, tmp_path / "data")


def test_a_segment_that_is_trimmed_when_all_was_read_is_not_brought_back(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world, once=True)
        first = partition(world).log.segments()[0]
        reserve = world.store.reserve

        async def trimming(number: int, bases: list[int]) -> Any:
            places = await reserve(number, bases)
            await world.store.write([Trim(number, first.next_offset)], Durability.OS)
            return places

        world.store.reserve = trimming
        await applied(world)
        assert world.broker.metrics.compactions.labels("success").value == 0
        await world.store.checkpoint()
        assert not any(int(path.stem.split("-")[2]) >= REWRITTEN for path in files(world))
        assert await offsets(world) == [*range(first.next_offset, 40)]

    run(test, tmp_path / "data")


async def none_put_in_place(world: World, go: asyncio.Event, status: State) -> None:
    """A pass that is held goes on, and what has changed meanwhile puts it off."""
    topic = world.broker.catalog.get("t")
    assert topic is not None
    go.set()
    while world.broker.metrics.compactions_running.value:
        await asyncio.sleep(0.01)
    assert world.broker.compaction.status(topic, [0]).state is status
    assert world.broker.metrics.compactions.labels("error").value == 0
    assert await offsets(world) == [*range(40)]
    await world.store.checkpoint()
    assert not any(int(path.stem.split("-")[2]) >= REWRITTEN for path in files(world))


@pytest.mark.parametrize("asked", [False, True])
def test_a_topic_that_is_not_compacted_any_more_loses_nothing_to_a_pass_under_way(
    tmp_path: Path, asked: bool
) -> None:
    async def test(world: World) -> None:
        await filled(world)
        topic = world.broker.catalog.get("t")
        assert topic is not None
        begun, go = held(world)
        if asked:
            world.broker.compaction.ask(topic, [0])
        else:
            task = asyncio.create_task(applied(world))
        await begun.wait()
        await world.broker.topics.configure("t", lambda old: {**old, "cleanup.policy": "delete"})
        # who asked is told that it was not done
        await none_put_in_place(world, go, State.ERROR if asked else State.NOT_RUN)
        if not asked:
            await task

    run(test, tmp_path / "data")


@pytest.mark.parametrize("how", ["comes", "begins anew", "begins anew at the last moment"])
def test_a_subscription_that_is_there_by_now_gets_every_message(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(world: World) -> None:
        await filled(world)
        if how != "comes":
            at = await world.subscribe()
            await world.fetch(at)
            await world.ack(at, *range(40))
        begun, go = held(world)
        task = asyncio.create_task(applied(world))
        await begun.wait()
        if how == "comes":
            at = await world.subscribe()
        elif how == "begins anew":
            await positions.seek(world.subscription(), {0: 0})
        else:
            look = standing.first_open

            async def seeking(*given: Any) -> int:
                found = await look(*given)
                positions.seek_all([(at, 0)])
                return found

            monkeypatch.setattr(compaction_guard, "first_open", seeking)
        await none_put_in_place(world, go, State.NOT_RUN)
        await task
        assert list(await world.fetch(at, "other")) == [*range(40)]

    run(test, tmp_path / "data")


def test_a_subscription_that_is_on_its_way_to_the_disk_gets_every_message(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world)
        begun, go = held(world)
        task = asyncio.create_task(applied(world))
        await begun.wait()
        writing, may = asyncio.Event(), asyncio.Event()
        new: Any = world.broker.subscriptions.new
        make = new.starts

        async def slow(*given: Any) -> Any:
            found = await make(*given)
            writing.set()
            await may.wait()
            return found

        new.starts = slow
        coming = asyncio.create_task(world.subscribe())
        await writing.wait()
        go.set()
        locks = world.broker.topics._locks
        while not task.done() and locks["t"][1] < 2:
            await asyncio.sleep(0.01)
        may.set()
        at = await coming
        await none_put_in_place(world, go, State.NOT_RUN)
        await task
        assert list(await world.fetch(at)) == [*range(40)]

    run(test, tmp_path / "data")


def test_a_pass_that_was_asked_for_begins_anew_when_it_is_put_off(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world)
        topic = world.broker.catalog.get("t")
        assert topic is not None
        begun, go = held(world)
        assert world.broker.compaction.ask(topic, [0])
        await begun.wait()
        at = await world.subscribe()
        await world.fetch(at, limit=13)
        await world.ack(at, *range(13))
        go.set()
        while (status := world.broker.compaction.status(topic, [0])).state is State.RUNNING:
            await asyncio.sleep(0.01)
        assert status.state is State.SUCCESS
        # it leaves what the subscription has open
        assert 27 < len(await offsets(world)) < 40
        assert list(await world.fetch(at)) == [*range(13, 40)]

    run(test, tmp_path / "data")


def test_files_that_are_gone_before_they_were_read_are_no_failure(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world)
        topic = world.broker.catalog.get("t")
        assert topic is not None
        begun, go = held(world)
        assert world.broker.compaction.ask(topic, [0])
        await begun.wait()
        await world.store.write([Trim(partition(world).id, 40)], Durability.OS)
        await world.store.checkpoint()
        await put(world, (b"k0", b"1"), (b"k0", b"2"))
        go.set()
        while (status := world.broker.compaction.status(topic, [0])).state is State.RUNNING:
            await asyncio.sleep(0.01)
        assert status.state is State.SUCCESS
        assert world.broker.metrics.compactions.labels("error").value == 0
        assert await offsets(world) == [41]

    run(test, tmp_path / "data")


@pytest.mark.parametrize("late", [False, True])
def test_of_a_topic_that_is_deleted_meanwhile_nothing_is_left(tmp_path: Path, late: bool) -> None:
    """Before the first segment comes into its place, or when all are there."""

    async def test(world: World) -> None:
        await filled(world)
        begun, go = held(world, after=late)
        task = asyncio.create_task(applied(world))
        await begun.wait()
        await world.broker.delete_topic("t")
        go.set()
        await task
        await world.store.checkpoint()
        await world.store.checkpoint()
        assert files(world) == []
        assert list(world.store.scan(Family.COMPACTION)) == []
        assert world.broker.metrics.compactions.labels("error").value == 0

    run(test, tmp_path / "data")
