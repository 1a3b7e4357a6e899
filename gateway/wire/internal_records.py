"""Keys and values of records as Kafka's coordinators write them to `__consumer_offsets` and `__transaction_state`.

| record | key | value |
|---|---|---|
| a committed offset | version 1: group, topic, partition | version 4, or 1 with a time of its own to expire |
| a classic group | version 2: group | version 3: generation, leader, members |
| a transactional id | version 0: the id | version 1: producer, state, partitions |

What is deleted has no value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

NO_ID = bytes(16)

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_OFFSET = struct.Struct(">hqi")
_I64 = struct.Struct(">q")
_OLD_OFFSET = struct.Struct(">hq")
_TIMES = struct.Struct(">qq")
_PRODUCER = struct.Struct(">hqhib")

_OFFSET_KEY, _GROUP_KEY, _TRANSACTION_KEY = 1, 2, 0


class Member(NamedTuple):
    """A member of a classic group. Timeouts in ms."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    subscription: bytes
    assignment: bytes


def partition_of(name: str, count: int) -> int:
    """Which of `count` partitions has what is said of a group or a transactional id: by Java's hash of it."""
    hashed = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", units):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    # the least number has no opposite: Kafka takes 0
    return 0 if signed == -(1 << 31) else abs(signed) % count


def offset_key(group: str, topic: str, partition: int) -> bytes:
    return _I16.pack(_OFFSET_KEY) + _text(group) + _text(topic) + _I32.pack(partition)


def offset_value(
    offset: int, leader_epoch: int, metadata: str, committed_at: int, expires_at: int, topic_id: bytes
) -> bytes:
    """Times in ms since 1970; `expires_at` -1 for none."""
    if expires_at >= 0:
        return _OLD_OFFSET.pack(1, offset) + _text(metadata) + _TIMES.pack(committed_at, expires_at)
    named = b"\x00" if topic_id == NO_ID else b"\x01\x00\x10" + topic_id
    return _OFFSET.pack(4, offset, leader_epoch) + _compact(metadata) + _I64.pack(committed_at) + named


def group_key(group: str) -> bytes:
    return _I16.pack(_GROUP_KEY) + _text(group)


def group_value(
    protocol_type: str,
    generation: int,
    protocol: str | None,
    leader: str | None,
    since: int,
    members: Sequence[Member],
) -> bytes:
    """`since`: when it entered its state, in ms since 1970."""
    parts = [
        _I16.pack(3),
        _text(protocol_type),
        _I32.pack(generation),
        _text(protocol),
        _text(leader),
        _I64.pack(since),
        _I32.pack(len(members)),
    ]
    for member in members:
        parts += (
            _text(member.member_id),
            _text(member.instance_id),
            _text(member.client_id),
            _text(member.client_host),
            _I32.pack(member.rebalance_timeout),
            _I32.pack(member.session_timeout),
            _bytes(member.subscription),
            _bytes(member.assignment),
        )
    return b"".join(parts)


def transaction_key(transactional_id: str) -> bytes:
    return _I16.pack(_TRANSACTION_KEY) + _text(transactional_id)


def transaction_value(
    producer_id: int,
    epoch: int,
    timeout_ms: int,
    state: int,
    partitions: Mapping[str, Iterable[int]] | None,
    updated: int,
    started: int,
) -> bytes:
    """`partitions` by topic; None where no transaction was begun. Times in ms since 1970."""
    parts = [
        _PRODUCER.pack(1, producer_id, epoch, timeout_ms, state),
        _length(None if partitions is None else len(partitions)),
    ]
    for topic, indexes in (partitions or {}).items():
        listed = list(indexes)
        parts += (_compact(topic), _length(len(listed)), *map(_I32.pack, listed), b"\x00")
    parts += (_TIMES.pack(updated, started), b"\x00")
    return b"".join(parts)


def _text(text: str | None) -> bytes:
    if text is None:
        return _I16.pack(-1)
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _bytes(data: bytes) -> bytes:
    return _I32.pack(len(data)) + data


def _compact(text: str) -> bytes:
    data = text.encode()
    return _length(len(data)) + data


def _length(count: int | None) -> bytes:
    """Of something compact: one more than it has, in groups of seven bits."""
    left = 0 if count is None else count + 1
    out = bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    out.append(left)
    return bytes(out)
