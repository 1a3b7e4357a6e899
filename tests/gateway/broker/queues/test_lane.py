"""A lane at work: who asks at its end is given more."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gateway.broker.queues import queue
from gateway.wire.batch import header
from store.api import Corrupt, Family, StoreError
from tests.gateway.broker.queues.reading import (
    KINDS,
    Client,
    at_of,
    numbers,
    queued,
)
from tests.gateway.broker.subscriptions.disk import Disk
from tests.gateway.broker.subscriptions.world import World, run


def test_who_asks_at_the_end_is_given_what_there_is(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 10))
        client = Client(world)
        assert at_of(world).high_watermark == 0
        assert await client.read() == {n: b"%d" % n for n in range(10)}
        await world.produce(b"10")
        # it has asked for more already
        assert await client.read() == {10: b"10"}

    run(test, folder)


def test_what_is_given_is_read_once(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world)
        values = [bytes([n]) * 100_000 for n in range(3)]
        for value in values:
            await world.produce(value)
        partition = world.at().partition
        disk = partition.log = Disk(partition.log)
        disk.cold = False
        given = at_of(world).ahead()
        assert given is not None
        await given
        reads = disk.reads
        assert list((await Client(world).read()).values()) == values
        assert disk.reads == reads
        # somebody else reads it from the log
        assert list((await Client(world).read()).values()) == values
        assert disk.reads > reads

    run(test, folder)


def test_what_is_given_at_once_comes_in_one_answer(folder: Path | None) -> None:
    """A little from the next partition, behind a megabyte, would cost its reader one more fetch."""

    async def test(world: World) -> None:
        await queued(world, partitions=3)
        for index in range(3):
            for _ in range(100):
                await world.produce(bytes([index]) * 30_000, index=index)
        client, answers, left = Client(world), [], []
        while client.position < 300:
            found = await client.poll()
            await world.settled()
            if found:
                answers.append({value[0] for value in found.values() if value})
                left.append(at_of(world).high_watermark - client.position)
                await client.commit()
        # while it learns how large records are it may give more
        assert left[3:] == [0] * (len(left) - 3)
        assert answers[:3] == [{0}, {1}, {2}], "partitions have their turns"
        assert len(answers) <= 10

    run(test, folder)


def test_nothing_is_given_to_who_does_not_wait() -> None:
    async def test(world: World) -> None:
        await queued(world, 2)
        client = Client(world)
        await client.poll()
        client.leave()
        await world.produce(*numbers(0, 10))
        await world.settled()
        assert at_of(world).lane.end == 0
        assert len(await Client(world, 1).read()) == 10

    run(test)


@KINDS
def test_a_lane_that_got_nothing_is_woken_by_new_records(kind: str, folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, 2, kind=kind, partitions=2)
        clients = [Client(world, index) for index in range(2)]
        for client in clients:
            assert await client.read() == {}
        await world.produce(*numbers(0, 8), key=[b"k%d" % n for n in range(8)], index=1)
        await world.settled()
        assert any(client.woken for client in clients)
        found = [value for client in clients for value in (await client.read()).values()]
        assert sorted(found) == numbers(0, 8)  # type: ignore[type-var]

    run(test, folder)


def test_a_lane_that_got_nothing_is_woken_when_a_nack_is_over() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(b"a", b"b")
        client = Client(world)
        await client.read()
        await client.commit("ack1;n:500=0")
        assert await client.read() == {}
        woken = client.woken
        await world.pass_time(499)
        assert client.woken == woken
        await world.pass_time(1)
        assert client.woken == woken + 1
        assert await client.read() == {2: b"a"}

    run(test)


def test_a_full_window_waits_for_a_commit(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 200))
        client = Client(world)
        assert len(await client.read()) == 64
        woken = client.woken
        await client.commit()
        assert client.woken == woken + 1
        # all of a full window was acknowledged: it is larger now
        assert list(await client.read()) == list(range(64, 200))

    run(test, folder)


def test_another_group_reads_within_the_window_and_reads_the_same_again() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 100))
        client, other = Client(world), Client(world)
        seen = await other.read()
        assert len(seen) == 64
        assert await client.read() == seen
        await client.commit("ack1;n:0=3")
        again = Client(world)
        again.position = 0
        found = await again.read()
        assert {at: found[at] for at in range(64)} == seen

    run(test)


@KINDS
def test_what_was_trimmed_is_passed_over_and_holds_nobody_up(kind: str, folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind)
        await world.produce(*numbers(0, 100))
        client = Client(world)
        # the window is full of them
        await client.poll()
        await world.settled()
        await world.broker.topics.delete_records(world.at().partition, 100)
        await world.produce(*numbers(100, 110))
        assert await client.read() == {64 + n: b"%d" % (100 + n) for n in range(10)}
        assert at_of(world).lane.open == 64
        await client.commit()
        assert world.at().ready().start == 110

    run(test, folder)


def test_who_reads_what_is_not_there_any_more_is_led_behind_it() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 5))
        await world.produce(*numbers(5, 10))
        client = Client(world)
        await client.read()
        lane = at_of(world)
        assert lane.spanned(10) == [], "it is the end"
        partition = world.at().partition
        await world.broker.topics.delete_records(partition, 10)
        assert lane.fetch(3, 0, whole_first=False, least=None) == []
        assert lane.spanned(4) == [], "nobody has looked there"
        assert lane.fetch(3, 1 << 20, whole_first=True, least=None) == []
        (piece,) = lane.spanned(3)
        found = header(bytes(piece))  # type: ignore[arg-type]
        assert (found.base_offset, found.last_offset, found.count) == (3, 9, 0)
        assert found.leader_epoch == lane.leader_epoch
        await world.produce(b"more")
        await client.read()
        assert lane.spanned(3) == [], "there is something behind it"

    run(test)


def test_of_what_was_trimmed_in_part_the_rest_is_read_and_stays_open() -> None:
    async def test(world: World) -> None:
        await queued(world)
        for start in range(0, 30, 10):
            await world.produce(*numbers(start, start + 10))
        client = Client(world)
        await client.poll()
        await world.settled()
        await world.broker.topics.delete_records(world.at().partition, 20)
        assert await client.read() == {n: b"%d" % n for n in range(20, 30)}
        assert at_of(world).lane.open == 20

    run(test)


def test_a_log_that_cannot_be_read_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(b"a")
        client = Client(world)
        await client.poll()
        await world.settled()
        partition = world.at().partition
        disk = Disk(partition.log)
        disk.damaged = 0, 1
        partition.log = disk
        with pytest.raises(Corrupt) as error:
            await client.poll()
        at_of(world).unreadable(error.value)
        at_of(world).unreadable(StoreError("no disk"))
        told = [each for each in caplog.records if "cannot be read" in each.getMessage()]
        assert [each.__dict__["corrupt"] for each in told] == [True, False]
        assert {(each.__dict__["topic"], each.__dict__["partition"]) for each in told} == {("t-g-QUEUE", 0)}

    with caplog.at_level(logging.ERROR):
        run(test)


def test_what_was_settled_long_ago_is_forgotten_with_its_rows(folder: Path | None) -> None:
    def runs(world: World) -> int:
        return sum(key[4:5] == b"r" for key, _ in world.store.scan(Family.LANE))

    async def test(world: World) -> None:
        await queued(world, pulsar__queue__retention__ms="1000")
        client = Client(world)
        for start in range(0, 30, 10):
            await world.produce(*numbers(start, start + 10))
            assert len(await client.read()) == 10
            await client.commit()
            world.broker.queues.keep()
            world.clock.now += 400
        await world.settled()
        lane = at_of(world)
        assert (runs(world), lane.log_start) == (3, 0)
        world.broker.queues.keep()
        await world.settled()
        assert (runs(world), lane.log_start) == (2, 10)
        world.clock.now += 800
        world.broker.queues.keep()
        await world.settled()
        assert (lane.log_start, lane.high_watermark) == (30, 30)
        # the last one stays, whatever it says
        assert runs(world) == 1
        await world.crash()
        again = at_of(world)
        assert (again.log_start, again.lane.open, again.lane.end) == (30, 30, 30)
        await world.produce(b"30")
        assert await Client(world).read() == {30: b"30"}

    run(test, folder)


def test_what_is_open_is_not_forgotten() -> None:
    async def test(world: World) -> None:
        await queued(world, pulsar__queue__retention__ms="0")
        await world.produce(*numbers(0, 10))
        client = Client(world)
        await client.read()
        await client.commit(offset=4)
        for _ in range(3):
            world.clock.now += 10_000
            world.broker.queues.keep()
        assert at_of(world).log_start == 4
        assert [*(await Client(world).read()).values()][-6:] == numbers(4, 10)

    run(test)


@pytest.mark.parametrize("bound", ["KEPT_BYTES", "KEPT_ROWS"])
def test_what_is_settled_is_forgotten_earlier_when_it_is_much(
    bound: str, monkeypatch: pytest.MonkeyPatch, folder: Path | None
) -> None:
    monkeypatch.setattr(queue, bound, 10 if bound == "KEPT_ROWS" else 10 * 180)

    async def test(world: World) -> None:
        await queued(world)
        client = Client(world)
        for number in range(30):
            # each is given by itself
            await world.produce(b"%d" % number)
            await client.read()
        world.broker.queues.keep()
        assert at_of(world).log_start == 0, "it is open"
        await client.commit(offset=28)
        world.broker.queues.keep()
        await world.settled()
        assert at_of(world).log_start == 20
        assert sum(key[4:5] == b"r" for key, _ in world.store.scan(Family.LANE)) == 10
        await world.crash()
        client = Client(world)
        client.position = 20
        assert [*(await client.read()).values()] == numbers(20, 30)

    run(test, folder)
