"""Closed segments of a log, as whoever writes them anew needs them."""

from __future__ import annotations

from store.api import Family
from store.rewriting import Mark, Source
from store.rocksdb import rows
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from store.rocksdb.segments import Segment

_key = rows.PARTITION_OFFSET.pack


def source(segment: Segment, partition: int, database: Database, files: Files) -> Source:
    """A closed segment for whoever rewrites it."""
    prefix = rows.U32.pack(partition)
    marks: list[Mark] = []
    if segment.sparse:
        start = _key(partition, segment.base)
        for key, value in database.scan(Family.INDEX, prefix, start):
            if rows.PARTITION_OFFSET.unpack(key)[1] >= segment.next_offset:
                break
            row = rows.index_row(value)
            marks.append(Mark(row.position, row.ledger, row.entry, row.skips))
    else:
        # within a ledger entries follow each other
        firsts = [segment.base]
        firsts += [
            first
            for _, value in database.scan(Family.LEDGER, prefix)
            if segment.base < (first := rows.ledger_row(value).first_offset) < segment.next_offset
        ]
        for first in firsts:
            found = database.get(Family.INDEX, _key(partition, first))
            if found is not None:
                row = rows.index_row(found)
                marks.append(Mark(row.position, row.ledger, row.entry))
    return Source(
        files.path(partition, segment.base, segment.number),
        segment.base,
        segment.next_offset,
        segment.number,
        segment.size,
        segment.max_timestamp,
        segment.created_at,
        marks,
    )
