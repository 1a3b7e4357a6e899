"""Topics that nobody uses go where a policy says so; each use keeps one."""

from __future__ import annotations

import asyncio
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
from store import memory
from store.api import Delete, Family, Put, StoreError
from store.pending import Pending
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


async def nothing(world: World) -> None:
    pass


async def made_again(world: World) -> None:
    await world.broker.topics.delete("t")
    await world.topic("t")


async def taken_back(world: World) -> None:
    await say(world, {"pulsar.inactive.topics.delete": "false"}, "topic")


async def longer(world: World) -> None:
    await say(world, {"pulsar.inactive.topics.ms": "60001"}, "topic")


async def changed_while_it_waits(
    world: World, other: str, change: Callable[[World], Awaitable[None]]
) -> bool:
    """Whether t has gone, after a round that waits for somebody who changes a topic; t is changed meanwhile."""
    await world.broker.inactive_topics.apply()
    await world.pass_time(60_000)
    async with world.broker.topics.changing(other):
        round_of = asyncio.ensure_future(world.broker.inactive_topics.apply())
        await world.settled()
        await change(world)
        assert not round_of.done()
    await round_of
    return world.broker.catalog.get("t") is None


@pytest.mark.parametrize("change", [nothing, made_again, taken_back, longer])
def test_what_a_topic_is_when_its_turn_comes_counts(
    folder: Path | None, change: Callable[[World], Awaitable[None]]
) -> None:
    """The round has read its row, and is at the topic before it."""

    async def test(world: World) -> None:
        await world.topic("a")
        await world.topic("t")
        await say(world, ON)
        assert await changed_while_it_waits(world, "a", change) == (change is nothing)
        assert world.broker.catalog.get("a") is None

    run(test, folder)


@pytest.mark.parametrize("use", [nothing, produced, published, read])
def test_a_use_that_comes_at_the_last_moment_keeps_it(
    folder: Path | None, use: Callable[[World], Awaitable[None]]
) -> None:
    """The round has found it unused, and waits for its turn to change it."""

    async def test(world: World) -> None:
        await world.topic("t", 2)
        await say(world, ON)
        assert await changed_while_it_waits(world, "t", use) == (use is nothing)
        if use is not nothing:
            await world.produce(b"a")

    run(test, folder)


@pytest.mark.parametrize("change", [nothing, subscribed, taken_back])
def test_who_changes_it_before_its_turn_comes_keeps_it(
    folder: Path | None, change: Callable[[World], Awaitable[None]]
) -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await say(world, ON)
        await world.broker.inactive_topics.apply()
        await world.pass_time(60_000)
        async with world.broker.topics.changing("t"):
            first = asyncio.ensure_future(change(world))
            # what it stores before it has to wait for the topic is stored
            for _ in range(3):
                await world.settled()
            round_of = asyncio.ensure_future(world.broker.inactive_topics.apply())
            await world.settled()
        await asyncio.gather(first, round_of)
        assert (world.broker.catalog.get("t") is None) == (change is nothing)

    run(test, folder)


@pytest.mark.parametrize("use", [subscribed, committed])
def test_a_backlog_that_comes_at_the_last_moment_keeps_it(use: Callable[[World], Awaitable[None]]) -> None:
    """Whoever published has gone, and retention keeps nothing."""

    async def test(world: World) -> None:
        await world.topic("t")
        await use(world)
        await say(world, {**CAUGHT_UP, **FORGET})
        assert not await changed_while_it_waits(world, "t", produced)
        assert len(await world.read("t")) == 1

    run(test)


def test_the_time_begins_when_the_last_group_has_gone() -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await say(world, ON)
        await committed(world)
        assert not await gone(world, seconds=100)
        await world.broker.write([Delete(Family.OFFSET, offsets.key("readers", "t", 0))])
        assert not await gone(world, seconds=59)
        assert await gone(world, seconds=1)

    run(test)


class Offsets(memory.MemoryStore):
    """Counts how often its committed offsets are read; they can be made unreadable."""

    reads = 0
    broken = False

    def page(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Pending[list[tuple[bytes, bytes]]]:
        if family is Family.OFFSET:
            self.reads += 1
            if self.broken:
                raise StoreError("nothing can be read")
        return super().page(family, prefix, start, limit)


def test_an_offset_that_cannot_be_read_keeps_no_topic() -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await say(world, ON)
        await world.broker.write([Put(Family.OFFSET, offsets.key("broken", "u", 0), b"?")])
        assert await gone(world)

    run(test)


def test_offsets_are_read_once_a_round_and_only_where_they_decide() -> None:
    async def test(world: World) -> None:
        store = Offsets(world.clock.wall_ms, 1)
        await world.start(store)
        await world.topic("t")
        await world.topic("u")
        await produced(world)
        await world.produce(b"a", topic="u")
        await say(world, ON)
        await world.broker.inactive_topics.apply()
        assert store.reads == 0
        await say(world, {**ON, **FORGET})
        await world.broker.inactive_topics.apply()
        assert store.reads == 1
        await world.pass_time(60_000)
        store.broken = True
        await world.broker.inactive_topics.apply()
        assert store.reads == 2, "it fails for all topics at once"
        assert world.broker.catalog.names() == ["t", "u"]
        store.broken = False
        await world.broker.inactive_topics.apply()
        assert world.broker.catalog.names() == [], "they have been unused for long enough"

    run(test)
