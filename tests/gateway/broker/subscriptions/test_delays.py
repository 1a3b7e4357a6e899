"""Records that are due later: found by the dispatcher, never early, not in memory in a crash, not beyond their time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from gateway.wire.errors import Error
from tests.gateway.broker.subscriptions.world import RELEASE, Taker, World, run


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_delayed_record_comes_when_it_is_due_and_holds_nobody_up(folder: Path | None, codec: int) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        due = world.clock.wall_ms() + 5_000
        await world.produce(b"later", headers=[("pulsar-deliver-at", b"%d" % due)], codec=codec)
        await world.produce(b"now", codec=codec)
        await world.produce(b"after", headers=[("pulsar-deliver-after", b"2000")], codec=codec)
        assert await world.fetch(at) == {1: (b"now", 1)}
        assert not await world.ack(at, 1)
        waiter = Taker("w")
        at.attach("w")
        at.park(waiter)
        await world.pass_time(1_999)
        assert not waiter.got
        await world.pass_time(1)
        assert waiter.got == [2]
        at.park(waiter)
        await world.pass_time(2_999)
        assert waiter.got == [2]
        await world.pass_time(1)
        assert waiter.got == [2, 0]

    run(test, folder)


def test_due_times_survive_a_crash_and_records_are_not_looked_at_twice(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        due = b"%d" % (world.clock.wall_ms() + 60_000)
        await world.produce(b"a", b"b", headers=[("pulsar-deliver-at", due)])
        await world.produce(b"c")
        assert list(await world.fetch(at)) == [2]
        assert not await world.ack(at, 2)
        await world.crash()
        at = world.at()
        assert await world.fetch(at) == {}
        assert world.broker.subscriptions.scanner.misses == 0
        await world.pass_time(59_999)
        assert await world.fetch(at) == {}
        await world.pass_time(1)
        assert await world.fetch(at) == {0: (b"a", 1), 1: (b"b", 1)}

    run(test, folder)


def test_what_was_due_while_the_gateway_was_down_comes_at_once(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        await world.produce(b"a", headers=[("pulsar-deliver-after", b"1000")])
        assert await world.fetch(at) == {}
        await world.settled()
        world.clock.now += 5_000
        await world.crash()
        at = world.at()
        at.attach("c")
        at.ready()
        await world.pass_time(1)
        assert await world.fetch(at) == {0: (b"a", 1)}

    run(test, folder)


def test_released_records_wait_for_their_backoff_which_grows_and_is_durable(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.configure(
            "g", pulsar__nack__backoff__min__ms="1000", pulsar__nack__backoff__max__ms="60000"
        )
        at = await world.subscribe()
        await world.produce(b"a")
        for delivery, wait in ((1, 1000), (2, 2000), (3, 4000)):
            assert await world.fetch(at) == {0: (b"a", delivery)}
            assert not await world.ack(at, 0, kind=RELEASE)
            await world.crash()
            at = world.at()
            assert await world.fetch(at) == {}
            await world.pass_time(wait - 1)
            assert await world.fetch(at) == {}
            await world.pass_time(1)
        assert await world.fetch(at) == {0: (b"a", 4)}

    run(test, folder)


def test_a_clock_on_the_wall_that_is_set_moves_due_times_and_not_locks(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        await world.produce(b"a", headers=[("pulsar-deliver-after", b"3600000")])
        await world.produce(b"b")
        assert list(await world.fetch(at)) == [1]
        waiter = Taker("w")
        at.attach("w")
        at.park(waiter)
        await world.pass_time(10)
        world.clock.ahead += 3_600_000
        await world.pass_time(1_000)
        assert waiter.got == [0]
        assert at.ready().look(1).consumer == "c"

    run(test, folder)


def test_more_due_times_than_memory_keeps_are_read_again_from_the_store(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from semantics.subscriptions import due

    monkeypatch.setattr(due, "MOST", 20)
    monkeypatch.setattr(due, "FEW", 5)
    monkeypatch.setattr(due, "ROWS_AT_ONCE", 4)

    async def test(world: World) -> None:
        at = await world.subscribed()
        base = world.clock.wall_ms()
        for n in range(100):
            await world.produce(b"%d" % n, headers=[("pulsar-deliver-at", b"%d" % (base + 1000 + n * 10))])
        assert await world.fetch(at) == {}
        await world.settled()
        got: list[int] = []
        for _ in range(21):
            await world.pass_time(100)
            got += await world.fetch(at)
        assert got == list(range(100))
        for offset in got:
            assert await world.ack(at, offset) == Error.NONE
        await world.crash()
        assert await world.fetch(world.at()) == {}

    run(test, folder)


def test_a_fetch_that_passes_over_a_great_many_delayed_records_lets_others_have_their_turn() -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        due = b"%d" % (world.clock.wall_ms() + 60_000)
        for _ in range(30):
            await world.produce(*[b"later"] * 1_000, headers=[("pulsar-deliver-at", due)])
        last = await world.produce(b"now")
        seen_by_others: list[int] = []

        def look() -> None:
            seen_by_others.append(at.ready().read)
            world.broker.loop.call_soon(look)

        world.broker.loop.call_soon(look)
        assert await world.fetch(at) == {}, (
            "an answer that is empty, instead of one that keeps its client waiting"
        )
        steps = [after - before for before, after in pairwise(seen_by_others)]
        assert 0 < max(steps) <= 2_000
        assert 10_000 < at.ready().read < last
        assert list(await world.fetch(at)) == [last]
        assert at.ready().waiting == 30_000

    run(test)


def test_records_that_are_due_are_given_with_one_fetch_whatever_lies_between() -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        due = b"%d" % (world.clock.wall_ms() + 60_000)
        for _ in range(3):
            await world.produce(*[b"now"] * 600)
            await world.produce(*[b"later"] * 200, headers=[("pulsar-deliver-at", due)])
        assert len(await world.fetch(at, limit=1_800)) == 1_800

    run(test)
