"""Segments that were written anew come into the place of old ones, in one commit.

1. `Reserving.reserve` (reserving.py) makes empty files. Before them a DOOMED row for each is on disk: whatever happens,
   the next start removes what was not swapped in.
2. Somebody fills them, and syncs them (`store.rewriting`).
3. `swap` puts the rows of the new segment for those of the old ones. The old files are doomed, the new one no longer.
4. Old files are unlinked after a checkpoint, and not before `Options.replaced_seconds`: a read that had begun may still
   open them.
"""

from __future__ import annotations

from typing import Any

from store import rewriting
from store.api import Family, Swap
from store.rocksdb import rows
from store.rocksdb.append import LogWriter
from store.rocksdb.commits import Result
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from store.rocksdb.removal import doom

_key = rows.PARTITION_OFFSET.pack


def declined(write: Swap, database: Database, files: Files) -> str:
    """Why a swap does not happen, or an empty string."""
    partition, new = write.partition, write.new
    found = [
        (rows.PARTITION_OFFSET.unpack(key)[1], rows.segment_row(value))
        for key, value in database.scan(
            Family.SEGMENT, rows.U32.pack(partition), _key(partition, write.old[0][0]), len(write.old) + 1
        )
    ]
    known, behind = found[: len(write.old)], found[len(write.old) :]
    if [(base, row.number) for base, row in known] != list(write.old):
        return f"The segments of log {partition} are others by now."
    end = 0 if new is None else new.next_offset
    value = database.get(Family.LOG, rows.U32.pack(partition))
    active = value is not None and rows.log_row(value).flags & rows.ACTIVE
    if end > known[-1][1].next_offset or (not behind and not active and end < known[-1][1].next_offset):
        return f"The new segment of log {partition} does not end where the old ones end."
    if new is not None and not files.holds(partition, new.place.base_offset, new.place.number, new.size):
        return f"The new segment of log {partition} is not there, or not all of it."
    return ""


def swap(log: LogWriter, write: Swap, database: Database, batch: Any, result: Result) -> None:
    """The rows of a swap that is not declined."""
    handles = database.handles
    partition = log.partition
    end = write.old[0][0]
    for base, number in write.old:
        value = database.get(Family.SEGMENT, _key(partition, base))
        assert value is not None
        row = rows.segment_row(value)
        log.size -= row.size
        end = row.next_offset
        batch.delete(_key(partition, base), handles["segment"])
        doom(partition, base, number, handles, batch, result)
    result.replaced = result.doomed
    batch.delete_range(_key(partition, write.old[0][0]), _key(partition, end), handles["index"])
    log.swapped = True
    new = write.new
    if new is None:
        return
    number = new.place.number
    for each in rewriting.rows(new.table):
        value = rows.INDEX.pack(number, each.position, each.earlier_max, each.ledger, each.entry)
        batch.put(_key(partition, each.base_offset), value + each.skips, handles["index"])
    segment = rows.SegmentRow(
        number, new.next_offset, new.size, new.max_timestamp, new.max_from, new.created_at
    )
    batch.put(_key(partition, new.place.base_offset), rows.SEGMENT.pack(*segment), handles["segment"])
    batch.delete(rows.PARTITION_U32.pack(partition, number), handles["doomed"])
    log.size += new.size
