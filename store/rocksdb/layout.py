"""What is where in a data folder, and the segments as RocksDB knows them."""

from __future__ import annotations

from typing import NamedTuple

from store.api import Family
from store.rocksdb import rows
from store.rocksdb.database import Database
from store.rocksdb.rows import LogRow
from store.rocksdb.segments import REWRITTEN

DATABASE = "db"
SEGMENTS = "segments"
MARK = "mark"


class SegmentFile(NamedTuple):
    """A segment as RocksDB knows it."""

    base: int
    number: int
    size: int
    next_offset: int
    created_at: int

    @property
    def sparse(self) -> bool:
        """See `Segment.sparse`."""
        return self.number >= REWRITTEN


def segment_files(database: Database) -> tuple[dict[int, LogRow], dict[int, dict[int, SegmentFile]]]:
    """The log rows by partition; the segments by partition, then by number."""
    logs: dict[int, LogRow] = {}
    segments: dict[int, dict[int, SegmentFile]] = {}
    for key, value in database.scan(Family.LOG):
        partition = rows.U32.unpack(key)[0]
        row = logs[partition] = rows.log_row(value)
        if row.flags & rows.ACTIVE:
            active = SegmentFile(row.segment_base, row.number, row.segment_size, row.end, row.segment_created)
            segments[partition] = {row.number: active}
    for key, value in database.scan(Family.SEGMENT):
        partition, base = rows.PARTITION_OFFSET.unpack(key)
        closed = rows.segment_row(value)
        segment = SegmentFile(base, closed.number, closed.size, closed.next_offset, closed.created_at)
        segments.setdefault(partition, {})[closed.number] = segment
    return logs, segments
