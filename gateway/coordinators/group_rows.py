"""A group as it stands in the store: one row of Family.GROUP, its key the group id in UTF-8.

The members of share groups and consumer groups have rows of their own (Family.MEMBER), so that a join costs the same
among ten thousand as among ten; those of a classic group, whose assignments come together, stand in the group's row.

msgpack arrays, read by position: `GroupHead` is the beginning of every row, whatever the type of the group,
so that a list of all groups need not decode their members.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from store.api import Delete, Family, Put

VERSION = 1
SHARE_VERSION = 2
"""Of share groups: version 1 had the members in the group's row."""

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)
"""What a decoder of rows raises for bytes of another shape, and for text that is not UTF-8."""


class Kind(IntEnum):
    """Kafka's group types. One name space: a group id belongs to one group of one type."""

    CLASSIC = 1
    CONSUMER = 2  # KIP-848
    SHARE = 3  # KIP-932

    @property
    def shown(self) -> str:
        """As ListGroups shows it."""
        return self.name.lower()


class State(IntEnum):
    """The states of groups: of classic ones the first five; of consumer groups (KIP-848) Empty, Assigning, Reconciling,
    Stable and Dead; of share groups Empty, Stable and Dead.
    """

    EMPTY = 1
    PREPARING_REBALANCE = 2
    COMPLETING_REBALANCE = 3
    STABLE = 4
    DEAD = 5
    ASSIGNING = 6
    RECONCILING = 7

    @property
    def shown(self) -> str:
        """As ListGroups and DescribeGroups show it."""
        return _SHOWN[self]


CLASSIC_STATES = (
    State.EMPTY,
    State.PREPARING_REBALANCE,
    State.COMPLETING_REBALANCE,
    State.STABLE,
    State.DEAD,
)
"""Those of classic groups."""

_SHOWN = {
    State.EMPTY: "Empty",
    State.PREPARING_REBALANCE: "PreparingRebalance",
    State.COMPLETING_REBALANCE: "CompletingRebalance",
    State.STABLE: "Stable",
    State.DEAD: "Dead",
    State.ASSIGNING: "Assigning",
    State.RECONCILING: "Reconciling",
}


class RowError(ValueError):
    """A row that cannot be read: damaged, or written by a newer version. The text is for a person."""


class GroupHead(msgspec.Struct, array_like=True):
    """The beginning of a group's row. `since` is when the state was entered, in ms since 1970."""

    version: int
    kind: int
    state: int
    since: int
    # None for a group that only ever stored offsets (a simple group)
    protocol_type: str | None


class MemberRow(msgspec.Struct, array_like=True):
    """A member of a classic group. Timeouts in ms; protocols in the member's order of preference."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: int
    rebalance_timeout: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes


class ClassicRow(GroupHead):
    """A classic group. Its state is Empty, CompletingRebalance or Stable; the others live in memory only, but for
    PreparingRebalance of a group that was a consumer group.
    """

    generation: int
    protocol_name: str | None
    leader: str | None
    members: list[MemberRow]
    # Pulsar's priorities of members, by name, that the assignment was made by
    priorities: dict[str, int] = {}


class ShareMemberRow(msgspec.Struct, array_like=True):
    """A member of a share group. Its epoch may have grown since, up to the group's."""

    member_id: str
    rack: str | None
    client_id: str
    client_host: str
    names: list[str]
    epoch: int
    previous_epoch: int


class ShareRow(GroupHead):
    """A share group. Its state is Empty or Stable. Topics: name, topic id, partitions."""

    epoch: int
    assignment_epoch: int
    topics: list[tuple[str, bytes, int]]
    members: list[ShareMemberRow]
    """of version 1"""
    size: int = 0
    """how many members have rows of their own"""


_encoder = msgspec.msgpack.Encoder()
_head = msgspec.msgpack.Decoder(GroupHead)
_classic = msgspec.msgpack.Decoder(ClassicRow)
_share = msgspec.msgpack.Decoder(ShareRow)
_member = msgspec.msgpack.Decoder(ShareMemberRow)


def key(group_id: str) -> bytes:
    return group_id.encode()


def put(group_id: str, row: GroupHead) -> Put:
    return Put(Family.GROUP, key(group_id), _encoder.encode(row))


def delete(group_id: str) -> Delete:
    return Delete(Family.GROUP, key(group_id))


def members_prefix(group_id: str) -> bytes:
    """What the keys of the members of a share group or a consumer group begin with."""
    name = key(group_id)
    return len(name).to_bytes(4, "big") + name


def put_member(group_id: str, member_id: str, row: msgspec.Struct) -> Put:
    return Put(Family.MEMBER, members_prefix(group_id) + member_id.encode(), _encoder.encode(row))


def delete_member(group_id: str, member_id: str) -> Delete:
    return Delete(Family.MEMBER, members_prefix(group_id) + member_id.encode())


def share_member(value: bytes) -> ShareMemberRow:
    """The row of a share group's member. Raises RowError."""
    try:
        return _member.decode(value)
    except UNREADABLE as error:
        raise RowError(f"the row of a member of a share group cannot be read: {error}") from None


def head(value: bytes) -> GroupHead:
    """What every row begins with. Raises RowError."""
    try:
        found = _head.decode(value)
    except UNREADABLE as error:
        raise RowError(f"the row of a group cannot be read: {error}") from None
    readable = SHARE_VERSION if found.kind == Kind.SHARE else VERSION
    if found.version > readable:
        raise RowError(
            f"the row of a group is of version {found.version}; this program reads up to {readable}"
        )
    return found


def classic(value: bytes) -> ClassicRow:
    """The row of a classic group. Raises RowError."""
    head(value)
    try:
        return _classic.decode(value)
    except UNREADABLE as error:
        raise RowError(f"the row of a classic group cannot be read: {error}") from None


def share(value: bytes) -> ShareRow:
    """The row of a share group. Raises RowError."""
    head(value)
    try:
        return _share.decode(value)
    except UNREADABLE as error:
        raise RowError(f"the row of a share group cannot be read: {error}") from None
