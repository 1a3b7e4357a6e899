"""Committed offsets: the rows of Family.OFFSET, and when they expire.

Key: group id and topic, each with its length before it (u32, u16), then the partition (u32): a group's rows
are one range, a group's rows of one topic too, whatever bytes the names hold.

Value: version u8, offset i64, leader epoch i32, commit time i64, expiry i64 (both ms since 1970, -1 for
none), topic id (16 bytes), then the client's metadata as it came, in UTF-8. The topic id makes a commit
invisible the moment its topic is deleted, even if one of the same name follows; the row is swept up later.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from gateway.coordinators import subscription
from gateway.coordinators.group_rows import State

VERSION = 1

_GROUP_LENGTH = struct.Struct(">I")
_TOPIC_LENGTH = struct.Struct(">H")
_PARTITION = struct.Struct(">I")
_VALUE = struct.Struct(">Bqiqq16s")

key_suffix = _PARTITION.pack
"""The end of a key: the partition."""


class Committed(NamedTuple):
    """One committed offset."""

    offset: int
    leader_epoch: int
    committed_at: int
    # An older client may ask for a time of its own (OffsetCommit v2-4); -1 otherwise.
    expires_at: int
    topic_id: bytes
    metadata: str


class Place(NamedTuple):
    """What a row is about."""

    group: str
    topic: str
    partition: int


def group_prefix(group: str) -> bytes:
    name = group.encode()
    return _GROUP_LENGTH.pack(len(name)) + name


def topic_prefix(group_prefix: bytes, topic: str) -> bytes:
    """The beginning of the keys of a group's commits to a topic."""
    name = topic.encode()
    return group_prefix + _TOPIC_LENGTH.pack(len(name)) + name


def key(group: str, topic: str, partition: int) -> bytes:
    return topic_prefix(group_prefix(group), topic) + _PARTITION.pack(partition)


def group_range(group: str) -> tuple[bytes, bytes]:
    """Start and end of a group's rows."""
    prefix = group_prefix(group)
    # The last byte is never 255: it ends a length below 2^31 or a UTF-8 string.
    return prefix, prefix[:-1] + bytes((prefix[-1] + 1,))


def place(key: bytes) -> Place:
    """What a key names."""
    (length,) = _GROUP_LENGTH.unpack_from(key)
    start = _GROUP_LENGTH.size
    group = key[start : start + length].decode()
    start += length + _TOPIC_LENGTH.size
    return Place(group, key[start:-4].decode(), _PARTITION.unpack(key[-4:])[0])


def encode(
    offset: int, leader_epoch: int, committed_at: int, expires_at: int, topic_id: bytes, metadata: str | None
) -> bytes:
    """The value of a row. Kafka gives an absent metadata back as the empty string."""
    head = _VALUE.pack(VERSION, offset, leader_epoch, committed_at, expires_at, topic_id)
    return head + metadata.encode() if metadata else head


def decode(value: bytes) -> Committed:
    """Raises ValueError for a value that is not one."""
    if len(value) < _VALUE.size or value[0] != VERSION:
        raise ValueError("the row of a committed offset cannot be read")
    _, offset, leader_epoch, committed_at, expires_at, topic_id = _VALUE.unpack_from(value)
    return Committed(offset, leader_epoch, committed_at, expires_at, topic_id, value[_VALUE.size :].decode())


def metadata_too_large(metadata: str | None, limit: int) -> bool:
    """Whether a commit's metadata is over offset.metadata.max.bytes. Kafka counts UTF-16 units, not bytes. A zero
    behind it, as librdkafka's bindings for Python send one, is not counted: nobody has written it.
    """
    if not metadata or len(metadata) * 2 <= limit:
        return False
    metadata = metadata.removesuffix("\0")
    if metadata.isascii():
        return len(metadata) > limit
    return len(metadata.encode("utf-16-le")) // 2 > limit


class Retention(NamedTuple):
    """When the commits of one group expire (KIP-211).

    `counts_from`: when all of the group's commits count from (ms since 1970); None is each from its own time.
    `kept`: topics whose commits stay whatever their age; None is no topic.
    """

    counts_from: int | None
    kept: frozenset[str] | None


def retention(
    protocol_type: str | None, state: State, since: int, subscribed: frozenset[str] | None
) -> Retention | None:
    """The rule for a group, or None if nothing of it may expire now. `since`: when it entered its state.

    A group that nobody ever joined: from each commit. An empty one: from when it became empty. A stable group
    of consumers whose topics are known: from each commit, of topics that no member reads.
    """
    if protocol_type is None:
        return Retention(None, None)
    if state is State.EMPTY:
        return Retention(since, None)
    if state is State.STABLE and protocol_type == subscription.CONSUMER and subscribed is not None:
        return Retention(None, subscribed)
    return None


def expired(rule: Retention, topic: str, committed: Committed, wall: int, keep_for: int) -> bool:
    """Whether a commit is over its time. `keep_for` is offsets.retention.minutes, in ms."""
    if rule.kept is not None and topic in rule.kept:
        return False
    if committed.expires_at >= 0:
        return wall >= committed.expires_at
    since = committed.committed_at if rule.counts_from is None else rule.counts_from
    return wall - since >= keep_for
