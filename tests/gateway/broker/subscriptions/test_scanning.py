"""What is remembered of batches that were opened: the same answers, and a bound."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.broker.subscriptions import scanning
from gateway.broker.subscriptions.scanning import Scanner
from gateway.broker.subscriptions.stored import walk
from gateway.wire import delivery
from gateway.wire.compression import ZSTD
from gateway.wire.records import Record, build_batch

LIMIT = 1 << 20
AT: Any = SimpleNamespace(id=7, retries=False)


def batches(count: int, records: int = 40) -> list[Any]:
    parts = [
        build_batch([Record(n, 1000 + n, b"key-%d" % n, b"v" * 50, []) for n in range(records)], at * records)
        for at in range(count)
    ]
    # one read brings several batches
    return walk([memoryview(b"".join(parts))], 0)


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The base offset of each batch that is opened."""
    seen: list[int] = []
    init = delivery.Opened.__init__

    def note(self: delivery.Opened, batch: Any, limit: int = LIMIT, starts: Any = None) -> None:
        init(self, batch, limit, starts)
        seen.append(self.header.base_offset)

    monkeypatch.setattr(delivery.Opened, "__init__", note)
    return seen


def test_a_batch_that_was_looked_at_for_keys_is_open_for_what_is_cut_from_it(openings: list[int]) -> None:
    scanner = Scanner(LIMIT)
    _, second = batches(2)
    scanner.look(AT, second, keys=True)
    part = scanner.subset(AT, second, [(42, 43), (60, 60)])
    assert openings == [40]
    assert part == delivery.subset(second.raw(), [(42, 43), (60, 60)])


def test_of_two_partitions_each_has_its_own(openings: list[int]) -> None:
    scanner = Scanner(LIMIT)
    (one,), (other,) = batches(1), batches(1, 30)
    scanner.look(AT, one, keys=True)
    elsewhere: Any = SimpleNamespace(id=8, retries=False)
    assert scanner.subset(elsewhere, other, [(0, 0)]) == delivery.subset(other.raw(), [(0, 0)])
    # and what took the place of a batch is not taken for it
    assert scanner.subset(AT, other, [(29, 29)]) == delivery.subset(other.raw(), [(29, 29)])


def test_open_batches_have_a_bound_the_last_ones_stay(openings: list[int]) -> None:
    size = scanning._size(delivery.Opened(batches(1)[0].raw()))
    scanner = Scanner(LIMIT, opened_bytes=3 * size + 10)
    stored = batches(5)
    for batch in stored:
        scanner.look(AT, batch, keys=True)
    openings.clear()
    for batch in stored:
        assert scanner.subset(AT, batch, [(batch.base, batch.base)])
    assert openings == [0, 40]
    assert len(scanner._opened) == 3


def delayed(count: int, base: int = 0, codec: int = ZSTD, value: bytes = b"v") -> Any:
    """One stored batch; record n is due at 10,000 + n."""
    header = "pulsar-deliver-at"
    listed = [Record(n, 1000, b"k", value, [(header, b"%d" % (10_000 + n))]) for n in range(count)]
    return walk([build_batch(listed, base, codec)], base)[0]


def parts(scanner: Scanner, batch: Any, wall: int = 0, keys: bool = False) -> list[tuple[int, int]]:
    """All delays of a batch, part by part; each is no more than it should be."""
    found: list[tuple[int, int]] = []
    first = batch.base
    while True:
        looked = scanner.look(AT, batch, keys, first, wall)
        end = batch.next if looked.reached is None else looked.reached
        assert end > first
        part = looked.delayed.between(first, end)
        assert len(part) <= scanning.PART
        found += part
        if end == batch.next:
            return found
        first = end


@pytest.mark.parametrize("keys", [False, True])
def test_many_delays_are_found_a_part_at_a_time_with_one_opening(openings: list[int], keys: bool) -> None:
    scanner, batch = Scanner(LIMIT), delayed(4_500)
    assert parts(scanner, batch, keys=keys) == [(n, 10_000 + n) for n in range(4_500)]
    assert openings == [0]
    # whoever comes later finds them all
    known = scanner.look(AT, batch, keys, 0)
    assert (len(known.delayed), known.reached, openings) == (4_500, None, [0])
    assert not scanner._finders


def test_another_batch_in_between_does_not_lose_the_place(openings: list[int]) -> None:
    """Two subscriptions at two large batches, and memory for one."""
    scanner = Scanner(LIMIT, cache_bytes=0, opened_bytes=0)
    one, other = delayed(2_500), delayed(2_500, 10_000)
    found: list[tuple[int, int]] = []
    for batch in (one, other) * 3:
        first = batch.base + sum(1 for offset, _ in found if offset >= batch.base and offset < batch.next)
        looked = scanner.look(AT, batch, False, first)
        found += looked.delayed.between(first, looked.reached or batch.next)
    assert sorted(found) == [(n + base, 10_000 + n) for base in (0, 10_000) for n in range(2_500)]
    assert len(scanner._opened) == len(scanner._found) == 1


