"""Header fields against a batch that was put together byte by byte."""

from __future__ import annotations

import struct

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import batch


def by_hand(base: int = 77, delta: int = 2, payload: bytes = b"payload") -> bytes:
    checked = struct.pack(">hiqqqhii", 0x21, delta, 1000, 2000, 9, 3, 4, 5) + payload
    crc = google_crc32c.value(checked)
    return struct.pack(">qiiBI", base, 9 + len(checked), 6, 2, crc) + checked


def test_fields() -> None:
    made = b"before" + by_hand()
    assert batch.base_offset(made, 6) == 77
    assert batch.next_offset(made, 6) == 80
    assert batch.size(made, 6) == len(made) - 6 == 61 + 7
    assert batch.leader_epoch(made, 6) == 6
    assert batch.max_timestamp(made, 6) == 2000
    assert batch.record_count(made, 6) == 5
    assert batch.plausible(made, 6)
    assert batch.intact(made, 6)
    assert batch.intact(memoryview(made), 6)


@given(st.data())
def test_one_wrong_bit_in_the_checked_part_is_seen(data: st.DataObject) -> None:
    made = bytearray(by_hand(payload=data.draw(st.binary(max_size=50))))
    position = data.draw(st.integers(17, len(made) - 1))
    made[position] ^= 1 << data.draw(st.integers(0, 7))
    assert not batch.intact(made)


@pytest.mark.parametrize(
    ("position", "wrong"),
    [(16, b"\1"), (0, b"\xff"), (8, b"\xff\xff\xff\xff"), (8, struct.pack(">i", 48)), (23, b"\xff")],
)
def test_headers_that_cannot_be(position: int, wrong: bytes) -> None:
    made = bytearray(by_hand())
    made[position : position + len(wrong)] = wrong
    assert not batch.plausible(made)
    assert not batch.intact(made)


def test_a_batch_that_is_cut_off() -> None:
    made = by_hand()
    assert not batch.plausible(made[:60])
    assert batch.plausible(made[:61])
    assert not batch.intact(made[:-1])


def test_walk() -> None:
    first, second = by_hand(0, 4), by_hand(5, 0, b"")
    made = b"xx" + first + second
    assert list(batch.walk(made, 2)) == [(2, len(first), 0, 5), (2 + len(first), len(second), 5, 6)]
    assert list(batch.walk(made, 2, 3)) == [(2, len(first), 0, 5)]
    # the last one may be cut off; what is no batch ends the walk
    assert len(list(batch.walk(first + second[:61]))) == 2
    assert len(list(batch.walk(first + second[:60]))) == 1
    assert len(list(batch.walk(first + b"\0" * 100))) == 1


@given(st.integers(0, 1 << 62), st.binary(max_size=100), st.integers(1, 1000), st.integers(0, 1 << 40))
def test_build(base: int, payload: bytes, records: int, timestamp: int) -> None:
    made = batch.build(base, payload, timestamp=timestamp, records=records, epoch=3)
    assert batch.intact(made)
    assert (batch.base_offset(made), batch.next_offset(made)) == (base, base + records)
    assert (batch.max_timestamp(made), batch.leader_epoch(made)) == (timestamp, 3)
    assert batch.record_count(made) == records
