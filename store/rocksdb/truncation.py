"""Shortening one log after a machine crash under `os`: what is cut off, and what the journal puts back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from store.api import Family
from store.batch import walk
from store.rocksdb import rows
from store.rocksdb.check import check, file_size
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from store.rocksdb.layout import SegmentFile
from store.rocksdb.rows import LogRow


class Truncation:
    """Shortens one log at a batch, and puts back behind it what the journal saved."""

    def __init__(
        self,
        database: Database,
        files: Files,
        batch: Any,
        partition: int,
        row: LogRow,
        segment: SegmentFile,
        position: int,
        offset: int,
    ) -> None:
        """`segment` is good up to `position`, which is where `offset` would stand. Rows go into `batch`."""
        self._database = database
        self._files = files
        self._batch = batch
        self._handles = database.handles
        self._segments: dict[int, SegmentFile] = {}
        # (partition, base offset, number) of files that must be synced before the batch is
        self.made: set[tuple[int, int, int]] = set()
        self._partition = partition
        self._row = row
        self._segment = segment
        self._position = position
        self._offset = offset

    def apply(self, segments: dict[int, SegmentFile], salvage: list[bytes]) -> LogRow:
        """Put all rows; only the salvaged bytes are written here. `segments`, the log's segments, follow the cut."""
        self._segments = segments
        partition, offset = self._partition, self._offset
        ledger, ledger_first, entries, ledger_size = self._count_ledger()
        for family in (Family.INDEX, Family.SEGMENT):
            start, end = rows.partition_range(partition, offset)
            self._batch.delete_range(start, end, self._handles[family])
        self._drop_later(Family.LEDGER, lambda value: rows.ledger_row(value).first_offset)
        self._drop_later(Family.EPOCH, lambda value: int(rows.U64.unpack(value)[0]))
        self._close_segment()
        size = sum(segment.size for segment in self._segments.values())
        row = self._row._replace(
            # the next append begins a new segment and a new ledger
            flags=self._row.flags & ~rows.ACTIVE,
            end=offset,
            start=min(self._row.start, offset),
            size=size,
            durable_end=min(self._row.durable_end, offset),
            ledger=ledger,
            ledger_first=ledger_first,
            ledger_entries=entries,
            ledger_size=ledger_size,
            ledger_opened=0,
            epoch=self._last_epoch(),
        )
        if salvage:
            row = self._put_back(row, salvage)
        self._batch.put(rows.U32.pack(partition), rows.LOG.pack(*row), self._handles["log"])
        return row

    def _drop_later(self, family: Family, first_offset: Callable[[bytes], int]) -> None:
        for key, value in self._database.scan(family, rows.U32.pack(self._partition)):
            if first_offset(value) >= self._offset:
                self._batch.delete(key, self._handles[family])

    def _last_epoch(self) -> int:
        last = -1
        for key, value in self._database.scan(Family.EPOCH, rows.U32.pack(self._partition)):
            if rows.U64.unpack(value)[0] < self._offset:
                last = rows.PARTITION_U32.unpack(key)[1]
        return last

    def _count_ledger(self) -> tuple[int, int, int, int]:
        """(ledger, its first offset, entries, bytes) of the ledger in which the cut falls; zeros when nothing is left
        of it, or all of it was trimmed and it has no row any more.
        """
        nothing = 0, 0, 0, 0
        if self._offset == 0:
            return nothing
        found = self._database.at_or_before(
            Family.INDEX, rows.PARTITION_OFFSET.pack(self._partition, self._offset - 1)
        )
        if found is None:
            return nothing
        base = rows.PARTITION_OFFSET.unpack(found[0])[1]
        row = rows.index_row(found[1])
        key = rows.PARTITION_OFFSET.pack(self._partition, row.ledger)
        value = self._database.get(Family.LEDGER, key)
        if value is None:
            return nothing
        segment = self._segments.get(row.number)
        count = 0
        if segment is not None:
            end = self._position if segment.number == self._segment.number else segment.size
            descriptor = self._files.open(self._partition, segment.base, segment.number)
            try:
                count = check(self._files, descriptor, row.position, end, base, sparse=segment.sparse).batches
            finally:
                self._files.close(descriptor)
        entries = row.entry_at(count - 1) + 1 if count else row.entry
        before = rows.ledger_row(value)
        size = self._ledger_bytes(before.first_offset)
        closed = before._replace(entries=entries, size=size)
        self._batch.put(key, rows.LEDGER.pack(*closed), self._handles["ledger"])
        return row.ledger, before.first_offset, entries, size

    def _ledger_bytes(self, first: int) -> int:
        """Bytes from where a ledger begins (it has an index row there) to the cut."""
        begin = self._database.get(Family.INDEX, rows.PARTITION_OFFSET.pack(self._partition, first))
        start = rows.index_row(begin) if begin is not None else None
        size = 0
        for segment in sorted(self._segments.values()):
            if segment.base > self._segment.base or segment.next_offset <= first:
                continue
            size += self._position if segment.number == self._segment.number else segment.size
            if start is not None and segment.number == start.number:
                size -= start.position
        return max(0, size)

    def _close_segment(self) -> None:
        """The segment in which the cut falls ends there; those behind it are nobody's any more."""
        segments = self._segments
        for segment in list(segments.values()):
            if segment.base > self._segment.base or (
                segment.number == self._segment.number and not self._position
            ):
                del segments[segment.number]
                # its row may stand below the offset of the cut: a gap
                key = rows.PARTITION_OFFSET.pack(self._partition, segment.base)
                self._batch.delete(key, self._handles["segment"])
        if not self._position:
            return
        segment = self._segment._replace(size=self._position, next_offset=self._offset)
        segments[segment.number] = segment
        descriptor = self._files.open(self._partition, segment.base, segment.number)
        try:
            whole = check(self._files, descriptor, 0, self._position, segment.base)
        finally:
            self._files.close(descriptor)
        closed = rows.SegmentRow(
            segment.number,
            self._offset,
            self._position,
            whole.max_timestamp,
            whole.max_from,
            segment.created_at,
        )
        self._batch.put(
            rows.PARTITION_OFFSET.pack(self._partition, segment.base),
            rows.SEGMENT.pack(*closed),
            self._handles["segment"],
        )

    def _put_back(self, row: LogRow, salvage: list[bytes]) -> LogRow:
        """The journal's batches from behind the gap, in a segment and a ledger row of their own."""
        partition = self._partition
        (_, _, base, _) = next(walk(salvage[0]))
        descriptor, number = self._files.create(partition, base, row.number + 1)
        try:
            self._files.write(descriptor, salvage, 0)
            size = file_size(descriptor)
            index = Indexer(self, number, row.ledger or self._row.ledger, row.ledger_entries)
            if not row.ledger:
                row = row._replace(ledger_first=base)
                index.begin_ledger(base)
            checked = check(self._files, descriptor, 0, size, base, index)
        finally:
            self._files.close(descriptor)
        self.made.add((partition, base, number))
        segment = SegmentFile(base, number, checked.position, checked.next_offset, self._segment.created_at)
        self._segments[number] = segment
        closed = rows.SegmentRow(
            number,
            checked.next_offset,
            checked.position,
            checked.max_timestamp,
            checked.max_from,
            segment.created_at,
        )
        self._batch.put(
            rows.PARTITION_OFFSET.pack(partition, base), rows.SEGMENT.pack(*closed), self._handles["segment"]
        )
        return row._replace(
            # what was trimmed stays so
            start=min(self._row.start, checked.next_offset),
            end=checked.next_offset,
            size=row.size + checked.position,
            number=number,
            ledger=index.ledger,
            ledger_entries=index.entry,
            ledger_size=row.ledger_size + checked.position,
        )


class Indexer:
    """Puts an index row for each batch of a segment that is made anew."""

    def __init__(self, truncation: Truncation, number: int, ledger: int, entry: int) -> None:
        self._truncation = truncation
        self._number = number
        self._earlier = -1
        self.ledger = ledger
        self.entry = entry

    def begin_ledger(self, first_offset: int) -> None:
        """Nothing is left of the ledger but what is put back: it begins there."""
        self._truncation._batch.put(
            rows.PARTITION_OFFSET.pack(self._truncation._partition, self.ledger),
            rows.LEDGER.pack(first_offset, 0, 0, 0, 0),
            self._truncation._handles["ledger"],
        )

    def __call__(self, position: int, base: int, following: int, timestamp: int) -> None:
        self._truncation._batch.put(
            rows.PARTITION_OFFSET.pack(self._truncation._partition, base),
            rows.INDEX.pack(self._number, position, self._earlier, self.ledger, self.entry),
            self._truncation._handles["index"],
        )
        self._earlier = max(self._earlier, timestamp)
        self.entry += 1
