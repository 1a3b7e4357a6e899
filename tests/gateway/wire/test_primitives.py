"""The pieces that generated code calls."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.malformed import Malformed
from gateway.wire.primitives import SMALL, array_packers, pack_long, skip_tags, uvarint
from gateway.wire.varint import encode_uvarint


@given(st.integers(128, 2**32 - 1), st.binary(max_size=3))
def test_varints_of_several_bytes(value: int, rest: bytes) -> None:
    data = encode_uvarint(value)
    assert uvarint(b"\0" + data + rest, 2, data[0]) == (value, 1 + len(data))


@pytest.mark.parametrize("data", [b"\xff" * 20, b"\x80" * 5, b"\xff\xff\xff\xff\x10"])
def test_varints_beyond_32_bits(data: bytes) -> None:
    with pytest.raises(Malformed):
        uvarint(data, 1, data[0])


def test_a_varint_cut_off() -> None:
    with pytest.raises(IndexError):
        uvarint(b"\x80\x80", 1, 0x80)


def test_tags_are_stepped_over() -> None:
    section = b"\x05\x02ab\x90\x01\x00"
    assert skip_tags(section + b"rest", 0, len(section) + 4, 2) == len(section)


@pytest.mark.parametrize("count", [0, 1, SMALL - 1, SMALL, 127, 128, 1000])
@pytest.mark.parametrize("kind", "bhiq")
def test_arrays(kind: str, count: int) -> None:
    values = [n % 100 for n in range(count)]
    body = struct.pack(f">{count}{kind}", *values)
    assert pack_long(kind, True, values) == encode_uvarint(count + 1) + body
    assert pack_long(kind, False, values) == struct.pack(">i", count) + body
    if count < SMALL:
        assert array_packers(kind, True)[count](count + 1, *values) == pack_long(kind, True, values)
        assert array_packers(kind, False)[count](count, *values) == pack_long(kind, False, values)
