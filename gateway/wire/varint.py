"""Unsigned varints and tagged fields, for the codecs that are written by hand."""

from __future__ import annotations

from gateway.wire.malformed import Malformed


def uvarint(frame: bytes, position: int) -> tuple[int, int]:
    """(value, position behind it); at most five bytes. Raises Malformed, or IndexError at the end of the frame."""
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, position
        shift += 7
        if shift > 28:
            raise Malformed("a varint of more than five bytes")


def skip_tags(frame: bytes, position: int) -> int:
    """The position behind a block of tagged fields, none of which is known here (KIP-482)."""
    count, position = uvarint(frame, position)
    for _ in range(count):
        _, position = uvarint(frame, position)
        size, position = uvarint(frame, position)
        position += size
        if position > len(frame):
            raise Malformed("a tagged field reaches beyond the request")
    return position


def encode_uvarint(value: int) -> bytes:
    """`value` >= 0."""
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
