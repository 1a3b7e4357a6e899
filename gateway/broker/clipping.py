"""What the broker forgets when recovery finds that a log has lost records (a power cut under durability=os).

A retry must not be answered with an offset that is gone, and neither a group nor a subscription must stand beyond
records that other ones will take: the writes go into the batch that shortens the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from gateway.broker import aborted_transactions, letter_rows, producers
from gateway.broker.catalog import partition_owner, topic_id_of
from gateway.broker.subscriptions import rows as subscription_rows
from gateway.coordinators import offsets
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from store.api import Delete, DeleteRange, Family, Put


class Rows(Protocol):
    """A store that is being opened."""

    def get(self, family: Family, key: bytes) -> bytes | None: ...

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]: ...


def clip(rows: Rows, partition: int, lost: Sequence[tuple[int, int]]) -> Iterable[Put | Delete | DeleteRange]:
    """Writes for a log whose offsets from `first` to below `last` are lost, for each (first, last) of `lost`."""
    for key, value in rows.scan(Family.DEDUP, producers.prefix(partition)):
        kept: bytes | None = value
        for first, last in lost:
            kept = producers.without(kept, first, last) if kept is not None else None
        if kept is None:
            yield Delete(Family.DEDUP, key)
        elif kept != value:
            yield Put(Family.DEDUP, key, kept)
    yield from aborted_transactions.within(rows, partition, lost)
    yield from letter_rows.clipped(rows, partition, lost)
    owner = partition_owner(rows.scan(Family.CATALOG), partition)
    if owner is None:
        return
    topic, index = owner
    for key, value in rows.scan(Family.OFFSET):
        where = offsets.place(key)
        if where.topic != topic or where.partition != index:
            continue
        committed = offsets.decode(value)
        for first, last in lost:
            if first < committed.offset <= last:
                yield Put(Family.OFFSET, key, offsets.encode(*committed._replace(offset=first)))
    topic_id = topic_id_of(rows, topic)
    for row in subscription_rows.of_topic(rows, topic_id) if topic_id is not None else ():
        yield from _cursor(rows, subscription_rows.prefix(row.id, partition), *lost[-1])


def _cursor(rows: Rows, prefix: bytes, first: int, last: int) -> Iterator[Put | Delete | DeleteRange]:
    """Of a cursor that has looked at offsets from `first` to below `last`, which are lost: that it has not."""
    stored = list(subscription_rows.of_cursor(rows, prefix))
    if not stored:
        return
    # Of lost records with others behind them the offsets are not used again.
    if not first < Cursor.load(SubscriptionConfig(), stored, 0, last + 1, 0).read <= last:
        return
    cut = Cursor.load(SubscriptionConfig(), stored, 0, first, 0)
    # What is due there is taken out when the cursor is loaded for the first time: its row says so.
    for write in subscription_rows.writes_of(prefix, cut.writes()):
        assert isinstance(write, Put | Delete | DeleteRange)
        yield write
