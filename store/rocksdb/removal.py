"""Deletes the rows and files of a log that is trimmed or dropped.

Rows go in the group's WriteBatch. Files get a DOOMED row there, and are unlinked once that is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from store.api import Family
from store.rocksdb import rows
from store.rocksdb.append import LogWriter
from store.rocksdb.commits import Result
from store.rocksdb.database import Database

FEW_ROWS = 32
"""Up to this many rows are deleted one by one: range tombstones make later reads slow, and a dropped log is often
empty.
"""

OF_OTHERS = (Family.DEDUP, Family.ABORTED, Family.COMPACTION, Family.LETTER)
"""What is kept of a log by others: they may have put rows into the very commit that drops it."""

OF_A_LOG = (Family.INDEX, Family.SEGMENT, Family.LEDGER, Family.EPOCH, *OF_OTHERS)
"""Families whose keys begin with the partition: they go with DropLog."""


def trim(log: LogWriter, offset: int, database: Database, batch: Any, result: Result) -> None:
    """Move the start of a log; nothing when it is there already. Closes the active segment when it goes."""
    if offset <= log.start:
        return
    log.start = offset
    log.trimmed = True
    handles = database.handles
    segments = [
        (rows.PARTITION_OFFSET.unpack(key)[1], rows.segment_row(value))
        for key, value in database.scan(Family.SEGMENT, log.key)
    ]
    # closed by this very group: a scan does not find them; and it finds those that went in this group
    segments += [(each.base, each.row) for each in log.rolled]
    kept: list[tuple[int, int]] = []
    for base, row in segments:
        if base in log.gone:
            continue
        if row.next_offset > offset:
            kept.append((base, row.size))
            continue
        doom(log.partition, base, row.number, handles, batch, result)
        batch.delete(rows.PARTITION_OFFSET.pack(log.partition, base), handles["segment"])
        log.gone.add(base)
    first = kept[0][0] if kept else log.end
    if not kept and log.open and log.segment_size:
        if log.end <= offset:
            doom(log.partition, log.segment_base, log.number, handles, batch, result)
            log.open = False
        else:
            first = log.segment_base
    # not by what went: a row that counts wrongly is right again
    log.size = sum([size for _, size in kept]) + (log.segment_size if log.open else 0)
    if first > 0:
        pack = rows.PARTITION_OFFSET.pack
        batch.delete_range(pack(log.partition, 0), pack(log.partition, first), handles["index"])
    _drop_heads(Family.LEDGER, log, database, batch, lambda value: rows.ledger_row(value).first_offset)
    _drop_heads(Family.EPOCH, log, database, batch, lambda value: int(rows.U64.unpack(value)[0]))


def _drop_heads(
    family: Family, log: LogWriter, database: Database, batch: Any, first_offset: Callable[[bytes], int]
) -> None:
    """Rows of ledgers or epochs that ended at or below the start: those with a successor that begins there."""
    previous: bytes | None = None
    for key, value in database.scan(family, log.key):
        if first_offset(value) > log.start:
            break
        if previous is not None:
            batch.delete(previous, database.handles[family])
        previous = key


def drop(log: LogWriter, database: Database, batch: Any, result: Result) -> None:
    """Everything of a log."""
    handles = database.handles
    # rows of this very group are not found by a scan
    unseen = bool(log.flushes or log.rolled)
    for key, value in database.scan(Family.SEGMENT, log.key):
        base = rows.PARTITION_OFFSET.unpack(key)[1]
        doom(log.partition, base, rows.segment_row(value).number, handles, batch, result)
    for each in log.rolled:
        doom(log.partition, each.base, each.row.number, handles, batch, result)
    if log.open:
        doom(log.partition, log.segment_base, log.number, handles, batch, result)
    batch.delete(log.key, handles["log"])
    end = rows.successor(log.key)
    for family in OF_A_LOG:
        found = [key for key, _ in database.scan(family, log.key, limit=FEW_ROWS + 1)]
        if unseen or len(found) > FEW_ROWS or (family in OF_OTHERS and found):
            batch.delete_range(log.key, end, handles[family])
        else:
            for key in found:
                batch.delete(key, handles[family])


def drop_unwritten(partition: int, database: Database, batch: Any) -> None:
    """Of a log that was never written: what others have put under its id."""
    key = rows.U32.pack(partition)
    for family in OF_OTHERS:
        if next(database.scan(family, key, limit=1), None) is not None:
            batch.delete_range(key, rows.successor(key), database.handles[family])


def doom(partition: int, base: int, number: int, handles: dict[str, Any], batch: Any, result: Result) -> None:
    """A file goes when the commit that says so is on disk."""
    batch.put(rows.PARTITION_U32.pack(partition, number), rows.DOOMED.pack(base), handles["doomed"])
    result.doomed.append((partition, base, number))
