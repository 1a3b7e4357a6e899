"""Keys and values of the store's own rows: in order, and of the width that they have in folders that exist."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import rewriting
from store.rocksdb import rows

VALUES: list[tuple[Struct, tuple[Any, ...], Callable[[bytes], Any], str]] = [
    (
        rows.LOG,
        rows.LogRow._make((3, *range(1, 9), -1, *range(10, 17), -1)),
        rows.log_row,
        "03 0000000000000001 0000000000000002 0000000000000003 0000000000000004 00000005 0000000000000006 "
        "0000000000000007 0000000000000008 ffffffffffffffff 000000000000000a 0000000b 000000000000000c "
        "000000000000000d 000000000000000e 000000000000000f 0000000000000010 ffffffff",
    ),
    (
        rows.SEGMENT,
        rows.SegmentRow(1, 2, 3, -1, 5, 6),
        rows.segment_row,
        "00000001 0000000000000002 0000000000000003 ffffffffffffffff 0000000000000005 0000000000000006",
    ),
    (
        rows.INDEX,
        rows.IndexRow(1, 2, -1, 4, 5),
        rows.index_row,
        "00000001 0000000000000002 ffffffffffffffff 0000000000000004 0000000000000005",
    ),
    (
        rows.LEDGER,
        rows.LedgerRow(1, 2, -3, 4, 5),
        rows.ledger_row,
        "0000000000000001 0000000000000002 fffffffffffffffd 0000000000000004 0000000000000005",
    ),
    (
        rows.TOUCHED,
        rows.TouchedRow(1, 2, 3, 4),
        rows.touched_row,
        "0000000000000001 00000002 0000000000000003 0000000000000004",
    ),
    (
        rows.JOURNAL_HEAD,
        rows.JournalHead(1, 2, 3, 4, -5),
        rows.journal_head,
        "0000000000000001 00000002 0000000000000003 0000000000000004 fffffffffffffffb",
    ),
]


@pytest.mark.parametrize(
    ("form", "row", "read", "stored"), VALUES, ids=[str(type(each[1])) for each in VALUES]
)
def test_rows_are_stored_as_they_always_were(
    form: Struct, row: tuple[Any, ...], read: Callable[[bytes], Any], stored: str
) -> None:
    # what an index row may have behind it, these have not
    fixed = row[:5] if form is rows.INDEX else row
    assert form.pack(*fixed) == bytes.fromhex(stored)
    assert read(bytes.fromhex(stored)) == row


def test_an_index_row_tells_the_entries_of_its_stretch_where_some_are_missing() -> None:
    # the entries 5, 6, 9, 10, 20
    skips = rewriting.SKIP.pack(2, 2) + rewriting.SKIP.pack(4, 11)
    row = rows.index_row(rows.INDEX.pack(1, 2, -1, 4, 5) + skips)
    assert [row.entry_at(nth) for nth in range(5)] == [5, 6, 9, 10, 20]
    found = {entry: row.nth_of(entry) for entry in range(5, 21)}
    assert {entry: nth for entry, nth in found.items() if nth >= 0} == {5: 0, 6: 1, 9: 2, 10: 3, 20: 4}


def test_behind_a_journal_head_stands_the_payload() -> None:
    head = rows.JournalHead(1, 2, 3, 4, 5)
    assert rows.journal_head(rows.JOURNAL_HEAD.pack(*head) + b"payload") == head


def test_the_row_of_a_closed_segment_is_what_the_log_row_said_of_it() -> None:
    row = rows.LogRow(
        end=9, number=2, segment_size=300, segment_max=70, segment_max_from=5, segment_created=1000
    )
    assert row.closed() == rows.SegmentRow(2, 9, 300, 70, 5, 1000)


@given(st.binary(min_size=1, max_size=6), st.binary(max_size=8), st.binary(max_size=8))
def test_the_successor_is_above_all_keys_with_a_prefix_and_not_above_any_other(
    prefix: bytes, tail: bytes, other: bytes
) -> None:
    end = rows.successor(prefix)
    assert prefix + tail < end
    if other >= prefix and not other.startswith(prefix):
        assert other >= end


@pytest.mark.parametrize("partition", [0, 1, 255, 256, 0xFFFFFF, (1 << 32) - 2, (1 << 32) - 1])
def test_the_range_of_a_partition_is_all_of_its_keys_and_none_of_the_next(partition: int) -> None:
    key = rows.PARTITION_OFFSET.pack
    start, end = rows.partition_range(partition, 5)
    assert key(partition, 4) < start == key(partition, 5)
    assert key(partition, rows.MAX_U64) < end
    if partition < (1 << 32) - 1:
        assert end <= key(partition + 1, 0)
