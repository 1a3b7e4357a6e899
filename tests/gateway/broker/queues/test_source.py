"""A cursor that lanes are consumers of: what they take, and what they say of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway.broker.queues.just_read import JustRead
from gateway.broker.queues.source import Source
from semantics.lanes.marks import Mark, Verb
from store.pending import drive
from tests.gateway.broker.queues.reading import KINDS, numbers, queue_of, queued
from tests.gateway.broker.subscriptions.world import World, run

LANE = "lane 0"


async def sourced(world: World, count: int, **options: Any) -> Source:
    """The only source of a queue topic with one lane, and so many records."""
    await queued(world, **options)
    if count:
        await world.produce(*numbers(0, count))
    (source,) = queue_of(world).sources.values()
    return source


def take(source: Source, limit: int = 100, max_bytes: int = 1 << 20) -> list[tuple[int, int, int]]:
    found = drive(source.take(LANE, limit, max_bytes, JustRead()))
    assert isinstance(found, Sequence), "the log is in memory"
    return [(first, last, failed) for first, last, failed in found]


@KINDS
def test_a_lane_takes_as_many_as_it_may(kind: str, folder: Path | None) -> None:
    async def test(world: World) -> None:
        source = await sourced(world, 10, kind=kind)
        assert source.may_serve(LANE)
        assert take(source, 4) == [(0, 3, 0)]
        assert take(source) == [(4, 9, 0)]
        assert take(source) == []
        assert not source.may_serve(LANE)

    run(test, folder)


def test_bytes_bound_what_is_taken() -> None:
    async def test(world: World) -> None:
        source = await sourced(world, 0)
        for n in range(20):
            await world.produce(b"x" * 1_000, b"%d" % n)
        # one batch comes whatever it has
        assert take(source, 100, 1) == [(0, 1, 0)]
        taken = take(source, 100, 5_000)
        assert 4 <= sum(last - first + 1 for first, last, _ in taken) <= 20

    run(test)


@KINDS
def test_what_becomes_of_what_a_lane_holds(kind: str) -> None:
    async def test(world: World) -> None:
        source = await sourced(world, 10, kind=kind, limit=3)
        take(source)
        source.settle(LANE, [(0, 2)])
        source.mark(LANE, [(3, 3)], Mark(0, 0, Verb.NACK, 0))
        source.mark(LANE, [(4, 4)], Mark(0, 0, Verb.DEAD))
        source.crash(LANE, [(5, 5)], None)
        source.give_back(LANE, [(6, 7)])
        assert not source.count(LANE, [(8, 8)], None)
        assert [source.failures(offset) for offset in (3, 5, 6, 8)] == [1, 1, 0, 1]
        await world.settled()
        await world.settled()
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"4"]
        assert take(source) == [(3, 3, 1), (5, 5, 1), (6, 7, 0)]
        # up to a count that it may have, and at the limit it is dead
        assert not source.count(LANE, [(8, 8)], 1)
        assert source.failures(8) == 1
        source.count(LANE, [(8, 8)], None)
        assert source.count(LANE, [(8, 8)], None)

    run(test)


def test_a_nack_waits_as_long_as_it_says() -> None:
    async def test(world: World) -> None:
        source = await sourced(world, 2)
        take(source)
        source.mark(LANE, [(0, 0)], Mark(0, 0, Verb.NACK, 700))
        await world.pass_time(699)
        assert not source.may_serve(LANE)
        await world.pass_time(1)
        assert take(source) == [(0, 0, 1)]

    run(test)


@KINDS
def test_after_a_load_a_lane_holds_what_its_rows_say_and_is_still_open(
    kind: str, folder: Path | None
) -> None:
    async def test(world: World) -> None:
        source = await sourced(world, 10, kind=kind)
        take(source)
        source.settle(LANE, [(2, 3)])
        await world.settled()
        await world.crash()
        again = Source(world.at())
        assert again.hold(LANE, [(0, 5)]) == [(0, 1), (4, 5)]
        assert take(again) == [(6, 9, 0)]
        again.settle(LANE, [(0, 9)])
        assert world.at().ready().start == 10

    run(test, folder)


@KINDS
def test_beside_a_cursor_that_stayed_a_lane_holds_what_both_say(kind: str) -> None:
    """Its queue alone was thrown away: what it was given and is in no row is there for all."""

    async def test(world: World) -> None:
        source = await sourced(world, 10, kind=kind)
        take(source, 8)
        source.settle(LANE, [(2, 3)])
        assert Source(source.at).hold(LANE, [(1, 4)]) == [(1, 1), (4, 4)]
        assert take(source) == [(0, 0, 0), (5, 9, 0)]
        assert Source(source.at).hold(LANE, []) == []
        assert take(source) == [(0, 1, 0), (4, 9, 0)]

    run(test)


def test_a_lane_that_is_gone_holds_nothing() -> None:
    async def test(world: World) -> None:
        source = await sourced(world, 3)
        take(source)
        source.let_go(LANE)
        assert LANE not in source.at.consumers
        assert take(source) == []
        source.hold(LANE, [])
        assert take(source) == [(0, 2, 0)]

    run(test)
