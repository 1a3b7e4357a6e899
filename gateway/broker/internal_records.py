"""What rows of groups, offsets and transactional ids are as records of Kafka's internal topics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.broker.catalog import Catalog
from gateway.coordinators import group_rows, offsets
from gateway.coordinators.group_rows import Kind
from gateway.wire import internal_records as wire
from semantics.group_names import SEPARATOR
from semantics.names import dotted
from semantics.transactions import rows as transaction_rows
from semantics.transactions.states import Partition, State
from store.api import Delete, Family, Put, Store, Write


def _told(name: str) -> bool:
    """Whether a group or a transactional id is of public/default: nobody is told of others here."""
    return SEPARATOR not in name


class Said(NamedTuple):
    """A record, before it has an offset. `name` is the group or the transactional id that it is of."""

    name: str
    row: bytes
    """of which row, with its family"""
    key: bytes
    value: bytes | None
    timestamp: int


def row_of(family: Family, key: bytes) -> bytes:
    """The name of a row over all families."""
    return (b"o" if family is Family.OFFSET else b"g" if family is Family.GROUP else b"t") + key


def of_offset(key: bytes, value: bytes | None, now: int) -> Said | None:
    """A committed offset, or its deletion; None for a row that cannot be read, or is nobody's affair."""
    try:
        place = offsets.place(key)
        if not _told(place.group):
            return None
        made, timestamp = None, now
        if value is not None:
            told = offsets.decode(value)
            timestamp = told.committed_at
            made = wire.offset_value(
                told.offset, told.leader_epoch, told.metadata, timestamp, told.expires_at, told.topic_id
            )
    except ValueError:
        return None
    named = wire.offset_key(place.group, dotted(place.topic), place.partition)
    return Said(place.group, row_of(Family.OFFSET, key), named, made, timestamp)


def group_of_range(start: bytes) -> str | None:
    """Whose offsets a range of rows begins with; None where it begins within a name."""
    length = int.from_bytes(start[:4], "big")
    with contextlib.suppress(UnicodeDecodeError):
        if len(start) >= 4 + length:
            return start[4 : 4 + length].decode()
    return None


def of_group(key: bytes, value: bytes | None, now: int) -> Said | None:
    """A classic group, or its deletion; None for one of another kind, and for one that only ever stored offsets."""
    try:
        name = key.decode()
        if not _told(name):
            return None
        made, timestamp = None, now
        if value is not None:
            if group_rows.head(value).kind != Kind.CLASSIC:
                return None
            row = group_rows.classic(value)
            if row.protocol_type is None:
                return None
            timestamp = row.since
            made = wire.group_value(
                row.protocol_type,
                row.generation,
                row.protocol_name,
                row.leader,
                row.since,
                [
                    wire.Member(
                        each.member_id,
                        each.instance_id,
                        each.client_id,
                        each.client_host,
                        each.rebalance_timeout,
                        each.session_timeout,
                        dict(each.protocols).get(row.protocol_name or "", b""),
                        each.assignment,
                    )
                    for each in row.members
                ],
            )
    except (group_rows.RowError, UnicodeDecodeError):
        return None
    return Said(name, row_of(Family.GROUP, key), wire.group_key(name), made, timestamp)


def transactional_id(key: bytes) -> str | None:
    """Whose row of the family `txn` it is; None for one that cannot be read, or is nobody's affair."""
    with contextlib.suppress(transaction_rows.RowError):
        name = transaction_rows.name_of(key)
        return name if _told(name) else None
    return None


def of_transactions(writes: Sequence[Write]) -> dict[str, int | None]:
    """The transactional ids of which a commit says something: how many partitions and groups each gets more; None where
    something else is said.
    """
    found: dict[str, int | None] = {}
    for write in writes:
        if isinstance(write, Put | Delete) and write.family is Family.TXN:
            name = transactional_id(write.key)
            if name is None:
                continue
            before = found.setdefault(name, 0)
            part = isinstance(write, Put) and not write.key.startswith(transaction_rows.heads_prefix())
            found[name] = before + 1 if part and before is not None else None
    return found


def of_transaction(store: Store, catalog: Catalog, name: str, now: int) -> Said | None:
    """A transactional id as the store has it, with its partitions, or its deletion. Raises StoreError."""
    key = transaction_rows.head_key(name)
    raw = store.get(Family.TXN, key)
    made, timestamp = None, now
    try:
        if raw is not None:
            head = transaction_rows.read_head(raw)
            timestamp = head.updated
            parts = store.scan(Family.TXN, transaction_rows.parts_prefix(name))
            inside = [transaction_rows.read_part(*part)[1] for part in parts]
            made = wire.transaction_value(
                head.producer.id,
                head.producer.epoch,
                head.timeout_ms,
                head.state,
                None if head.state is State.EMPTY else _by_topic(catalog, inside),
                head.updated,
                head.start,
            )
    except transaction_rows.RowError:
        return None
    return Said(name, row_of(Family.TXN, key), wire.transaction_key(name), made, timestamp)


def _by_topic(catalog: Catalog, parts: Iterable[Partition | str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for part in parts:
        # groups are no partitions here, and what was deleted is part of nothing
        if isinstance(part, Partition) and (topic := catalog.by_id(part.topic_id)) is not None:
            found.setdefault(dotted(topic.name), []).append(part.number)
    return found
