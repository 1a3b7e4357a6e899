"""What consumers ask to be held back: `s` in a commit, one record of a key at a time, and members that stand still."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.queues.just_read import JustRead
from gateway.wire.errors import Error
from tests.gateway.broker.held import until
from tests.gateway.broker.queues.reading import Client, at_of, given, numbers, own, parts, queue_of, queued
from tests.gateway.broker.subscriptions.disk import Disk
from tests.gateway.broker.subscriptions.world import World, run

# -- the client seeks ------------------------------------------------------------------------------------------------


async def mixed(world: World, count: int) -> None:
    """Numbers, of which every third has the key b"bad"."""
    keys = [b"bad" if n % 3 == 0 else b"k%d" % n for n in range(count)]
    await world.produce(*numbers(0, count), key=keys)


@pytest.mark.parametrize("restart", [False, True])
def test_who_seeks_sees_nothing_later_of_a_nacked_key_before_it(restart: bool, folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, kind="key_shared")
        await mixed(world, 12)
        client = Client(world)
        assert given(await client.read()) == list(range(12))
        if restart:
            # slots are not known before the records are read again
            await world.settled()
            await world.crash()
            client = Client(world)
            await client.poll()
        await client.commit("ack1;s;n:1000=3", offset=5)
        client = Client(world)
        # where slots are not known all of it is delivered anew
        assert client.position == (12 if restart else 5)
        found = given(await client.read())
        others = [number for number in range(5, 12) if number % 3]
        assert [number for number in found if number % 3] == others
        assert [number for number in found if not number % 3] == []
        await world.pass_time(1_000)
        assert given(await client.read()) == [3, 6, 9]
        await client.commit()
        assert world.at().ready().start == 12

    run(test, folder)


def test_who_seeks_and_has_nothing_left_to_read_is_given_what_is_due() -> None:
    """What was taken back lies at the end of the lane, where nothing is read; nobody had asked for more before."""

    async def test(world: World) -> None:
        await queued(world, kind="key_shared")
        await mixed(world, 10)
        client = Client(world)
        await client.poll()
        await world.settled()
        assert given(await client.poll()) == list(range(10))
        await client.commit("ack1;s;n:1000=3", offset=5)
        client.position = 5
        assert given(await client.read()) == [5, 7, 8]
        await world.pass_time(1_000)
        assert given(await client.read()) == [3, 6, 9]

    run(test)


@pytest.mark.parametrize("metadata", ["ack1;s", "ack1;s;d=3", "ack1;s;a=7", "ack1;s;r:0=3"])
def test_who_seeks_without_a_nack_sees_the_same_again(metadata: str) -> None:
    async def test(world: World) -> None:
        await queued(world, kind="key_shared")
        await mixed(world, 12)
        client = Client(world)
        await client.read()
        await client.commit(metadata, offset=5)
        client = Client(world)
        assert [at for at in await client.read() if 5 <= at < 12] == list(range(5, 12))

    run(test)


def test_shared_has_no_order_to_keep() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 12), key=b"k")
        client = Client(world)
        await client.read()
        await client.commit("ack1;s;n:0=3", offset=5)
        client = Client(world)
        found = await client.read()
        assert given({at: value for at, value in found.items() if at >= 5}) == [*range(5, 12), 3]

    run(test)


# -- without a seek --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["n:1000", "d"])
def test_nothing_later_of_a_nacked_key_is_sent_that_was_not_sent_by_then(
    verb: str, folder: Path | None
) -> None:
    async def test(world: World) -> None:
        await queued(world, kind="key_shared", pulsar__dead__letter__topic="dead")
        for number in range(12):
            await world.produce(b"%d" % number, key=b"bad" if number % 3 == 0 else b"k%d" % number)
        client = Client(world)
        await client.poll()
        await world.settled()
        # they are given together, and fetched a batch at a time
        for number in range(5):
            assert given(await client.poll(1)) == [number]
        await client.commit(f"ack1;{verb}=0", offset=1)
        read = await client.read()
        found = given(read)
        assert [number for number in found if number % 3] == [5, 7, 8, 10, 11]
        if verb == "d":
            # it was a dead letter soon, and they were delivered anew behind that
            anew = {offset: int(value or b"") for offset, value in read.items() if offset >= 12}
            assert sorted(anew.values()) == [6, 9] == [number for number in found if not number % 3]
            return
        assert [number for number in found if not number % 3] == []
        await world.pass_time(1_000)
        assert given(await client.read()) == [0, 6, 9]
        await client.commit()
        assert world.at().ready().start == 12

    run(test, folder)


# -- one of a key ----------------------------------------------------------------------------------------------------


def test_one_record_of_a_key_is_open_at_a_time(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, 2, kind="key_shared", pulsar__queue__in__hand__per__key="1")
        keys = [b"k%d" % (n % 3) for n in range(9)]
        await world.produce(*numbers(0, 9), key=keys)
        seen: list[int] = []
        for turn in range(3):
            clients = [Client(world), Client(world, 1)]
            found = [given(await client.read()) for client in clients]
            assert sorted(found[0] + found[1]) == [3 * turn, 3 * turn + 1, 3 * turn + 2]
            seen += sorted(found[0] + found[1])
            if turn == 1:
                await world.crash()
                clients = [Client(world), Client(world, 1)]
                assert [given(await client.read()) for client in clients] == found
            for client in clients:
                await client.commit()
        assert seen == list(range(9))
        assert world.at().ready().start == 9

    run(test, folder)


def test_what_was_in_hand_before_a_restart_is_committed_before_anything_is_read(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, kind="key_shared", pulsar__queue__in__hand__per__key="1")
        await world.produce(*numbers(0, 6), key=[b"k%d" % (n % 2) for n in range(6)])
        client = Client(world)
        assert given(await client.read()) == [0, 1]
        await world.crash()
        client.lane = None
        await client.commit()
        assert world.at().ready().start == 2
        assert given(await client.read()) == [2, 3]
        await client.commit("ack1;n:50=2")
        assert given(await client.read()) == [5]
        await world.pass_time(50)
        assert given(await client.read()) == [2]

    run(test, folder)


def test_it_can_change_while_records_are_in_hand() -> None:
    async def test(world: World) -> None:
        await queued(world, kind="key_shared")
        await world.produce(*numbers(0, 4), key=b"k")
        client = Client(world)
        assert given(await client.read()) == [0, 1, 2, 3]
        await world.broker.subscriptions.configs.alter_properties(
            "g", "t", {"pulsar.queue.in.hand.per.key": "1"}
        )
        await world.settled()
        await world.produce(*numbers(4, 7), key=b"k")
        assert await client.read() == {}
        for number in (4, 5, 6):
            await client.commit()
            assert given(await client.read()) == [number]

    run(test)


# -- members that stand still ----------------------------------------------------------------------------------------


def test_who_settles_nothing_for_too_long_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        expelled: list[tuple[str, str]] = []
        monkeypatch.setattr(
            world.broker.groups, "expel", lambda group, member, _: expelled.append((group, member))
        )
        await queued(world, 3, pulsar__ack__timeout__ms="5000")
        own(world, [0], [1], [2])

        def look() -> None:
            world.broker.queues.expel_stuck()

        await world.pass_time(60_000)
        look()
        assert expelled == [], "nobody has anything"
        await world.produce(*numbers(0, 10))
        one, two = Client(world), Client(world, 1)
        assert len(await one.read()) == 10
        await two.read()
        await world.pass_time(4_999)
        look()
        assert expelled == []
        await one.commit(offset=1)
        await world.pass_time(4_999)
        look()
        assert expelled == [], "one of it was settled"
        # the same once more settles nothing, nor does reading on
        await one.commit(offset=1)
        await world.produce(*numbers(10, 12))
        assert len(await one.read()) == 2
        await world.pass_time(1)
        look()
        assert expelled == [("g", "m0")]
        await world.settled()
        await world.crash()
        own(world, [0], [1], [2])
        assert queue_of(world).stuck() == [], (
            "time begins anew for what was in hand before the gateway started"
        )
        await world.pass_time(5_000)
        assert queue_of(world).stuck() == [("m0", 0)]

    run(test)


def test_who_cannot_be_expelled_now_keeps_no_other_in_and_of_a_queue_that_is_gone_nobody_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(world: World) -> None:
        expelled: list[str] = []

        def expel(group: str, member: str, reason: str) -> None:
            if member == "m0" and not expelled:
                raise KafkaError(Error.COORDINATOR_LOAD_IN_PROGRESS)
            expelled.append(member)

        monkeypatch.setattr(world.broker.groups, "expel", expel)
        await queued(world, 2, pulsar__ack__timeout__ms="5000")
        own(world, [0], [1])
        await world.produce(*numbers(0, 100))
        for client in (Client(world), Client(world, 1)):
            assert await client.read()
        await world.pass_time(5_000)
        world.broker.queues.expel_stuck()
        assert expelled == ["m1"]
        world.broker.queues.expel_stuck()
        assert expelled == ["m1", "m0", "m1"]
        queue_of(world).throw_away("for a test")
        world.broker.queues.expel_stuck()
        assert len(expelled) == 3

    run(test)


def test_without_a_timeout_nobody_is() -> None:
    async def test(world: World) -> None:
        await queued(world)
        own(world, [0])
        await world.produce(*numbers(0, 3))
        await Client(world).read()
        await world.pass_time(10_000_000)
        assert queue_of(world).stuck() == []
        assert at_of(world).stuck(world.clock.monotonic_ms(), 1)

    run(test)


# -- a fetch waits for a disk ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stranger", [False, True])
def test_a_nack_holds_back_what_a_fetch_is_still_reading(stranger: bool) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, kind="key_shared")
        for number in range(8):
            await world.produce(b"%d" % number, key=b"k")
        client = Client(world)
        await client.poll()
        await world.settled()
        assert given(await client.poll(1)) == [0]
        queue.builder.just_read = JustRead()
        partition = world.at().partition
        partition.log = disk = Disk(partition.log)
        # whose fetch it is nobody can tell: another group may read what is settled once more
        offset = 0 if stranger else client.position
        fetch = at_of(world).fetch(offset, 1 << 20 if stranger else 1, whole_first=True, least=None)
        assert not isinstance(fetch, list)
        reading = asyncio.ensure_future(fetch)
        await until(lambda: bool(disk.waiting))
        await client.commit("ack1;n:60000=0", offset=1)
        disk.cold = False
        await disk.go()
        assert [number for number in given(parts(await reading)) if number] == []
        assert given(await client.read()) == []
        await world.pass_time(60_000)
        assert given(await client.read()) == list(range(8))

    run(test)
