"""Where the next append of a log goes, and which rows say so: planned here, with a group that only takes notes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import batch, limits
from store.api import Append
from store.rocksdb import rows
from store.rocksdb.append import INDEX_BYTES, RUN_BYTES, LogWriter
from store.rocksdb.rows import LogRow
from tests.store.making import append

HEAD = batch.HEADER_BYTES


class Notes:
    """A group whose files are numbers, and whose rows are kept by family."""

    def __init__(self) -> None:
        self.now = 1000
        self.rollover = limits.Rollover()
        self.handles = {name: name for name in ("index", "segment", "ledger", "epoch")}
        self.rows: dict[str, dict[bytes, bytes]] = {name: {} for name in self.handles}
        self.put: Callable[[bytes, bytes, Any], None] = self._put
        self._ledger = 6

    def _put(self, key: bytes, value: bytes, handle: Any) -> None:
        self.rows[handle][key] = value

    def new_ledger(self) -> int:
        self._ledger += 1
        return self._ledger

    def create(self, log: LogWriter, base: int) -> None:
        log.number += 1
        log.descriptor = 100 + log.number

    def descriptor(self, log: LogWriter) -> int:
        return log.descriptor

    def of(self, family: str) -> dict[int, bytes]:
        """Rows by what stands behind the partition in their key."""
        return {int.from_bytes(key[4:], "big"): value for key, value in self.rows[family].items()}

    @property
    def indexed(self) -> dict[int, tuple[int, int, int]]:
        """Offset -> number, position, entry."""
        every = {base: rows.index_row(value) for base, value in self.of("index").items()}
        return {base: (each.number, each.position, each.entry) for base, each in every.items()}


def writer(
    *, segment_bytes: int = 1 << 30, segment_ms: int = 1 << 40, row: LogRow | None = None
) -> LogWriter:
    log = LogWriter(1, row or LogRow(), (segment_bytes, segment_ms), {})
    log.begin()
    return log


def test_the_first_append_makes_a_segment_a_ledger_an_epoch_and_an_index_row() -> None:
    group, log = Notes(), writer()
    log.append(append(1, 5, [100, 200], timestamps=[9, 8], epoch=3), group)
    size = 2 * HEAD + 300
    assert rows.LogRow._make(log.row()) == LogRow(
        flags=rows.ACTIVE, start=0, end=7, size=size, number=1, segment_base=5, segment_size=size,
        segment_created=1000, segment_max=9, segment_max_from=5, since_index=size, ledger=7, ledger_first=5,
        ledger_entries=2, ledger_size=size, ledger_opened=1000, epoch=3,
    )  # fmt: skip
    assert group.indexed == {5: (1, 0, 0)}
    assert group.of("epoch") == {3: rows.U64.pack(5)}
    assert rows.ledger_row(group.of("ledger")[7]).first_offset == 5
    (flush,) = log.flushes
    assert (flush.new, flush.position, flush.size, flush.next_offset, flush.descriptor) == (
        True,
        0,
        size,
        7,
        101,
    )


def test_appends_of_a_group_to_one_segment_are_one_flush() -> None:
    group, log = Notes(), writer()
    made = [append(1, base, [50]) for base in range(3)]
    for each in made:
        log.append(each, group)
    (flush,) = log.flushes
    assert b"".join(flush.buffers) == b"".join(each.batches[0] for each in made)
    assert [base for base, _ in flush.chunks] == [0, 1, 2]
    log.finish()
    assert (log.flushes, log.touched) == ([], False)


@pytest.mark.parametrize("why", ["size", "age", "seal"])
def test_a_segment_ends(why: str) -> None:
    group, log = Notes(), writer(segment_bytes=1000, segment_ms=500)
    log.append(append(1, 0, [600], timestamps=[70]), group)
    before = log.segment_size
    second = 1000 - before - HEAD
    if why == "size":
        second += 1
    elif why == "age":
        group.now += 500
    else:
        log.seal = True
    log.append(append(1, 1, [second], timestamps=[60]), group)
    assert [(each.base, each.row) for each in log.rolled] == [(0, rows.SegmentRow(1, 1, before, 70, 0, 1000))]
    assert rows.segment_row(group.of("segment")[0]) == log.rolled[0].row
    assert (log.number, log.segment_base, log.segment_size, log.segment_max) == (2, 1, second + HEAD, 60)
    assert log.size == before + second + HEAD
    assert [flush.number for flush in log.flushes] == [1, 2]
    assert group.indexed[1] == (2, 0, 1), "each segment begins with an index row; the ledger goes on"


def test_a_segment_is_filled_to_its_last_byte_and_kept_to_its_last_ms() -> None:
    group, log = Notes(), writer(segment_bytes=1000, segment_ms=500)
    log.append(append(1, 0, [600]), group)
    group.now += 499
    log.append(append(1, 1, [1000 - log.segment_size - HEAD]), group)
    assert (log.segment_size, log.rolled) == (1000, [])


def test_an_append_larger_than_a_segment_is_not_split() -> None:
    group, log = Notes(), writer(segment_bytes=1000)
    log.append(append(1, 0, [800] * 5), group)
    assert (log.number, log.segment_size) == (1, 5 * (800 + HEAD))


@pytest.mark.parametrize("why", ["entries", "age"])
def test_a_ledger_ends(why: str) -> None:
    group = Notes()
    group.rollover = limits.Rollover(entries=100, least_ms=10, most_ms=5000)
    row = LogRow(
        flags=rows.ACTIVE, end=10, size=500, number=1, segment_size=500, segment_created=1000, ledger=3,
        ledger_first=2, ledger_entries=99, ledger_size=400, ledger_opened=900,
    )  # fmt: skip
    log = writer(row=row)
    log.append(append(1, 10, [10]), group)
    assert (log.ledger, log.ledger_entries) == (3, 100), "that one had room"
    log = writer(row=row)
    group.now = 900 + (5000 if why == "age" else 4999)
    log.append(append(1, 10, [10] * (2 if why == "entries" else 1)), group)
    assert rows.ledger_row(group.of("ledger")[3]) == rows.LedgerRow(2, 0, 900, 99, 400)
    assert (log.ledger, log.ledger_first, log.ledger_opened) == (7, 10, group.now)
    assert group.indexed[10] == (1, 500, 0), "a ledger begins with an index row"


def test_only_a_higher_leader_epoch_has_a_row() -> None:
    group, log = Notes(), writer()
    for base, epoch in enumerate([2, 2, 1, 4]):
        log.append(append(1, base, epoch=epoch), group)
    assert group.of("epoch") == {2: rows.U64.pack(0), 4: rows.U64.pack(3)}


def test_a_log_that_refuses_keeps_saying_so() -> None:
    log = writer(row=LogRow(flags=rows.REFUSES | rows.ACTIVE))
    assert log.row()[0] == rows.REFUSES | rows.ACTIVE
    log.close_segment(Notes())
    assert log.row()[0] == rows.REFUSES


def test_a_segment_without_bytes_is_closed_without_a_row() -> None:
    group, log = Notes(), writer(row=LogRow(flags=rows.ACTIVE, number=1))
    log.close_segment(group)
    log.close_segment(group)
    assert (log.open, log.rolled, group.of("segment")) == (False, [], {})


@given(
    st.lists(
        st.lists(st.sampled_from([0, 100, 3000, 5000, 17_000]), min_size=1, max_size=12),
        min_size=1,
        max_size=12,
    )
)
def test_the_index_leads_close_to_every_batch_and_no_byte_is_lost(appends: list[list[int]]) -> None:
    """At most INDEX_BYTES and one run, or one batch, lie between a batch and the row before it."""
    group, log = Notes(), writer()
    made: list[Append] = []
    for sizes in appends:
        made.append(append(1, log.end, sizes))
        log.append(made[-1], group)
    whole = b"".join(data for each in made for data in each.batches)
    (flush,) = log.flushes
    assert b"".join(flush.buffers) == whole
    assert b"".join(data for _, data in flush.chunks) == whole
    largest = max(len(data) for each in made for data in each.batches)
    assert all(len(data) <= max(RUN_BYTES, largest) for data in flush.buffers)
    at = latest = 0
    for entry, (position, size, base, _) in enumerate(batch.walk(whole)):
        if base in group.indexed:
            assert group.indexed[base] == (1, position, entry)
            latest = position
        at = position + size
        assert position - latest < INDEX_BYTES + max(RUN_BYTES, largest)
    assert at == len(whole) == log.segment_size
    assert all(batch.base_offset(data) == base for base, data in flush.chunks)
    earlier = [rows.index_row(value).earlier_max for _, value in sorted(group.of("index").items())]
    assert earlier == sorted(earlier)
