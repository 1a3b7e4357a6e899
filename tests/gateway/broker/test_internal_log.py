"""A partition of an internal topic: compacted at all times, and bounded."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from gateway.broker import internal_log
from gateway.broker.internal_log import InternalLog, Making
from gateway.broker.readable import Readable
from gateway.wire.batch import header
from gateway.wire.records import records


class Waiting:
    """Somebody who waits for more."""

    def __init__(self) -> None:
        self.woken: list[int] = []

    def wake(self, partition: Readable, appended: int) -> None:
        self.woken.append(appended)


def soon(_: Callable[[], None]) -> None:
    """The turn never ends."""


def new(begin: int = 0, leader_epoch: int = 0, making: Making | None = None) -> InternalLog:
    return InternalLog(0, begin, leader_epoch, making or Making(soon))


def read(
    log: InternalLog, offset: int, max_bytes: int = 1 << 20, *, whole_first: bool = True
) -> list[tuple[int, bytes, bytes | None]]:
    """Offset, key and value of what is found."""
    found = []
    for piece in log.fetch(offset, max_bytes, whole_first=whole_first, least=None):
        assert isinstance(piece, bytes)
        base = header(piece).base_offset
        found += [(base + each.offset_delta, each.key or b"", each.value) for each in records(piece)]
    return found


def test_of_each_row_the_last_record_is_there_where_it_was_appended() -> None:
    log = new(100, 7)
    assert (log.log_start, log.high_watermark, log.last_stable_offset) == (100, 100, 100)
    assert read(log, 100) == []
    for row, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", None)):
        log.append(row, b"k" + row, value, 5)
    assert (log.log_start, log.high_watermark) == (100, 104)
    assert read(log, 100) == [(102, b"ka", b"3"), (103, b"kb", None)]
    assert read(log, 103) == [(103, b"kb", None)]
    assert read(log, 104) == []


def test_a_fetch_is_bounded_and_goes_on() -> None:
    log = new(0, 0)
    for number in range(5_000):
        log.append(b"%d" % number, b"k%d" % number, b"v" * 50, number)
    assert len(read(log, 0, 1_000)) == 14
    assert read(log, 0, 1, whole_first=False) == []
    assert [offset for offset, _, _ in read(log, 0, 1)] == [0]
    seen, offset = 0, 0
    while found := read(log, offset, 100_000):
        seen, offset = seen + len(found), found[-1][0] + 1
    assert (seen, offset) == (5_000, 5_000)


def test_the_places_of_old_records_do_not_pile_up() -> None:
    log = new(0, 0)
    for number in range(20_000):
        log.append(b"row", b"k", b"%d" % number, 0)
    assert len(log._offsets) < 2_000
    assert read(log, 0) == [(19_999, b"k", b"19999")]


def test_the_oldest_are_forgotten_and_the_start_moves() -> None:
    log = new(0, 0)
    for row in b"abcd":
        log.append(bytes([row]), bytes([row]), b"v" * 1_000, 0)
    cost = log.cost
    log.append(b"a", b"a", b"v" * 1_000, 0)
    assert log.cost == cost, "what is replaced costs nothing"
    assert log.evict(1) == cost // 4
    assert (log.log_start, log.cost) == (2, cost - cost // 4)
    assert [key for _, key, _ in read(log, 0)] == [b"c", b"d", b"a"]
    assert b"b" not in log
    log.evict(1 << 30)
    assert (log.log_start, log.high_watermark, log.cost) == (5, 5, 0)
    assert read(log, 5) == []


def test_by_time() -> None:
    log = new(0, 0)
    assert (log.first_since(0), log.newest()) == (None, None)
    for row, when in ((b"a", 10), (b"b", 30), (b"c", 20)):
        log.append(row, row, b"", when)
    assert log.first_since(11) == (30, 1)
    assert log.first_since(31) is None
    assert log.newest() == (30, 1)


def test_who_waits_is_told() -> None:
    log, waiting = new(0, 0), Waiting()
    log.watchers.add(waiting)
    log.wake(12)
    log.close()
    assert waiting.woken == [12, 0]
    assert log.stale


def test_rows_within_a_range_are_those_that_are_there() -> None:
    source, log, there = random.Random(4), new(), dict[bytes, bytes | None]()
    for number in range(3_000):
        row, value = b"%04d" % source.randrange(2_000), source.choice([b"%d" % number, None])
        log.append(row, row, value, 0)
        there.pop(row, None)
        there[row] = value
        if number % 100 == 0:
            before = log.log_start
            log.evict(10_000)
            for row in list(there)[: 25 if log.log_start > before else 0]:
                if row not in log:
                    del there[row]
    for _ in range(200):
        start, end = sorted(b"%04d" % source.randrange(2_000) for _ in range(2))
        expected = sorted((row, value) for row, value in there.items() if start <= row < end)
        assert [(row, entry.value) for row, entry in log.within(start, end)] == expected


class Compared(bytes):
    """A row that counts how often one is compared."""

    comparisons = 0

    def __lt__(self, other: bytes) -> bool:
        Compared.comparisons += 1
        return bytes.__lt__(self, other)

    def __ge__(self, other: bytes) -> bool:
        Compared.comparisons += 1
        return bytes.__ge__(self, other)


def test_a_range_is_found_without_a_walk_through_all_rows() -> None:
    log = new()
    for number in range(4_000):
        log.append(Compared(b"%05d" % number), b"k", b"v", 0)
    Compared.comparisons = 0
    assert len(log.within(b"00100", b"00103")) == 3
    assert Compared.comparisons < 50


def test_names_of_rows_that_were_forgotten_do_not_pile_up() -> None:
    log = new()
    for number in range(20_000):
        log.append(b"%d" % number, b"k", b"v", 0)
        if log.cost > 10_000:
            log.evict(5_000)
    assert len(log._sorted) < 2_000


def test_so_much_is_made_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal_log, "MADE", 50 * 1_000)
    turns: list[Callable[[], None]] = []
    making = Making(turns.append)
    logs = [new(making=making) for _ in range(3)]
    for log in logs:
        for number in range(100):
            log.append(b"%d" % number, b"k", b"v" * 783, 0)
    # each costs 1,000
    assert [len(read(log, 0, whole_first=False)) for log in logs] == [50, 0, 0]
    # nobody is left with nothing for ever
    assert len(read(logs[1], 0)) == 1
    (end,) = turns
    end()
    assert [len(read(logs[0], 50)), len(read(logs[1], 1))] == [50, 1]
    turns[1]()
    assert len(read(logs[1], 1)) == 50
