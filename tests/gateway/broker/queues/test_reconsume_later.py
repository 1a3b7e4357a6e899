"""`r` in a commit: the server writes the retry letter, which comes when it is due."""

from __future__ import annotations

from pathlib import Path

import pytest

from semantics.homes import EVERYWHERE
from semantics.subscriptions.held import ON_ITS_WAY_MS
from store import memory
from store.api import Family
from tests.gateway.broker.queues.reading import KINDS, Client, FailingStore, at_of, given, numbers, queued
from tests.gateway.broker.rights import shop
from tests.gateway.broker.subscriptions.disk import Disk
from tests.gateway.broker.subscriptions.world import World, run, said


@KINDS
def test_it_is_on_the_retry_topic_and_comes_when_it_is_due(kind: str, folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind)
        await world.produce(*numbers(0, 4), key=b"k", headers=[("mine", b"1"), ("DELAY_TIME", b"7")])
        client = Client(world)
        assert given(await client.read()) == [0, 1, 2, 3]
        await client.commit("ack1;r:5000=1")
        await world.settled()
        # its key does not wait for it, and nothing of it is open here
        assert world.at().ready().start == 4
        (letter,) = await world.read("t-g-RETRY")
        known = said(letter.headers)
        assert (letter.key, letter.value, known["mine"]) == (b"k", b"1", b"1")
        assert known["REAL_TOPIC"] == b"persistent://public/default/t"
        assert known["RETRY_TOPIC"] == b"persistent://public/default/t-g-RETRY"
        assert (known["RECONSUMETIMES"], known["DELAY_TIME"]) == (b"1", b"5000")
        assert known["REAL_SUBSCRIPTION"] == b"g"
        assert known["ORIGIN_MESSAGE_ID"]
        again = Client(world)
        assert await again.read() == {}
        await world.pass_time(4_999)
        assert await again.read() == {}
        await world.pass_time(1)
        assert given(await again.read()) == [1]
        # the same once more: counted up, of the same message
        await again.commit(f"ack1;r:0={again.position - 1}")
        await world.settled()
        _, second = await world.read("t-g-RETRY")
        assert said(second.headers)["RECONSUMETIMES"] == b"2"
        assert said(second.headers)["ORIGIN_MESSAGE_ID"] == known["ORIGIN_MESSAGE_ID"]
        assert given(await again.read()) == [1]
        await again.commit()
        assert world.at(topic="t-g-RETRY").ready().start == 2
        assert world.broker.metrics.retry_letters.value == 2

    run(test, folder)


def test_deliveries_do_not_count_and_retries_have_a_limit_of_their_own() -> None:
    async def test(world: World) -> None:
        await queued(world, limit=1, pulsar__max__reconsume__count="2")
        await world.produce(b"1")
        came = 0
        client = Client(world)
        while found := await client.read():
            came += len(found)
            await client.commit(f"ack1;r:0={client.position - 1}")
            await world.settled()
            client = Client(world)
        assert came == 3
        (dead,) = await world.read("t-g-DLQ")
        assert said(dead.headers)["RECONSUMETIMES"] == b"3"

    run(test)


def test_letters_of_both_kinds_wait_for_a_slow_disk_side_by_side() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.topic("t-g-RETRY")
        await world.topic("t-g-DLQ")
        await world.produce(*numbers(0, 4))
        client = Client(world)
        await client.read()
        source = world.at()
        source.partition.log = disk = Disk(source.partition.log)
        await client.commit("ack1;d=0", offset=1)
        assert source.burying
        await client.commit("ack1;r:5000=1", offset=2)
        await client.commit("ack1;d=2", offset=3)
        while disk.waiting:
            await disk.go()
            await world.settled()
        while source.burying:
            await world.settled()
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"0", b"2"]
        assert [each.value for each in await world.read("t-g-RETRY")] == [b"1"]
        await client.commit()
        assert source.ready().start == 4

    run(test)


async def _on_its_way(world: World, delay_ms: int) -> Disk:
    """A record whose retry letter waits for this disk."""
    await queued(world)
    await world.topic("t-g-RETRY")
    await world.produce(*numbers(0, 1))
    client = Client(world)
    await client.read()
    partition = world.at().partition
    partition.log = disk = Disk(partition.log)
    await client.commit(f"ack1;r:{delay_ms}=0")
    assert disk.waiting
    return disk


