"""Retention and subscriptions, with the time passed in: what stays, what goes and is counted, what stats say of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.broker import delays_ahead
from gateway.broker.broker import Broker
from gateway.broker.retention import Retention
from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.broker.subscriptions.positions import seek
from gateway.wire.records import Record, build_batch
from semantics.retention import Hold
from semantics.subscriptions.states import Ending
from store.api import Refused, Trim
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.subscriptions.world import RELEASE, Headers, World, run

SMALL = {"internal__segment__bytes": "150"}
"""A record of 100 bytes is a segment."""
DAY = 86_400_000


@pytest.fixture(params=["memory", "rocksdb"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where a world keeps its data; None is the memory store."""
    return tmp_path / "data" if request.param == "rocksdb" else None


def later(world: World, ms: int) -> Headers:
    return [("pulsar-deliver-at", b"%d" % (world.clock.wall_ms() + ms))]


async def put(world: World, count: int = 1, headers: Headers | None = None, **options: Any) -> None:
    for _ in range(count):
        await world.produce(b"x" * 100, headers=headers, **options)


def span(world: World, topic: str = "t") -> tuple[int, int]:
    found = world.broker.catalog.get(topic)
    assert found is not None
    log = world.broker.log_of(found, 0)
    return log.start_offset, log.end_offset


async def idle(world: World) -> None:
    """Nothing is in memory that nobody uses."""
    for _ in range(4):
        await world.settled()
        world.broker.subscriptions.release_idle()
    assert list(world.broker.subscriptions.live()) == []


async def subscribed(world: World, *, kind: str = "shared", **configs: str) -> SubscriptionPartition:
    await world.topic("t", 1, **SMALL, **configs)
    await world.configure("g", pulsar__subscription__type=kind, pulsar__nack__delay__ms="9000")
    return await world.subscribe()


def kept(world: World) -> tuple[int, list[Hold]] | None:
    found = list(world.broker.retention.kept.values())
    assert len(found) <= 1
    return (found[0].records, list(found[0].holds)) if found else None


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


# -- what it costs -----------------------------------------------------------------------------------------------------


def test_topics_that_nobody_is_subscribed_to_pay_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **SMALL, retention__ms="3000")
        await put(world, 3, headers=later(world, 9_000))
        await world.pass_time(3_001)
        await world.broker.retention.apply()
        assert span(world) == (3, 3)
        assert world.broker.retention.delays.bytes == 0

    run(test)


def test_cursors_that_lose_nothing_are_not_loaded_and_segments_are_looked_through_once() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **SMALL, retention__ms="3000")
        for number in range(250):
            await world.subscribe(f"g{number}")
        await put(world, headers=later(world, 9_000))
        await put(world, 3)
        await idle(world)
        await world.pass_time(8_000)
        for _ in range(3):
            await world.broker.retention.apply()
        assert list(world.broker.subscriptions.live()) == []
        ((partition, found),) = world.broker.retention.kept.items()
        assert (found.records, found.subscriptions, len(found.holds)) == (4, 250, 10)
        looked = world.broker.retention.delays.bytes
        assert 0 < looked < 300, "the first segment, which says enough"
        await world.pass_time(5_000)
        await world.broker.retention.apply()
        assert span(world) == (4, 4)
        assert world.broker.metrics.share_expired.value == 1_000
        await idle(world)
        assert partition not in world.broker.retention.delays._known

    run(test)


