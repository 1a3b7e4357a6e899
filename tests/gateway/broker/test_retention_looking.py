"""What retention looks at, a page and a slice at a time; and what happens while it does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.broker import delays_ahead
from gateway.broker.broker import Broker
from gateway.broker.group_holds import GroupHolds
from gateway.broker.retention import Retention
from gateway.broker.subscriptions.positions import seek
from semantics.retention import Hold
from semantics.subscriptions.states import Ending
from store.api import Refused
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.retained import DAY, SMALL, idle, kept, later, put, span, subscribed
from tests.gateway.broker.subscriptions.world import RELEASE, World, run


@pytest.fixture(params=["memory", "rocksdb"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where a world keeps its data; None is the memory store."""
    return tmp_path / "data" if request.param == "rocksdb" else None


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
            load_lanes=broker.load_lanes,
            undelayed=broker.undelayed,
            groups=GroupHolds(broker, lambda topic: False),
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
                await seek(world.subscription(), {0: 1})
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
        assert [each.topic for each in caplog.records if "put off" in each.getMessage()] == ["a"]  # type: ignore[attr-defined]

    run(test)
