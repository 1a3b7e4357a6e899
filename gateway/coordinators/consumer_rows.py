"""A consumer group of KIP-848 as it stands in the store: a row of Family.GROUP, one of Family.MEMBER for each member.

Both begin as all rows of their kind do (`group_rows`). A member's row says what it subscribes to, what it should have
and what it has, so that a restart goes on where the group was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gateway.coordinators import group_rows
from gateway.coordinators.consumer_events import Partition
from gateway.coordinators.group_rows import GroupHead, RowError

VERSION = 1


class ConsumerMemberRow(msgspec.Struct, array_like=True):
    """A member. Its epoch is -2 while it is a static member that means to come back; `rebalance_timeout` in ms.

    `assigned` and `revoking`: topic id, then index and epoch of each partition. `target`: topic id, then indexes.
    """

    version: int
    member_id: str
    instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    names: list[str]
    pattern: str
    assignor: str | None
    epoch: int
    previous_epoch: int
    state: int
    assigned: list[tuple[bytes, list[tuple[int, int]]]]
    revoking: list[tuple[bytes, list[tuple[int, int]]]]
    target: list[tuple[bytes, list[int]]]
    # of a member that speaks the classic protocol: ms, and its protocols in its order of preference
    session_timeout: int = 0
    protocols: list[tuple[str, bytes]] | None = None
    # who has the lower number has joined before
    joined: int = 0


class ConsumerRow(GroupHead):
    """The group. Topics: name, topic id, partitions, of those that members subscribe to and that there are."""

    epoch: int
    assignment_epoch: int
    # that made the assignment; None before the first
    assignor: str | None
    topics: list[tuple[str, bytes, int]]
    # how many members have rows
    size: int
    # by name, those that the assignment was made by
    priorities: dict[str, int] = {}


_group = msgspec.msgpack.Decoder(ConsumerRow)
_member = msgspec.msgpack.Decoder(ConsumerMemberRow)


def group(value: bytes) -> ConsumerRow:
    """The row of a consumer group. Raises RowError."""
    group_rows.head(value)
    try:
        return _group.decode(value)
    except group_rows.UNREADABLE as error:
        raise RowError(f"the row of a consumer group cannot be read: {error}") from None


def member(value: bytes) -> ConsumerMemberRow:
    """The row of a member. Raises RowError."""
    try:
        found = _member.decode(value)
    except group_rows.UNREADABLE as error:
        raise RowError(f"the row of a member of a consumer group cannot be read: {error}") from None
    if found.version > VERSION:
        raise RowError(
            f"the row of a member of a consumer group is of version {found.version}; this program reads up to {VERSION}"
        )
    return found


def folded(places: Mapping[Partition, int]) -> list[tuple[bytes, list[tuple[int, int]]]]:
    """Partitions with epochs, by topic."""
    found: dict[bytes, list[tuple[int, int]]] = {}
    for (topic, index), epoch in sorted(places.items()):
        found.setdefault(topic, []).append((index, epoch))
    return list(found.items())


def unfolded(rows: Iterable[tuple[bytes, list[tuple[int, int]]]]) -> dict[Partition, int]:
    return {(topic, index): epoch for topic, places in rows for index, epoch in places}


def by_topic(places: Iterable[Partition]) -> list[tuple[bytes, list[int]]]:
    """Partitions by topic, both in order."""
    found: dict[bytes, list[int]] = {}
    for topic, index in sorted(places):
        found.setdefault(topic, []).append(index)
    return list(found.items())


def places(rows: Iterable[tuple[bytes, list[int]]]) -> frozenset[Partition]:
    return frozenset([(topic, index) for topic, indexes in rows for index in indexes])
