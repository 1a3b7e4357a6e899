"""The commonest Produce, by one Struct: one batch for one partition, outside of transactions, from version 9 on.

That is what a busy producer sends again and again. What looks in any way different is not decoded here (None):
`produce.py` knows all of it, and finds the same in this one.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from gateway.wire.malformed import Malformed
from gateway.wire.varint import uvarint

FIRST_VERSION = 9
"""Before, lengths are of fixed width."""
BY_ID = 13
"""From here on topics are named by their ids."""

OneBatch = tuple[bytes, int, int, int]
"""Topic (its name in UTF-8, or its id), partition, where its records stand: first, one behind the last."""

_ID = struct.Struct(">BhiB16sBi")
_NAME_AT = 8
"""Where the length of the name stands, behind the transactional id that is not there, acks, timeout and topics."""
_ENDS = b"\0\0\0"
"""No tags of the partition, of the topic, of the request."""


@lru_cache(maxsize=128)
def _named(length: int) -> struct.Struct:
    """From the transactional id to the partition, with a name of so many bytes."""
    return struct.Struct(f">BhiBx{length}sBi")


def decode_one(version: int, data: bytes, position: int, stop: int) -> OneBatch | None:
    """The body in `data[position:stop]`, of version 9 or later, if it is of that kind and wants an answer."""
    if version >= BY_ID:
        ask = _ID
    else:
        if stop <= position + _NAME_AT:
            return None
        length = data[position + _NAME_AT]
        if not 0 < length < 128:
            return None
        ask = _named(length - 1)
    at = position + ask.size
    if at >= stop:
        return None
    transactional, acks, _, topics, name, partitions, index = ask.unpack_from(data, position)
    if transactional or topics != 2 or partitions != 2 or not (acks == -1 or acks == 1):
        return None
    size = data[at]
    if size < 128:
        at += 1
    else:
        try:
            size, at = uvarint(data, at)
        except (IndexError, Malformed):
            return None
    # one more than there are bytes, 0 for no records
    end = at + size - 1
    if not size or end + 3 != stop or data[end:stop] != _ENDS:
        return None
    return name, index, at, end
