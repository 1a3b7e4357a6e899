"""A queue topic that is read again from the store: nothing is lost, and nothing is on two lanes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from store.api import Family, Put
from tests.gateway.broker.queues.reading import (
    KEYS,
    KINDS,
    Client,
    at_of,
    given,
    numbers,
    queue_of,
    queued,
    read_all,
)
from tests.gateway.broker.subscriptions.world import World, run


@KINDS
def test_after_a_restart_each_lane_goes_on_and_no_record_is_on_two(kind: str, folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, 3, kind=kind, partitions=2)
        for index in range(2):
            await world.produce(*numbers(index * 40, index * 40 + 40), key=KEYS, index=index)
        clients = [Client(world, index) for index in range(3)]
        before: dict[int, dict[int, bytes | None]] = {client.index: {} for client in clients}
        for _ in range(3):
            for client in clients:
                before[client.index] |= await client.poll(200)
                await world.settled()
        for client in clients:
            await client.commit("ack1;n:600000=0" if before[client.index] else "")
        done = {number for those in before.values() for number in given(those)}
        waiting = {number for those in before.values() for number in given(those)[:1]}
        states = [at_of(world, index).lane.state() for index in range(3)]
        await world.crash()
        await world.settled()
        assert [at_of(world, index).lane.state() for index in range(3)] == states
        again = [Client(world, index) for index in range(3)]
        assert [client.position for client in again] == [client.position for client in clients]
        came: list[int] = []
        for wait in (0, 600_000):
            await world.pass_time(wait)
            # the nacks are not over before
            assert not waiting & set(came)
            while found := await read_all(again):
                came += found
                for client in again:
                    await client.commit()
        assert sorted(came) == sorted((set(range(80)) - done) | waiting)
        assert [world.at(index=index).ready().start for index in range(2)] == [40, 40]

    run(test, folder)


@KINDS
def test_what_is_not_a_lanes_any_more_is_closed_when_it_is_loaded(kind: str, folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind)
        await world.produce(*numbers(0, 10))
        client = Client(world)
        await client.read()
        # an administrator skips some, and the gateway stops before anybody tells the lane
        world.at().ready().skip(4, world.clock.wall_ms())
        world.at().touch()
        await world.settled()
        assert at_of(world).lane.open == 0
        await world.crash()
        assert at_of(world).lane.open == 4
        await world.settled()
        again = Client(world)
        assert [n for n in given(await again.read()) if n >= 4] == list(range(4, 10))
        await again.commit()
        assert world.at().ready().start == 10

    run(test, folder)


def test_a_key_stays_on_its_lane_and_in_order_through_a_restart(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, 4, kind="key_shared")
        keys = [b"k%d" % (n % 8) for n in range(80)]
        await world.produce(*numbers(0, 40), key=keys[:40])
        clients = [Client(world, index) for index in range(4)]
        lanes: dict[int, set[int]] = {}
        seen: dict[int, list[int]] = {}

        async def read(clients: list[Client]) -> None:
            for client in clients:
                for number in given(await client.read()):
                    lanes.setdefault(number % 8, set()).add(client.index)
                    seen.setdefault(number % 8, []).append(number)

        await read(clients)
        assert sum(map(len, seen.values())) == 40
        await world.crash()
        await world.produce(*numbers(40, 80), key=keys[40:])
        seen.clear()
        again = [Client(world, index) for index in range(4)]
        await read(again)
        assert all(len(those) == 1 for those in lanes.values())
        assert all(those == sorted(those) for those in seen.values())
        assert sum(map(len, seen.values())) == 80

    run(test, folder)


def test_rows_that_cannot_be_read_are_an_error_to_who_asks() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(b"a")
        await Client(world).read()
        key = next(key for key, _ in world.store.scan(Family.LANE) if key[4:] == b"s")
        await world.broker.write([Put(Family.LANE, key, b"?")])
        await world.crash()
        with pytest.raises(KafkaError) as error:
            queue_of(world)
        assert error.value.code == Error.KAFKA_STORAGE_ERROR

    run(test)


@KINDS
def test_a_grant_that_nobody_acknowledged_is_the_lanes_after_a_restart(
    kind: str, folder: Path | None
) -> None:
    """Who has it in hand commits it then, and it does not come again."""

    async def test(world: World) -> None:
        await queued(world, kind=kind)
        await world.produce(*numbers(0, 10))
        client = Client(world)
        assert len(await client.read()) == 10
        await world.crash()
        await client.commit()
        assert world.at().ready().start == 10
        assert await Client(world).read() == {}

    run(test, folder)


def test_a_queue_that_is_read_again_goes_on_where_it_was() -> None:
    async def test(world: World) -> None:
        queue = await queued(world, 2)
        await world.produce(*numbers(0, 20))
        clients = [Client(world, index) for index in range(2)]
        assert len(await clients[0].read()) == 20
        await clients[0].commit(offset=5)
        queue.throw_away("for a test")
        lane = clients[0].lane
        assert lane is not None
        assert lane.stale
        await world.settled()
        again = [Client(world, index) for index in range(2)]
        assert [client.position for client in again] == [5, 0]
        assert {at for at in await again[0].read() if at >= 5} == set(range(5, 20))
        assert await again[1].read() == {}

    run(test)


@KINDS
def test_a_cursor_that_is_thrown_away_takes_the_lanes_with_it(kind: str) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, kind=kind)
        await world.produce(*numbers(0, 10))
        client = Client(world)
        await client.read()
        await client.commit(offset=5)
        await world.settled()
        world.at().discard()
        assert queue.gone
        await client.commit()
        assert queue_of(world) is not queue
        assert world.at().ready().start == 10

    run(test)


def test_another_type_gives_anew_what_is_open() -> None:
    async def test(world: World) -> None:
        queue = await queued(world, 2, kind="shared")
        await world.produce(*numbers(0, 20), key=KEYS[:20])
        first = Client(world)
        assert len(await first.read()) == 20
        await first.commit(offset=5)
        first.leave()
        subscription = world.subscription()
        config = subscription.config
        subscription.reconfigure(
            config._replace(subscription=replace(config.subscription, type="key_shared")), None
        )
        await world.settled()
        await world.settled()
        assert queue.gone
        lanes = [Client(world, index) for index in range(2)]
        assert lanes[0].position == 20, "offsets are not used again"
        came = [given(await each.read()) for each in lanes]
        assert all(came), "by slot, on both"
        assert sorted(came[0] + came[1]) == list(range(5, 20))
        for each in lanes:
            await each.commit()
        assert world.at().ready().start == 20

    run(test)