def test_rows_of_many_chunks_are_read_a_page_at_a_time(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic(retention__ms="3000", internal__segment__bytes="100000")
        at = await world.subscribe()
        for base in range(0, 6 * 1_024, 1_024):
            await world.produce(*[b""] * 1_024)
            # one of each chunk stays open and fails, so that each has a row
            last = base + 1_023
            while last not in (given := await world.fetch(at)):
                assert not await world.ack(at, *given)
            assert not await world.ack(at, *[offset for offset in given if offset % 1_024 != 1_023])
            assert not await world.ack(at, last, kind=RELEASE)
        await world.produce(b"", headers=later(world, 9_000))
        await world.fetch(at)
        at.detach("c", Ending.CRASHED)
        await idle(world)
        await world.pass_time(8_000)
        await world.broker.retention.apply()
        assert kept(world) is not None
        assert kept(world)[1] == [Hold("g", 6 * 1_024, "DELAYED")]  # type: ignore[index]

    import gateway.broker.retention as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS", 2)
        run(test, folder)


@pytest.mark.parametrize("codec", [0, 3, 4])
def test_delays_are_found_in_slices(monkeypatch: pytest.MonkeyPatch, codec: int) -> None:
    monkeypatch.setattr(delays_ahead, "SLICE", 300)

    async def test(world: World) -> None:
        await world.topic(retention__ms="3000")
        await world.subscribe()
        await put(world, 20, codec=codec)
        await put(world, headers=later(world, 9_000), codec=codec)
        await put(world, 5, codec=codec)
        await world.pass_time(5_000)
        await world.broker.retention.apply()
        assert span(world) == (0, 26)
        assert kept(world) == (26, [Hold("g", 0, "DELAYED")])
        await world.pass_time(7_001)
        await world.broker.retention.apply()
        assert span(world) == (26, 26)

    run(test)


def test_the_time_of_a_retry_letter_counts(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.subscribe()
        await world.topic("t-g-RETRY", 1, **SMALL, retention__ms="3000")
        await world.subscribe("g", "t-g-RETRY")
        await world.produce(b"x" * 100, topic="t-g-RETRY", headers=[("DELAY_TIME", b"9000")])
        await idle(world)
        await world.pass_time(8_999)
        await world.broker.retention.apply()
        assert span(world, "t-g-RETRY") == (0, 1)
        await world.pass_time(3_002)
        await world.broker.retention.apply()
        assert span(world, "t-g-RETRY") == (1, 1)

    run(test, folder)


# -- what happens meanwhile --------------------------------------------------------------------------------------------


class Meanwhile(Retention):
    """Something happens when all is decided, and before the log is trimmed."""

    happens: Any = None

    def __init__(self, broker: Broker) -> None:
        super().__init__(
            broker,
            watch=broker.clock_watch,
            catalog=broker.catalog,
            topics=broker.topics,
            subscriptions=broker.subscriptions,
            effective=broker.effective,
            in_use=broker.runtimes,
            unfolds_to=broker.decompression_limit,
        )

    async def _expire(self, *args: Any) -> None:
        await super()._expire(*args)
        if self.happens is not None:
            happens, self.happens = self.happens, None
            await happens()


def test_of_a_topic_that_is_deleted_meanwhile_nothing_is_told(folder: Path | None) -> None:
    class Deleting(Meanwhile):
        async def _decide(self, *args: Any) -> Any:
            decided = await super()._decide(*args)
            await self.happens()
            return decided

    async def test(world: World) -> None:
        await subscribed(world, retention__bytes="1")
        await put(world, 2, headers=later(world, 9_000))
        retention = Deleting(world.broker)
        retention.happens = lambda: world.broker.delete_topic("t")
        await retention.apply()
        assert world.broker.catalog.get("t") is None
        assert retention.kept == {}

    run(test, folder)


@pytest.mark.parametrize("what", ["a reset", "a new subscription", "another of that name"])
def test_what_comes_before_the_trim_puts_it_off(what: str) -> None:
    async def test(world: World) -> None:
        await subscribed(world)
        await put(world, 3)
        at = world.at()
        await world.fetch(at)
        assert not await world.ack(at, 0, 1, 2)
        at.detach("c", Ending.STOPPED)
        await world.pass_time(8 * DAY)
        retention = Meanwhile(world.broker)

        async def happens() -> None:
            if what == "a reset":
                await seek(world.at().subscription, {0: 1})
            elif what == "a new subscription":
                await world.subscribe("h")
            else:
                await world.broker.subscriptions.delete("g")
                await world.subscribe("g")

        retention.happens = happens
        await retention.apply()
        assert span(world) == (0, 3)
        await retention.apply()
        assert span(world) == ((1, 3) if what == "a reset" else (0, 3))

    run(test)


def test_what_was_read_of_cursors_long_ago_does_not_hold() -> None:
    async def test(world: World) -> None:
        await subscribed(world, retention__ms="3000")
        await put(world, 3)
        await world.pass_time(5_000)
        retention = Meanwhile(world.broker)

        async def happens() -> None:
            world.clock.now += 31_000

        retention.happens = happens
        await retention.apply()
        assert span(world) == (0, 3)
        await retention.apply()
        assert span(world) == (3, 3)

    run(test)


def test_a_commit_that_fails_takes_nothing_and_counts_nothing() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        await subscribed(world, retention__ms="3000")
        await put(world, 3)
        await idle(world)
        await world.pass_time(5_000)
        store.holding = True
        retention = asyncio.ensure_future(world.broker.retention.apply())
        await store.has(1)
        store.holding = False
        store.fail(Refused("the disk is full"))
        await retention
        assert span(world) == (0, 3)
        assert world.at().ready().stats()["expired"] == 0
        await world.broker.retention.apply()
        assert span(world) == (3, 3)
        assert world.at().ready().stats()["expired"] == 3

    run(test)


def test_a_topic_that_cannot_be_trimmed_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        for name in ("a", "b"):
            await world.topic(name, internal__segment__bytes="100", retention__ms="3000")
            for _ in range(3):
                await world.produce(b"v", topic=name)
        await world.pass_time(5_000)
        store.holding = True
        retention = asyncio.ensure_future(world.broker.retention.apply())
        await store.has(1)
        store.holding = False
        store.fail(Refused("its row makes no sense"))
        with caplog.at_level("INFO"):
            await retention
        starts = [world.broker.partition(world.broker.topics.get(name), 0).log_start for name in ("a", "b")]
        assert starts[0] == 0 < starts[1]
        assert [each.topic for each in caplog.records if "put off" in each.message] == ["a"]  # type: ignore[attr-defined]

    run(test)
