"""Cursors behind lanes that administrators move: what lanes hold of it is taken back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions import positions
from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.wire.errors import Error
from semantics.subscriptions.cursor import Cursor
from store import memory
from tests.gateway.broker.queues.reading import (
    KEYS,
    KINDS,
    Client,
    FailingStore,
    at_of,
    given,
    numbers,
    own,
    queue_of,
    queued,
    read_all,
)
from tests.gateway.broker.subscriptions.world import World, run


def move(world: World, how: str, number: int, index: int = 0) -> None:
    """Skip so many, clear up to an offset, or seek to it."""
    at = world.at(index=index)
    if how == "seek":
        positions.seek_all([(at, number)])
    elif how == "skip":
        end = at.partition.high_watermark
        positions.move([(at, number)], lambda cursor, count: cursor.skip(count, end))
    else:
        positions.move([(at, number)], Cursor.clear)


@KINDS
def test_what_is_cleared_is_not_open_any_more(kind: str, folder: Path | None) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, 2, kind=kind)
        await world.produce(*numbers(0, 20), key=KEYS[:20])
        clients = [Client(world, index) for index in range(2)]
        own(world, [0], [])
        assert sorted(await read_all(clients)) == list(range(20))
        move(world, "clear", 20)
        await world.settled()
        assert queue_of(world) is queue, "what was sent is still known"
        assert [at_of(world, index).lane.opened for index in range(2)] == [0, 0]
        await world.crash()
        lanes = [at_of(world, index).lane for index in range(2)]
        assert [lane.open for lane in lanes] == [lane.end for lane in lanes]
        # who comes begins behind it, and later records are given as ever
        await world.produce(*numbers(20, 30), key=KEYS[:10])
        assert sorted(await read_all([Client(world, index) for index in range(2)])) == list(range(20, 30))

    run(test, folder)


def test_only_what_was_skipped_is_taken_back() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 10))
        client = Client(world)
        await client.read()
        await client.commit("ack1;a=5", offset=1)
        move(world, "skip", 6)
        await world.settled()
        lane = at_of(world).lane
        # 1 to 4, 6 and 7 were skipped, 5 was done before
        assert (lane.open, lane.opened, world.at().ready().start) == (8, 2, 8)
        # a commit of what a consumer has in hand passes over them
        await client.commit(offset=9)
        assert world.at().ready().start == 9

    run(test)


@KINDS
@pytest.mark.parametrize("target", [0, 5])
def test_after_a_seek_all_from_there_on_is_delivered_anew(
    kind: str, target: int, folder: Path | None
) -> None:
    async def test(world: World) -> None:
        await queued(world, 2, kind=kind)
        await world.produce(*numbers(0, 10), key=KEYS[:10])
        clients = [Client(world, index) for index in range(2)]
        before = await read_all(clients)
        await clients[0].commit()
        ends = [at_of(world, index).lane.end for index in range(2)]
        move(world, "seek", target)
        await world.settled()
        assert [at_of(world, index).lane.open for index in range(2)] == ends
        # consumers that read on are given the new deliveries, behind all that they had
        again = await read_all(clients)
        assert sorted(again) == list(range(target, 10))
        assert sorted(before) == list(range(10))
        # of the old ones nothing is said by a commit
        await world.crash()
        assert [at_of(world, index).lane.open for index in range(2)] == ends
        assert world.at().ready().start == target
        anew = [Client(world, index) for index in range(2)]
        assert sorted(await read_all(anew)) == list(range(target, 10))
        for client in anew:
            await client.commit()
        assert world.at().ready().start == 10

    run(test, folder)


def test_a_queue_that_nobody_has_read_since_the_start_finds_its_cursors_moved() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 10))
        await Client(world).read()
        await world.crash()
        assert world.broker.queues._live == {}
        move(world, "seek", 3)
        await world.settled()
        client = Client(world)
        assert client.position == 10
        assert sorted(given(await client.read())) == list(range(3, 10))

    run(test)


def test_room_that_was_cleared_is_given_to_who_waits_for_it() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 200))
        client = Client(world)
        # the window
        assert len(await client.read()) == 64
        move(world, "clear", 64)
        await world.settled()
        assert given(await client.read()) == list(range(64, 128))

    run(test)


def test_a_move_that_is_not_stored_has_moved_nothing() -> None:
    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        await queued(world)
        await world.produce(*numbers(0, 10))
        before = await Client(world).read()
        store.failing = True
        move(world, "clear", 10)
        assert await world.settled() is not None
        store.failing = False
        assert world.at().ready().start == 0
        # the same deliveries
        assert await Client(world).read() == before

    run(test)


def test_lanes_that_are_being_given_more_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        queue = await queued(world)
        await world.produce(*numbers(0, 10))
        gate = asyncio.Event()
        (source,) = queue.sources.values()
        original = type(source.at.reader).take

        def take(self: object, *asked: object) -> object:
            found = original(self, *asked)  # type: ignore[arg-type]

            async def later() -> object:
                await gate.wait()
                return found

            return later()

        client = Client(world)
        with monkeypatch.context() as patched:
            patched.setattr(type(source.at.reader), "take", take)
            # acquired, and on its way to the lane
            await client.poll()
            await asyncio.sleep(0)
            move(world, "seek", 4)
            gate.set()
            await world.settled()
            await asyncio.sleep(0)
        assert queue.gone
        await world.settled()
        assert sorted(given(await Client(world).read())) == list(range(4, 10))

    run(test)


def test_a_cursor_that_cannot_be_had_moves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, partitions=2)
        await world.produce(*numbers(0, 5))
        await world.produce(*numbers(5, 10), index=1)
        assert len(await Client(world).read()) == 10
        away = world.at(index=1)
        original = SubscriptionPartition.ready

        def ready(self: SubscriptionPartition) -> Cursor:
            if self is away:
                raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
            return original(self)

        with monkeypatch.context() as patched:
            patched.setattr(SubscriptionPartition, "ready", ready)
            with pytest.raises(KafkaError):
                positions.seek_all([(world.at(), 3), (away, 3)])
            assert (queue.gone, queue.at[0].lane.opened) == (False, 10)
            # one that is moved alone: lanes are read again when all cursors are there
            move(world, "clear", 5)
            assert queue.gone
        await world.settled()
        assert at_of(world).lane.opened == 5

    run(test)
