"""Lanes that wait are given what there is as soon as they may have it: nobody else asks for them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.queues.lane import READ_MS
from gateway.broker.queues.source import AGAIN_MS, Source
from gateway.wire.errors import Error
from tests.gateway.broker.held import until
from tests.gateway.broker.queues.reading import KINDS, numbers, own, queue_of, queued
from tests.gateway.broker.queues.session import Session, keys_of
from tests.gateway.broker.subscriptions.disk import Disk
from tests.gateway.broker.subscriptions.world import World, run


@KINDS
def test_a_damaged_partition_does_not_stop_its_neighbours(kind: str) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind, partitions=2)
        await world.produce(*numbers(0, 5))
        await world.produce(*numbers(5, 10), index=1)
        broken = world.at().partition
        broken.log = disk = Disk(broken.log)
        disk.cold, disk.damaged = False, (0, 5)
        own(world, [0])
        session = Session(world)
        await session.read()
        await session.commit(0)
        await world.produce(*numbers(10, 15), index=1)
        await session.read()
        assert sorted(session.came[0]) == list(range(5, 15))

    run(test)


def test_what_comes_while_a_disk_is_asked_is_given() -> None:
    async def test(world: World) -> None:
        queue = await queued(world, 2, kind="key_shared", partitions=2)
        own(world, [0], [1])
        keys = await keys_of(world)
        session = Session(world, 0)
        await session.read()
        slow = world.at(index=1).partition
        slow.log = disk = Disk(slow.log)
        await world.produce(b"100", index=1, key=keys[1])
        await until(lambda: bool(disk.waiting))
        assert queue.at[0].giving, "it is woken, and looks for its keys there"
        await world.produce(b"7", key=keys[0])
        disk.cold = False
        await disk.go()
        await until(lambda: not queue.at[0].giving)
        await session.read()
        assert session.came[0] == [7]

    run(test)


async def _suspects(world: World, lane: int = 0) -> dict[int, bytes]:
    """A lane has two suspects whose next delivery is the last; member m1 has lanes 0 and 1. A key of each lane."""
    await queued(world, 2, kind="key_shared", limit=2)
    keys = await keys_of(world)
    own(world, [lane])
    session = Session(world, lane)
    await world.produce(b"1", b"2", key=keys[lane])
    await session.read()
    assert session.came[lane] == [1, 2]
    session.close()
    queue_of(world).crashed("m0")
    await world.settled()
    own(world, [], [0, 1])
    return keys


def test_a_lane_that_waits_for_a_suspect_goes_on_when_that_is_anothers() -> None:
    """Cooperative: its lane stays with it, and its session has nothing new to ask."""

    async def test(world: World) -> None:
        keys = await _suspects(world)
        session = Session(world)
        await session.read()
        await world.produce(b"3", key=keys[1])
        await session.read()
        assert session.came == {0: [1], 1: []}, "the first is alone"
        own(world, [], [1])
        await session.read(forget=0)
        assert session.came[1] == [3]

    run(test)


def test_nobody_waits_for_a_lane_that_is_paused() -> None:
    async def test(world: World) -> None:
        keys = await _suspects(world)
        session = Session(world, 1)
        await world.produce(b"3", key=keys[1])
        await session.read()
        assert session.came[1] == [3]

    run(test)


def test_nor_for_one_that_is_paused_later() -> None:
    """Its consumer had asked there, too, and nothing tells of the pause."""

    async def test(world: World) -> None:
        keys = await _suspects(world)
        queue = queue_of(world)
        # what is to come alone cannot be had yet
        (source,) = queue.sources.values()
        source.again_at = 1 << 60
        session = Session(world)
        await session.read()
        await world.produce(b"3", key=keys[1])
        await session.read(forget=0)
        source.again_at = 0
        await world.pass_time(READ_MS - 1)
        world.broker.queues.give_again()
        await session.read()
        assert session.came == {0: [], 1: []}
        await world.pass_time(1)
        world.broker.queues.give_again()
        await session.read()
        assert session.came == {0: [], 1: [3]}

    run(test)


def test_who_waits_for_long_is_still_there() -> None:
    async def test(world: World) -> None:
        keys = await _suspects(world)
        (source,) = queue_of(world).sources.values()
        source.again_at = 1 << 60
        session = Session(world)
        await session.read()
        await world.produce(b"3", key=keys[1])
        await world.pass_time(10 * READ_MS)
        source.again_at = 0
        await session.read()
        world.broker.queues.give_again()
        await session.read()
        assert session.came == {0: [1], 1: []}

    run(test)


def test_lanes_go_on_when_the_last_suspect_dies_of_a_leave() -> None:
    async def test(world: World) -> None:
        queue = await queued(world, 3, limit=2)
        own(world, [0], [1, 2])
        one = Session(world, 0)
        await world.produce(b"1")
        await one.read()
        one.close()
        queue.crashed("m0")
        await world.settled()
        own(world, [0], [1, 2])
        one, other = Session(world, 0), Session(world, 1, 2)
        await one.read()
        assert one.came[0] == [1], "its last delivery, alone"
        await world.produce(*numbers(10, 20))
        await other.read()
        assert len(other.came[1] + other.came[2]) < 10, "as long as there are suspects"
        queue.left("m0")
        await other.read()
        assert sorted(other.came[1] + other.came[2]) == list(range(10, 20))

    run(test)


@pytest.mark.parametrize("named", ["n", "d", "r:60000"])
def test_a_lane_goes_on_when_the_suspects_of_another_are_given_up(named: str) -> None:
    """The first suspect is nacked: the second, of the same key, cannot be given meanwhile, and nobody waits for it.
    Lane 0, which waits, is looked at before that shows.
    """

    async def test(world: World) -> None:
        keys = await _suspects(world, lane=1)
        session = Session(world)
        await session.read()
        await world.produce(b"3", key=keys[0])
        await session.read()
        assert session.came == {0: [], 1: [1]}
        await session.commit(1, f"ack1;{named}={session.positions[1] - 1}")
        await session.read()
        assert session.came[0] == [3]

    run(test)


@pytest.mark.parametrize("how", ["left", "crashed"])
@KINDS
def test_a_session_that_comes_again_as_a_member_goes_on(kind: str, how: str) -> None:
    """Java's consumer after `max.poll.interval.ms`: it joins again, and its session has nothing new to ask."""

    async def test(world: World) -> None:
        queue = await queued(world, kind=kind)
        own(world, [0])
        session = Session(world)
        await world.produce(*numbers(0, 5))
        await session.read()
        await session.commit(0)
        await session.read()
        getattr(queue, how)("m0")
        await world.produce(*numbers(5, 8))
        await session.read()
        assert session.came[0] == list(range(5)), "whoever has gone is given nothing"
        own(world, [], [0])
        await session.read()
        assert session.came[0] == list(range(8))

    run(test)


