"""A partition of an internal topic: compacted at all times, and bounded."""

from __future__ import annotations

from gateway.broker.internal_log import InternalLog
from gateway.broker.readable import Readable
from gateway.wire.batch import header
from gateway.wire.records import records


class Waiting:
    """Somebody who waits for more."""

    def __init__(self) -> None:
        self.woken: list[int] = []

    def wake(self, partition: Readable, appended: int) -> None:
        self.woken.append(appended)


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
    log = InternalLog(0, 100, 7)
    assert (log.log_start, log.high_watermark, log.last_stable_offset) == (100, 100, 100)
    assert read(log, 100) == []
    for row, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", None)):
        log.append(row, b"k" + row, value, 5)
    assert (log.log_start, log.high_watermark) == (100, 104)
    assert read(log, 100) == [(102, b"ka", b"3"), (103, b"kb", None)]
    assert read(log, 103) == [(103, b"kb", None)]
    assert read(log, 104) == []


def test_a_fetch_is_bounded_and_goes_on() -> None:
    log = InternalLog(0, 0, 0)
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
    log = InternalLog(0, 0, 0)
    for number in range(20_000):
        log.append(b"row", b"k", b"%d" % number, 0)
    assert len(log._offsets) < 2_000
    assert read(log, 0) == [(19_999, b"k", b"19999")]


def test_the_oldest_are_forgotten_and_the_start_moves() -> None:
    log = InternalLog(0, 0, 0)
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
    log = InternalLog(0, 0, 0)
    assert (log.first_since(0), log.newest()) == (None, None)
    for row, when in ((b"a", 10), (b"b", 30), (b"c", 20)):
        log.append(row, row, b"", when)
    assert log.first_since(11) == (30, 1)
    assert log.first_since(31) is None
    assert log.newest() == (30, 1)


def test_who_waits_is_told() -> None:
    log, waiting = InternalLog(0, 0, 0), Waiting()
    log.watchers.add(waiting)
    log.wake(12)
    log.close()
    assert waiting.woken == [12, 0]
    assert log.stale
