"""Unsigned varints and tagged fields of the codecs that are written by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32

from gateway.wire.malformed import Malformed
from gateway.wire.varint import encode_uvarint, skip_tags, uvarint

STEPS = [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455, 268_435_456, 2**32 - 1]


@given(st.sampled_from(STEPS) | st.integers(0, 2**32 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_a_number_is_read_back_and_what_stands_around_it_is_let_alone(
    value: int, front: bytes, behind: bytes
) -> None:
    data = encode_uvarint(value)
    assert data == UnsignedVarInt32.encode(value)
    assert uvarint(front + data + behind, len(front)) == (value, len(front) + len(data))


@pytest.mark.parametrize("data", [b"\x80" * 5, b"\xff" * 5 + b"\x00", b"\xff" * 100_000])
def test_more_than_five_bytes_are_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        uvarint(data, 0)


@pytest.mark.parametrize("size", range(5))
def test_a_number_that_is_cut_off_ends_the_frame(size: int) -> None:
    with pytest.raises(IndexError):
        uvarint(b"\x80" * size, 0)


tags = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=200)), max_size=200)


def block(listed: list[tuple[int, bytes]]) -> bytes:
    return encode_uvarint(len(listed)) + b"".join(
        encode_uvarint(tag) + encode_uvarint(len(value)) + value for tag, value in listed
    )


@given(tags, st.binary(max_size=3))
def test_tagged_fields_are_stepped_over(listed: list[tuple[int, bytes]], behind: bytes) -> None:
    data = b"in front" + block(listed)
    assert skip_tags(data + behind, 8) == len(data)


@given(tags.filter(bool), st.data())
def test_tagged_fields_that_are_cut_off_are_not(listed: list[tuple[int, bytes]], data: st.DataObject) -> None:
    whole = block(listed)
    with pytest.raises((Malformed, IndexError)):
        skip_tags(whole[: data.draw(st.integers(0, len(whole) - 1))], 0)


def test_a_tagged_field_may_end_with_its_frame_and_not_behind_it() -> None:
    assert skip_tags(b"\x01\x00\x02ab", 0) == 5
    with pytest.raises(Malformed):
        skip_tags(b"\x01\x00\x03ab", 0)
