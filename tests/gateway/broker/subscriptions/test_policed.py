"""What policies of a topic allow its subscriptions, at each level where they are said, and at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.subscriptions.partition import SubscriptionPartition
from tests.gateway.broker.queues.reading import KINDS, Client, given, numbers, queued
from tests.gateway.broker.subscriptions.world import Headers, Taker, World, run
from tests.gateway.broker.test_policies import say

LEVELS = pytest.mark.parametrize("level", ["topic", "namespace", "broker"])


async def waiting(world: World, at: SubscriptionPartition, consumer: str) -> Taker:
    """A fetch that is parked, and takes what it is woken for."""
    taker = Taker(consumer)
    at.attach(consumer)
    at.parked.add(taker)
    await world.pass_time(1)
    return taker


@LEVELS
@pytest.mark.parametrize("name", ["consumer", "subscription"])
def test_so_many_messages_are_in_hand_and_no_more(folder: Path | None, level: str, name: str) -> None:
    policy = f"pulsar.max.unacked.messages.per.{name}"

    async def test(world: World) -> None:
        await world.subscribed(*numbers(0, 12))
        await say(world, level, policy, "3")
        await world.crash()
        at = world.at()
        assert list(await world.fetch(at)) == [0, 1, 2]
        assert await world.fetch(at) == {}
        # another consumer is another count, and the same subscription
        others = await world.fetch(at, "d")
        assert list(others) == ([3, 4, 5] if name == "consumer" else [])
        await world.ack(at, 0)
        assert list(await world.fetch(at)) == [6 if others else 3]
        taker = await waiting(world, at, "c")
        assert not taker.got
        # those who wait come as soon as there is room
        await say(world, level, policy, "5")
        await world.pass_time(1)
        assert len(taker.got) == 2
        await say(world, level, policy, None)
        assert len(await world.fetch(at)) == (3 if others else 6)

    run(test, folder)


@KINDS
@LEVELS
def test_lanes_have_so_many_in_hand_and_no_more(kind: str, level: str) -> None:
    async def test(world: World) -> None:
        await queued(world, 1, kind=kind)
        await world.produce(*numbers(0, 10), key=[b"%d" % n for n in range(10)])
        await say(world, level, "pulsar.max.unacked.messages.per.subscription", "4")
        client = Client(world)
        assert len(given(await client.read())) == 4
        await client.commit(offset=2)
        assert len(given(await client.read())) == 2
        await say(world, level, "pulsar.max.unacked.messages.per.subscription", None)
        assert len(given(await client.read())) == 4

    run(test)


def test_what_a_group_says_is_not_exceeded() -> None:
    async def test(world: World) -> None:
        await world.subscribed(*numbers(0, 10))
        await world.configure("g", pulsar__receiver__queue__size="2")
        await say(world, "topic", "pulsar.max.unacked.messages.per.consumer", "8")
        assert list(await world.fetch(world.at())) == [0, 1]

    run(test)


def test_a_topic_may_have_more_than_its_namespace_says_and_others_not() -> None:
    async def test(world: World) -> None:
        await world.subscribed(*numbers(0, 10))
        await world.topic("other")
        other = await world.subscribe("g", "other")
        await world.produce(*numbers(0, 10), topic="other")
        await say(world, "namespace", "pulsar.max.unacked.messages.per.consumer", "2")
        await say(world, "topic", "pulsar.max.unacked.messages.per.consumer", "0")
        assert len(await world.fetch(world.at())) == 10
        assert len(await world.fetch(other)) == 2

    run(test)


# -- delays ----------------------------------------------------------------------------------------------------------


@LEVELS
def test_no_message_is_delayed_where_that_is_off(folder: Path | None, level: str) -> None:
    async def test(world: World) -> None:
        await world.subscribed()
        await say(world, level, "pulsar.delayed.delivery.enabled", "false")
        await world.crash()
        at = world.at()
        later: Headers = [("pulsar-deliver-after", b"5000")]
        await world.produce(b"a", headers=later)
        assert list(await world.fetch(at)) == [0]
        await say(world, level, "pulsar.delayed.delivery.enabled", None)
        await world.produce(b"b", headers=later)
        assert await world.fetch(at) == {}
        await world.pass_time(5_000)
        assert list(await world.fetch(at)) == [1]

    run(test, folder)


@LEVELS
def test_a_delay_is_cut_to_the_longest(folder: Path | None, level: str) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        await say(world, level, "pulsar.delayed.delivery.longest.ms", "2000")
        await world.produce(b"a", headers=[("pulsar-deliver-after", b"5000")])
        await world.produce(b"b", headers=[("pulsar-deliver-after", b"1000")])
        assert await world.fetch(at) == {}
        await world.pass_time(1_000)
        assert list(await world.fetch(at)) == [1]
        await world.pass_time(999)
        assert await world.fetch(at) == {}
        await world.pass_time(1)
        assert list(await world.fetch(at)) == [0]

    run(test, folder)


def test_retry_letters_wait_whatever_is_said_of_delays() -> None:
    async def test(world: World) -> None:
        await world.subscribed()
        await world.topic("t-g-RETRY")
        at = await world.subscribe("g", "t-g-RETRY")
        await say(world, "namespace", "pulsar.delayed.delivery.enabled", "false")
        await world.produce(b"a", topic="t-g-RETRY", headers=[("DELAY_TIME", b"3000")])
        assert await world.fetch(at) == {}
        await world.pass_time(3_000)
        assert list(await world.fetch(at)) == [0]

    run(test)


def test_a_nack_waits_as_it_asks_whatever_is_said_of_delays() -> None:
    async def test(world: World) -> None:
        await queued(world, 1)
        await say(world, "topic", "pulsar.delayed.delivery.longest.ms", "1000")
        await world.produce(*numbers(0, 1))
        client = Client(world)
        assert given(await client.read()) == [0]
        await client.commit("ack1;n:5000=0")
        await world.pass_time(4_999)
        assert given(await client.read()) == []
        await world.pass_time(1)
        assert given(await client.read()) == [0]

    run(test)


@LEVELS
def test_how_early_a_delayed_message_may_come(level: str) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        await world.configure("g", pulsar__delayed__delivery__strict="false")
        await say(world, level, "pulsar.delayed.delivery.tick.ms", "3000")
        await world.produce(b"a", headers=[("pulsar-deliver-after", b"10000")])
        await world.pass_time(6_999)
        assert await world.fetch(at) == {}
        await world.pass_time(1)
        assert list(await world.fetch(at)) == [0]

    run(test)
