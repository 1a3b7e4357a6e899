"""Batches whose records fall due one by one: how often they are opened, what is kept of them, and that all come."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.broker.subscriptions import scanning
from gateway.broker.subscriptions.kept import FORGOTTEN, FROM_RECORDS, Kept
from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.broker.subscriptions.reading import Delivery
from gateway.broker.subscriptions.scanning import Scanner
from gateway.broker.subscriptions.stored import walk
from gateway.wire import delivery
from gateway.wire.compression import LZ4
from gateway.wire.opened import Opened
from gateway.wire.records import Record, build_batch
from tests.gateway.broker.subscriptions.world import World, run, seen

LIMIT = 1 << 24
AT: Any = SimpleNamespace(id=7, retries=False)


def stored(number: int, records: int = 500, seed: int = 1) -> Any:
    """The batch of that number, each of its size."""
    dice = random.Random(seed)
    listed = [Record(n, 1_000, None, dice.randbytes(60) + bytes(60), []) for n in range(records)]
    return walk([build_batch(listed, number * records, LZ4)], 0)[0]


def size_of_one() -> int:
    kept = Kept()
    kept.keep((7, 0), Opened(stored(0).raw()))
    return kept.bytes


def rounds(scanner: Scanner, batches: list[Any], number: int) -> None:
    """Each batch is asked for one record, in turn, so many times."""
    for at in range(number):
        for batch in batches:
            asked = [(batch.base + at, batch.base + at)]
            assert scanner.subset(AT, batch, asked) == delivery.subset(batch.raw(), asked)


def test_a_batch_that_is_asked_again_and_again_is_opened_once() -> None:
    scanner = Scanner(LIMIT)
    rounds(scanner, [stored(n) for n in range(8)], 50)
    assert scanner.openings == 8


def test_a_memory_for_half_of_them_spares_half_of_the_openings() -> None:
    """The last ones used would be none of those that come next."""
    most = size_of_one() * 6
    scanner = Scanner(LIMIT, kept=Kept(most))
    rounds(scanner, [stored(n) for n in range(10)], 50)
    kept = sum(scanner.kept.holding(7, n * 500) is not None for n in range(10))
    assert 4 <= kept <= 6
    assert scanner.openings == kept + (10 - kept) * 50
    assert scanner.kept.bytes <= most


def test_of_those_that_find_no_room_it_is_known_where_records_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[int] = []
    plain = Opened._boundaries

    def note(self: Opened) -> Any:
        if self._starts is None:
            walks.append(self.header.base_offset)
        return plain(self)

    most = size_of_one() * 6
    scanner = Scanner(LIMIT, kept=Kept(most))
    batches = [stored(n) for n in range(8)]
    rounds(scanner, batches, 1)
    monkeypatch.setattr(Opened, "_boundaries", note)
    for batch in batches:
        scanner.subset(AT, batch, [(batch.base + 3, batch.base + 3)])
    assert not walks
    assert scanner.openings > 8


def test_what_was_sent_whole_makes_room() -> None:
    scanner = Scanner(LIMIT, kept=Kept(size_of_one() * 2))
    for n in range(10):
        batch = stored(n)
        for first in range(batch.base, batch.next, 100):
            scanner.subset(AT, batch, [(first, first + 99)])
        assert len(scanner.kept) == scanner.kept.bytes == 0
    assert scanner.openings == 10


def test_what_nobody_asked_for_in_a_long_time_makes_room() -> None:
    kept = Kept(size_of_one() * 3)
    for n in range(4):
        kept.keep((7, n * 500), Opened(stored(n).raw()))
    assert [kept.holding(7, n * 500) is not None for n in range(4)] == [True, True, False, False]
    for _ in range(FORGOTTEN):
        kept.sent((7, 500), 0)
    kept.keep((7, 2_000), Opened(stored(4).raw()))
    assert [kept.holding(7, n * 500) is not None for n in range(5)] == [False, True, False, False, True]


def test_small_batches_are_opened_as_they_are_needed() -> None:
    scanner, batch = Scanner(LIMIT), stored(0, FROM_RECORDS - 1)
    rounds(scanner, [batch], 3)
    assert (scanner.openings, len(scanner.kept)) == (3, 0)


def test_what_took_the_place_of_a_batch_is_not_taken_for_it() -> None:
    scanner = Scanner(LIMIT)
    rounds(scanner, [stored(0)], 2)
    rounds(scanner, [stored(0, 400, seed=2)], 2)
    assert scanner.openings == 2


# -- over a broker ---------------------------------------------------------------------------------------------------


async def scattered(world: World, batches: int, records: int, spread: int) -> list[int]:
    """The topic t with so many batches; when each record is due, in ms from 1,000 ms on."""
    dice = random.Random(batches)
    dues: list[int] = []
    for _ in range(batches):
        listed = []
        for n in range(records):
            due = 1_000 + dice.randrange(spread)
            dues.append(due)
            header = ("pulsar-deliver-at", b"%d" % (world.clock.wall_ms() + due))
            listed.append(Record(n, world.clock.wall_ms(), None, dice.randbytes(50) + bytes(50), [header]))
        await world.append(build_batch(listed, codec=LZ4))
    return dues


async def take(at: SubscriptionPartition) -> dict[int, Any]:
    found = at.fetch("c", 500, 1 << 20, 500)
    given = found if isinstance(found, Delivery) else await found
    return seen(given)


def test_records_that_fall_due_one_by_one_all_come_none_early_and_each_batch_is_opened_once(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        dues = await scattered(world, 6, 300, 4_000)
        at.attach("c")
        while at.ready().read < at.partition.high_watermark:
            assert not await take(at)
        start = world.clock.now
        came: set[int] = set()
        scanner = world.broker.subscriptions.scanner
        for now in range(0, 5_100, 50):
            await world.pass_time(start + now - world.clock.now)
            while got := await take(at):
                assert not came & got.keys()
                assert all(dues[offset] <= world.clock.now - start for offset in got)
                came |= got.keys()
                assert not await world.ack(at, *got)
            assert came == {offset for offset, due in enumerate(dues) if due <= world.clock.now - start}
        assert len(came) == 6 * 300
        assert scanner.openings == 6
        assert scanner.kept.bytes == 0

    run(test, folder)


def test_a_fetch_that_opened_much_ends_and_the_next_one_gets_the_rest(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(world: World) -> None:
        monkeypatch.setattr(scanning, "_WORK", 80_000)
        at = await world.subscribed()
        await scattered(world, 8, 300, 1_000)
        at.attach("c")
        while at.ready().read < at.partition.high_watermark:
            await take(at)
        await world.pass_time(1_100)
        scanner = world.broker.subscriptions.scanner
        before, came, fetches = scanner.openings, 0, 0
        while at.ready().available:
            got = await take(at)
            assert got
            assert scanner.openings - before <= 2
            before = scanner.openings
            came += len(got)
            fetches += 1
        assert fetches >= 4
        assert came == at.ready().acquired

    run(test, folder)


def test_a_fetch_of_very_scattered_records_ends_so_that_others_have_their_turn(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batches are open, but a batch of some of their records is made of each."""

    async def test(world: World) -> None:
        at = await world.subscribed()
        dues = await scattered(world, 30, 64, 6_000)
        at.attach("c")
        while at.ready().read < at.partition.high_watermark:
            await take(at)
        await world.pass_time(1_500)
        while at.ready().available:
            await take(at)
        assert len(world.broker.subscriptions.scanner.kept) == 30
        monkeypatch.setattr(scanning, "_WORK", 12 * scanning._CUT)
        await world.pass_time(400)
        came = fetches = 0
        while at.ready().available:
            found = at.fetch("c", 500, 1 << 20, 500)
            given = found if isinstance(found, Delivery) else await found
            assert 0 < len(given.buffers) <= 12
            came += len(seen(given))
            fetches += 1
        assert came == sum(1_500 < due <= 1_900 for due in dues)
        assert fetches >= 3

    run(test, folder)


def test_the_bytes_that_are_kept_are_in_the_metrics() -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        await scattered(world, 2, 300, 1_000)
        at.attach("c")
        while at.ready().read < at.partition.high_watermark:
            await take(at)
        await world.pass_time(1_100)
        await take(at)
        text = world.broker.metrics.render().decode()
        scanner = world.broker.subscriptions.scanner
        assert f'magnetar_opened_batches_bytes{{kept="scattered"}} {scanner.kept.bytes}\n' in text
        assert f"magnetar_batches_opened_total {scanner.openings}\n" in text
        assert scanner.openings > 0 < scanner.kept.bytes

    run(test)
