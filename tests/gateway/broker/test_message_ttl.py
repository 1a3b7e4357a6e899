"""Time to live: which messages are settled for a subscription because nobody acknowledged them for too long."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker import message_ttl
from gateway.broker.catalog import Topic
from gateway.broker.namespaces import NamespaceRow, TenantRow, prefix_of
from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.wire import records
from semantics.names import DEFAULT, Namespace
from semantics.subscriptions.states import Ending
from tests.gateway.broker.queues.reading import Client, queue_of
from tests.gateway.broker.retained import DAY, later
from tests.gateway.broker.subscriptions.world import ACCEPT, REJECT, RELEASE, World, run

TTL = 60_000
KINDS = pytest.mark.parametrize("kind", ["shared", "key_shared"])


async def subscribed(
    world: World, kind: str = "shared", ttl: int = TTL, **configs: str
) -> SubscriptionPartition:
    await world.topic("t", 1, pulsar__message__ttl__ms=str(ttl))
    named = {"pulsar__subscription__type": kind, "pulsar__nack__delay__ms": "100000", **configs}
    await world.configure("g", **named)
    return await world.subscribe()


async def apply(world: World) -> None:
    await world.broker.message_ttl_job.apply()


async def take(world: World, at: SubscriptionPartition, **options: Any) -> list[int]:
    """What a member is given that has its slots."""
    at.attach("c")
    await world.settled()
    return list(await world.fetch(at, **options))


def states(at: SubscriptionPartition) -> list[str]:
    """Of all records of the log. One that only waits for who owns its slot is AVAILABLE."""
    cursor = at.ready()
    found = [cursor.look(offset).state for offset in range(at.partition.high_watermark)]
    return ["AVAILABLE" if state == "BLOCKED" else state for state in found]


def expired(at: SubscriptionPartition) -> int:
    return at.ready().stats()["expired"]


def values(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


# -- what goes -------------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("read", [False, True])
def test_what_is_too_old_goes_is_counted_and_stays_gone(folder: Path | None, kind: str, read: bool) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world, kind)
        await world.produce(*values(5), key=b"a")
        await world.pass_time(TTL // 2)
        await world.produce(*values(3), key=b"a")
        if read:
            assert await take(world, at, strict=True)
            at.detach("c", Ending.STOPPED)
        await world.pass_time(TTL // 2)
        await apply(world)
        assert at.ready().start == 0, "a millisecond too early"
        await world.pass_time(1)
        await apply(world)
        await apply(world)
        assert (at.ready().start, expired(at)) == (5, 5)
        assert await take(world, at) in ([5, 6, 7], [5])
        await world.crash()
        at = world.at()
        assert (at.ready().start, expired(at)) == (5, 5)
        await world.pass_time(TTL)
        await apply(world)
        assert (at.ready().start, expired(at)) == (8, 8)
        assert await world.fetch(at) == {}

    run(test, folder)


@KINDS
def test_what_is_in_hand_goes_when_it_comes_back(folder: Path | None, kind: str) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world, kind, pulsar__ack__timeout__ms="0")
        for value in values(6):
            await world.produce(value, key=value)
        taken = await take(world, at, limit=3)
        assert taken == [0, 1, 2]
        await world.pass_time(2 * TTL)
        await apply(world)
        assert states(at) == ["ACQUIRED"] * 3 + ["DONE"] * 3
        assert expired(at) == 3
        assert not await world.ack(at, 1)
        assert not await world.ack(at, 0, kind=RELEASE)
        assert not await world.ack(at, 2, kind=REJECT)
        await apply(world)
        await world.settled()
        assert set(states(at)) <= {"DONE", "DYING", "BACKOFF"}
        # the one that waited for its redelivery; the rejected one is a dead letter, not expired
        assert expired(at) == 4
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"2"]
        assert at.ready().start == 6

    run(test, folder)


@KINDS
@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("by", ["topic", "broker"])
def test_age_may_count_from_when_a_message_was_sent(
    folder: Path | None, kind: str, read: bool, by: str
) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world, kind, pulsar__ack__timeout__ms="0")
        if by == "topic":
            await world.broker.topics.configure("t", lambda old: {**old, "pulsar.ttl.from": "publish"})
        else:
            await world.broker.broker_configs.alter("", lambda old: {"pulsar.ttl.from": "publish"})
        await world.produce(b"0", key=b"0", headers=later(world, 3 * TTL))
        await world.produce(b"1", key=b"1")
        if read:
            assert await take(world, at) == [1]
        await world.pass_time(TTL // 2)
        await world.produce(b"2", key=b"2", headers=later(world, 3 * TTL))
        await world.pass_time(TTL // 2 + 1)
        await apply(world)
        assert states(at)[:1] == ["DONE"], "it is not due before two minutes"
        assert states(at)[1:] == ["ACQUIRED" if read else "DONE", "UNREAD"]
        assert expired(at) == (1 if read else 2)
        await world.crash()
        at = world.at()
        await world.pass_time(3 * TTL)
        # the one that was given up and the one that was young then
        assert await take(world, at) == ([1, 2] if read else [2])

    run(test, folder)


@KINDS
@pytest.mark.parametrize("codec", [0, 1, 3])
@pytest.mark.parametrize("read", [False, True])
def test_a_delayed_message_lives_from_when_it_is_due(
    folder: Path | None, kind: str, read: bool, codec: int
) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world, kind)
        await world.produce(b"0", key=b"0", codec=codec)
        await world.produce(b"1", key=b"1", headers=later(world, 3 * TTL), codec=codec)
        await world.produce(b"2", key=b"2", codec=codec)
        if read:
            assert await take(world, at) == [0, 2]
            at.detach("c", Ending.STOPPED)
        await world.pass_time(2 * TTL)
        await apply(world)
        assert states(at) == ["DONE", "DELAYED", "DONE"]
        await world.crash()
        at = world.at()
        assert states(at) == ["DONE", "DELAYED", "DONE"]
        await world.pass_time(TTL)
        await apply(world)
        at.ready()
        at.tick()
        assert states(at) == ["DONE", "AVAILABLE", "DONE"]
        await world.pass_time(TTL)
        await apply(world)
        assert states(at)[1] == "AVAILABLE", "it was due a minute ago, to the millisecond"
        await world.pass_time(1)
        await apply(world)
        assert (at.ready().start, expired(at)) == (3, 3)

    run(test, folder)


def test_a_message_that_is_due_is_delivered_in_its_time() -> None:
    async def test(world: World) -> None:
        at = await subscribed(world)
        await world.produce(b"0", headers=later(world, 5 * TTL))
        await world.pass_time(5 * TTL)
        await apply(world)
        assert list(await world.fetch(at)) == [0]

    run(test)


def test_what_is_due_long_after_the_longest_delay_is_due_then() -> None:
    async def test(world: World) -> None:
        at = await subscribed(world, pulsar__delayed__delivery__max__delay__ms=str(TTL))
        await world.produce(b"0", headers=later(world, 50 * TTL))
        await world.pass_time(2 * TTL)
        await apply(world)
        assert states(at) in (["AVAILABLE"], ["UNREAD"])
        await world.pass_time(1)
        await apply(world)
        assert states(at) == ["DONE"]

    run(test)


@KINDS
def test_many_delays_among_many_messages(
    folder: Path | None, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches of both, more than a slice, while somebody holds some of them."""
    monkeypatch.setattr(message_ttl, "SLICE", 3_000)

    async def test(world: World) -> None:
        at = await subscribed(world, kind, pulsar__ack__timeout__ms="0")
        sent = world.clock.wall_ms()
        due: dict[int, int] = {}
        for batch in range(40):
            those = []
            for n in range(10):
                offset = batch * 10 + n
                headers: list[tuple[str, bytes | None]] = []
                if offset % 3 == 0:
                    due[offset] = sent + (offset % 7) * TTL
                    headers = [("pulsar-deliver-at", b"%d" % due[offset])]
                those.append(records.Record(n, sent, b"%d" % offset, b"v" * 40, headers))
            await world.append(records.build_batch(those, codec=1 if batch % 2 else 0))
        held = set(await take(world, at, limit=20))
        for _ in range(9):
            await world.pass_time(TTL)
            await apply(world)
            age = world.clock.wall_ms() - sent
            for offset, state in enumerate(states(at)):
                if offset in held:
                    assert state == "ACQUIRED"
                elif due.get(offset, 0) > world.clock.wall_ms():
                    assert state in ("DELAYED", "UNREAD"), (offset, state)
                elif max(due.get(offset, 0), sent) < world.clock.wall_ms() - TTL:
                    assert state == "DONE", (offset, age)
                else:
                    assert state in ("AVAILABLE", "UNREAD", "BLOCKED"), (offset, state)
        assert expired(at) == 400 - len(held)
        assert not await world.ack(at, *sorted(held), kind=ACCEPT)
        assert at.ready().start == 400

    run(test, folder)


