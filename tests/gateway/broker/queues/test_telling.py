"""What people are told of lanes, and that looking changes nothing."""

from __future__ import annotations

from gateway.broker.queues import telling
from gateway.broker.queues.telling import Refusals
from semantics.lanes.runs import Run
from tests.gateway.broker.queues.reading import KEYS, Client, at_of, numbers, own, queue_of, queued, read_all
from tests.gateway.broker.subscriptions.world import World, run


def source_of(world: World) -> int:
    return world.at().id


def last(world: World, offset: int, *lanes: int) -> list[tuple[int, int, bool, bool]]:
    """(lane, offset, open, sent) of each lane's last delivery of a record."""
    queue = queue_of(world)
    asked = lanes or tuple(range(len(queue.at)))
    return [each[:4] for each in telling.search(queue, source_of(world), offset, asked) if each is not None]


def test_a_lane_is_told_with_who_has_it_and_what_is_open() -> None:
    async def test(world: World) -> None:
        await queued(world, 2)
        await world.produce(*numbers(0, 100))
        client = Client(world)
        own(world, [0])
        assert len(await client.read()) == 64
        world.clock.now += 2_000
        await client.commit("ack1;n:60000=3", offset=10)
        await world.settled()
        one, other = telling.lanes_of(queue_of(world), world.clock.now)
        assert (one.lane, one.member, one.first_open, one.end) == (0, "m0", 10, 74)
        # what was given when the commit made room was sent to nobody yet
        assert (one.open, one.sent) == (64, 54)
        assert (one.window, one.allowed, one.full, one.waits) == (64, 64, True, True)
        assert one.rate == 10.0
        assert (other.member, other.open, other.waits) == (None, 0, False)
        again = telling.lanes_of(queue_of(world), world.clock.now)
        assert again == [one, other]

    run(test)


def test_a_lane_is_full_by_its_window_and_by_suspects() -> None:
    async def test(world: World) -> None:
        await queued(world, limit=3)
        await world.produce(*numbers(0, 200))
        client = Client(world)
        own(world, [0])
        await client.read()
        (full,) = telling.lanes_of(queue_of(world), world.clock.now)
        assert (full.open, full.allowed, full.full, full.suspects) == (64, 64, True, 0)
        client.leave()
        queue_of(world).crashed("m0")
        await world.settled()
        (crashed,) = telling.lanes_of(queue_of(world), world.clock.now)
        assert (crashed.member, crashed.open, crashed.suspects) == (None, 0, 64)
        assert crashed.allowed < crashed.window == 64
        # who looks does not say that it has no room
        assert not at_of(world).lane.window._full

    run(test)


def test_one_that_nobody_uses_is_told_by_its_rows() -> None:
    async def test(world: World) -> None:
        made = await queued(world, 2)
        await world.produce(*numbers(0, 20))
        client = Client(world)
        await client.read()
        await client.commit("ack1;a=9", offset=5)
        await world.crash()
        assert world.broker.queues.in_use(made.topic) is None
        one, other = telling.resting(world.store, made.topic.partitions, {1: "m"})
        assert (one.first_open, one.end, one.open, one.sent, one.member) == (5, 20, 14, 0, None)
        assert (other.open, other.member) == (0, "m")

    run(test)


def test_where_a_record_lies() -> None:
    async def test(world: World) -> None:
        await queued(world, 2, kind="key_shared", limit=5)
        await world.produce(*numbers(0, 40), key=KEYS)
        clients = [Client(world, index) for index in range(2)]
        own(world, [0], [1])
        await read_all(clients)
        lane = at_of(world, 0).lane
        (third,) = lane.runs[0].offsets(2, 3)
        assert last(world, third) == [(0, 2, True, True)]
        assert last(world, third, 1) == []
        # closed, and again at the end
        clients[0].leave()
        queue_of(world).crashed("m0")
        await world.settled()
        assert last(world, third) == [(0, 2, False, False)]
        own(world, [0], [1])
        end = lane.end
        await clients[0].poll()
        await world.settled()
        (found,) = [
            each
            for offset in lane.runs[-1].offsets(lane.runs[-1].at, lane.end)
            for each in telling.search(queue_of(world), source_of(world), offset, [0])
            if each is not None and each.offset == end
        ]
        assert (found.open, found.sent, found.suspected) == (True, False, True)
        assert last(world, 10_000) == []
        counts = telling.open_by_source(queue_of(world))
        assert [sum(open_ for open_, _ in each.values()) for each in counts] == [
            at_of(world, index).lane.opened for index in range(2)
        ]

    run(test)


def test_a_long_search_lets_others_have_their_turn() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 3))
        await Client(world).read()
        lane = at_of(world).lane
        lane.runs += [Run(1_000 + n, 7, n, 1, 0, None) for n in range(2 * telling.PAGE)]
        found = list(telling.search(queue_of(world), source_of(world), 1, [0]))
        assert found[:2] == [None, None]
        assert (found[2].offset if found[2] is not None else None) == 1

    run(test)


def test_the_nth_open_delivery_of_a_lane() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 10))
        client = Client(world)
        await client.read()
        await client.commit("ack1;a=4-5", offset=2)
        lane = at_of(world).lane
        assert [telling.nth_open(lane, number) for number in range(1, 8)] == [2, 3, 6, 7, 8, 9, None]

    run(test)


def test_what_was_refused_last_is_kept_short_and_not_for_all_lanes_there_ever_were() -> None:
    refusals = Refusals()
    refusals.note(1, 5, "ack1;" + "x" * 5_000, "y" * 5_000, 17)
    found = refusals.of(1)
    assert found is not None
    assert (found.offset, found.at, len(found.metadata), len(found.why)) == (5, 17, 200, 400)
    refusals.note(1, 6, None, "again", 18)
    assert refusals.of(1) == (6, "", "again", 18)
    for lane in range(2, telling.MOST_REFUSALS + 2):
        refusals.note(lane, 0, "ack1;?", "no", 19)
    assert refusals.of(1) is None
    assert refusals.of(2) is not None
    refusals.forget(2)
    assert refusals.of(2) is None
