"""Where in its files a log holds an offset: its segments, and the sparse index of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from store.api import Family
from store.rocksdb import rows
from store.rocksdb.append import Rolled
from store.rocksdb.database import Database
from store.rocksdb.rows import LogRow
from store.rocksdb.segments import Segment

_key = rows.PARTITION_OFFSET.pack
_GUESSES = 6
_SLACK = 64 * 1024


class SegmentIndex:
    """The segments of one log, oldest first, as they are committed, and what the index says of them."""

    def __init__(self, partition: int, row: LogRow, database: Database) -> None:
        self.partition = partition
        # the log's row as it is committed: a LogRow, or a plain tuple of its fields (`LogWriter.row`)
        self.row: tuple[int, ...] = row
        self._database = database
        self._prefix = rows.U32.pack(partition)
        # closed segments, once somebody asked
        self._closed: list[Segment] | None = None

    @property
    def start(self) -> int:
        """The log's first offset."""
        return self.row[1]

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return self.row[2]

    def rolled(self, segments: Iterable[Rolled]) -> None:
        """These were closed."""
        if self._closed is not None:
            self._closed += [_closed(each.base, each.row) for each in segments]

    def trimmed(self, start: int) -> None:
        """The log begins with this offset now."""
        if self._closed is not None:
            self._closed = [each for each in self._closed if each.next_offset > start]

    def swapped(self) -> None:
        """Some have others in their place."""
        self._closed = None

    def reload(self) -> bool:
        """Look again which segments there are, since the index speaks of others: whether a swap that is not told of yet
        is the reason.
        """
        before, self._closed = self._closed, None
        self.segments()
        return self._closed != before

    def active(self) -> Segment | None:
        """The segment that takes what comes; None before the first batch and after a trim of all."""
        if not self.row[0] & rows.ACTIVE:
            return None
        head = LogRow._make(self.row)
        return Segment(
            head.segment_base,
            head.end,
            head.number,
            head.segment_size,
            head.segment_max,
            head.segment_max_from,
            head.segment_created,
        )

    def segments(self) -> list[Segment]:
        """All of them; the active one is last."""
        active = self.active()
        if self._closed is None:
            self._closed = list(self._load(active))
        return self._closed if active is None else [*self._closed, active]

    def _load(self, active: Segment | None) -> Iterator[Segment]:
        for key, value in self._database.scan(Family.SEGMENT, self._prefix):
            base = rows.PARTITION_OFFSET.unpack(key)[1]
            if active is not None and base >= active.base:
                # rolled by a group that is not published yet
                return
            yield _closed(base, rows.segment_row(value))

    def segment_of(self, offset: int) -> Segment | None:
        """The segment that holds an offset, or the next one when it lies in a gap between two."""
        segments = self.segments()
        index = bisect_right(segments, offset, key=lambda each: each.next_offset)
        return segments[index] if index < len(segments) else None

    def ends_in_a_gap(self, offset: int) -> bool:
        """Whether an offset lies behind all batches there are, and below the end: a power cut took what came behind a
        segment that had lost its last batches.
        """
        segments = self.segments()
        return bool(segments) and segments[-1].sparse and segments[-1].next_offset <= offset < self.end

    def segment_after(self, segment: Segment) -> Segment | None:
        return self.segment_of(segment.next_offset)

    def place(self, segment: Segment, offset: int) -> tuple[int, rows.IndexRow] | None:
        """The index row of a segment at or before an offset, behind the offset of its batch."""
        found = self._database.at_or_before(Family.INDEX, _key(self.partition, max(offset, segment.base)))
        if found is None:
            return None
        row = rows.index_row(found[1])
        return (rows.PARTITION_OFFSET.unpack(found[0])[1], row) if row.number == segment.number else None

    def floor(self, segment: Segment, offset: int) -> tuple[int, int]:
        """(position, offset) to begin at to find all from an offset on: the index row, or the segment's start."""
        found = self.place(segment, offset)
        return (0, segment.base) if found is None else (found[1].position, found[0])

    def before_time(self, segment: Segment, timestamp: int, start: int) -> tuple[int, int]:
        """(position, offset) of the last index row all of whose earlier batches are before the timestamp."""
        low, high = max(segment.base, start), segment.next_offset - 1
        position, due = self.floor(segment, low)
        while low <= high:
            middle = (low + high) // 2
            found = self._database.at_or_before(Family.INDEX, _key(self.partition, middle))
            if found is None:
                break
            row = rows.index_row(found[1])
            offset = rows.PARTITION_OFFSET.unpack(found[0])[1]
            if row.number != segment.number or row.earlier_max < timestamp:
                if row.number == segment.number and row.position > position:
                    position, due = row.position, offset
                low = middle + 1
            else:
                high = offset - 1
        return position, due

    def bound(self, segment: Segment, position: int, due: int) -> int:
        """What offsets of a batch at a position must stay below: the index knows of a batch a little further on."""
        start = _key(self.partition, due)
        for key, value in self._database.scan(Family.INDEX, self._prefix, start, 2):
            row = rows.index_row(value)
            if row.number == segment.number and row.position > position:
                return int(rows.PARTITION_OFFSET.unpack(key)[1])
        return segment.next_offset

    def below(self, segment: Segment, position: int, due: int, end: int) -> int:
        """An offset that all records before the position `end` of a segment lie below. The batch at `position` has the
        offset `due` or a later one. Where a row a little behind `end` is, is guessed a few times: the answer is right
        in any case, and near when offsets are spread evenly.
        """
        best, best_at = segment.next_offset, segment.size
        slack = (end - position) // 4 + _SLACK
        wanted = end + slack // 2
        low, low_at, high, high_at = due, position, best, best_at
        for _ in range(_GUESSES):
            if best_at - end <= slack or high - low < 2:
                break
            guess = low + (high - low) * (min(wanted, high_at) - low_at) // (high_at - low_at)
            guess = max(low + 1, min(guess, high - 1))
            found = self._database.at_or_before(Family.INDEX, _key(self.partition, guess))
            row = None if found is None else rows.index_row(found[1])
            if found is None or row is None or row.number != segment.number:
                break
            if row.position >= end:
                best, best_at = int(rows.PARTITION_OFFSET.unpack(found[0])[1]), row.position
                high, high_at = best, best_at
            else:
                low, low_at = guess, max(low_at, row.position)
        return best


def _closed(base: int, row: rows.SegmentRow) -> Segment:
    return Segment(
        base,
        row.next_offset,
        row.number,
        row.size,
        row.max_timestamp,
        row.max_timestamp_from,
        row.created_at,
    )
