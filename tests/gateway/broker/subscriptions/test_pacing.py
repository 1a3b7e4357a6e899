"""Dispatch rates of subscriptions and of partitions: consumers of Shared and Key_Shared, and lanes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec
import pytest

from semantics.group_names import scoped
from semantics.names import DEFAULT, Namespace
from tests.gateway.broker.queues.reading import KINDS, Client, given, numbers, queued
from tests.gateway.broker.subscriptions.test_policed import waiting
from tests.gateway.broker.subscriptions.world import World, run

RATES = pytest.mark.parametrize("rate", ["pulsar.dispatch.rate", "pulsar.subscription.dispatch.rate"])


async def say(world: World, said: Mapping[str, str], level: str = "topic") -> None:
    if level == "topic":
        await world.broker.topics.configure("t", lambda old: dict(said))
    else:
        await world.broker.tenancy.change(DEFAULT, partial(msgspec.structs.replace, policies=dict(said)))


@RATES
@pytest.mark.parametrize("level", ["topic", "namespace"])
def test_so_many_messages_come_in_a_time(folder: Path | None, rate: str, level: str) -> None:
    async def test(world: World) -> None:
        await world.subscribed(*numbers(0, 40))
        await say(world, {f"{rate}.messages": "10", f"{rate}.seconds": "2"}, level)
        await world.crash()
        at = world.at()
        assert list(await world.fetch(at, limit=4, strict=True)) == [0, 1, 2, 3]
        assert list(await world.fetch(at, "d")) == [4, 5, 6, 7, 8, 9]
        assert await world.fetch(at) == {}
        taker = await waiting(world, at, "c")
        assert not taker.got
        await world.pass_time(1_000)
        assert taker.got[0] == 10
        await world.pass_time(10_000)
        assert len(await world.fetch(at, "d")) == 10
        # taken back: at once, also for who waits
        assert await world.fetch(at) == {}
        taker = await waiting(world, at, "c")
        await say(world, {}, level)
        await world.settled()
        assert taker.got

    run(test, folder)


def test_subscriptions_have_rates_of_their_own_and_a_partition_one_for_all() -> None:
    async def test(world: World) -> None:
        await world.subscribed(*numbers(0, 40))
        other = await world.subscribe("h")
        await say(world, {"pulsar.subscription.dispatch.rate.messages": "10"})
        assert len(await world.fetch(world.at())) == 10
        assert len(await world.fetch(other)) == 10
        await say(world, {"pulsar.dispatch.rate.messages": "10"})
        assert len(await world.fetch(world.at())) == 10
        assert await world.fetch(other) == {}

    run(test)


def test_bytes_count_too_and_one_batch_comes_in_any_case() -> None:
    async def test(world: World) -> None:
        await world.subscribed()
        for n in range(4):
            await world.produce(b"%d" % n * 1_000)
        await say(world, {"pulsar.subscription.dispatch.rate.bytes": "100"})
        at = world.at()
        assert list(await world.fetch(at)) == [0]
        assert await world.fetch(at) == {}
        # more than a thousand bytes are owed
        await world.pass_time(9_000)
        assert await world.fetch(at) == {}
        await world.pass_time(3_000)
        assert list(await world.fetch(at)) == [1]

    run(test)


def test_what_is_published_may_go_besides() -> None:
    async def test(world: World) -> None:
        await world.subscribed(*numbers(0, 5))
        rate = "pulsar.subscription.dispatch.rate"
        at = world.at()
        at.attach("c")
        await say(world, {f"{rate}.messages": "2", f"{rate}.relative": "true"})
        assert len(await world.fetch(at)) == 2
        await world.produce(*numbers(5, 15))
        assert len(await world.fetch(at)) == 10

    run(test)


@RATES
@KINDS
def test_lanes_are_given_no_more(kind: str, rate: str) -> None:
    async def test(world: World) -> None:
        await queued(world, 1, kind=kind)
        await world.produce(*numbers(0, 30), key=[b"%d" % n for n in range(30)])
        await say(world, {f"{rate}.messages": "10"})
        client = Client(world)
        assert len(given(await client.read())) == 10
        await client.commit()
        assert given(await client.read()) == []
        woken = client.woken
        await world.pass_time(100)
        await world.settled()
        assert client.woken > woken
        assert len(given(await client.read())) == 1
        await say(world, {})
        assert len(given(await client.read())) == 19

    run(test)


def test_a_nack_comes_again_within_the_rate() -> None:
    async def test(world: World) -> None:
        await world.subscribed(*numbers(0, 4))
        await say(world, {"pulsar.subscription.dispatch.rate.messages": "4"})
        at = world.at()
        assert len(await world.fetch(at)) == 4
        assert not await world.ack(at, 0, 1, 2, 3, kind=b"\2")
        assert await world.fetch(at) == {}
        await world.pass_time(500)
        assert len(await world.fetch(at)) == 2

    run(test)


def test_the_rate_of_one_subscription_is_said_by_its_name_whichever_listener_its_group_has() -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await world.produce(*numbers(0, 20))
        rate = {"pulsar.subscription.dispatch.rate.messages": "3"}
        await world.broker.topics.keep(
            "t", lambda old: msgspec.structs.replace(old, subscription_policies={"g": rate})
        )
        at = await world.subscribe(scoped(Namespace("shop", "eu"), "g"))
        assert len(await world.fetch(at)) == 3
        assert len(await world.fetch(await world.subscribe("h"))) == 20

    run(test)
