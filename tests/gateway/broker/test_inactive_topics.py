"""Topics that nobody uses go where a policy says so; each use keeps one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec
import pytest

from gateway.broker.fetch_sessions import FetchState, Wanted
from gateway.broker.publishers import Publishing
from gateway.coordinators import offsets
from gateway.peer import Peer
from semantics.names import DEFAULT
from semantics.subscriptions.states import Ending
from store.api import Family, Put
from tests.gateway.broker.subscriptions.world import World, run

ON = {"pulsar.inactive.topics.delete": "true", "pulsar.inactive.topics.ms": "60000"}
CAUGHT_UP = {**ON, "pulsar.inactive.topics.mode": "delete_when_subscriptions_caught_up"}
# nothing is kept that is acknowledged
FORGET = {"pulsar.retention.ms": "0", "pulsar.retention.bytes": "0"}


async def say(world: World, said: Mapping[str, str], level: str = "namespace") -> None:
    if level == "topic":
        await world.broker.topics.configure("t", lambda old: {**old, **said})
    else:
        await world.broker.tenancy.change(DEFAULT, partial(msgspec.structs.replace, policies=dict(said)))


async def gone(world: World, *, seconds: int = 60) -> bool:
    """Whether the topic has gone after so long without use."""
    await world.broker.inactive_topics.apply()
    await world.pass_time(1_000 * seconds)
    await world.broker.inactive_topics.apply()
    return world.broker.catalog.get("t") is None


@pytest.mark.parametrize("level", ["topic", "namespace"])
def test_an_empty_topic_goes_after_its_time(folder: Path | None, level: str) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 2)
        assert not await gone(world)
        await say(world, ON, level)
        assert not await gone(world, seconds=59)
        await world.crash()
        assert not await gone(world, seconds=59), "a start begins anew"
        assert await gone(world, seconds=1)
        await world.crash()
        assert world.broker.catalog.get("t") is None

    run(test, folder)


def test_a_topic_may_be_kept_where_its_namespace_deletes() -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await world.topic("u")
        await say(world, ON)
        await say(world, {"pulsar.inactive.topics.delete": "false"}, "topic")
        assert not await gone(world, seconds=100)
        assert world.broker.catalog.get("u") is None

    run(test)


async def produced(world: World) -> None:
    await world.produce(b"a")


async def published(world: World) -> None:
    found = world.broker.catalog.get("t")
    assert found is not None
    publishing = Publishing(Peer(1, "/127.0.0.1", "PLAINTEXT"), world.clock)
    world.broker.publishing.add(publishing)
    publishing.begin(world.broker.partition(found, 1))
    # it is silent, and its partition leaves memory
    world.broker.partition(found, 1).let_go()


async def read(world: World) -> None:
    found = world.broker.catalog.get("t")
    assert found is not None

    world.broker.partition(found, 0).watchers.add(Wanted(FetchState(1, False), b"t", 0))


async def subscribed(world: World) -> None:
    await world.subscribe()


async def keep(world: World, offset: int) -> None:
    topic = world.broker.topics.get("t")
    row = offsets.encode(offset, -1, 0, -1, topic.topic_id, None)
    await world.broker.write([Put(Family.OFFSET, offsets.key("readers", "t", 0), row)])


async def committed(world: World) -> None:
    await keep(world, 0)


@pytest.mark.parametrize("use", [produced, published, read, subscribed, committed])
def test_whatever_uses_it_keeps_it(folder: Path | None, use: Callable[[World], Awaitable[None]]) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 2)
        await say(world, ON)
        await use(world)
        assert not await gone(world, seconds=10_000)

    run(test, folder)


def test_a_reader_that_asks_now_and_then_keeps_it() -> None:
    async def test(world: World) -> None:
        topic = await world.topic("t")
        await say(world, ON)
        for _ in range(5):
            world.broker.partition(topic, 0).at_end()
            assert not await gone(world, seconds=100)
        assert not await gone(world, seconds=121), "from now on nobody uses it"
        assert await gone(world)

    run(test)


def test_what_retention_keeps_no_more_keeps_no_topic() -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await world.produce(b"a")
        await say(world, {**ON, **FORGET})
        assert await gone(world)

    run(test)


@pytest.mark.parametrize("mode", [ON, CAUGHT_UP])
def test_what_was_committed_before_a_start_keeps_no_non_persistent_topic(mode: Mapping[str, str]) -> None:
    async def test(world: World) -> None:
        topic = await world.topic("t", pulsar__persistence="non-persistent")
        await world.produce(b"a")
        await say(world, mode)
        ahead = world.broker.partition(topic, 0).high_watermark
        await keep(world, ahead)
        assert await gone(world) == (mode is CAUGHT_UP), "it has nothing that retention keeps"
        if mode is ON:
            await keep(world, 0)
            assert await gone(world)

    run(test)


def test_what_was_committed_before_the_oldest_message_is_no_backlog() -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await world.produce(b"a", b"b")
        await committed(world)
        await say(world, {**CAUGHT_UP, **FORGET})
        assert not await gone(world, seconds=10_000)
        topic = world.broker.topics.get("t")
        await world.broker.topics.delete_records(world.broker.partition(topic, 0), 2)
        assert await gone(world)

    run(test)


@pytest.mark.parametrize("use", [subscribed, committed])
def test_subscriptions_that_have_caught_up_may_not_count(use: Callable[[World], Awaitable[None]]) -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await use(world)
        await say(world, {**CAUGHT_UP, **FORGET})
        await world.produce(b"a")
        assert not await gone(world, seconds=10_000), "there is a backlog"
        if use is subscribed:
            at = world.at()
            await world.fetch(at)
            await world.ack(at, 0)
            assert not await gone(world, seconds=10_000), "there is a consumer"
            at.detach("c", Ending.LEFT)
        else:
            await keep(world, 1)
        assert await gone(world)

    run(test)
