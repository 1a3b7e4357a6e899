"""What the broker forgets when recovery finds that a log has lost records (a power cut under durability=os).

A retry must not be answered with an offset that is gone, and a group must not stand beyond records that other ones
will take: the writes go into the batch that shortens the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from gateway.broker import producers
from gateway.broker.catalog import partition_owner
from gateway.coordinators import offsets
from store.api import Delete, Family, Put


class Rows(Protocol):
    """A store that is being opened."""

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]: ...


def clip(rows: Rows, partition: int, lost: Sequence[tuple[int, int]]) -> Iterable[Put | Delete]:
    """Writes for a log whose offsets from `first` to below `last` are lost, for each (first, last) of `lost`."""
    for key, value in rows.scan(Family.DEDUP, producers.prefix(partition)):
        kept: bytes | None = value
        for first, last in lost:
            kept = producers.without(kept, first, last) if kept is not None else None
        if kept is None:
            yield Delete(Family.DEDUP, key)
        elif kept != value:
            yield Put(Family.DEDUP, key, kept)
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