# -- whose ------------------------------------------------------------------------------------------------------------


def test_each_subscription_loses_what_it_has_open(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world)
        await world.produce(*values(4))
        other = await world.subscribe("h")
        await world.fetch(other)
        assert not await world.ack(other, 0, 2)
        other.detach("c", Ending.STOPPED)
        await world.pass_time(TTL + 1)
        await apply(world)
        assert (expired(at), expired(other)) == (4, 2)
        assert at.ready().start == other.ready().start == 4

    run(test, folder)


@KINDS
@pytest.mark.parametrize("restart", [False, True])
def test_lanes_are_given_nothing_old_and_keep_what_they_have(
    folder: Path | None, kind: str, restart: bool
) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, pulsar__message__ttl__ms=str(TTL))
        await world.configure("g", pulsar__subscription__type=kind, share__auto__offset__reset="earliest")
        await world.broker.queues.make("t", "g", 1, {})
        client = Client(world)
        for value in values(200):
            await world.produce(value, key=value)
        had = await client.read()
        assert 0 < len(had) < 200
        if restart:
            client.leave()
            await world.crash()
        await world.pass_time(TTL + 1)
        await world.produce(b"young", key=b"y")
        await apply(world)
        at = world.at()
        assert at.ready().acquired >= len(had)
        assert expired(at) == 200 - at.ready().acquired
        await client.commit()
        assert list((await client.read()).values()) == [b"young"]
        await client.commit()
        await world.crash()
        assert queue_of(world).at[0].lane.open == client.position
        assert world.at().ready().backlog(201) == 0

    run(test, folder)


