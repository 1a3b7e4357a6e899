"""The reading end of one log: the `Log` that the broker sees.

What was just written is answered from the tail cache, steps of a walk from a readahead window; the rest from its
segment (`log_reader.py`): on the loop while the page cache has the bytes, and in a thread from the first miss.
`integrity.py` knows which bytes need no look at their CRC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from store.api import Buffer, Family, LedgerInfo, Piece, Position, SegmentInfo, StoreError
from store.pending import Pending
from store.rewriting import Source
from store.rocksdb import readahead, rows
from store.rocksdb.cache import Tail
from store.rocksdb.commits import Published
from store.rocksdb.database import Database
from store.rocksdb.integrity import Trust
from store.rocksdb.log_reader import LogReader
from store.rocksdb.reader import Reader
from store.rocksdb.rows import LogRow
from store.rocksdb.segment_index import SegmentIndex
from store.rocksdb.segments import Reading
from store.rocksdb.sources import source

_key = rows.PARTITION_OFFSET.pack

T = TypeVar("T")


class RocksLog:
    """See `store.api.Log`. Shows what is committed; `publish` moves it on."""

    def __init__(
        self,
        partition: int,
        row: LogRow,
        database: Database,
        reader: Reader,
        tail: Tail,
        configure: Callable[[int, int | None, int | None], None],
    ) -> None:
        self.partition = partition
        self.start_offset = row.start
        self.end_offset = row.end
        self.size = row.size
        self.stale = False
        self.refuses = ""
        # the end when everything in the queue is done
        self.queued_end = row.end
        self.tail = tail
        self._database = database
        self._reader = reader
        self._configure = configure
        self._key = rows.U32.pack(partition)
        self._index = SegmentIndex(partition, row, database)
        # (segment number, offset of the batch with its largest timestamp) by where the search begins
        self._resolved: dict[tuple[int, int], int] = {}
        self._trust = Trust(row.number, row.segment_size if row.flags & rows.ACTIVE else 0)
        self._batches = LogReader(partition, self._index, database, reader, self._trust)
        if row.flags & rows.REFUSES:
            self.refuses = (
                f"Log {partition} takes no more records: bytes that were acknowledged are damaged; "
                f"`magnetar store verify` says which."
            )

    def publish(self, news: Published) -> None:
        """Take over what a group committed."""
        # the fields of a LogRow, by position: see `LogWriter.row`
        row = news.row
        self._index.row = row
        self.start_offset = row[1]
        self.end_offset = row[2]
        self.size = row[3]
        if row[5] != self._trust.number:
            closed = [(each.row.number, each.row.size, each.row.next_offset) for each in news.rolled]
            self._trust.rolled(closed, row[5])
        if news.rolled:
            self._index.rolled(news.rolled)
        add = self.tail.add
        for base, data in news.chunks:
            add(base, data)
        if news.swapped:
            # what is there may be gone, and others go by that: which transactions were aborted is forgotten then
            self.tail.clear()
            self._index.swapped()
        if news.trimmed:
            self.tail.drop_below(self.start_offset)
            self._index.trimmed(self.start_offset)

    def configure(self, *, segment_bytes: int | None = None, segment_ms: int | None = None) -> None:
        self._configure(self.partition, segment_bytes, segment_ms)

    # reading

    def read(self, offset: int, max_bytes: int, *, whole_first: bool = True) -> Pending[list[Buffer]]:
        if not self.start_offset <= offset <= self.end_offset:
            raise IndexError(f"offset {offset} is outside [{self.start_offset}, {self.end_offset}]")
        if offset == self.end_offset:
            return []
        firsts = self.tail.firsts
        if firsts and firsts[0] <= offset:
            self._reader.hits += 1
            return self.tail.read(offset, max_bytes, whole_first)
        reader = self._reader
        reader.misses += 1
        if max_bytes <= readahead.SMALL:
            found = reader.readahead.read(self.partition, offset, max_bytes, whole_first)
            if found is not None:
                return found
            if reader.readahead.walks(self.partition, offset):
                return self._run(self._batches.ahead(offset, max_bytes, whole_first))
        return self._run(cast("Reading[list[Buffer]]", self._batches.read(offset, max_bytes, whole_first)))

    def look(self, offset: int, max_bytes: int) -> Pending[list[Buffer]]:
        return self.read(offset, max_bytes)

    def read_at_once(self, offset: int, max_bytes: int, *, least: int) -> list[Piece] | None:
        if not self.start_offset <= offset < self.end_offset:
            return None
        firsts = self.tail.firsts
        if firsts and firsts[0] <= offset:
            self._reader.hits += 1
            return cast("list[Piece]", self.tail.read(offset, max_bytes, True))
        lent = self._batches.at_once(offset, max_bytes, least)
        if lent is None:
            return None
        self._reader.misses += 1
        return [lent]

    def lend(
        self, offset: int, max_bytes: int, *, least: int, whole_first: bool = True
    ) -> Pending[list[Piece]]:
        firsts = self.tail.firsts
        if max_bytes < least or offset == self.end_offset or (firsts and firsts[0] <= offset):
            return cast("list[Piece]", self.read(offset, max_bytes, whole_first=whole_first))
        if not self.start_offset <= offset <= self.end_offset:
            raise IndexError(f"offset {offset} is outside [{self.start_offset}, {self.end_offset}]")
        self._reader.misses += 1
        return self._run(self._batches.read(offset, max_bytes, whole_first, least))

    def batch_at_or_after(self, timestamp: int, from_offset: int = 0) -> Pending[list[Buffer]]:
        return self._run(self._batches.at_or_after(timestamp, max(self.start_offset, from_offset)))

    def max_timestamp_batch(self) -> Pending[list[Buffer]]:
        return self._run(self._batches.latest())

    # message ids

    def position_of(self, offset: int) -> Position:
        if not self.start_offset <= offset < self.end_offset:
            raise IndexError(f"offset {offset} is outside [{self.start_offset}, {self.end_offset})")
        return self._now(self._position_of(offset))

    def _position_of(self, offset: int) -> Reading[Position]:
        segment, _, row = self._batches.place(offset)
        found = yield from self._batches.walk(segment, row.position, lambda each: each.next_offset > offset)
        while found is None:
            # in a gap at a segment's end
            following = self._index.segment_after(segment)
            if following is None:
                raise IndexError(f"offset {offset} has no record at or after it")
            segment, _, row = self._batches.place(following.base)
            found = yield from self._batches.walk(segment, row.position, lambda _: True)
        if found.base > offset:
            # in a gap: a ledger may have begun behind it, and only its own index row says so
            segment, _, row = self._batches.place(found.base)
            found = yield from self._batches.walk(
                segment, row.position, lambda each: each.next_offset > offset
            )
            assert found is not None
        return Position(row.ledger, row.entry_at(found.nth), max(0, offset - found.base))

    def offset_of(self, ledger: int, entry: int) -> int:
        value = self._database.get(Family.LEDGER, _key(self.partition, ledger))
        if value is None or entry < 0:
            raise KeyError((ledger, entry))
        row = LogRow._make(self._index.row)
        closed = rows.ledger_row(value)
        entries = row.ledger_entries if row.ledger == ledger else closed.entries
        if entry >= entries:
            raise KeyError((ledger, entry))
        low, high = closed.first_offset, self.end_offset - 1
        best: tuple[int, rows.IndexRow] | None = None
        while low <= high:
            middle = (low + high) // 2
            found = self._database.at_or_before(Family.INDEX, _key(self.partition, middle))
            index = None if found is None else rows.index_row(found[1])
            if found is None or index is None or (index.ledger, index.entry) <= (ledger, entry):
                low = middle + 1
                if found is not None and index is not None and index.ledger == ledger:
                    best = rows.PARTITION_OFFSET.unpack(found[0])[1], index
            else:
                high = rows.PARTITION_OFFSET.unpack(found[0])[1] - 1
        if best is None:
            raise KeyError((ledger, entry))
        base, index = best
        segment = self._index.segment_of(base)
        if (segment is None or segment.number != index.number) and self._index.reload():
            segment = self._index.segment_of(base)
        nth = index.nth_of(entry)
        if segment is None or segment.number != index.number or nth < 0:
            raise KeyError((ledger, entry))
        header = self._now(self._batches.walk(segment, index.position, lambda each: each.nth == nth))
        if header is None or header.next_offset <= self.start_offset:
            raise KeyError((ledger, entry))
        if segment.sparse and self.position_of(header.base) != Position(ledger, entry, 0):
            # it was of the last ones before the next row, and they are gone
            raise KeyError((ledger, entry))
        return header.base

    # what there is

    def size_from(self, offset: int) -> int:
        segment = self._index.segment_of(max(offset, self.start_offset))
        if segment is None or offset >= self.end_offset:
            return 0
        position, due = self._index.floor(segment, offset)
        try:
            found = self._now(
                self._batches.walk(segment, position, lambda each: each.next_offset > offset, due)
            )
        except StoreError:
            pass
        else:
            # None: in a gap at the segment's end
            position = found.position if found is not None else segment.size
        behind = sum([each.size for each in self._index.segments() if each.base > segment.base])
        return segment.size - position + behind

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        known = -1
        for key, value in self._database.scan(Family.EPOCH, self._key):
            epoch = rows.PARTITION_U32.unpack(key)[1]
            if epoch > leader_epoch:
                return (known, rows.U64.unpack(value)[0]) if known >= 0 else (-1, -1)
            known = epoch
        return (known, self.end_offset) if known >= 0 else (-1, -1)

    def segments(self) -> list[SegmentInfo]:
        active = self._index.active()
        found = []
        for each in self._index.segments():
            offset = self._resolved.get((each.number, each.max_from), -1)
            if offset < 0:
                if len(self._resolved) > 1000:
                    self._resolved.clear()
                try:
                    header = self._now(self._batches.first_with(each, each.max_timestamp, each.max_from))
                except StoreError:
                    # it cannot be read: who looks for old segments must learn of it all the same
                    header = None
                offset = self._resolved[each.number, each.max_from] = -1 if header is None else header.base
            found.append(
                SegmentInfo(
                    each.base,
                    each.next_offset,
                    each.size,
                    each.max_timestamp,
                    offset,
                    each.created_at,
                    active is not None and each.number == active.number,
                    each.number,
                )
            )
        return found

    def sources(self, first: int, end: int) -> list[Source]:
        active = self._index.active()
        return [
            source(each, self.partition, self._database, self._reader.files)
            for each in self._index.segments()
            if first < each.next_offset <= end and (active is None or each.number != active.number)
        ]

    def ledgers(self) -> list[LedgerInfo]:
        row = LogRow._make(self._index.row)
        found: list[LedgerInfo] = []
        for key, value in self._database.scan(Family.LEDGER, self._key):
            ledger = rows.PARTITION_OFFSET.unpack(key)[1]
            if ledger > row.ledger:
                break
            each = rows.ledger_row(value)
            if found and each.first_offset <= self.start_offset:
                found.clear()
            entries, size = (
                (row.ledger_entries, row.ledger_size) if ledger == row.ledger else (each.entries, each.size)
            )
            found.append(LedgerInfo(ledger, each.first_offset, entries, size, each.opened_at))
        return found

    def _run(self, reading: Reading[T]) -> Pending[T]:
        return self._reader.run(reading, self._trust)

    def _now(self, reading: Reading[T]) -> T:
        return self._reader.now(reading, self._trust)
