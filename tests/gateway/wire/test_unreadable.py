"""The varints of records, and how it is said that they cannot be read."""

from __future__ import annotations

import pytest
from aiokafka.record.util import encode_varint
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.unreadable import Unreadable, damaged, wide


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_a_number_of_up_to_64_bits_is_read_where_it_stands(value: int, front: bytes, behind: bytes) -> None:
    data = bytearray()
    encode_varint(value, data.append)
    zigzag, position = wide(front + data + behind, len(front))
    assert ((zigzag >> 1) ^ -(zigzag & 1), position) == (value, len(front) + len(data))


@pytest.mark.parametrize("most", [1, 2, 5, 10])
def test_a_varint_has_its_most_bytes_and_no_more(most: int) -> None:
    assert wide(b"\x80" * (most - 1) + b"\x01", 0, most) == (1 << 7 * (most - 1), most)
    with pytest.raises(Unreadable, match="a varint is wrong"):
        wide(b"\x80" * most + b"\x01", 0, most)


def test_a_varint_that_is_cut_off_ends_the_records() -> None:
    with pytest.raises(IndexError):
        wide(b"\x80\x80", 0)


def test_it_is_said_what_is_wrong() -> None:
    assert str(damaged("the order of offsets")) == "The records are damaged: the order of offsets is wrong."
