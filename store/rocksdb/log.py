"""The reading end of one log.

What was just written is answered from the tail cache; the rest from its segment: the sparse index (`places.py`)
names a place at most 20 KB before the batch, and headers lead on from there. A read is written once, as a generator
that asks for bytes; it is driven on the loop while the page cache has them, and goes on in a thread from the
first miss. `integrity.py` knows which bytes need no look at their CRC.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import NamedTuple, TypeVar, cast

from store import batch
from store.api import Buffer, Family, LedgerInfo, Piece, Position, SegmentInfo, StoreError
from store.pending import Pending
from store.rocksdb import integrity, rows, windows
from store.rocksdb.append import LOOK_AHEAD
from store.rocksdb.cache import Tail
from store.rocksdb.check import header as look
from store.rocksdb.check import sound
from store.rocksdb.commits import Published
from store.rocksdb.database import Database
from store.rocksdb.lent import Ends
from store.rocksdb.places import Places
from store.rocksdb.reader import Reader, damaged
from store.rocksdb.rows import LogRow
from store.rocksdb.segments import Reading, Request, Segment, Work

_WALK_BYTES = 64 * 1024
_CHECK_BYTES = 64 * 1024
"""As much is checked on the loop (some 50 us), more in a thread."""

_key = rows.PARTITION_OFFSET.pack

T = TypeVar("T")


class Header(NamedTuple):
    """A batch on the way: where it stands and what it holds. `nth` counts from where the walk began."""

    segment: Segment
    position: int
    size: int
    base: int
    next_offset: int
    max_timestamp: int
    nth: int


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
        self._places = Places(partition, row, database)
        self._ends = Ends()
        # (segment number, offset of the batch with its largest timestamp) by where the search begins
        self._resolved: dict[tuple[int, int], int] = {}
        self._trust = integrity.Trust(row.number, row.segment_size if row.flags & rows.ACTIVE else 0)
        if row.flags & rows.REFUSES:
            self.refuses = (
                f"Log {partition} takes no more records: bytes that were acknowledged are damaged; "
                f"`magnetar store verify` says which."
            )

    def publish(self, news: Published) -> None:
        """Take over what a group committed."""
        row = news.row
        self._places.row = row
        self.start_offset = row[1]
        self.end_offset = row[2]
        self.size = row[3]
        if row[5] != self._trust.number:
            closed = [(each.row.number, each.row.size, each.row.next_offset) for each in news.rolled]
            self._trust.rolled(closed, row[5])
        if news.rolled:
            self._places.rolled(news.rolled)
        add = self.tail.add
        for base, data in news.chunks:
            add(base, data)
        if news.trimmed:
            self.tail.drop_below(self.start_offset)
            self._places.trimmed(self.start_offset)

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
        if max_bytes <= windows.SMALL:
            found = reader.windows.read(self.partition, offset, max_bytes, whole_first)
            if found is not None:
                return found
            if reader.windows.walks(self.partition, offset):
                return self._drive(self._ahead(offset, max_bytes, whole_first))
        return self._drive(cast("Reading[list[Buffer]]", self._read(offset, max_bytes, whole_first)))

    def read_at_once(self, offset: int, max_bytes: int, *, least: int) -> list[Piece] | None:
        if not self.start_offset <= offset < self.end_offset:
            return None
        firsts = self.tail.firsts
        if firsts and firsts[0] <= offset:
            self._reader.hits += 1
            return cast("list[Piece]", self.tail.read(offset, max_bytes, True))
        segment = self._places.segment_of(offset) if offset in self._ends else None
        place = self._ends.place(segment, offset) if segment is not None else None
        if segment is None or place is None or not place[1]:
            return None
        lent = self._lent(segment, place[0], offset, max(place[1], max_bytes), least)
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
        return cast("list[Piece]", self._drive(self._read(offset, max_bytes, whole_first, least)))

    def _read(self, offset: int, max_bytes: int, whole_first: bool, least: int = 0) -> Reading[list[Piece]]:
        """`least`: see `lend`; 0: nothing is lent."""
        # the offset that is due at `position`; `exact` when a row says that it stands there
        segment, position, due, exact, size = self._begin(offset)
        if least and size:
            if size > max_bytes and not whole_first:
                return []
            lent = self._lent(segment, position, due, max(size, max_bytes), least)
            if lent is not None:
                return [lent]
        want = batch.HEADER_BYTES if least else max(max_bytes, batch.HEADER_BYTES)
        if exact:
            want += LOOK_AHEAD
        data: Buffer = b""
        begin, seen = position, -1
        while True:
            if position == segment.size:
                # the offset lies in a gap at the segment's end
                following = self._places.segment_after(segment)
                if following is None:
                    return []
                segment, position, due, exact = following, 0, following.base, True
                data, begin = b"", 0
            at = position - begin
            if len(data) - at < batch.HEADER_BYTES:
                size = min(want, segment.size - position)
                data = yield Request(self.partition, segment, size, position)
                begin, at, seen = position, 0, self._trust.seen
                if len(data) < batch.HEADER_BYTES:
                    position, due = yield from self._go_on(
                        segment, position, due, "the file ends here", offset
                    )
                    exact, data, begin = True, b"", position
                    continue
            problem, size, base, following_offset = look(
                data, at, segment.size - position, due, segment.next_offset
            )
            if (
                base > due
                and not problem
                and (exact or following_offset > self._places.bound(segment, position, due))
            ):
                problem = f"offset {base} where {due} was due"
            if not problem and following_offset <= offset:
                position, due, exact = position + size, following_offset, False
                continue
            if not problem:
                if size > max_bytes and not whole_first:
                    return []
                lent = self._lent(segment, position, due, max(size, max_bytes), least) if least else None
                if lent is not None:
                    return [lent]
                found, problem = yield from self._checked(
                    segment, position, due, memoryview(data)[at:], seen, size, max_bytes
                )
                if not problem:
                    return [found]
            position, due = yield from self._go_on(segment, position, due, problem, offset)
            exact, data, begin = True, b"", position

    def _ahead(self, offset: int, max_bytes: int, whole_first: bool) -> Reading[list[Buffer]]:
        """The same, with a window for the steps to come."""
        found = cast("list[Buffer]", (yield from self._read(offset, windows.BYTES, True)))
        if not found:
            return found
        window = windows.Window(found[0], offset)
        if len(found[0]) <= windows.BYTES:
            self._reader.windows.keep(self.partition, window)
        answer = window.read(offset, max_bytes, whole_first, short=True)
        assert answer is not None, "the first batch comes whole"
        return answer

    def _lent(self, segment: Segment, position: int, due: int, size: int, least: int) -> Piece | None:
        """The batches from a position on, if they are many bytes."""
        total = min(size, segment.size - position)
        if total < least:
            return None
        return self._reader.lend(
            Request(self.partition, segment, total, position), self._trust, due, self._ends
        )

    def _checked(
        self, segment: Segment, position: int, due: int, data: Buffer, seen: int, size: int, max_bytes: int
    ) -> Reading[tuple[Buffer, str]]:
        """The good batches from a position on, or else what is wrong with the first, of `size` bytes. `data` was read
        when there were `seen` misses.
        """
        trust = self._trust
        room = segment.size - position
        total = max(size, min(max_bytes, room))
        while True:
            if total > len(data):
                data = yield Request(self.partition, segment, total, position)
                seen = trust.seen
                if len(data) < size:
                    return b"", "the file ends within a batch"
            view = memoryview(data)[:total]
            # who asks says that it missed before it asks no more: so this is looked at first
            asked = trust.asked(segment, position, len(view))
            end, known = trust.until(segment, position)
            if asked or trust.misses != seen:
                end, known = position, -1
            if end >= position + len(view):
                return view, ""
            # a check begins with a batch
            start, last = end - position if known >= 0 else 0, segment.next_offset
            due = max(due, known)
            if len(view) - start <= _CHECK_BYTES:
                checked = sound(view, start, room - start, due, last, gap=not start)
            else:
                work = Work(lambda: sound(view, start, room - start, due, last, gap=not start))  # noqa: B023
                checked = yield work
            if checked.batches:
                trust.found(
                    segment.number, position + start, position + checked.position, checked.next_offset, seen
                )
            if checked.position:
                return view[: checked.position], ""
            if checked.problem:
                return b"", checked.problem
            # it leaves a gap: the header behind it must be seen, and a short answer was all there is
            if len(view) > size or len(data) < total:
                return b"", "a gap, and the file ends behind it"
            total = min(size + batch.HEADER_BYTES, room)

    def _go_on(
        self, segment: Segment, position: int, due: int, problem: str, offset: int
    ) -> Reading[tuple[int, int]]:
        """Where a read for an offset goes on behind the damaged batch at a position: (position, offset).

        Raises Corrupt when the offset is among those that are lost.
        """
        # it looks ahead, and brings into the page cache what nobody has checked
        self._trust.missed(segment, 0, segment.size)
        place, following = yield Work(
            lambda: integrity.go_on(
                self._database, self._reader.files, self.partition, segment, position, due
            )
        )
        if following > offset:
            what = f"{self._reader.name(self.partition, segment)} at byte {position}: {problem}"
            raise damaged(self.partition, max(due, self.start_offset), following, what)
        return place, following

    def batch_at_or_after(self, timestamp: int, from_offset: int = 0) -> Pending[list[Buffer]]:
        return self._drive(self._by_time(timestamp, max(self.start_offset, from_offset)))

    def _by_time(self, timestamp: int, start: int) -> Reading[list[Buffer]]:
        for segment in self._places.segments():
            if segment.max_timestamp < timestamp or segment.next_offset <= start:
                continue
            position, due = self._places.before_time(segment, timestamp, start)
            found = yield from self._walk(
                segment,
                position,
                lambda header: header.max_timestamp >= timestamp and header.next_offset > start,
                due,
            )
            if found is not None:
                return (yield from self._whole(found))
        return []

    def max_timestamp_batch(self) -> Pending[list[Buffer]]:
        return self._drive(self._latest())

    def _latest(self) -> Reading[list[Buffer]]:
        start = self.start_offset
        segments = [each for each in self._places.segments() if each.next_offset > start]
        if not segments:
            return []
        segment = max(segments, key=lambda each: each.max_timestamp)
        found = yield from self._first_with(segment, segment.max_timestamp, segment.max_from)
        if found is not None and found.next_offset > start:
            return (yield from self._whole(found))
        # what had it was trimmed: look at all that is left
        best: Header | None = None

        def latest(header: Header) -> bool:
            nonlocal best
            if header.next_offset > start and (best is None or header.max_timestamp > best.max_timestamp):
                best = header
            return False

        for segment in segments:
            yield from self._walk(segment, 0, latest)
        return [] if best is None else (yield from self._whole(best))

    def _first_with(self, segment: Segment, timestamp: int, offset: int) -> Reading[Header | None]:
        """The first batch of a segment with just this largest timestamp, at or after the one at `offset`."""
        position, _ = self._places.floor(segment, offset)
        return (
            yield from self._walk(
                segment, position, lambda header: header.max_timestamp == timestamp and header.base >= offset
            )
        )

    def _walk(
        self, segment: Segment, position: int, wanted: Callable[[Header], bool], due: int = 0
    ) -> Reading[Header | None]:
        """The first batch from a position on that is wanted; None when the segment ends before.

        Raises Corrupt where headers make no sense.
        """
        nth = 0
        due = max(due, segment.base)
        while position < segment.size:
            data = yield Request(self.partition, segment, min(_WALK_BYTES, segment.size - position), position)
            at = 0
            problem = "the file ends here"
            while len(data) - at >= batch.HEADER_BYTES:
                problem, size, base, following = look(
                    data, at, segment.size - position - at, due, segment.next_offset
                )
                if problem:
                    break
                timestamp = batch.max_timestamp(data, at)
                header = Header(segment, position + at, size, base, following, timestamp, nth)
                if wanted(header):
                    return header
                at += size
                due = following
                nth += 1
            if problem:
                yield from self._go_on(segment, position + at, due, problem, -1)
            position += at
        return None

    def _whole(self, header: Header) -> Reading[list[Buffer]]:
        segment, position = header.segment, header.position
        found, problem = yield from self._checked(
            segment, position, header.base, b"", -1, header.size, header.size
        )
        if problem:
            yield from self._go_on(segment, position, header.base, problem, -1)
        return [found]

    # message ids

    def position_of(self, offset: int) -> Position:
        if not self.start_offset <= offset < self.end_offset:
            raise IndexError(f"offset {offset} is outside [{self.start_offset}, {self.end_offset})")
        return self._now(self._position_of(offset))

    def _position_of(self, offset: int) -> Reading[Position]:
        segment, _, row = self._place(offset)
        found = yield from self._walk(segment, row.position, lambda header: header.next_offset > offset)
        while found is None:
            # in a gap at a segment's end
            following = self._places.segment_after(segment)
            if following is None:
                raise IndexError(f"offset {offset} has no record at or after it")
            segment, _, row = self._place(following.base)
            found = yield from self._walk(segment, row.position, lambda header: True)
        if found.base > offset:
            # in a gap: a ledger may have begun behind it, and only its own index row says so
            segment, _, row = self._place(found.base)
            found = yield from self._walk(segment, row.position, lambda header: header.next_offset > offset)
            assert found is not None
        return Position(row.ledger, row.entry + found.nth, max(0, offset - found.base))

    def offset_of(self, ledger: int, entry: int) -> int:
        value = self._database.get(Family.LEDGER, _key(self.partition, ledger))
        if value is None or entry < 0:
            raise KeyError((ledger, entry))
        row = LogRow._make(self._places.row)
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
        segment = self._places.segment_of(base)
        if segment is None or segment.number != index.number:
            raise KeyError((ledger, entry))
        nth = entry - index.entry
        header = self._now(self._walk(segment, index.position, lambda header: header.nth == nth))
        if header is None or header.next_offset <= self.start_offset:
            raise KeyError((ledger, entry))
        return header.base

    # what there is

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        known = -1
        for key, value in self._database.scan(Family.EPOCH, self._key):
            epoch = rows.PARTITION_U32.unpack(key)[1]
            if epoch > leader_epoch:
                return (known, rows.U64.unpack(value)[0]) if known >= 0 else (-1, -1)
            known = epoch
        return (known, self.end_offset) if known >= 0 else (-1, -1)

    def segments(self) -> list[SegmentInfo]:
        active = self._places.active()
        found = []
        for each in self._places.segments():
            offset = self._resolved.get((each.number, each.max_from), -1)
            if offset < 0:
                if len(self._resolved) > 1000:
                    self._resolved.clear()
                try:
                    header = self._now(self._first_with(each, each.max_timestamp, each.max_from))
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
                )
            )
        return found

    def ledgers(self) -> list[LedgerInfo]:
        row = LogRow._make(self._places.row)
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

    def _begin(self, offset: int) -> tuple[Segment, int, int, bool, int]:
        """Where to look from for an offset: (segment, position, offset due there, whether the index says so, bytes of
        the batch that begins there or 0). Raises Corrupt when no row speaks of it.
        """
        segment = self._segment_of(offset)
        ended = self._ends.place(segment, offset)
        if ended is not None:
            return segment, ended[0], offset, False, ended[1]
        due, row = self._index_row(segment, offset)
        return segment, row.position, due, True, 0

    def _segment_of(self, offset: int) -> Segment:
        """See `Places.segment_of`. Raises Corrupt when no segment is known for it."""
        segment = self._places.segment_of(offset)
        if segment is None:
            raise damaged(self.partition, offset, self.end_offset, "no segment is known for them")
        return segment

    def _index_row(self, segment: Segment, offset: int) -> tuple[int, rows.IndexRow]:
        """See `Places.place`. Raises Corrupt when no row speaks of the offset."""
        found = self._places.place(segment, offset)
        if found is None:
            what = f"{self._reader.name(self.partition, segment)}: no row of the index speaks of them"
            raise damaged(self.partition, offset, segment.next_offset, what)
        return found

    def _place(self, offset: int) -> tuple[Segment, int, rows.IndexRow]:
        """The segment of an offset, and the row of its index to look from. Raises Corrupt."""
        segment = self._segment_of(offset)
        return segment, *self._index_row(segment, offset)

    def _now(self, reading: Reading[T]) -> T:
        return self._reader.now(reading, self._trust)

    def _drive(self, reading: Reading[T]) -> T | Coroutine[None, None, T]:
        """Run a read here while the page cache has the bytes, and in a thread from the first miss on."""
        cached, trust = self._reader.cached, self._trust
        try:
            request = next(reading)
            while True:
                data = None if isinstance(request, Work) else cached(request, trust)
                if data is None:
                    return self._reader.later(reading, request, trust)
                request = reading.send(data)
        except StopIteration as stop:
            result: T = stop.value
            return result
