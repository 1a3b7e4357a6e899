"""What generated code calls when its straight line has to bend: long varints, unknown tags, large arrays."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from gateway.wire.malformed import Malformed
from gateway.wire.varint import encode_uvarint

_pack = struct.pack


NO_GROUP_HAS = "\x1f"
"""A control character that no id of a group may have: ids that are kept have it, for groups of other homes."""

ONE_BYTE = tuple(bytes((n,)) for n in range(128))
"""The varints that fit one byte, ready to append."""


def uvarint(data: bytes, position: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose `first` byte (128 or more) was read before `position`.

    Returns the value and the position behind it. At most five bytes and 32 bits, as Kafka has it.
    """
    value = first & 0x7F
    for shift in (7, 14, 21):
        byte = data[position]
        position += 1
        if byte < 128:
            return value | byte << shift, position
        value |= (byte & 0x7F) << shift
    byte = data[position]
    if byte > 15:
        raise Malformed("a varint is longer than 32 bits")
    return value | byte << 28, position + 1


def skip_tags(data: bytes, position: int, end: int, count: int) -> int:
    """Steps over a section of `count` tagged fields that this version does not know (KIP-482).

    `count` is the first byte of the number of tags, already read. Returns the position behind the section.
    """
    if count > 127:
        count, position = uvarint(data, position, count)
    if count * 2 > end - position:
        raise Malformed("more tagged fields than bytes")
    last = -1
    for _ in range(count):
        tag = data[position]
        position += 1
        if tag > 127:
            tag, position = uvarint(data, position, tag)
        size = data[position]
        position += 1
        if size > 127:
            size, position = uvarint(data, position, size)
        if tag <= last:
            raise Malformed("tagged fields out of order or twice")
        last = tag
        position += size
        if position > end:
            raise Malformed("a tagged field runs past the end")
    return position


Packer = Callable[..., bytes]

SMALL = 16
"""Arrays shorter than this have their packer made beforehand."""


def array_packers(kind: str, flexible: bool) -> tuple[Packer, ...]:
    """For each count below SMALL: packs the length and then so many values of a struct format character."""
    found = _packers.get((kind, flexible))
    if found is None:
        length = "B" if flexible else "i"
        found = tuple(struct.Struct(f">{length}{count}{kind}").pack for count in range(SMALL))
        _packers[kind, flexible] = found
    return found


_packers: dict[tuple[str, bool], tuple[Packer, ...]] = {}


def pack_long(kind: str, flexible: bool, values: Sequence[Any]) -> bytes:
    """What the packers do, for any count."""
    count = len(values)
    if flexible:
        return encode_uvarint(count + 1) + _pack(f">{count}{kind}", *values)
    return _pack(f">i{count}{kind}", count, *values)