def test_a_topic_that_goes_meanwhile_disturbs_nobody(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(world: World) -> None:
        await subscribed(world)
        await world.topic("u", 1, pulsar__message__ttl__ms=str(TTL))
        other = await world.subscribe("g", "u")
        for topic in "tu":
            await world.produce(*values(4), topic=topic)
        # nobody notes of compressed ones whether they are delayed
        await world.produce(*values(1), codec=1)
        await world.pass_time(TTL + 1)
        job = world.broker.message_ttl_job
        look = job.delays.look

        async def deleted(*given: object) -> None:
            if world.broker.catalog.get("t") is not None:
                await world.broker.topics.delete("t")
            await look(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(job.delays, "look", deleted)
        await apply(world)
        assert world.broker.catalog.get("t") is None
        assert expired(other) == 4

    run(test, folder)


def test_what_all_have_settled_keeps_nothing_that_comes_behind_it(folder: Path | None) -> None:
    """A sender's clock was wrong once: its messages are acknowledged, and young for long."""

    async def test(world: World) -> None:
        at = await subscribed(world)
        now = world.clock.wall_ms()
        for stamps in ((now + 30 * TTL,), (now + 30 * TTL, now), (now,)):
            stamped = [records.Record(n, stamp, None, b"x", []) for n, stamp in enumerate(stamps)]
            await world.append(records.build_batch(stamped))
        assert await take(world, at) == [0, 1, 2, 3]
        for offset in (0, 1):
            assert not await world.ack(at, offset)
        at.detach("c", Ending.STOPPED)
        await world.pass_time(TTL + 1)
        await apply(world)
        assert (at.ready().start, expired(at)) == (4, 2)

    run(test, folder)


# -- which time --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["topic", "topic as Kafka", "namespace", "broker", "broker as Kafka"])
def test_the_nearest_says_how_long(folder: Path | None, level: str) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1)
        at = await world.subscribe()
        broker = world.broker
        said: dict[str, str] = {}
        if level == "topic":
            said = {"pulsar.message.ttl.ms": str(TTL), "retention.ms": "1"}
        elif level == "topic as Kafka":
            said = {"retention.ms": str(TTL)}
        await broker.topics.configure("t", lambda old: said)
        if level.startswith("topic") or level == "namespace":
            ttl = str(TTL) if level == "namespace" else "1"
            change = partial(msgspec.structs.replace, policies={"pulsar.message.ttl.ms": ttl})
            await broker.tenancy.change(DEFAULT, change)
        name = {"broker": "ttlDurationDefaultInSeconds", "broker as Kafka": "log.retention.ms"}.get(level)
        settings = {name: str(TTL // 1000) if level == "broker" else str(TTL)} if name else {}
        await broker.broker_configs.alter("", lambda old: {"log.retention.ms": "1", **settings})
        await world.crash()
        await world.produce(*values(2))
        assert world.broker.message_ttl(world.broker.topics.get("t")) == TTL
        await world.pass_time(TTL)
        await apply(world)
        at = world.at()
        assert expired(at) == 0
        await world.pass_time(1)
        await apply(world)
        assert expired(at) == 2

    run(test, folder)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"pulsar.message.ttl.ms": "0", "retention.ms": "1"},
        {"retention.ms": "-1"},
        {"retention.ms": "1", "cleanup.policy": "compact"},
    ],
)
def test_without_one_messages_wait_for_ever(said: dict[str, str]) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1)
        await world.broker.topics.configure("t", lambda old: said)
        at = await world.subscribe()
        await world.produce(*values(2), key=b"k")
        await world.pass_time(90 * DAY)
        await apply(world)
        assert expired(at) == 0

    run(test)


