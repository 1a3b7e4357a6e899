"""What the store keeps of subscriptions.

| family | key | value |
|---|---|---|
| subscription | `g`, group (u16 length, UTF-8), topic id | `SubscriptionRow` |
| subscription | `t`, topic id, group | nothing: which groups read a topic |
| meta | `next-subscription-id` | u32 |
| cursor, ack, count, due | subscription u32, partition u32, the cursor's own key | the cursor's own value |

The partition in a key is the store's partition id, never used twice, not Kafka's number of it. A partition without
rows was added to its topic after the subscription was made, or is read from its log's start.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Protocol

import msgspec

from semantics.subscriptions.rows import LOG, CursorRow, RowKind, Stands, number_key, read_number
from semantics.subscriptions.rows import stands as read_stands
from store.api import Delete, DeleteRange, Family, Put, Write
from store.pending import Pending
from store.steps import step

NEXT_ID = b"next-subscription-id"

_ID_BYTES = 16
_PREFIX = struct.Struct(">II")
_U32 = struct.Struct(">I")

FAMILIES: dict[RowKind, Family] = {
    RowKind.CURSOR: Family.CURSOR,
    RowKind.ACK: Family.ACK,
    RowKind.COUNT: Family.COUNT,
    RowKind.DUE: Family.DUE,
}
"""Where rows of each kind go."""


class SubscriptionRow(msgspec.Struct, omit_defaults=True):
    """One subscription. `type` is what it was made as; times in ms since 1970."""

    id: int
    group: str
    topic: str
    topic_id: bytes
    created_at: int
    type: str
    # Key_Shared: the selector with its members, as `Selector.dump` gives it
    selector: bytes = b""
    # configs it was made with; its group's hold where neither these nor the properties say anything
    overrides: dict[str, str] = {}
    # what an administrator keeps with it; those that are named like configs win over all others
    properties: dict[str, str] = {}
    # the queue topic whose lanes it serves, if there is such a topic
    queue: str = ""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SubscriptionRow)


class Rows(Protocol):
    """A store, as far as it is read here."""

    def get(self, family: Family, key: bytes) -> bytes | None: ...
    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]: ...


class Pages(Protocol):
    """A store, as far as rows of all partitions are read here."""

    def page(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Pending[list[tuple[bytes, bytes]]]: ...


def _group_prefix(group: str) -> bytes:
    name = group.encode("utf-8", "surrogatepass")
    return b"g" + struct.pack(">H", len(name)) + name


def _key(group: str, topic_id: bytes) -> bytes:
    return _group_prefix(group) + topic_id


def _topic_key(topic_id: bytes, group: str) -> bytes:
    return b"t" + topic_id + group.encode("utf-8", "surrogatepass")


def writes_registered(row: SubscriptionRow) -> list[Write]:
    """A new subscription."""
    return [writes_changed(row), Put(Family.SUBSCRIPTION, _topic_key(row.topic_id, row.group), b"")]


def writes_changed(row: SubscriptionRow) -> Write:
    return Put(Family.SUBSCRIPTION, _key(row.group, row.topic_id), _encoder.encode(row))


def writes_renamed(row: SubscriptionRow, group: str) -> list[Write]:
    """A subscription becomes that of another group, with all that it remembers. Nobody uses it."""
    return [
        Delete(Family.SUBSCRIPTION, _key(row.group, row.topic_id)),
        Delete(Family.SUBSCRIPTION, _topic_key(row.topic_id, row.group)),
        *writes_registered(msgspec.structs.replace(row, group=group)),
    ]


@step("selector.before")
def writes_selector(row: SubscriptionRow) -> Write:
    """Who owns which slots has changed."""
    return writes_changed(row)


def writes_removed(row: SubscriptionRow) -> list[Write]:
    """A subscription and everything its cursors have written."""
    start, end = _U32.pack(row.id), _U32.pack(row.id + 1)
    return [
        Delete(Family.SUBSCRIPTION, _key(row.group, row.topic_id)),
        Delete(Family.SUBSCRIPTION, _topic_key(row.topic_id, row.group)),
        *(DeleteRange(family, start, end) for family in FAMILIES.values()),
    ]


def next_id(rows: Rows) -> int:
    raw = rows.get(Family.META, NEXT_ID)
    return _U32.unpack(raw)[0] if raw else 1


def writes_next_id(value: int) -> Write:
    return Put(Family.META, NEXT_ID, _U32.pack(value))


def find(rows: Rows, group: str, topic_id: bytes) -> SubscriptionRow | None:
    raw = rows.get(Family.SUBSCRIPTION, _key(group, topic_id))
    return _decoder.decode(raw) if raw is not None else None


def of_group(rows: Rows, group: str) -> Iterator[SubscriptionRow]:
    for _, value in rows.scan(Family.SUBSCRIPTION, _group_prefix(group)):
        yield _decoder.decode(value)


def of_topic(rows: Rows, topic_id: bytes) -> Iterator[SubscriptionRow]:
    skip = 1 + _ID_BYTES
    for key, _ in list(rows.scan(Family.SUBSCRIPTION, b"t" + topic_id)):
        row = find(rows, key[skip:].decode("utf-8", "surrogatepass"), topic_id)
        if row is not None:
            yield row


def page_of_topic(
    rows: Rows, topic_id: bytes, behind: str | None, limit: int
) -> list[SubscriptionRow] | None:
    """The subscriptions on a topic, some at a time, in the order of their names; None when there are no more."""
    prefix = b"t" + topic_id
    start = None if behind is None else _topic_key(topic_id, behind) + b"\0"
    skip = len(prefix)
    names = [key[skip:] for key, _ in rows.scan(Family.SUBSCRIPTION, prefix, start, limit)]
    found = [find(rows, name.decode("utf-8", "surrogatepass"), topic_id) for name in names]
    return [row for row in found if row is not None] if names else None


def has_any(rows: Rows, topic_id: bytes) -> bool:
    """Whether anybody subscribes to a topic."""
    return next(iter(rows.scan(Family.SUBSCRIPTION, b"t" + topic_id, None, 1)), None) is not None


def stands(rows: Rows, start: bytes) -> Stands | None:
    """Where a cursor stood when it was last written; None for one that was never. Raises RowError."""
    raw = rows.get(Family.CURSOR, start)
    return read_stands(raw) if raw is not None else None


async def page_of_stands(rows: Pages, behind: bytes | None, limit: int) -> list[tuple[int, int, bytes]]:
    """Rows that say where cursors stand, some at a time, behind one's prefix: (subscription, partition, value)."""
    start = None if behind is None else behind + b"\0"
    found = rows.page(Family.CURSOR, b"", start, limit)
    page = found if isinstance(found, list) else await found
    return [(*_PREFIX.unpack_from(key), value) for key, value in page]