def test_it_does_not_come_again_while_its_letter_waits_for_a_slow_disk() -> None:
    async def test(world: World) -> None:
        disk, source = await _on_its_way(world, 0), world.at()
        await world.pass_time(ON_ITS_WAY_MS - 1)
        again = Client(world)
        assert await again.read() == {}
        while disk.waiting or source.burying:
            await disk.go()
            await world.settled()
        assert [each.value for each in await world.read("t-g-RETRY")] == [b"0"]
        assert source.ready().start == 1

    run(test)


def test_it_waits_longer_for_its_letter_if_that_was_said() -> None:
    async def test(world: World) -> None:
        await _on_its_way(world, 5_000)
        await world.pass_time(4_999)
        assert await Client(world).read() == {}

    run(test)


def test_without_a_time_it_waits_as_after_a_nack() -> None:
    async def test(world: World) -> None:
        await queued(world, pulsar__nack__delay__ms="300")
        await world.produce(*numbers(0, 2))
        client = Client(world)
        await client.read()
        await client.commit("ack1;r=0")
        await world.settled()
        (letter,) = await world.read("t-g-RETRY")
        assert said(letter.headers)["DELAY_TIME"] == b"300"

    run(test)


@pytest.mark.parametrize("exists", [True, False])
def test_what_was_not_stored_is_neither_done_nor_on_the_retry_topic(exists: bool) -> None:
    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        await queued(world)
        if exists:
            await world.broker.subscriptions.make_retries("g", "t", "t-g-RETRY")
            await world.settled()
        await world.produce(*numbers(0, 3))
        client = Client(world)
        await client.read()
        store.failing = True
        assert await client.commit("ack1;r:1000=1") is not None
        store.failing = False
        await world.settled()
        if exists:
            assert await world.read("t-g-RETRY") == []
        else:
            assert world.broker.catalog.get("t-g-RETRY") is None
        assert world.at().ready().start == 0
        again = Client(world)
        assert given(await again.read()) == [0, 1, 2]

    run(test)


def test_where_it_cannot_be_put_it_comes_again_in_time_and_that_counts_nothing(folder: Path | None) -> None:
    async def test(world: World) -> None:
        # nothing can be called so beside it
        await world.topic("la.ter")
        await world.configure("g", pulsar__retry__letter__topic="la_ter")
        await queued(world, limit=1)
        await world.produce(*numbers(0, 2))
        client = Client(world)
        await client.read()
        await client.commit("ack1;r:2000=1")
        await world.settled()
        assert at_of(world).lane.opened == 0
        await world.crash()
        again = Client(world)
        assert await again.read() == {}
        await world.pass_time(2_000)
        assert given(await again.read()) == [1]

    run(test, folder)


def test_rows_are_gone_when_all_is_done(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 3))
        client = Client(world)
        await client.read()
        await client.commit("ack1;r:100=0-2")
        await world.settled()
        await world.pass_time(ON_ITS_WAY_MS)
        again = Client(world)
        await again.read()
        await again.commit()
        await world.settled()
        assert not list(world.broker.store.scan(Family.DUE))

    run(test, folder)


def test_a_retry_topic_with_a_name_of_its_own_is_held_by_lanes_too(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.configure(
            "g", pulsar__retry__letter__topic="later", share__record__lock__duration__ms="15000"
        )
        await queued(world)
        await world.produce(*numbers(0, 2))
        client = Client(world)
        await client.read()
        await client.commit("ack1;r:0=1")
        await world.settled()
        assert world.subscription(topic="later").config.subscription.lanes
        client = Client(world)
        assert given(await client.read()) == [1]
        # no lock runs out
        await world.pass_time(100_000)
        assert await client.read() == {}
        await client.commit()
        assert world.at(topic="later").ready().start == 1

    run(test, folder)


def test_it_is_not_put_on_a_topic_of_another_home() -> None:
    """Nobody would be given it there: the group has no subscription on that topic."""

    async def test(world: World) -> None:
        await shop(world)
        world.broker.catalog.namespaces.homes = EVERYWHERE
        await world.configure("g", pulsar__retry__letter__topic="shop/eu/later")
        await queued(world)
        await world.produce(*numbers(0, 1))
        client = Client(world)
        assert given(await client.read()) == [0]
        await client.commit("ack1;r:5000=0")
        await world.settled()
        assert world.broker.catalog.get("shop/eu/later") is None
        assert world.broker.metrics.retry_letters.value == 0
        await world.pass_time(5_000)
        assert given(await Client(world).read()) == [0]

    run(test)
