"""Records whose rows RocksDB lost, taken back from the segments: a RecordBatch describes itself.

What comes back is the logs. Rows of other families that were in the same commits (deduplication, offsets of groups,
the catalog) are gone. A log is made by its first append, so its very row may be lost, too: it comes back when somebody
has a name for it. The files of one without a row and without a name go to quarantine.
"""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path
from typing import Any

from store.api import Family
from store.rocksdb import rows
from store.rocksdb.check import check, file_size
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from store.rocksdb.layout import SegmentFile
from store.rocksdb.quarantine import Quarantine
from store.rocksdb.rows import LogRow

Stray = tuple[int, int, int, int, str]
"""(partition, base offset, number, bytes that are known, path) of a file with more than that."""


class Repairer:
    """One repair: all rows go into one batch, synced before anything is moved."""

    def __init__(
        self,
        path: Path,
        database: Database,
        files: Files,
        logs: dict[int, LogRow],
        segments: dict[int, dict[int, SegmentFile]],
        named: Container[int],
    ) -> None:
        """`logs` and `segments` are what RocksDB knows, `named` the logs that clients have a name for."""
        self._database = database
        self._files = files
        self._logs = logs
        self._named = named
        self._segments = segments
        self._batch = database.batch()
        self._handles: dict[str, Any] = database.handles
        self._quarantine = Quarantine(path, int(database.get(Family.META, rows.EPOCH_COUNTER) or b"0"))
        self._moves: list[tuple[str, int]] = []
        counter = database.get(Family.META, rows.NEXT_LEDGER)
        self._next_ledger = rows.U64.unpack(counter)[0] if counter else 1

    def run(self, strays: list[Stray]) -> list[str]:
        """What was done, in sentences."""
        done = []
        for partition, base, number, known, path in sorted(strays):
            row = self._logs.get(partition)
            if row is None and partition in self._named:
                row = LogRow()
            if row is None or (not known and base < row.end):
                self._moves.append((path, 0))
                continue
            before = row.end
            position = self._take(partition, row, base, number, known)
            after = self._logs.get(partition, row).end
            if after > before:
                done.append(f"log {partition}: the records from offset {before} to {after - 1} are back")
            if position < os.path.getsize(path):
                self._moves.append((path, position))
        for partition in {stray[0] for stray in strays} & set(self._logs):
            packed = rows.LOG.pack(*self._logs[partition])
            self._batch.put(rows.U32.pack(partition), packed, self._handles["log"])
        if len(self._batch):
            self._database.write(self._batch)
            self._database.sync()
        for path, position in self._moves:
            place = (
                self._quarantine.tail(self._files, path, position)
                if position
                else self._quarantine.whole(path)
            )
            done.append(f"bytes that are no records of a known log are in {place} now")
        return done

    def _take(self, partition: int, row: LogRow, base: int, number: int, known: int) -> int:
        """Take the good batches of one file. Answers up to which byte."""
        descriptor = self._files.open(partition, base, number, write=True)
        index = _IndexRows(self, partition, row, number)
        try:
            size = file_size(descriptor)
            checked = check(self._files, descriptor, known, size, row.end, index)
            self._files.sync(descriptor)
        finally:
            self._files.close(descriptor)
        if not checked.batches:
            return known
        if not known:
            row = self._begin_segment(partition, row, base, number)
        later = checked.max_timestamp > row.segment_max
        row = row._replace(
            end=checked.next_offset,
            size=row.size + checked.position - known,
            segment_size=checked.position,
            segment_max=checked.max_timestamp if later else row.segment_max,
            segment_max_from=checked.max_from if later else row.segment_max_from,
            since_index=0,
            ledger=index.ledger,
            ledger_first=index.first,
            ledger_entries=index.entry,
            ledger_size=row.ledger_size + checked.position - known,
            # the next append opens a new ledger
            ledger_opened=0,
        )
        self._logs[partition] = row
        return checked.position

    def new_ledger(self) -> int:
        self._next_ledger += 1
        self._batch.put(rows.NEXT_LEDGER, rows.U64.pack(self._next_ledger), self._handles["meta"])
        return self._next_ledger - 1

    def _begin_segment(self, partition: int, row: LogRow, base: int, number: int) -> LogRow:
        """A file that no row speaks of becomes the active segment; the one that was is closed."""
        if row.flags & rows.ACTIVE:
            key = rows.PARTITION_OFFSET.pack(partition, row.segment_base)
            self._batch.put(key, rows.SEGMENT.pack(*row.closed()), self._handles["segment"])
        return row._replace(
            flags=row.flags | rows.ACTIVE,
            number=number,
            segment_base=base,
            segment_size=0,
            segment_max=-1,
            segment_max_from=base,
        )


class _IndexRows:
    """Puts an index row for each batch that is taken, and a ledger where the log had none yet."""

    def __init__(self, repairer: Repairer, partition: int, row: LogRow, number: int) -> None:
        self._repairer = repairer
        self._partition = partition
        self._number = number
        self._earlier = row.segment_max if row.number == number else -1
        self.ledger = row.ledger
        self.first = row.ledger_first
        self.entry = row.ledger_entries

    def __call__(self, position: int, base: int, following: int, timestamp: int) -> None:
        batch, handles = self._repairer._batch, self._repairer._handles
        if not self.ledger:
            self.ledger = self._repairer.new_ledger()
            self.first = base
            key = rows.PARTITION_OFFSET.pack(self._partition, self.ledger)
            batch.put(key, rows.LEDGER.pack(base, 0, 0, 0, 0), handles["ledger"])
        batch.put(
            rows.PARTITION_OFFSET.pack(self._partition, base),
            rows.INDEX.pack(self._number, position, self._earlier, self.ledger, self.entry),
            handles["index"],
        )
        self._earlier = max(self._earlier, timestamp)
        self.entry += 1
