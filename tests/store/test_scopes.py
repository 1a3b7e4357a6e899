"""Where the rows of each family belong, held against keys as those make them who write them."""

from __future__ import annotations

import pytest

from gateway.broker import aborted_transactions
from gateway.broker.aborted_transactions import Aborted
from gateway.broker.producers import ProducerTable
from gateway.broker.queues import rows as lane_rows
from gateway.broker.subscriptions import rows as subscriptions
from gateway.coordinators import group_rows, offsets
from gateway.coordinators.group_rows import ShareMemberRow
from semantics.subscriptions.rows import CursorRow, RowKind
from store.api import (
    INSTANCE,
    Append,
    Delete,
    DeleteRange,
    DropLog,
    Family,
    Put,
    Scope,
    ScopeKind,
    Trim,
    Write,
    of_group,
    of_partition,
)
from store.rocksdb import rows as own
from store.scopes import KEY_LAYOUTS, of_key, of_prefix, of_write

PARTITION, OTHER = 0x01020304, 0x01020305
GROUP = "gr\u00fcppe"


def members(group: str) -> bytes:
    row = ShareMemberRow("m", None, "c", "h", [], 1, 0)
    return group_rows.put_member(group, row.member_id, row).key


def dedup() -> bytes:
    table = ProducerTable(PARTITION)
    table.take(77, 0, 0, 1, 0, 0, -1)
    (row,) = table.flush()
    assert isinstance(row, Put)
    return row.key


def of_cursor(kind: RowKind) -> bytes:
    prefix = subscriptions.prefix(9, PARTITION)
    (row,) = subscriptions.writes_of(prefix, [CursorRow(kind, b"rest of it", b"")])
    assert isinstance(row, Put)
    return row.key


KEYS = {
    Family.LOG: own.U32.pack(PARTITION),
    Family.SEGMENT: own.PARTITION_OFFSET.pack(PARTITION, 5),
    Family.INDEX: own.PARTITION_OFFSET.pack(PARTITION, 5),
    Family.LEDGER: own.PARTITION_OFFSET.pack(PARTITION, 5),
    Family.EPOCH: own.PARTITION_U32.pack(PARTITION, 5),
    Family.DOOMED: own.PARTITION_U32.pack(PARTITION, 5),
    Family.COMPACTION: own.U32.pack(PARTITION),
    Family.JOURNAL: own.JOURNAL_KEY.pack(5, PARTITION, 0),
    Family.TOUCHED: own.TOUCHED_KEY.pack(5, PARTITION),
    Family.DEDUP: dedup(),
    Family.ABORTED: aborted_transactions.put(PARTITION, Aborted(700, 5, 9)).key,
    Family.LETTER: own.PARTITION_OFFSET.pack(PARTITION, 5),
    Family.LANE: lane_rows.writes_gone(PARTITION, 7, 7).start,
    **{family: of_cursor(kind) for kind, family in subscriptions.FAMILIES.items()},
    Family.GROUP: group_rows.key(GROUP),
    Family.MEMBER: members(GROUP),
    Family.OFFSET: offsets.key(GROUP, "topic", 3),
}
"""A key of each family that is split."""


def test_every_family_that_is_written_has_its_place() -> None:
    assert set(Family) == set(KEY_LAYOUTS)
    split = {family for family, place in KEY_LAYOUTS.items() if place.kind is not ScopeKind.INSTANCE}
    assert split == set(KEYS)


@pytest.mark.parametrize("family", KEYS, ids=str)
def test_a_key_names_its_scope(family: Family) -> None:
    kind = KEY_LAYOUTS[family].kind
    assert of_key(family, KEYS[family]) == (
        of_partition(PARTITION) if kind is ScopeKind.PARTITION else of_group(GROUP)
    )


@pytest.mark.parametrize(
    "family", [family for family, place in KEY_LAYOUTS.items() if place.kind is ScopeKind.INSTANCE], ids=str
)
def test_the_rest_is_the_instances(family: Family) -> None:
    assert of_key(family, b"any") == of_prefix(family, b"") == INSTANCE


def test_a_prefix_names_a_scope_when_it_is_long_enough() -> None:
    number = PARTITION.to_bytes(4, "big")
    name = group_rows.members_prefix(GROUP)
    cases: list[tuple[Family, bytes, Scope | None]] = [
        (Family.DEDUP, b"", None),
        (Family.DEDUP, number[:3], None),
        (Family.DEDUP, number, of_partition(PARTITION)),
        (Family.CURSOR, b"\0\0\0\1", None),
        (Family.CURSOR, b"\0\0\0\1" + number, of_partition(PARTITION)),
        (Family.MEMBER, name[:-1], None),
        (Family.MEMBER, name, of_group(GROUP)),
        (Family.OFFSET, offsets.group_prefix(GROUP), of_group(GROUP)),
        # a longer id may begin so
        (Family.GROUP, group_rows.key(GROUP), None),
    ]
    for family, prefix, scope in cases:
        assert of_prefix(family, prefix) == scope, (family, prefix)


def test_what_is_no_key_has_no_scope() -> None:
    with pytest.raises(ValueError, match="no key of dedup"):
        of_key(Family.DEDUP, b"abc")


def test_ids_that_are_no_text_are_ids() -> None:
    assert of_key(Family.GROUP, b"\xff") != of_key(Family.GROUP, b"\xfe")


def test_a_write_belongs_to_a_scope() -> None:
    mine, last = of_partition(PARTITION), b"\xff" * 4
    cursor = subscriptions.prefix(9, PARTITION)
    cases: list[tuple[Write, Scope | None]] = [
        (Append(PARTITION, 0, 1, 0, [b""]), mine),
        (Trim(PARTITION, 0), mine),
        (DropLog(PARTITION), mine),
        (Put(Family.DEDUP, KEYS[Family.DEDUP], b""), mine),
        (Delete(Family.OFFSET, KEYS[Family.OFFSET]), of_group(GROUP)),
        (DeleteRange(Family.META, b"a", b"b"), INSTANCE),
        (subscriptions.writes_of(cursor, [CursorRow(RowKind.ACK, b"", None)])[0], mine),
        (DeleteRange(Family.ACK, cursor + b"a", cursor + b"b"), mine),
        (DeleteRange(Family.OFFSET, *offsets.group_range(GROUP)), of_group(GROUP)),
        (DeleteRange(Family.DEDUP, last, last + b"\0"), of_partition(0xFFFFFFFF)),
        (DeleteRange(Family.DEDUP, PARTITION.to_bytes(4, "big"), OTHER.to_bytes(4, "big") + b"\0"), None),
        (DeleteRange(Family.CURSOR, b"\0\0\0\1", b"\0\0\0\2"), None),
        (DeleteRange(Family.GROUP, b"a", b"b"), None),
    ]
    for write, scope in cases:
        assert of_write(write) == scope, write
