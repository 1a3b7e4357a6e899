"""A queue that is read anew while it is in use: nothing of the open turn is half a fact, and what its consumers have in
hand is known.
"""

from __future__ import annotations

import asyncio

import pytest

from store import memory
from tests.gateway.broker.queues.members import SESSION_MS, alone, join
from tests.gateway.broker.queues.reading import (
    KINDS,
    Client,
    FailingStore,
    at_of,
    given,
    numbers,
    own,
    queue_of,
    queued,
)
from tests.gateway.broker.subscriptions.world import Slot, World, run


@KINDS
def test_a_nack_in_the_turn_in_which_lanes_are_added_is_no_acknowledgement(kind: str) -> None:
    """What is given anew at once has a new offset: with the old one, below what the client has committed, nobody would
    read it, and the next commit would acknowledge it.
    """

    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        queue = await queued(world, 1, kind=kind, pulsar__nack__delay__ms="0")
        own(world, [0])
        await world.produce(*numbers(0, 5))
        client = Client(world)
        assert given(await client.read()) == [0, 1, 2, 3, 4]
        store.holding = True
        task = asyncio.ensure_future(world.broker.topics.grow("t-g-QUEUE", 2))
        while not store.held:
            await asyncio.sleep(0)
        ((writes, durability, done),) = store.held
        store.held, store.holding = [], False
        queue.commit(0, 5, "ack1;n:0=1", member=True)
        answered = Slot()
        world.broker.turn.await_commit(answered)
        store.inner.commit(writes, durability, lambda outcome: None)
        done(None)
        await task
        assert (queue.gone, await answered.told) == (True, None)
        own(world, [0])
        assert given(await client.read()) == [1]
        await client.commit()
        assert world.at().ready().start == 5

    run(test)


@KINDS
@pytest.mark.parametrize("crash", [True, False])
def test_a_cursor_that_is_lost_takes_nothing_of_the_others_with_it(kind: str, crash: bool) -> None:
    """The turn of a nack has the rows of its cursor; those of the lane belong to them."""

    async def test(world: World) -> None:
        queue = await queued(world, 1, kind=kind, partitions=2, pulsar__nack__delay__ms="0")
        own(world, [0])
        await world.produce(*numbers(0, 3), index=1)
        client = Client(world)
        assert given(await client.read()) == [0, 1, 2]
        queue.commit(0, 3, "ack1;n:0=1", member=True)
        world.at(index=0).discard()
        assert await world.settled() is None
        if crash:
            await world.crash()
        own(world, [0])
        assert given(await client.read()) == [1]
        await client.commit()
        assert world.at(index=1).ready().start == 3

    run(test)


def test_what_is_not_stored_at_all_was_not_given() -> None:
    """When the commit of a nack fails the old delivery is open again, and the client has been told that it failed."""

    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        queue = await queued(world, 1, pulsar__nack__delay__ms="0")
        own(world, [0])
        await world.produce(*numbers(0, 3))
        client = Client(world)
        assert given(await client.read()) == [0, 1, 2]
        store.failing = True
        queue.commit(0, 3, "ack1;n:0=1", member=True)
        assert await world.settled() is not None
        store.failing = False
        own(world, [0])
        lane = at_of(world).lane
        assert (lane.open, lane.end, lane.opened) == (0, 3, 3)
        assert await client.commit("ack1;n:0=1") is None
        assert given(await client.read()) == [1]

    run(test)


def test_a_crash_counts_though_lanes_were_added_since_it_was_sent() -> None:
    async def test(world: World) -> None:
        await queued(world, 1)
        await world.produce(*numbers(0, 1))
        await alone(world, 0)
        client = Client(world)
        assert given(await client.read()) == [0]
        before = queue_of(world)
        await world.broker.topics.grow("t-g-QUEUE", 2)
        await world.settled()
        assert queue_of(world) is not before
        assert queue_of(world).lanes.owners == ["a", None]
        await world.pass_time(SESSION_MS + 1_000)
        await world.settled()
        assert world.at().ready().failures(0) == 1

    run(test)


def test_a_crash_between_two_assignments_counts_though_the_queue_was_read_anew() -> None:
    """While the members come together again nobody has anything by the group's row."""

    async def test(world: World) -> None:
        await queued(world, 1)
        await world.produce(*numbers(0, 1))
        await alone(world, 0)
        client = Client(world)
        assert given(await client.read()) == [0]
        join(world, "", "b")
        again = join(world, "a")
        await world.settled()
        assert again.answer is not None
        # one more comes before the leader has shared out: all come together once more
        join(world, "", "d")
        await world.settled()
        assert not any(world.broker.groups.assignment("g").values())
        queue_of(world).retire("for whatever reason")
        await world.settled()
        assert queue_of(world).lanes.owners == ["a"]
        await world.pass_time(SESSION_MS + 1_000)
        await world.settled()
        assert world.at().ready().failures(0) == 1

    run(test)


def test_a_queue_that_is_read_anew_goes_by_who_has_the_lanes_now() -> None:
    """What one was sent is not in the hands of the next."""

    async def test(world: World) -> None:
        await queued(world, 1)
        await world.produce(*numbers(0, 1))
        own(world, [0])
        client = Client(world)
        assert given(await client.read()) == [0]
        await alone(world, 0)
        queue = queue_of(world)
        assert (queue.lanes.owners, queue.lanes.lanes[0].in_hand) == (["a"], 0)

    run(test)


@pytest.mark.parametrize("how", ["nothing", "lanes", "restart"])
def test_who_does_nothing_is_found_whatever_happened_meanwhile(how: str) -> None:
    async def test(world: World) -> None:
        await queued(world, 1, pulsar__ack__timeout__ms="5000")
        await world.produce(*numbers(0, 1))
        await alone(world, 0)
        client = Client(world)
        assert given(await client.read()) == [0]
        if how == "lanes":
            await world.broker.topics.grow("t-g-QUEUE", 2)
        elif how == "restart":
            await world.crash()
        await world.settled()
        assert queue_of(world).stuck() == []
        await world.pass_time(4_000)
        assert queue_of(world).stuck() == []
        await world.pass_time(2_000)
        assert queue_of(world).stuck() == [("a", 0)]

    run(test)


def test_suspects_stay_suspects() -> None:
    """A crash makes windows small until the guilty record is found: lanes that are added do not begin it anew."""

    async def test(world: World) -> None:
        await queued(world, 1)
        await world.produce(*numbers(0, 20))
        own(world, [0])
        client = Client(world)
        assert len(await client.read()) == 20
        queue_of(world).crashed("m0")
        await world.settled()
        bound = queue_of(world).lanes.bound(0)
        assert bound < 20
        queue_of(world).retire("for whatever reason")
        await world.settled()
        assert queue_of(world).lanes.bound(0) == bound

    run(test)
