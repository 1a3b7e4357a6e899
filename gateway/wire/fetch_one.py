"""The commonest Fetch, by one Struct: one partition, by its topic's id, in a session that goes on or in none.

That is what a consumer of one partition sends again and again, from version 15 on. What looks in any way different is
not decoded here (None): `fetch.py` knows all of it, and answers are the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeVar

from gateway.wire.varint import encode_uvarint

FIRST_VERSION = 15
"""Before, a request says which replica asks."""

P = TypeVar("P")

_ASK = struct.Struct(">iiibiiB16sBiiqiqiBBBB")
"""From the longest wait to the length of the rack: one topic, one partition, nothing forgotten, no tags."""
_ANSWER = struct.Struct(">iiBihiB16sBihqqqBi")

OneAsk = tuple[int, int, int, int, int, int, bytes, int, int, int, int]
"""max wait (ms), min bytes, max bytes, isolation, session id, session epoch, topic id, partition, current leader epoch
or -1, fetch offset, the partition's max bytes."""


def decode_one(data: bytes, position: int, stop: int) -> OneAsk | None:
    """The body in `data[position:stop]`, of version 15 or later, if it is of that kind. It opens no session."""
    rack_at = position + _ASK.size
    if stop <= rack_at:
        return None
    (
        max_wait,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        session_epoch,
        topics,
        topic,
        partitions,
        index,
        leader_epoch,
        offset,
        _,
        _,
        limit,
        tags,
        topic_tags,
        forgotten,
        rack,
    ) = _ASK.unpack_from(data, position)
    if (
        topics == 2
        and partitions == 2
        and forgotten == 1
        and not (tags or topic_tags or data[stop - 1])
        and rack_at + rack == stop
        and 0 < rack < 128
        and (session_epoch > 0 or (session_epoch == -1 and not session_id))
    ):
        return (
            max_wait,
            min_bytes,
            max_bytes,
            isolation,
            session_id,
            session_epoch,
            topic,
            index,
            leader_epoch,
            offset,
            limit,
        )
    return None


def encode_one(
    correlation_id: int,
    session_id: int,
    isolation: int,
    topic: bytes,
    index: int,
    high: int,
    stable: int,
    start: int,
    buffers: Sequence[P],
    size: int,
) -> list[bytes | P]:
    """The answer with `size` bytes of records: header and length included, as buffers for one `writelines`."""
    length = encode_uvarint(size + 1)
    head = _ANSWER.pack(
        _ANSWER.size + len(length) + size - 1,
        correlation_id,
        0,
        0,
        0,
        session_id,
        2,
        topic,
        2,
        index,
        0,
        high,
        stable,
        start,
        1 if isolation else 0,
        -1,
    )
    return [head + length, *buffers, b"\0\0\0"]
