"""A lane at work while the store or a disk is slow, or fails: what it is given shows when it is stored."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from gateway.broker.errors import KafkaError
from gateway.wire.batch import admit
from gateway.wire.errors import Error
from gateway.wire.records import Record, build_batch
from store import memory
from store.api import Durability, Family, Refused, StoreError
from tests.gateway.broker.queues.reading import (
    KINDS,
    Client,
    FailingStore,
    at_of,
    numbers,
    parts,
    queue_of,
    queued,
)
from tests.gateway.broker.subscriptions.disk import Disk
from tests.gateway.broker.subscriptions.world import World, run


async def failing(world: World) -> FailingStore:
    """The world goes on with a store that can fail."""
    store = FailingStore(memory.open(clock=world.clock.wall_ms))
    await world.start(store)
    return store


async def turn(times: int = 1) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


async def given_ahead(world: World, count: int) -> None:
    """Somebody has asked where the lane ends: it has so many deliveries that nobody was sent."""
    await world.produce(*numbers(0, count))
    given = at_of(world).ahead()
    assert given is not None
    await given
    assert at_of(world).high_watermark == count


def test_nothing_shows_before_it_is_stored() -> None:
    async def test(world: World) -> None:
        store = await failing(world)
        await queued(world)
        client = Client(world)
        await client.poll()
        await world.produce(*numbers(0, 3))
        store.holding = True
        lane = at_of(world)
        assert await client.poll() == {}
        woken = client.woken
        while not store.held:
            await turn()
        assert (lane.lane.end, lane.high_watermark, client.woken) == (3, 0, woken)
        assert await client.poll() == {}
        store.let_go()
        assert (lane.high_watermark, client.woken) == (3, woken + 1)
        assert await client.poll() == {n: b"%d" % n for n in range(3)}

    run(test)


@pytest.mark.parametrize("stored", [True, False])
def test_nobody_goes_on_behind_what_was_taken_back_before_that_is_stored(stored: bool) -> None:
    """A crash would give it back to the lane, and whoever went on acknowledges what nobody was sent."""

    async def test(world: World) -> None:
        store = await failing(world)
        await queued(world, kind="key_shared")
        await world.produce(b"0", key=b"same")
        client = Client(world)
        assert await client.read() == {0: b"0"}
        await world.produce(b"1", b"2", key=[b"same", b"other"])
        await world.settled()
        lane = at_of(world)
        assert lane.high_watermark == 3
        store.holding = True
        queue_of(world).commit(0, 1, "ack1;n:60000=0", member=True)
        read: Any = lane.fetch(1, 1 << 20, whole_first=True, least=None)
        assert not isinstance(read, list), "it waits"
        reading = asyncio.ensure_future(read)
        while not store.held:
            await turn()
        assert not reading.done()
        if stored:
            store.let_go()
            assert parts(await reading) == {2: b"2"}
        else:
            store.fail(Refused("no"))
            with pytest.raises(IndexError):
                await reading
            assert (await client.read())[1] == b"1"

    run(test)


@KINDS
def test_what_could_not_be_stored_is_given_again_and_to_one_lane(kind: str) -> None:
    async def test(world: World) -> None:
        store = await failing(world)
        await queued(world, 2, kind=kind)
        await world.produce(*numbers(0, 20), key=[b"k%d" % n for n in range(20)])
        clients = [Client(world, index) for index in range(2)]
        queue = queue_of(world)
        store.failing = True
        for client in clients:
            await client.poll()
        await world.settled()
        await turn(5)
        store.failing = False
        assert queue.gone
        found = [value for client in clients for value in (await client.read()).values()]
        assert sorted(found) == sorted(numbers(0, 20))  # type: ignore[type-var]
        for client in clients:
            assert client.position == at_of(world, client.index).lane.end
            await client.commit()
        assert world.at().ready().start == 20

    run(test)


@KINDS
def test_a_queue_that_is_read_again_waits_for_what_is_on_its_way(kind: str) -> None:
    """Else the new one would give again what the store is about to have, at the same offsets."""

    async def test(world: World) -> None:
        store = await failing(world)
        queue = await queued(world, 2, kind=kind)
        await world.produce(*numbers(0, 20), key=[b"k%d" % n for n in range(20)])
        clients = [Client(world, index) for index in range(2)]
        store.holding = True
        await clients[0].poll()
        while not store.held:
            await turn()
        given = queue.at[0].lane.end
        assert given
        queue.throw_away("its topics have changed")
        with pytest.raises(KafkaError) as refused:
            queue_of(world)
        assert refused.value.code == Error.NOT_LEADER_OR_FOLLOWER
        store.let_go()
        await world.settled()
        assert at_of(world).lane.end == given
        found = [value for client in clients for value in (await client.read()).values()]
        assert sorted(found) == sorted(numbers(0, 20))  # type: ignore[type-var]

    run(test)


@KINDS
def test_a_slow_disk_is_waited_for_and_asked_once(kind: str) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind)
        await world.produce(*numbers(0, 5))
        partition = world.at().partition
        disk = Disk(partition.log)
        partition.log = disk
        client = Client(world)
        for _ in range(3):
            assert await client.poll() == {}
        await turn(3)
        assert len(disk.waiting) == 1
        assert at_of(world).lane.end == 0
        while disk.waiting:
            await disk.go()
        await world.settled()
        disk.cold = False
        assert await client.read() == {n: b"%d" % n for n in range(5)}

    run(test)


@KINDS
def test_a_queue_that_is_thrown_away_while_a_disk_is_asked_loses_nothing(kind: str) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, kind=kind, partitions=2)
        await world.produce(b"a", b"b")
        await world.produce(b"c", b"d", index=1)
        slow = world.at(index=1).partition
        disk = Disk(slow.log)
        slow.log = disk
        client = Client(world)
        await client.poll()
        await turn(3)
        # it has something of the other already
        assert disk.waiting
        queue.throw_away("for a test")
        await turn(3)
        # it is read again before the disk has answered
        await client.poll()
        await disk.go()
        await world.settled()
        disk.cold = False
        assert sorted(map(str, (await client.read()).values())) == sorted(map(str, [b"a", b"b", b"c", b"d"]))
        await client.commit()
        assert [world.at(index=index).ready().start for index in range(2)] == [2, 2]

    run(test)


def test_cursors_that_cannot_be_had_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        queue = await queued(world)
        client = Client(world)
        await world.produce(b"a")
        (source,) = queue.sources.values()
        broken = True

        def ready() -> object:
            if broken:
                raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
            return original()

        original = source.at.ready
        monkeypatch.setattr(type(source.at), "ready", lambda self: ready())
        assert await client.poll() == {}
        await world.pass_time(200)
        assert await client.poll() == {}
        broken = False
        await world.pass_time(200)
        assert await client.read() == {0: b"a"}

    run(test)


def test_nothing_is_left_out_of_a_fetch_during_which_others_are_forgotten() -> None:
    """Who commits behind what it was sent would acknowledge what it was not."""

    async def test(world: World) -> None:
        await queued(world)
        client = Client(world)
        for number in range(16):
            await world.produce(b"%d" % number)
            await client.read()
        await client.commit(offset=4)
        world.broker.queues.keep()
        partition = world.at().partition
        disk = Disk(partition.log)
        partition.log = disk
        again = Client(world)
        poll = asyncio.ensure_future(again.poll())
        await turn()
        assert disk.waiting
        world.clock.now += 3_600_000
        world.broker.queues.keep()
        assert at_of(world).log_start == 4
        disk.cold = False
        await disk.go()
        assert [*(await poll).values()] == numbers(4, 16)

    run(test)


def test_what_a_lane_that_is_read_again_was_asked_for_is_not_sent_any_more() -> None:
    """The lane in its place does not know that somebody was: what is acknowledged then would come again."""

    async def test(world: World) -> None:
        await queued(world)
        await given_ahead(world, 3)
        client = Client(world)
        source = world.at()
        source.partition.log = disk = Disk(source.partition.log)
        poll = asyncio.ensure_future(client.poll())
        await asyncio.sleep(0)
        assert disk.waiting
        queue_of(world).throw_away("for a test")
        queue_of(world)
        disk.cold = False
        await disk.go()
        with pytest.raises(IndexError):
            await poll
        assert await client.poll() == {n: b"%d" % n for n in range(3)}
        await client.commit()
        assert source.ready().start == 3

    run(test)


@pytest.mark.parametrize("stored", [True, False])
def test_what_was_given_ahead_is_sent_when_it_is_stored_that_it_was(stored: bool) -> None:
    async def test(world: World) -> None:
        store = await failing(world)
        await queued(world)
        await given_ahead(world, 3)
        client = Client(world)
        store.holding = True
        poll = asyncio.ensure_future(client.poll())
        for _ in range(5):
            await asyncio.sleep(0)
        assert store.held
        assert not poll.done(), "a gateway that dies here has shown nothing"
        assert not list(at_of(world).lane.sent_and_open()), "a consumer that goes here has lost nothing"
        if not stored:
            store.fail(StoreError("no"))
            with pytest.raises(IndexError):
                await poll
            assert client.position == 0
            return
        store.let_go()
        assert len(await poll) == 3
        # and the next time it is known
        again = Client(world)
        assert len(await again.poll()) == 3
        assert at_of(world).being_written is False

    run(test)


def test_a_record_that_comes_back_while_a_disk_is_asked_lets_none_of_its_key_go_before_it() -> None:
    async def test(world: World) -> None:
        await queued(world, kind="key_shared")
        await world.produce(b"first", key=b"k")
        client = Client(world)
        assert await client.read() == {0: b"first"}
        await client.commit("ack1;n:50=0", 1)
        source = world.at()
        source.partition.log = disk = Disk(source.partition.log)
        # it is looked at for the lane that waits
        await world.produce(b"second", key=b"k")
        assert disk.waiting
        await world.pass_time(60)
        disk.cold = False
        await disk.go()
        assert list((await client.read()).values()) == [b"first", b"second"]

    run(test)


def test_what_is_taken_for_a_lane_that_is_read_again_goes_to_the_one_in_its_place() -> None:
    """Who asks where it ends waits on, and with it what it is given."""

    async def test(world: World) -> None:
        await queued(world)
        source = world.at()
        source.partition.log = disk = Disk(source.partition.log)
        await world.produce(*numbers(0, 5))
        given = at_of(world).ahead()
        assert given is not None
        asked = asyncio.ensure_future(given)
        await asyncio.sleep(0)
        assert disk.waiting
        queue_of(world).throw_away("its topics have changed")
        queue_of(world)
        disk.cold = False
        await disk.go()
        await asked
        assert source.ready().acquired == 0, "no lane knows of it"
        assert len(await Client(world).read()) == 5

    run(test)


@pytest.mark.parametrize("how", ["a nack", "a crash", "a crash before it was sent"])
def test_what_is_just_being_taken_for_a_lane_does_not_overtake_what_comes_back(how: str) -> None:
    async def test(world: World) -> None:
        await queued(world, kind="key_shared", limit=5)
        queue_of(world).assigned({"m": [0]})
        await world.produce(b"first", key=b"k")
        client = Client(world)
        if how.endswith("sent"):
            await client.poll()
            at_of(world).at_end()
        else:
            assert await client.read() == {0: b"first"}
        source = world.at()

        class Cooling(Disk):
            """Of which the first read is warm."""

            def read(self, *asked: Any, **more: Any) -> Any:
                self.cold = self.reads > 0
                return super().read(*asked, **more)

        source.partition.log = disk = Cooling(source.partition.log)
        # what is taken lies in two batches, too large to be read together
        found = world.broker.partition(world.broker.topics.get("t"), 0)
        for value in (b"second", b"third"):
            batch = build_batch([Record(0, world.clock.wall_ms(), b"k", value + bytes(250_000), [])])
            found.append(batch, admit(batch), world.clock.wall_ms())
        await world.settled()
        assert disk.waiting
        assert source.ready().acquired == 2
        if how == "a nack":
            queue_of(world).commit(0, 1, "ack1;n:50=0", member=True)
        else:
            queue_of(world).crashed("m")
        disk.reads = -1_000
        await disk.go()
        await world.pass_time(60)
        again = Client(world)
        values = [value or b"" for value in (await again.read()).values()]
        assert [value.rstrip(b"\0") for value in values] == [b"first", b"second", b"third"]

    run(test)


def _lasting(durability: Durability, configs: dict[str, str]) -> dict[str, str]:
    return {**configs, "durability": durability.value}


def test_lanes_outlive_a_power_cut_as_soon_as_their_topic_is_to() -> None:
    async def test(world: World) -> None:
        store = await failing(world)
        await queued(world)
        client = Client(world)
        for number, durability in enumerate((Durability.OS, Durability.FSYNC, Durability.OS)):
            await world.broker.topics.configure("t", partial(_lasting, durability))
            await world.produce(b"%d" % number)
            given = at_of(world).ahead()
            assert given is not None
            await given
            store.holding = True
            poll = asyncio.ensure_future(client.poll())
            while not store.held:
                await asyncio.sleep(0)
            # it says that somebody is sent this, and nothing of what a cursor or the topic has to say
            assert store.held[0][1] is durability
            store.let_go()
            assert list((await poll).values()) == [b"%d" % number]
            await world.settled()

    run(test)


def test_who_asks_while_another_is_being_given_waits_for_that() -> None:
    async def test(world: World) -> None:
        store = await failing(world)
        await queued(world)
        await world.produce(*numbers(0, 10))
        lane = at_of(world)
        store.holding = True
        first = asyncio.ensure_future(lane.ahead() or asyncio.sleep(0))
        while not store.held:
            await asyncio.sleep(0)
        second = lane.ahead()
        assert second is not None
        waiting = asyncio.ensure_future(second)
        await asyncio.sleep(0)
        assert not waiting.done()
        store.let_go()
        await first
        await waiting
        assert lane.high_watermark == 10

    run(test)


def test_who_asks_in_the_turn_of_a_commit_is_given_what_that_makes_room_for() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 100))
        client = Client(world)
        lane = at_of(world)
        assert len(await client.read()) == 64
        queue_of(world).commit(0, 64, None, member=True)
        more = lane.ahead()
        assert more is not None
        await more
        assert lane.high_watermark == 100
        assert lane.ahead() is None

    run(test)


def test_two_trims_in_one_turn_leave_no_rows() -> None:
    async def test(world: World) -> None:
        await queued(world)
        client = Client(world)
        for n in range(6):
            await world.produce(b"%d" % n)
            await client.read()
            await client.commit()
        lane = at_of(world)
        prefix = lane.id.to_bytes(4, "big") + b"r"
        assert len(list(world.store.scan(Family.LANE, prefix))) == 6
        lane.trim(2)
        lane.trim(5)
        await world.settled()
        assert len(list(world.store.scan(Family.LANE, prefix))) == 1

    run(test)
