"""Retention and subscriptions, with the time passed in: what stays, what goes and is counted, what stats say of it."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import msgspec
import pytest

from gateway.wire.records import Record, build_batch
from semantics.names import DEFAULT
from semantics.retention import Hold
from semantics.subscriptions.states import Ending
from store.api import Trim
from tests.gateway.broker.queues.reading import Client, FailingStore, at_of
from tests.gateway.broker.retained import DAY, SMALL, idle, kept, later, put, span, subscribed
from tests.gateway.broker.subscriptions.world import RELEASE, World, run

# -- what stays --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize("limit", [{"retention__ms": "3000"}, {"retention__bytes": "1"}])
def test_delayed_records_stay_until_they_are_due_and_as_long_as_retention_says_from_then(
    folder: Path | None, kind: str, read: bool, loaded: bool, limit: dict[str, str]
) -> None:
    """Whether a dispatcher has come to them or not, and whether its cursor is in memory or not."""

    async def test(world: World) -> None:
        at = await subscribed(world, kind=kind, **limit)
        await put(world, headers=later(world, 9_000), key=b"k")
        await put(world, 2, key=b"k")
        if read:
            at.attach("c")
            await world.settled()
            assert list(await world.fetch(at)) == [1] if kind == "key_shared" else [1, 2]
            at.detach("c", Ending.STOPPED)
        if not loaded:
            await idle(world)
        await world.pass_time(8_999)
        await world.broker.retention.apply()
        assert span(world) == (0, 3)
        found = kept(world)
        assert found is not None
        assert found[1] == [Hold("g", 0, "DELAYED")]
        if "retention__bytes" in limit:
            await world.pass_time(1)
        else:
            await world.pass_time(3_001)
            await world.broker.retention.apply()
            assert span(world) == (0, 3)
            assert kept(world) is None, "that is within the policy"
            await world.pass_time(1)
        at = world.at()
        await world.broker.retention.apply()
        assert span(world)[0] >= 1
        assert kept(world) is None

    run(test, folder)


def test_a_record_that_is_due_is_delivered_however_short_retention_is(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world, retention__ms="3000")
        await put(world, headers=later(world, 9_000))
        for _ in range(9):
            await world.pass_time(1_000)
            await world.broker.retention.apply()
        assert list(await world.fetch(at)) == [0]

    run(test, folder)


@pytest.mark.parametrize("loaded", [True, False])
def test_what_waits_for_its_redelivery_stays(folder: Path | None, loaded: bool) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world, retention__ms="3000")
        await put(world, 4)
        assert list(await world.fetch(at)) == [0, 1, 2, 3]
        assert not await world.ack(at, 0, 1)
        await world.pass_time(1_000)
        assert not await world.ack(at, 2, kind=RELEASE)
        at.detach("c", Ending.STOPPED)
        if not loaded:
            await idle(world)
        await world.pass_time(8_000)
        await world.broker.retention.apply()
        assert span(world) == (2, 4)
        assert kept(world) == (2, [Hold("g", 2, "BACKOFF")])
        await world.pass_time(1_000)
        at = world.at()
        at.ready()
        await world.pass_time(0)
        assert list(await world.fetch(at)) == [2, 3]
        assert kept(world) == (2, [Hold("g", 2, "BACKOFF")]), "as of the last round"

    run(test, folder)


def test_what_only_a_log_says_is_settled_holds_nothing(folder: Path | None) -> None:
    """Rows of many chunks still call records DELAYED that woke and were acknowledged since."""

    async def test(world: World) -> None:
        at = await subscribed(world, retention__ms="3000")
        due = later(world, 9_000)
        for _ in range(12):
            # 1,024 offsets, one of which is delayed
            listed = [Record(n, world.clock.wall_ms(), None, b"", [] if n else due) for n in range(1_024)]
            await world.append(build_batch(listed))
        await put(world, headers=later(world, 90_000))
        at.attach("c")
        while at.ready().read < at.partition.high_watermark:
            got = await world.fetch(at)
            assert not await world.ack(at, *[offset for offset in got if offset % 1_024 != 7])
        await world.pass_time(9_000)
        assert not await world.ack(at, *await world.fetch(at))
        at.detach("c", Ending.STOPPED)
        assert at.ready().available == 12
        await world.settled()
        await world.crash()
        world.broker.subscriptions.release_idle()
        assert list(world.broker.subscriptions.live()) == []
        await world.pass_time(4_000)
        await world.broker.retention.apply()
        assert span(world) == (12 * 1_024, 12 * 1_024 + 1)

    run(test, folder)


def test_what_is_in_somebodys_hands_stays(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world, retention__ms="3000")
        await put(world, 3)
        assert list(await world.fetch(at)) == [0, 1, 2]
        await world.pass_time(10_000)
        await world.broker.retention.apply()
        assert kept(world) == (3, [Hold("g", 0, "ACQUIRED")])
        assert not await world.ack(at, 0, 1)
        await world.broker.retention.apply()
        assert span(world) == (2, 3)
        assert not await world.ack(at, 2)
        await world.broker.retention.apply()
        assert span(world) == (3, 3)
        assert at.ready().stats()["expired"] == 0

    run(test, folder)


def test_what_is_dying_stays_until_it_is_buried(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.topic("t-g-DLQ", 1, **SMALL, retention__ms="3000")
        at = await world.subscribe("g", "t-g-DLQ")
        await world.produce(b"x" * 100, topic="t-g-DLQ")
        assert list(await world.fetch(at)) == [0]
        # a dead letter topic has none itself
        assert not await world.ack(at, 0, kind=b"\3")
        at.detach("c", Ending.STOPPED)
        await world.pass_time(100_000)
        await world.broker.retention.apply()
        assert span(world, "t-g-DLQ") == (0, 1)
        assert kept(world) == (1, [Hold("g", 0, "DYING")])
        await world.crash()
        await world.broker.retention.apply()
        assert kept(world) == (1, [Hold("g", 0, "DYING")])

    run(test, folder)


# -- what goes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
@pytest.mark.parametrize("loaded", [True, False])
def test_what_is_taken_from_a_subscription_is_counted_once_and_survives_a_crash(
    folder: Path | None, kind: str, loaded: bool
) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world, kind=kind, retention__ms="3000")
        await put(world, 6, key=b"k")
        at.attach("c")
        await world.settled()
        (first, *_) = await world.fetch(at)
        assert not await world.ack(at, first)
        at.detach("c", Ending.STOPPED)
        if not loaded:
            await idle(world)
        await world.pass_time(3_001)
        await put(world, 2, key=b"k")
        await world.broker.retention.apply()
        await world.broker.retention.apply()
        assert span(world) == (6, 8)
        assert world.at().ready().stats()["expired"] == 5
        assert world.broker.metrics.share_expired.value == 5
        assert kept(world) is None
        await world.crash()
        assert world.at().ready().stats()["expired"] == 5
        assert world.broker.metrics.share_expired.value == 0, "of this process"
        await world.pass_time(3_001)
        await world.broker.retention.apply()
        assert world.at().ready().stats()["expired"] == 7

    run(test, folder)


def test_deleted_records_are_not_counted_as_taken_by_retention(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world, retention__ms="3000")
        await put(world, headers=later(world, 9_000))
        await put(world, 3)
        assert list(await world.fetch(at)) == [1, 2, 3]
        partition = at.partition
        await world.broker.write([Trim(partition.id, 2)])
        partition.changed()
        assert at.ready().start == 2
        assert at.ready().stats()["expired"] == 0

    run(test, folder)


# -- where nobody has set it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loaded", [True, False])
def test_the_default_retention_takes_nothing_that_a_subscription_has_not_settled(
    folder: Path | None, loaded: bool
) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world)
        await put(world, 5)
        assert list(await world.fetch(at)) == [0, 1, 2, 3, 4]
        assert not await world.ack(at, 0, 1, 3)
        at.detach("c", Ending.STOPPED)
        if not loaded:
            await idle(world)
        await world.pass_time(8 * DAY)
        await world.broker.retention.apply()
        assert span(world) == (2, 5)
        assert kept(world) == (3, [Hold("g", 2, "OPEN")])
        at = world.at()
        assert list(await world.fetch(at)) == [2, 4]

    run(test, folder)


def test_the_default_retention_waits_for_no_consumer_group_and_goes_with_the_subscription(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        await subscribed(world)
        await put(world, 3)
        await world.pass_time(8 * DAY)
        await world.broker.retention.apply()
        assert span(world) == (0, 3)
        await world.broker.subscriptions.delete("g")
        await world.broker.retention.apply()
        assert span(world) == (3, 3)
        assert kept(world) is None

    run(test, folder)


@pytest.mark.parametrize(
    "flags",
    [("log.retention.hours=168",), ("log.retention.minutes=10080",), ("log.retention.ms=604800000",)],
)
def test_seven_days_that_somebody_has_set_are_a_time_to_live(flags: tuple[str, ...]) -> None:
    async def test(world: World) -> None:
        at = await subscribed(world)
        await put(world, 3)
        await world.pass_time(8 * DAY)
        await world.broker.retention.apply()
        assert span(world) == (3, 3)
        assert at.ready().stats()["expired"] == 3

    run(test, None, *flags)


def test_a_limit_that_is_altered_at_run_time_is_set() -> None:
    async def test(world: World) -> None:
        await subscribed(world)
        await put(world, 3)
        await world.pass_time(8 * DAY)
        await world.broker.broker_configs.alter("", lambda old: {**old, "log.retention.ms": "604800000"})
        await world.broker.retention.apply()
        assert span(world) == (3, 3)

    run(test)


@pytest.mark.parametrize("level", ["namespace", "topic", "broker"])
@pytest.mark.parametrize("limit", ["ms", "bytes"])
def test_pulsars_retention_takes_what_is_acknowledged_at_once_and_nothing_else(
    folder: Path | None, level: str, limit: str
) -> None:
    said = {f"pulsar.retention.{limit}": "0"}

    async def test(world: World) -> None:
        at = await subscribed(world)
        await put(world, 5)
        assert list(await world.fetch(at)) == [0, 1, 2, 3, 4]
        assert not await world.ack(at, 0, 1, 3)
        at.detach("c", Ending.STOPPED)
        await world.broker.retention.apply()
        assert span(world) == (0, 5)
        if level == "namespace":
            change = partial(msgspec.structs.replace, policies=said)
            await world.broker.tenancy.change(DEFAULT, change)
        elif level == "topic":
            await world.broker.topics.configure("t", lambda old: {**old, **said})
        else:
            name = "defaultRetentionTimeInMinutes" if limit == "ms" else "defaultRetentionSizeInMB"
            await world.broker.broker_configs.alter("", lambda old: {**old, name: "0"})
        await world.crash()
        await world.pass_time(1)
        await world.broker.retention.apply()
        assert span(world) == (2, 5)
        assert kept(world) == (3, [Hold("g", 2, "OPEN")])
        assert world.at().ready().stats()["expired"] == 0

    run(test, folder)


# -- what it costs -----------------------------------------------------------------------------------------------------


# -- what happens meanwhile --------------------------------------------------------------------------------------------


async def held_back(world: World) -> FailingStore:
    """The world goes on, over a store whose commits may wait."""
    store = FailingStore(world.store)
    world.broker.subscriptions.stop()
    world.broker.subscriptions.close()
    await world.start(store)
    return store


async def turns() -> None:
    for _ in range(40):
        await asyncio.sleep(0)


@pytest.mark.parametrize("limit", [{"pulsar__retention__ms": "3000"}, {"pulsar__retention__bytes": "1"}, {}])
def test_a_subscription_that_is_on_its_way_to_the_disk_finds_everything(
    folder: Path | None, limit: dict[str, str]
) -> None:
    async def test(world: World) -> None:
        store = await held_back(world)
        await world.topic("t", 1, **SMALL, **limit)
        await put(world, 5)
        await world.pass_time(8 * DAY)
        await world.configure("g", share__auto__offset__reset="earliest")
        store.holding = True
        made = asyncio.ensure_future(world.broker.subscriptions.ensure("g", "t"))
        await turns()
        applied = asyncio.ensure_future(world.broker.retention.apply())
        await turns()
        assert store.held
        store.let_go()
        at = (await made).partition(0)
        await applied
        assert span(world) == (0, 5)
        assert list(await world.fetch(at)) == [0, 1, 2, 3, 4]

    run(test, folder)


def test_a_change_that_was_answered_counts_in_the_round_under_way(folder: Path | None) -> None:
    async def test(world: World) -> None:
        store = await held_back(world)
        await world.topic("t", 1, **SMALL, pulsar__retention__ms="0", pulsar__retention__bytes="0")
        await put(world, 5)
        await world.pass_time(1000)
        ever = {"pulsar.retention.ms": "-1", "pulsar.retention.bytes": "-1"}
        store.holding = True
        changed = asyncio.ensure_future(world.broker.topics.configure("t", lambda old: {**old, **ever}))
        await turns()
        applied = asyncio.ensure_future(world.broker.retention.apply())
        await turns()
        store.let_go()
        await changed
        await applied
        assert span(world) == (0, 5)

    run(test, folder)


@pytest.mark.parametrize("restart", [False, True])
def test_what_lanes_hold_stays_also_after_a_restart(folder: Path | None, restart: bool) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **SMALL, retention__ms="3000")
        await world.configure("g", share__auto__offset__reset="earliest")
        await world.broker.queues.make("t", "g", 1, {})
        await put(world, 5)
        assert len(await Client(world).read()) == 5
        if restart:
            await world.crash()
        await world.pass_time(10_000)
        await world.broker.retention.apply()
        assert span(world) == (0, 5)
        assert at_of(world).lane.opened == 5

    run(test, folder)
