"""Batches of one log found in its segments.

The sparse index (`segment_index.py`) names a place at most 20 KB before the batch, and headers lead on from there. A
read is written once, as a generator that asks for bytes (`segments.Reading`); `reader.py` runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from store import batch
from store.api import Buffer, Corrupt, Piece
from store.rocksdb import integrity, readahead, rows
from store.rocksdb.append import LOOK_AHEAD
from store.rocksdb.check import header as look
from store.rocksdb.check import sound
from store.rocksdb.database import Database
from store.rocksdb.file_region import AnswerEnds
from store.rocksdb.reader import Reader, damaged
from store.rocksdb.segment_index import SegmentIndex
from store.rocksdb.segments import Reading, Request, Segment, Work

_WALK_BYTES = 64 * 1024
_CHECK_BYTES = 1024 * 1024 + 64 * 1024
"""As much is checked on the loop, some 130 us: a thread would give an answer only when the loop lets go of the
interpreter, which takes milliseconds when there is much to do. More is checked in a thread.
"""


class FileBatch(NamedTuple):
    """A batch as its header tells: where it stands and what it holds. `nth` counts from where the walk began."""

    segment: Segment
    position: int
    size: int
    base: int
    next_offset: int
    max_timestamp: int
    nth: int


class LogReader:
    """The reads of one log, by offset and by time."""

    def __init__(
        self, partition: int, index: SegmentIndex, database: Database, reader: Reader, trust: integrity.Trust
    ) -> None:
        self._partition = partition
        self._index = index
        self._database = database
        self._reader = reader
        self._trust = trust
        self._ends = AnswerEnds()

    # by offset

    def at_once(self, offset: int, max_bytes: int, least: int) -> Piece | None:
        """The batches from an offset on, if a large answer ended there and `least` bytes or more follow."""
        segment = self._index.segment_of(offset) if offset in self._ends else None
        place = self._ends.place(segment, offset) if segment is not None else None
        if segment is None or place is None or not place[1]:
            return None
        return self._lend(segment, place[0], offset, max(place[1], max_bytes), least)

    def read(self, offset: int, max_bytes: int, whole_first: bool, least: int = 0) -> Reading[list[Piece]]:
        """`least`: see `lend`; 0: nothing is lent."""
        # the offset that is due at `position`; `exact` when a row says that it stands there
        try:
            segment, position, due, exact, size = self._begin(offset)
        except Corrupt:
            if self._index.ends_in_a_gap(offset):
                return []
            raise
        if least and size:
            if size > max_bytes and not whole_first:
                return []
            lent = self._lend(segment, position, due, max(size, max_bytes), least)
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
                following = self._index.segment_after(segment)
                if following is None:
                    return []
                segment, position, due, exact = following, 0, following.base, True
                data, begin = b"", 0
            at = position - begin
            if len(data) - at < batch.HEADER_BYTES:
                size = min(want, segment.size - position)
                data = yield Request(self._partition, segment, size, position)
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
                and (exact or following_offset > self._index.bound(segment, position, due))
            ):
                problem = f"offset {base} where {due} was due"
            if not problem and following_offset <= offset:
                position, due, exact = position + size, following_offset, False
                continue
            if not problem:
                if size > max_bytes and not whole_first:
                    return []
                lent = self._lend(segment, position, due, max(size, max_bytes), least) if least else None
                if lent is not None:
                    return [lent]
                found, problem = yield from self._checked(
                    segment, position, due, memoryview(data)[at:], seen, size, max_bytes
                )
                if not problem:
                    return [found]
            position, due = yield from self._go_on(segment, position, due, problem, offset)
            exact, data, begin = True, b"", position

    def ahead(self, offset: int, max_bytes: int, whole_first: bool) -> Reading[list[Buffer]]:
        """The same, with a window for the steps to come."""
        found = cast("list[Buffer]", (yield from self.read(offset, readahead.BYTES, True)))
        if not found:
            return found
        window = readahead.ReadaheadWindow(found[0], offset)
        if len(found[0]) <= readahead.BYTES:
            self._reader.readahead.keep(self._partition, window)
        answer = window.read(offset, max_bytes, whole_first, short=True)
        assert answer is not None, "the first batch comes whole"
        return answer

    def _lend(self, segment: Segment, position: int, due: int, size: int, least: int) -> Piece | None:
        """The batches from a position on, if they are many bytes."""
        total = min(size, segment.size - position)
        if total < least:
            return None
        return self._reader.lend(
            Request(self._partition, segment, total, position), self._trust, due, self._ends, self._index
        )

    def _checked(
        self, segment: Segment, position: int, due: int, data: Buffer, seen: int, size: int, max_bytes: int
    ) -> Reading[tuple[Buffer, str]]:
        """The good batches from a position on, or else what is wrong with the first, of `size` bytes. `seen`: how many
        misses there had been when `data` was read.
        """
        trust = self._trust
        room = segment.size - position
        total = max(size, min(max_bytes, room))
        while True:
            if total > len(data):
                data = yield Request(self._partition, segment, total, position)
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
            start, last, sparse = end - position if known >= 0 else 0, segment.next_offset, segment.sparse
            due = max(due, known)
            if len(view) - start <= _CHECK_BYTES:
                checked = sound(view, start, room - start, due, last, gap=not start, sparse=sparse)
            else:
                work = Work(
                    lambda: sound(view, start, room - start, due, last, gap=not start, sparse=sparse)  # noqa: B023
                )
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
                self._database, self._reader.files, self._partition, segment, position, due
            )
        )
        if following > offset:
            what = f"{self._reader.name(self._partition, segment)} at byte {position}: {problem}"
            raise damaged(self._partition, max(due, self._index.start), following, what)
        return place, following

    # by time

    def at_or_after(self, timestamp: int, start: int) -> Reading[list[Buffer]]:
        for segment in self._index.segments():
            if segment.max_timestamp < timestamp or segment.next_offset <= start:
                continue
            position, due = self._index.before_time(segment, timestamp, start)
            found = yield from self.walk(
                segment,
                position,
                lambda header: header.max_timestamp >= timestamp and header.next_offset > start,
                due,
            )
            if found is not None:
                return (yield from self._whole(found))
        return []

    def latest(self) -> Reading[list[Buffer]]:
        start = self._index.start
        segments = [each for each in self._index.segments() if each.next_offset > start]
        if not segments:
            return []
        segment = max(segments, key=lambda each: each.max_timestamp)
        found = yield from self.first_with(segment, segment.max_timestamp, segment.max_from)
        if found is not None and found.next_offset > start:
            return (yield from self._whole(found))
        # what had it was trimmed: look at all that is left
        best: FileBatch | None = None

        def latest(header: FileBatch) -> bool:
            nonlocal best
            if header.next_offset > start and (best is None or header.max_timestamp > best.max_timestamp):
                best = header
            return False

        for segment in segments:
            yield from self.walk(segment, 0, latest)
        return [] if best is None else (yield from self._whole(best))

    def first_with(self, segment: Segment, timestamp: int, offset: int) -> Reading[FileBatch | None]:
        """The first batch of a segment with just this largest timestamp, at or after the one at `offset`."""
        position, _ = self._index.floor(segment, offset)
        return (
            yield from self.walk(
                segment, position, lambda header: header.max_timestamp == timestamp and header.base >= offset
            )
        )

    # by headers

    def walk(
        self, segment: Segment, position: int, wanted: Callable[[FileBatch], bool], due: int = 0
    ) -> Reading[FileBatch | None]:
        """The first batch from a position on that is wanted; None when the segment ends before.

        Raises Corrupt where headers make no sense.
        """
        nth = 0
        due = max(due, segment.base)
        while position < segment.size:
            data = yield Request(
                self._partition, segment, min(_WALK_BYTES, segment.size - position), position
            )
            at = 0
            problem = "the file ends here"
            while len(data) - at >= batch.HEADER_BYTES:
                problem, size, base, following = look(
                    data, at, segment.size - position - at, due, segment.next_offset
                )
                if problem:
                    break
                timestamp = batch.max_timestamp(data, at)
                header = FileBatch(segment, position + at, size, base, following, timestamp, nth)
                if wanted(header):
                    return header
                at += size
                due = following
                nth += 1
            if problem:
                yield from self._go_on(segment, position + at, due, problem, -1)
            position += at
        return None

    def _whole(self, header: FileBatch) -> Reading[list[Buffer]]:
        segment, position = header.segment, header.position
        found, problem = yield from self._checked(
            segment, position, header.base, b"", -1, header.size, header.size
        )
        if problem:
            yield from self._go_on(segment, position, header.base, problem, -1)
        return [found]

    def _begin(self, offset: int) -> tuple[Segment, int, int, bool, int]:
        """Where to look from for an offset: (segment, position, offset due there, whether the index says so, bytes of
        the batch that begins there or 0). Raises Corrupt when no row speaks of it.
        """
        segment = self._segment_of(offset)
        ended = self._ends.place(segment, offset)
        if ended is not None:
            return segment, ended[0], offset, False, ended[1]
        segment, due, row = self.place(offset)
        return segment, row.position, due, True, 0

    def _segment_of(self, offset: int) -> Segment:
        """See `SegmentIndex.segment_of`. Raises Corrupt when no segment is known for it."""
        segment = self._index.segment_of(offset)
        if segment is None:
            raise damaged(self._partition, offset, self._index.end, "no segment is known for them")
        return segment

    def place(self, offset: int) -> tuple[Segment, int, rows.IndexRow]:
        """The segment of an offset, and the row of its index to look from. Raises Corrupt when no row speaks of it."""
        segment = self._segment_of(offset)
        found = self._index.place(segment, offset)
        if found is None and self._index.reload():
            segment = self._segment_of(offset)
            found = self._index.place(segment, offset)
        if found is None:
            what = f"{self._reader.name(self._partition, segment)}: no row of the index speaks of them"
            raise damaged(self._partition, offset, segment.next_offset, what)
        return segment, *found