@pytest.mark.parametrize("how", ["left", "crashed"])
def test_whoever_has_gone_is_given_nothing_when_others_have_other_lanes(how: str) -> None:
    """Groups of the new protocol say who has what at each step: its lane is nobody's in between."""

    async def test(world: World) -> None:
        queue = await queued(world, 2)
        own(world, [0], [1])
        session = Session(world, 0)
        await session.read()
        getattr(queue, how)("m0")
        await world.produce(*numbers(0, 5))
        own(world, [], [1])
        await session.read()
        assert session.came[0] == []
        own(world, [], [0, 1])
        await session.read()
        assert session.came[0] == list(range(5))

    run(test)


@KINDS
def test_who_reads_without_being_a_member_goes_on_when_one_has_gone(kind: str) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, kind=kind)
        own(world, [0])
        session = Session(world)
        await session.read()
        queue.left("m0")
        await world.produce(*numbers(0, 5))
        world.broker.queues.give_again()
        await session.read()
        assert session.came[0] == list(range(5))

    run(test)


@pytest.mark.parametrize("lane", [0, 1])
def test_a_suspect_is_not_starved_by_a_busy_lane_without_sessions(lane: int) -> None:
    """Nobody waits at it while its client works on what another lane has."""

    async def test(world: World) -> None:
        keys = await _suspects(world, lane)
        other = 1 - lane
        await world.produce(*numbers(10, 210), key=keys[other])
        reader = Session(world, plain=True)
        for number in range(210, 4_210, 200):
            await world.produce(*numbers(number, number + 200), key=keys[other])
            await reader.fetch()
            for each in (0, 1):
                await reader.commit(each)
        assert reader.came[lane] == [1, 2]

    run(test)


def test_a_partition_that_cannot_be_had_is_asked_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, partitions=2)
        (bad, good) = sorted(queue.sources.values(), key=lambda each: each.id)
        asked: list[int] = []
        broken = True
        may_serve = Source.may_serve

        def asks(source: Source, lane: str) -> bool:
            if source is bad:
                asked.append(world.clock.monotonic_ms())
                if broken:
                    raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
            return may_serve(source, lane)

        monkeypatch.setattr(Source, "may_serve", asks)
        own(world, [0])
        session = Session(world)
        await session.read()
        await world.produce(b"1")
        # what others have does not make it be asked more often
        for number in range(20):
            await world.produce(b"%d" % (100 + number), index=1)
            await session.read()
            await session.commit(0)
        for _ in range(400):
            await world.pass_time(50)
        waits = [after - before for before, after in pairwise(asked)]
        assert waits[:8] == [50, 100, 200, 400, 800, 1_600, 3_200, 5_000]
        assert set(waits[8:]) == {5_000}
        broken = False
        await world.pass_time(5_000)
        await session.read()
        assert (session.came[0][:20], session.came[0][20:]) == (list(range(100, 120)), [1])
        assert bad.wait_ms == good.wait_ms == AGAIN_MS

    run(test)