def test_delays_that_are_over_are_not_kept() -> None:
    scanner, batch = Scanner(LIMIT), delayed(3_000)
    assert parts(scanner, batch, wall=12_500) == [(n, 10_000 + n) for n in range(2_501, 3_000)]


def test_what_is_remembered_of_parts_is_counted() -> None:
    scanner = Scanner(LIMIT, cache_bytes=75_000)
    for base in range(0, 50_000, 5_000):
        parts(scanner, delayed(3_000, base))
        assert scanner.bytes == sum(map(scanning._cost, scanner._found.values())) <= 75_000
    assert len(scanner._found) == 1
    assert not scanner._finders


def test_damage_behind_the_first_part_is_found_when_it_is_come_to(openings: list[int]) -> None:
    batch = delayed(3_000, codec=0)
    raw = bytearray(batch.raw())
    raw[raw.index(b"12500") - 19] ^= 1
    broken = walk([bytes(raw)], 0)[0]
    scanner = Scanner(LIMIT)
    assert len(scanner.look(AT, broken, False, 0).delayed) == 1_000
    scanner.look(AT, broken, False, 1_000)
    for _ in range(2):
        with pytest.raises(delivery.Unreadable):
            scanner.look(AT, broken, False, 2_000)
    assert openings == [0]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_unfolds_to_very_much_is_opened_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, codec: int
) -> None:
    """A few KiB may be many MiB, which is found out with little work; what is small is opened at once."""
    monkeypatch.setattr(scanning, "AT_ONCE", 100_000)
    threads: list[bool] = []
    init = delivery.Opened.__init__

    def note(self: delivery.Opened, batch: Any, limit: int = LIMIT, starts: Any = None) -> None:
        if limit > scanning.AT_ONCE:
            threads.append(threading.current_thread() is not threading.main_thread())
        init(self, batch, limit, starts)

    monkeypatch.setattr(delivery.Opened, "__init__", note)
    small, large, wrong = delayed(10, codec=codec), delayed(1_500, 100, codec, bytes(1_000)), delayed(3, 50)
    wrong = wrong._replace(buffer=bytes(wrong.raw()[:70]) + b"wrong" + bytes(wrong.raw()[75:]))

    async def test() -> None:
        scanner = Scanner(10_000_000)
        assert scanner.at_hand(AT, small, False, 0, 0)
        assert len(scanner.look(AT, small, False).delayed) == 10
        assert scanner.at_hand(AT, wrong, False, 50, 0)
        with pytest.raises(delivery.Unreadable):
            scanner.look(AT, wrong, False, 50)
        assert not scanner.at_hand(AT, large, False, 100, 0)
        assert not threads
        await scanner.prepare(AT, large, False, 0)
        assert threads == [True]
        threads.clear()
        assert scanner.at_hand(AT, large, False, 100, 0)
        assert len(parts(scanner, large)) == 1_500
        assert not threads

    asyncio.run(test())


def test_a_batch_that_grows_beyond_the_limit_is_tried_once(openings: list[int]) -> None:
    bomb = delayed(20, value=bytes(1 << 18))

    async def test() -> None:
        scanner = Scanner(scanning.AT_ONCE + (1 << 20) // 2)
        assert not scanner.at_hand(AT, bomb, False, 0, 0)
        await scanner.prepare(AT, bomb, False, 0)
        assert scanner.at_hand(AT, bomb, False, 0, 0)
        with pytest.raises(delivery.Unreadable, match="too large"):
            scanner.look(AT, bomb, False)

    asyncio.run(test())


def test_a_part_of_what_unfolds_to_very_much_is_not_cut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "AT_ONCE", 100_000)
    large = delayed(1_500, 0, value=bytes(1_000))
    assert Scanner(10_000_000).subset(AT, large, [(3, 3)]) == large.raw()


@pytest.mark.parametrize(("keys", "retries", "count"), [(True, False, 10_001), (False, True, 2_001)])
def test_what_each_record_must_be_looked_at_for_is_done_in_a_thread_when_they_are_many(
    keys: bool, retries: bool, count: int
) -> None:
    at: Any = SimpleNamespace(id=7, retries=retries)

    async def test() -> None:
        scanner, many, few = Scanner(LIMIT), delayed(count, codec=0), delayed(count - 1, 20_000, codec=0)
        assert scanner.at_hand(at, few, keys, few.base, 0)
        assert not scanner.at_hand(at, many, keys, 0, 0)
        await scanner.prepare(at, many, keys, 0)
        assert scanner.at_hand(at, many, keys, 0, 0)

    asyncio.run(test())
