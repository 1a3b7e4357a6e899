"""Records that are due later: found by the dispatcher, never early, not in memory in a crash, not beyond their time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.broker.subscriptions.positions import seek
from gateway.broker.subscriptions.reading import Delivery
from gateway.wire import records
from gateway.wire.errors import Error
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.states import Batch, Ending
from tests.gateway.broker.subscriptions.world import RELEASE, Taker, World, run, seen


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
        at.parked.add(waiter)
        await world.pass_time(1_999)
        assert not waiter.got
        await world.pass_time(1)
        assert waiter.got == [2]
        at.parked.add(waiter)
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
        at.parked.add(waiter)
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
        await world.configure("g", pulsar__receiver__queue__size="10000")
        at = await world.subscribed()
        due = b"%d" % (world.clock.wall_ms() + 60_000)
        for _ in range(3):
            await world.produce(*[b"now"] * 600)
            await world.produce(*[b"later"] * 200, headers=[("pulsar-deliver-at", due)])
        assert len(await world.fetch(at, limit=1_800)) == 1_800

    run(test)


def many(world: World, count: int, due: Callable[[int], int | None]) -> bytes:
    """One batch; `due` says for each record when, in ms from now."""
    now = world.clock.wall_ms()
    return records.build_batch(
        [
            records.Record(
                n,
                now,
                b"k%d" % (n % 7),
                b"%d" % n,
                [] if at is None else [("pulsar-deliver-at", b"%d" % (now + at))],
            )
            for n in range(count)
            for at in [due(n)]
        ],
        codec=3,
    )


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_a_large_batch_of_delayed_records_is_looked_through_in_parts_and_each_comes_when_it_is_due(
    folder: Path | None, kind: str
) -> None:
    count = 6_000

    def due(n: int) -> int | None:
        return None if n % 5 == 4 else 10 + n % 3000

    async def test(world: World) -> None:
        await world.topic()
        await world.configure("g", pulsar__subscription__type=kind)
        at = await world.subscribe()
        began = world.clock.now
        await world.append(many(world, count, due))
        await world.produce(b"behind")
        at.attach("c")
        await world.settled()
        came: dict[int, int] = {}
        # what is told to the cursor in one go, and how often others had their turn by then
        fed: list[int] = []
        told: list[int] = []
        others = 0

        def tick() -> None:
            nonlocal others
            others += 1
            asyncio.get_running_loop().call_soon(tick)

        tick()

        feed = Cursor.feed

        def note(cursor: Cursor, batches: Sequence[Batch], now: int, wall: int) -> None:
            fed.append(sum(len(batch.delayed) for batch in batches))
            told.append(others)
            feed(cursor, batches, now, wall)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Cursor, "feed", note)
            for _ in range(40):
                while got := await world.fetch(at, limit=5_000):
                    for offset in got:
                        assert offset not in came
                        came[offset] = world.clock.now - began
                    assert not await world.ack(at, *got)
                await world.pass_time(100)
        assert sorted(came) == list(range(count + 1))
        for offset, when in came.items():
            wanted = due(offset) if offset < count else None
            # never early, and with the fetch that comes next
            assert (wanted or 0) <= when <= (wanted or 0) + 200
        assert sum(fed) == count * 4 // 5
        assert max(fed) <= 1_000
        assert all(after > before for before, after in pairwise(told))

    run(test, folder)


def test_a_batch_that_was_looked_through_in_part_goes_on_after_a_crash(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.configure("g", pulsar__receiver__queue__size="10000")
        at = await world.subscribe()
        await world.append(many(world, 3_000, lambda n: 60_000 if n < 2_500 else None))
        at.attach("c")
        fetching = at.fetch("c", 500, 1 << 20)
        assert isinstance(fetching, Awaitable)
        task = asyncio.ensure_future(fetching)
        await asyncio.sleep(0)
        read = at.ready().read
        assert read < 3_000
        task.cancel()
        await world.settled()
        await world.crash()
        at = world.at()
        assert at.ready().read >= read
        got = await world.fetch(at, limit=5_000)
        assert sorted(got) == list(range(2_500, 3_000))
        assert not await world.ack(at, *got)
        assert at.ready().stats()["delayed"] == 2_500
        assert await world.fetch(at, limit=5_000) == {}
        await world.pass_time(60_000)
        first = await world.fetch(at, limit=1_500)
        assert not await world.ack(at, *first)
        second = await world.fetch(at, limit=1_500)
        assert sorted([*first, *second]) == list(range(2_500))

    run(test, folder)


class Patient(Taker):
    """Waits for what takes long, and parks again when that is nothing."""

    def wake(self, at: SubscriptionPartition) -> None:
        given = at.fetch(self.consumer, 1, 1 << 20)
        if isinstance(given, Delivery):
            self.took(at, given)
        else:
            asyncio.ensure_future(given).add_done_callback(lambda done: self.took(at, done.result()))

    def took(self, at: SubscriptionPartition, given: Delivery) -> None:
        self.got += sorted(seen(given))
        if not given.acquired:
            at.parked.add(self)


def test_one_member_looks_through_what_is_delayed_and_the_others_wait_for_what_it_finds(
    folder: Path | None,
) -> None:
    """A thousand members would each do a slice of the work before anybody else had a turn."""

    async def test(world: World) -> None:
        await world.topic()
        at = await world.subscribe()
        await world.append(many(world, 5_000, lambda n: 60_000))
        await world.produce(b"now")
        await world.produce(b"now, too")
        at.attach("a")
        at.attach("b")
        first = at.fetch("a", 1, 1 << 20)
        assert isinstance(first, Awaitable)
        second = at.fetch("b", 1, 1 << 20)
        assert isinstance(second, Delivery)
        assert not second.acquired
        waiter = Patient("b")
        at.parked.add(waiter)
        assert seen(await first) == {5_000: (b"now", 1)}
        while waiter.got != [5_001]:
            await asyncio.sleep(0)

    run(test, folder)


def test_a_member_whose_look_ahead_is_cut_off_hands_it_on(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        at = await world.subscribe()
        await world.append(many(world, 5_000, lambda n: 60_000))
        await world.produce(b"now")
        at.attach("a")
        at.attach("b")
        waiter = Patient("b")
        first = at.fetch("a", 1, 1 << 20)
        assert isinstance(first, Awaitable)
        task = asyncio.ensure_future(first)
        at.parked.add(waiter)
        await asyncio.sleep(0)
        # its connection is gone
        task.cancel()
        at.detach("a", Ending.CRASHED)
        while waiter.got != [5_000]:
            await asyncio.sleep(0)

    run(test, folder)


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_the_longest_delay_counts_from_sending_for_later_groups_and_after_a_reset(
    folder: Path | None, kind: str
) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.configure(
            "g", pulsar__delayed__delivery__max__delay__ms="10000", pulsar__subscription__type=kind
        )
        at = await world.subscribe()
        late = b"%d" % (world.clock.wall_ms() + 10**9)
        await world.produce(b"far", key=b"k", headers=[("pulsar-deliver-at", late)])
        await world.produce(b"far, too", key=b"l", headers=[("pulsar-deliver-after", b"20000")])
        await world.pass_time(6_000)
        at.attach("c")
        await world.settled()
        assert await world.fetch(at) == {}
        await world.pass_time(3_999)
        assert await world.fetch(at) == {}
        await seek(world.subscription(), {0: 0})
        assert await world.fetch(at) == {}
        await world.pass_time(1)
        assert await world.fetch(at) == {0: (b"far", 1), 1: (b"far, too", 1)}
        await world.configure("h", pulsar__delayed__delivery__max__delay__ms="11000")
        other = await world.subscribe("h")
        assert await world.fetch(other) == {}
        await world.pass_time(1_000)
        assert await world.fetch(other) == {0: (b"far", 1), 1: (b"far, too", 1)}

    run(test, folder)


def test_the_longest_delay_of_a_record_without_a_timestamp_counts_from_reading(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.configure("g", pulsar__delayed__delivery__max__delay__ms="10000")
        at = await world.subscribe()
        late: list[tuple[str, bytes | None]] = [
            ("pulsar-deliver-at", b"%d" % (world.clock.wall_ms() + 10**9))
        ]
        await world.append(records.build_batch([records.Record(0, -1, None, b"v", late)]))
        await world.pass_time(6_000)
        assert await world.fetch(at) == {}
        await world.pass_time(9_999)
        assert await world.fetch(at) == {}
        await world.pass_time(1)
        assert await world.fetch(at) == {0: (b"v", 1)}

    run(test, folder)


def test_what_woke_keeps_no_cursor_in_memory_whose_partition_was_thrown_away() -> None:
    """Rows are to say what woke before a cursor goes; of a partition that is not in charge there are none."""

    async def test(world: World) -> None:
        at = await world.subscribed()
        await world.produce(b"soon", headers=[("pulsar-deliver-after", b"1000")])
        await world.produce(b"far", headers=[("pulsar-deliver-after", b"90000000")])
        assert await world.fetch(at) == {}
        await world.pass_time(1_500)
        at.detach("c", Ending.STOPPED)
        await world.settled()
        at.partition.retire()
        await world.settled()
        assert not at.release()
        assert at.release()

    run(test)