@pytest.mark.parametrize("level", ["topic", "namespace", "broker"])
def test_topics_are_not_gone_through_again_until_something_changes(level: str) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1)
        at = await world.subscribe()
        await world.produce(*values(2))
        asked: list[str] = []
        job, ttl_of = world.broker.message_ttl_job, world.broker.message_ttl

        def counted(topic: Topic) -> int:
            asked.append(topic.name)
            return ttl_of(topic)

        job._ttl_of = counted
        for _ in range(3):
            await apply(world)
        assert asked == ["t"]
        await world.pass_time(TTL + 1)
        said = {"pulsar.message.ttl.ms": str(TTL)}
        if level == "topic":
            await world.broker.topics.configure("t", lambda old: said)
        elif level == "namespace":
            await world.broker.tenancy.change(DEFAULT, partial(msgspec.structs.replace, policies=said))
        else:
            seconds = {"ttlDurationDefaultInSeconds": str(TTL // 1000)}
            await world.broker.broker_configs.alter("", lambda old: seconds)
        await apply(world)
        assert expired(at) == 2
        await world.produce(*values(2))
        await world.pass_time(TTL + 1)
        await apply(world)
        assert expired(at) == 4

    run(test)


async def says(world: World, ttl: int) -> None:
    """The topic's time to live is this from now on."""
    await world.broker.topics.configure("t", lambda old: {"pulsar.message.ttl.ms": str(ttl)})
    await world.settled()


def test_a_shorter_one_of_a_topic_waits_for_no_job(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1)
        at = await world.subscribe()
        await world.produce(*values(2))
        await world.pass_time(TTL + 1)
        await world.produce(*values(1))
        await says(world, 10 * TTL)
        assert expired(at) == 0
        await says(world, TTL)
        assert expired(at) == at.ready().start == 2
        await world.pass_time(2 * TTL + 1)
        # one that is longer is left to the job
        await says(world, 2 * TTL)
        assert expired(at) == 2

    run(test, folder)


@pytest.mark.parametrize("namespace", ["public/default", "shop/eu"])
def test_a_shorter_one_of_a_namespace_waits_for_no_job(folder: Path | None, namespace: str) -> None:
    async def test(world: World) -> None:
        tenancy, home = world.broker.tenancy, Namespace.parse(namespace)
        if home != DEFAULT:
            await tenancy.create_tenant(home.tenant, TenantRow())
            await tenancy.create(home, NamespaceRow())
        prefix = prefix_of(home)
        there: dict[str, SubscriptionPartition] = {}
        for topic in ("a", "b", "other.own.a"):
            name = prefix + topic if "." not in topic else topic
            own = {"pulsar__message__ttl__ms": "0"} if topic == "b" else {}
            await world.topic(name, 1, **own)
            there[topic] = await world.subscribe("g", name)
            await world.produce(*values(2), topic=name)
        await world.pass_time(TTL + 1)

        async def says(ttl: int) -> None:
            change = partial(msgspec.structs.replace, policies={"pulsar.message.ttl.ms": str(ttl)})
            await tenancy.change(home, change)
            while world.broker.message_ttl_job.busy:
                await asyncio.sleep(0)

        await says(10 * TTL)
        assert [expired(at) for at in there.values()] == [0, 0, 0]
        await says(TTL)
        # one has its own, and a name with dots is public/default's
        others = 2 if home == DEFAULT else 0
        assert [expired(at) for at in there.values()] == [2, 0, others]
        await world.produce(*values(1), topic=prefix + "a")
        await world.pass_time(2 * TTL + 1)
        await says(2 * TTL)
        assert expired(there["a"]) == 2, "a longer one is left to the job"

    run(test, folder)


def test_two_shorter_ones_of_a_namespace_at_once() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1)
        at = await world.subscribe()
        await world.produce(*values(2))
        await world.pass_time(TTL + 1)
        change = partial(msgspec.structs.replace, policies={"pulsar.message.ttl.ms": str(TTL)})
        await world.broker.tenancy.change(DEFAULT, change)
        job = world.broker.message_ttl_job
        for old in (3 * TTL, 2 * TTL):
            job.namespace_changed(DEFAULT, old, TTL)
        await asyncio.gather(*job._tasks)
        assert expired(at) == 2

    run(test)


def test_the_oldest_goes_in_its_time_and_not_when_all_are_looked_at(folder: Path | None) -> None:
    async def test(world: World) -> None:
        interval = world.broker.settings.integer("message.expiry.check.interval.ms")
        at = await subscribed(world, ttl=interval)
        soon = world.broker.message_ttl_job.soon
        await world.produce(*values(2))
        await world.pass_time(10_000)
        await world.produce(*values(1))
        await apply(world)
        await soon()
        await world.pass_time(interval - 10_000)
        await soon()
        assert expired(at) == 0, "a millisecond too early"
        await world.pass_time(1)
        await soon()
        assert expired(at) == 2
        await world.pass_time(10_000)
        await soon()
        assert expired(at) == 3
        # who looks at all finds what came when there was nothing
        await world.produce(*values(1))
        await world.pass_time(interval // 2)
        await apply(world)
        await world.pass_time(interval // 2 + 1)
        await soon()
        assert expired(at) == 4
        await world.produce(*values(1))
        await world.pass_time(interval // 2)
        await apply(world)
        await world.pass_time(interval // 2 + 1)
        world.clock.ahead += 365 * DAY
        await soon()
        assert expired(at) == 4, "a clock that jumps takes nothing"

    run(test, folder)


@pytest.mark.parametrize("codec", [0, 1])
def test_what_came_while_somebody_subscribed_is_not_read_for_its_delays(
    folder: Path | None, codec: int
) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, pulsar__message__ttl__ms=str(TTL))
        await world.produce(*values(3))
        before = await world.subscribe()
        await world.produce(*values(3), codec=codec)
        await world.pass_time(TTL + 1)
        await apply(world)
        read = world.broker.message_ttl_job.delays.bytes
        assert (read > 0, expired(before)) == (True, 6), "of the first three nobody has noted it"
        await world.produce(*values(3), codec=codec)
        await world.pass_time(TTL + 1)
        await apply(world)
        assert expired(before) == 9
        assert (world.broker.message_ttl_job.delays.bytes > read) is bool(codec)
        # what is delayed is noted, and what comes behind it is not looked at again
        await world.produce(b"later", headers=later(world, 3 * TTL))
        await world.produce(*values(3))
        await world.pass_time(TTL + 1)
        await apply(world)
        assert (expired(before), states(before)[9]) == (12, "DELAYED")

    run(test, folder)


def test_after_a_start_what_comes_is_not_read_either(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await subscribed(world)
        await world.crash()
        await world.produce(*values(3))
        await world.pass_time(TTL + 1)
        await apply(world)
        assert expired(world.at()) == 3
        assert world.broker.message_ttl_job.delays.bytes == 0

    run(test, folder)


def test_a_retry_topic_is_looked_through(folder: Path | None) -> None:
    """Its records are held back by another header as well, for so long."""

    async def test(world: World) -> None:
        await world.topic("t", 1)
        await world.subscribe()
        await world.topic("t-g-RETRY", 1, pulsar__message__ttl__ms=str(TTL))
        letters = await world.subscribe("g", "t-g-RETRY")
        wait = str(5 * TTL).encode()
        await world.produce(b"again", topic="t-g-RETRY", headers=[("DELAY_TIME", wait)])
        await world.produce(b"again", topic="t-g-RETRY")
        await world.pass_time(2 * TTL)
        await apply(world)
        assert states(letters) == ["DELAYED", "DONE"]

    run(test, folder)


def test_a_topic_that_becomes_a_retry_topic_is_looked_through(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic("t-g-RETRY", 1, pulsar__message__ttl__ms=str(TTL))
        letters = await world.subscribe("g", "t-g-RETRY")
        await world.topic("t", 1)
        await world.subscribe()
        await world.produce(b"again", topic="t-g-RETRY", headers=[("DELAY_TIME", str(5 * TTL).encode())])
        await world.pass_time(2 * TTL)
        await apply(world)
        assert states(letters) == ["DELAYED"]

    run(test, folder)


def test_a_shorter_one_takes_nothing_by_a_clock_that_jumped() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1)
        at = await world.subscribe()
        await world.produce(*values(2))
        world.clock.ahead += 365 * DAY
        await says(world, TTL)
        assert expired(at) == 0

    run(test)


@KINDS
def test_others_have_their_turn_while_much_that_was_read_goes(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world, kind)
        await world.produce(*values(35))
        taken = await take(world, at, limit=35)
        at.detach("c", Ending.STOPPED)
        await world.settled()
        assert len(taken) == 35
        await world.pass_time(TTL + 1)
        seen = set()
        work = asyncio.ensure_future(apply(world))
        while not work.done():
            seen.add(expired(at))
            await asyncio.sleep(0)
        assert seen >= {0, 10, 20, 30}
        assert expired(at) == 35

    monkeypatch.setattr(message_ttl, "STRETCH", 10)
    run(test)


def test_a_clock_that_jumps_ahead_takes_nothing() -> None:
    async def test(world: World) -> None:
        at = await subscribed(world)
        await world.produce(*values(2))
        world.clock.ahead += 365 * DAY
        await apply(world)
        assert expired(at) == 0
        # whoever still says so an hour later is believed
        await world.pass_time(3_600_000)
        await apply(world)
        assert expired(at) == 2

    run(test)


def test_a_log_whose_records_have_no_time_is_as_old_as_its_file() -> None:
    async def test(world: World) -> None:
        at = await subscribed(world)
        await world.append(records.build_batch([records.Record(0, -1, None, b"x", [])]))
        await apply(world)
        assert expired(at) == 0
        await world.pass_time(TTL + 1)
        await apply(world)
        assert expired(at) == 1

    run(test)


# -- whatever happens -------------------------------------------------------------------------------------------------

STEP = st.one_of(
    st.tuples(st.just("send"), st.lists(st.sampled_from([0, 0, 0, 10, 70, 200]), min_size=1, max_size=6)),
    st.tuples(st.just("wait"), st.sampled_from([1, 20, 61, 130])),
    st.tuples(st.just("fetch"), st.integers(1, 5)),
    st.tuples(st.sampled_from(["ack", "nack"]), st.integers(0, 5)),
    st.tuples(st.sampled_from(["apply", "crash", "leave"]), st.just(0)),
)


@settings(max_examples=120, deadline=None)
@given(kind=st.sampled_from(["shared", "key_shared"]), steps=st.lists(STEP, min_size=5, max_size=40))
def test_exactly_what_is_old_and_free_goes(kind: str, steps: list[tuple[str, object]]) -> None:
    """Against a list of messages of which each says when it was sent and due, who has it, and whether it is settled."""

    async def test(world: World) -> None:
        await subscribed(world, kind, pulsar__ack__timeout__ms="0", pulsar__nack__delay__ms="30000")
        born: list[int] = []
        done: set[int] = set()
        held: list[int] = []
        for what, said in [*steps, ("wait", 500), ("apply", 0)]:
            at, wall = world.at(), world.clock.wall_ms()
            if what == "send":
                assert isinstance(said, list)
                those = []
                for n, seconds in enumerate(said):
                    due = wall + seconds * 1000
                    headers: list[tuple[str, bytes | None]] = (
                        [("pulsar-deliver-at", b"%d" % due)] if seconds else []
                    )
                    those.append(records.Record(n, wall, b"%d" % (n % 3), b"v", headers))
                    born.append(due)
                await world.append(records.build_batch(those))
            elif what == "wait":
                assert isinstance(said, int)
                await world.pass_time(said * 1000)
            elif what == "fetch":
                assert isinstance(said, int)
                came = await take(world, at, limit=said, strict=True)
                assert not done.intersection(came)
                assert all(born[offset] <= wall for offset in came)
                held += came
            elif what in ("ack", "nack") and held:
                assert isinstance(said, int)
                offset = held.pop(said % len(held))
                if what == "ack":
                    done.add(offset)
                assert not await world.ack(at, offset, kind=ACCEPT if what == "ack" else RELEASE)
            elif what == "crash":
                await world.crash()
                held.clear()
            elif what == "leave":
                at.detach("c", Ending.STOPPED)
                held.clear()
            elif what == "apply":
                await apply(world)
                old = {offset for offset, when in enumerate(born) if wall - when > TTL and offset not in held}
                done |= old
            found = states(world.at())
            assert {offset for offset, state in enumerate(found) if state == "DONE"} == done, (what, found)

    run(test)