def page(rows: Rows, behind: SubscriptionRow | None, limit: int) -> list[SubscriptionRow]:
    """All subscriptions there are, some at a time."""
    start = None if behind is None else _key(behind.group, behind.topic_id) + b"\0"
    return [_decoder.decode(value) for _, value in rows.scan(Family.SUBSCRIPTION, b"g", start, limit)]


def every(rows: Rows) -> Iterator[SubscriptionRow]:
    """All subscriptions there are."""
    for _, value in rows.scan(Family.SUBSCRIPTION, b"g"):
        yield _decoder.decode(value)


def prefix(subscription: int, partition: int) -> bytes:
    """How the keys of one cursor begin. `partition` is the store's id of it."""
    return _PREFIX.pack(subscription, partition)


def writes_of(start: bytes, changed: list[CursorRow]) -> list[Write]:
    """What a cursor wants written, under its prefix."""
    writes: list[Write] = []
    for kind, key, value in changed:
        family = FAMILIES[kind]
        if value is not None:
            writes.append(Put(family, start + key, value))
        elif key or kind is RowKind.CURSOR:
            writes.append(Delete(family, start + key))
        else:
            # all of this kind
            writes.append(DeleteRange(family, start, _following(start)))
    return writes


def of_cursor(rows: Rows, start: bytes) -> Iterator[CursorRow]:
    """What is stored of one cursor, but for what is due: see `due`."""
    skip = len(start)
    for kind in (RowKind.CURSOR, RowKind.ACK, RowKind.COUNT):
        for key, value in rows.scan(FAMILIES[kind], start):
            yield CursorRow(kind, key[skip:], value)


def chunks(rows: Rows, start: bytes, number: int, limit: int) -> list[tuple[int, bytes]]:
    """At most `limit` rows of a cursor's chunks, from that number on: (number, value)."""
    skip = len(start)
    found = rows.scan(Family.COUNT, start, start + number_key(number), limit)
    return [(read_number(key[skip:]), value) for key, value in found]


def logged(rows: Rows, start: bytes) -> bool:
    """Whether logs of a cursor say more than its chunks do."""
    return any(True for _ in rows.scan(Family.ACK, start, start + number_key(LOG), 1))


def due(rows: Rows, start: bytes, key: bytes, limit: int) -> list[CursorRow]:
    """At most `limit` due rows of one cursor, from the cursor's key on, in the order in which they are due."""
    skip = len(start)
    found = rows.scan(Family.DUE, start, start + key, limit)
    return [CursorRow(RowKind.DUE, key[skip:], value) for key, value in found]


def _following(start: bytes) -> bytes:
    """The first key behind all that begin with these 8 bytes."""
    return (int.from_bytes(start, "big") + 1).to_bytes(len(start), "big")
