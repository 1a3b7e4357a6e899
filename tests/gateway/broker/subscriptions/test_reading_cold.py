"""Reads that a disk is asked for, and reads that fail: what happens to records and consumers meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from semantics.subscriptions.states import Ending
from store.api import StoreError
from tests.gateway.broker.subscriptions.disk import Disk
from tests.gateway.broker.subscriptions.world import ACCEPT, REJECT, RELEASE, Taker, World, run, seen


async def cold(world: World) -> tuple[Any, Disk]:
    at = await world.subscribed()
    for value in (b"a", b"b", b"c"):
        await world.produce(value)
    disk = Disk(at.partition.log)
    at.partition.log = disk
    for each in "ab":
        at.attach(each)
    return at, disk


def test_a_consumer_that_goes_while_the_disk_is_asked_was_given_nothing() -> None:
    async def test(world: World) -> None:
        at, disk = await cold(world)
        disk.cold = False
        await world.fetch(at, "a")
        at.detach("a", Ending.STOPPED)
        disk.cold = True
        at.attach("a")
        fetch = asyncio.ensure_future(at.fetch("a", 10, 1 << 20))
        await asyncio.sleep(0)
        assert at.ready().acquired == 3, "in hand, though not sent"
        at.detach("a", Ending.CRASHED)
        await world.settled()
        await disk.go()
        assert (await fetch).acquired == ()
        disk.cold = False
        assert await world.fetch(at, "b") == {0: (b"a", 1), 1: (b"b", 1), 2: (b"c", 1)}

    run(test)


def test_a_lock_does_not_run_while_the_disk_is_asked() -> None:
    async def test(world: World) -> None:
        at, disk = await cold(world)
        disk.cold = False
        await world.fetch(at, "a")
        at.detach("a", Ending.STOPPED)
        disk.cold = True
        fetch = asyncio.ensure_future(at.fetch("b", 10, 1 << 20))
        await asyncio.sleep(0)
        lock = world.broker.subscriptions.configs.lock_ms("g")
        await world.pass_time(2 * lock)
        at.tick()
        await disk.go()
        assert seen(await fetch) == {0: (b"a", 1), 1: (b"b", 1), 2: (b"c", 1)}
        await world.pass_time(lock - 1)
        assert not await world.ack(at, 0, consumer="b")
        await world.pass_time(1)
        disk.cold = False
        assert await world.fetch(at, "a") == {1: (b"b", 2), 2: (b"c", 2)}

    run(test)


def test_a_fetch_that_is_given_up_gives_its_records_back() -> None:
    async def test(world: World) -> None:
        at, disk = await cold(world)
        disk.cold = False
        await world.fetch(at, "a")
        at.detach("a", Ending.STOPPED)
        disk.cold = True
        at.attach("a")
        taker = Taker("b")
        fetch = asyncio.ensure_future(at.fetch("a", 10, 1 << 20))
        await asyncio.sleep(0)
        at.parked.add(taker)
        fetch.cancel()
        disk.cold = False
        with pytest.raises(asyncio.CancelledError):
            await fetch
        await asyncio.sleep(0)
        assert taker.got == [0, 1, 2], "whoever waits has them"

    run(test)


@pytest.mark.parametrize("known", [False, True])
def test_a_disk_that_fails_is_told_and_takes_nothing_along(known: bool) -> None:
    async def test(world: World) -> None:
        at, disk = await cold(world)
        if known:
            disk.cold = False
            await world.fetch(at, "a")
            at.detach("a", Ending.STOPPED)
            at.attach("a")
            disk.cold = True
        fetch = asyncio.ensure_future(at.fetch("a", 10, 1 << 20))
        await asyncio.sleep(0)
        await disk.go(StoreError("no disk"))
        with pytest.raises(KafkaError) as raised:
            await fetch
        assert raised.value.code == Error.KAFKA_STORAGE_ERROR
        disk.cold = False
        assert list(await world.fetch(at, "b")) == [0, 1, 2]

    run(test)


def test_two_that_ask_the_disk_for_the_same_share_what_it_gives() -> None:
    async def test(world: World) -> None:
        at, disk = await cold(world)
        first = asyncio.ensure_future(at.fetch("a", 2, 1 << 20, 2))
        second = asyncio.ensure_future(at.fetch("b", 2, 1 << 20, 2))
        await asyncio.sleep(0)
        for _ in range(4):
            await disk.go()
        assert list(seen(await first)) == [0, 1]
        assert list(seen(await second)) == [2]

    run(test)


def test_damage_is_an_error_or_passed_over_as_the_topic_says() -> None:
    async def test(world: World) -> None:
        at, disk = await cold(world)
        disk.cold = False
        disk.damaged = (1, 2)
        assert list(await world.fetch(at, "a")) == [0]
        with pytest.raises(KafkaError) as raised:
            await world.fetch(at, "a")
        assert raised.value.code == Error.CORRUPT_MESSAGE
        await world.broker.topics.configure("t", lambda old: {**old, "corrupt.message.policy": "skip"})
        assert list(await world.fetch(at, "a")) == [2]
        assert not await world.ack(at, 0, 2, consumer="a")
        assert at.ready().start == 3

    run(test)


def test_damage_among_what_is_delivered_again() -> None:
    async def test(world: World) -> None:
        at, disk = await cold(world)
        disk.cold = False
        await world.fetch(at, "a")
        at.detach("a", Ending.STOPPED)
        disk.damaged = (1, 2)
        assert list(await world.fetch(at, "b")) == [0]
        with pytest.raises(KafkaError):
            await world.fetch(at, "b")
        await world.broker.topics.configure("t", lambda old: {**old, "corrupt.message.policy": "skip"})
        assert list(await world.fetch(at, "b")) == [2]
        await world.ack(at, 0, 2, consumer="b")
        assert at.ready().start == 3

    run(test)


def test_dead_letters_wait_for_the_disk_and_are_buried_once() -> None:
    async def test(world: World) -> None:
        at, disk = await cold(world)
        disk.cold = False
        await world.fetch(at, "a")
        disk.cold = True
        assert not await world.ack(at, 0, 1, consumer="a", kind=REJECT)
        assert world.broker.catalog.get("t-g-DLQ") is None
        assert not await world.ack(at, 2, consumer="a", kind=ACCEPT)
        for _ in range(4):
            await disk.go()
            await world.settled()
        disk.cold = False
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"a", b"b"]
        assert at.ready().start == 3

    run(test)


def test_a_crash_before_the_disk_answered_buries_after_it() -> None:
    async def test(world: World) -> None:
        at, disk = await cold(world)
        disk.cold = False
        await world.fetch(at, "a")
        disk.cold = True
        assert not await world.ack(at, 0, consumer="a", kind=REJECT)
        await world.crash()
        assert list(await world.fetch(world.at(), "b")) == [1, 2]
        await world.settled()
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"a"]

    run(test)


def test_a_record_that_came_back_is_read_with_its_batch_and_not_with_all_that_fits_into_the_answer() -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        for _ in range(10):
            await world.produce(*(b"%01000d" % n for n in range(100)))
        assert len(await world.fetch(at, limit=1000)) == 1000
        released = [50, 450, 950]
        assert not await world.ack(at, *released, kind=RELEASE)
        at.partition.log = disk = Disk(at.partition.log)
        disk.cold = False
        assert sorted(await world.fetch(at, limit=1000, max_bytes=50 << 20)) == released
        assert disk.most < 10_000, "the log may read as much as it is asked for"

    run(test, None)


def test_of_key_shared_one_looks_on_while_a_disk_is_asked_and_the_others_are_served_then() -> None:
    """All would read the same, and only the first of them would have use for it."""

    async def test(world: World) -> None:
        await world.topic()
        await world.configure("g", pulsar__subscription__type="key_shared")
        at = await world.subscribe("g")
        for each in "abc":
            at.attach(each)
        await world.settled()
        keys = [b"key-%d" % n for n in range(60)]
        await world.produce(*keys, key=list(keys))
        disk = Disk(at.partition.log)
        at.partition.log = disk
        fetch = asyncio.ensure_future(at.fetch("a", 500, 1 << 20, 500))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        others = Taker("b"), Taker("c")
        for taker in others:
            assert await world.fetch(at, taker.consumer) == {}
            at.parked.add(taker)
        assert (disk.reads, [taker.times for taker in others]) == (1, [0, 0])
        await disk.go()
        got = [*seen(await fetch), *others[0].got, *others[1].got]
        assert disk.reads == 1
        assert all(taker.got for taker in others)
        assert sorted(got) == list(range(60))

    run(test)


def test_no_lock_of_a_fetch_that_waits_several_times_runs_out_meanwhile() -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        for letter in (b"A", b"B", b"C", b"D"):
            await world.produce(letter * 6000)
        disk = Disk(at.partition.log)
        at.partition.log = disk
        for each in ("a", "b"):
            at.attach(each)
        found = at.fetch("a", 4, 1 << 20)
        assert isinstance(found, Awaitable)
        fetch = asyncio.ensure_future(found)
        await asyncio.sleep(0)
        while at.ready().acquired < 3:
            # each batch is given by a poll of its own, at another time
            world.clock.now += 10
            await disk.go()
        await world.pass_time(2 * world.broker.subscriptions.configs.lock_ms("g"))
        at.tick()
        while not fetch.done():
            await disk.go()
        sent = seen(await fetch)
        disk.cold = False
        assert not set(sent) & set(await world.fetch(at, "b")), "two consumers have the same record"

    run(test)
