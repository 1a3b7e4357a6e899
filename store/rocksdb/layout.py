"""What is where in a data folder, and the segments as RocksDB knows them."""

from __future__ import annotations

from typing import NamedTuple

from store.api import Family
from store.rocksdb import rows
from store.rocksdb.database import Database
from store.rocksdb.rows import LogRow

DATABASE = "db"
SEGMENTS = "segments"
MARK = "mark"


class Piece(NamedTuple):
    """A segment as RocksDB knows it."""

    base: int
    number: int
    size: int
    next_offset: int
    created_at: int


def pieces_of(database: Database) -> tuple[dict[int, LogRow], dict[int, dict[int, Piece]]]:
    """The log rows by partition; the segments by partition, then by number."""
    logs: dict[int, LogRow] = {}
    pieces: dict[int, dict[int, Piece]] = {}
    for key, value in database.scan(Family.LOG):
        partition = rows.U32.unpack(key)[0]
        row = logs[partition] = rows.log_row(value)
        if row.flags & rows.ACTIVE:
            active = Piece(row.segment_base, row.number, row.segment_size, row.end, row.segment_created)
            pieces[partition] = {row.number: active}
    for key, value in database.scan(Family.SEGMENT):
        partition, base = rows.PARTITION_OFFSET.unpack(key)
        closed = rows.segment_row(value)
        piece = Piece(base, closed.number, closed.size, closed.next_offset, closed.created_at)
        pieces.setdefault(partition, {})[closed.number] = piece
    return logs, pieces
