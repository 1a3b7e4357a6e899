"""Which stored bytes are known to be right, and where a log goes on behind damage.

Nothing is checked twice without need. What this process appended was checked when it was admitted, and the page cache
keeps it as it was; what stood there before is checked when it is first read. Bytes that the page cache has let go of
are checked again as they are read, and only those. Systems let go of single pages of a file that is in use; if its
whole segment counted as unknown then, readers a gigabyte behind would check every byte. Descriptors that read segments
do without read-ahead (`Files.open_to_read`), so that nothing comes from the disk that no read asked for.
"""

from __future__ import annotations

import mmap
import threading
from bisect import bisect_left, bisect_right
from collections import deque
from typing import NamedTuple

from store.api import Family
from store.batch import HEADER_BYTES
from store.rocksdb import rows
from store.rocksdb.check import file_size, header, sound
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from store.rocksdb.segments import Request, Segment

EXTENTS = 256
"""Ranges that are remembered of one segment: enough for readers here and there, and for holes of single pages."""
SEGMENTS = 64
"""Segments of one log of which ranges are remembered."""


class Extents:
    """Ranges of bytes that are right, each with the next offset at its end: -1 when that is within a batch."""

    __slots__ = ("ends", "offsets", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.offsets: list[int] = []

    def until(self, position: int) -> tuple[int, int]:
        """(where the range that holds a position ends, the next offset there or -1), or the position itself and -1."""
        index = bisect_right(self.starts, position) - 1
        if index >= 0 and self.ends[index] >= position:
            return self.ends[index], self.offsets[index]
        return position, -1

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """What of these bytes lies in no range."""
        found = []
        index = bisect_right(self.ends, start)
        while start < end:
            begin = self.starts[index] if index < len(self.starts) else end
            if begin > start:
                found.append((start, min(begin, end)))
            if begin >= end:
                break
            start = self.ends[index]
            index += 1
        return found

    def add(self, start: int, end: int, next_offset: int) -> None:
        """A range more; those that it touches become one with it."""
        starts, ends, offsets = self.starts, self.ends, self.offsets
        index = bisect_right(starts, start)
        if index and ends[index - 1] >= start:
            index -= 1
            start = starts[index]
        stop = index
        while stop < len(starts) and starts[stop] <= end:
            if ends[stop] > end:
                end, next_offset = ends[stop], offsets[stop]
            stop += 1
        starts[index:stop], ends[index:stop], offsets[index:stop] = [start], [end], [next_offset]
        if len(starts) > EXTENTS:
            del starts[0], ends[0], offsets[0]

    def cut(self, start: int, end: int) -> None:
        """These bytes are known no longer."""
        starts, ends, offsets = self.starts, self.ends, self.offsets
        first, stop = bisect_right(ends, start), bisect_left(starts, end)
        if first >= stop:
            return
        kept = []
        if starts[first] < start:
            kept.append((starts[first], start, -1))
        if ends[stop - 1] > end:
            kept.append((end, ends[stop - 1], offsets[stop - 1]))
        starts[first:stop] = [each[0] for each in kept]
        ends[first:stop] = [each[1] for each in kept]
        offsets[first:stop] = [each[2] for each in kept]


class Evicted(NamedTuple):
    """Bytes that the page cache has let go of."""

    segment: Segment
    position: int
    size: int


class Verified(NamedTuple):
    """Batches that were right when the count of misses was `misses`."""

    number: int
    start: int
    end: int
    next_offset: int
    misses: int


class Asking:
    """See `Trust.asking`."""

    __slots__ = ("_asks", "_position", "_segment", "_size", "_told", "_trust")

    def __init__(
        self,
        trust: Trust,
        asks: dict[object, tuple[int, int, int]],
        segment: Segment,
        position: int,
        size: int,
    ) -> None:
        self._trust = trust
        self._asks = asks
        self._segment = segment
        self._position = position
        self._size = size
        self._told = False

    def __enter__(self) -> Asking:
        self._asks[self] = (self._segment.number, self._position, self._position + self._size)
        return self

    def found(self) -> None:
        """They were in memory."""
        self._told = True

    def lost(self) -> int:
        """They may have come from the disk, now or soon; how many misses there are now."""
        self._told = True
        return self._trust.lost(self._segment, self._position, self._size)

    def __exit__(self, *_: object) -> None:
        if not self._told:
            self.lost()
        # last: others look whether somebody asks, and then whether something was missed
        del self._asks[self]


class Trust:
    """What is known of the bytes of one log."""

    __slots__ = ("_asks", "_checked", "_lock", "_told", "fresh", "loop_asks", "misses", "number", "seen")

    def __init__(self, number: int, size: int) -> None:
        # from this byte on the active segment's were appended by this process
        self.number = number
        self.fresh = size
        self._checked: dict[int, Extents] = {}
        # how often the page cache had let go of something; what threads found since the loop looked last
        self.misses = 0
        # how often it had when the loop's last bytes were read
        self.seen = 0
        self._lock = threading.Lock()
        self._told: deque[Evicted | Verified] = deque()
        # what threads ask the page cache for, and have not said yet whether it was there; what the loop does
        self._asks: dict[object, tuple[int, int, int]] = {}
        self.loop_asks: Request | None = None

    def until(self, segment: Segment, position: int) -> tuple[int, int]:
        """(up to where the bytes from a position on are known to be right, the next offset there).

        The offset is -1 when that is within a batch, or nothing is known.
        """
        self._hear()
        if segment.number == self.number and position >= self.fresh:
            return segment.size, segment.next_offset
        known = self._checked.get(segment.number)
        if known is None:
            return position, -1
        end, offset = known.until(position)
        if segment.number == self.number and end >= self.fresh > position:
            return segment.size, segment.next_offset
        return end, offset

    def doubts(self, segment: Segment, position: int, size: int) -> list[tuple[int, int]]:
        """Which of these bytes are not known to be right: (from, to) each, in order."""
        self._hear()
        end = position + size
        if segment.number == self.number:
            end = min(end, max(self.fresh, position))
        known = self._checked.get(segment.number)
        if known is None:
            return [(position, end)] if position < end else []
        return known.gaps(position, end)

    def _hear(self) -> None:
        """Take over what threads have found out."""
        while self._told:
            told = self._told.popleft()
            if isinstance(told, Evicted):
                self._cut(told.segment, told.position, told.size)
            elif told.misses == self.misses:
                # nothing came from the disk after it was looked at
                self.add(told.number, told.start, told.end, told.next_offset)

    def add(self, number: int, start: int, end: int, next_offset: int) -> None:
        """The batches from `start` to `end` of a segment were found right."""
        known = self._checked.get(number)
        if known is None:
            if len(self._checked) >= SEGMENTS:
                del self._checked[next(iter(self._checked))]
            known = self._checked[number] = Extents()
        known.add(start, end, next_offset)

    def rolled(self, closed: list[tuple[int, int, int]], number: int) -> None:
        """Appends have gone on in new segments: (number, size, next offset) of those left, and the active one."""
        for each, size, next_offset in closed:
            begin = self.fresh if each == self.number else 0
            if begin < size:
                self.add(each, begin, size, next_offset)
        self.number = number
        self.fresh = 0

    def missed(self, segment: Segment, position: int, size: int) -> None:
        """The page cache has let go of some of these bytes of a segment: all their pages count as unknown."""
        with self._lock:
            self.misses += 1
        self._cut(segment, position, size)

    def _cut(self, segment: Segment, position: int, size: int) -> None:
        if segment.number == self.number and self.fresh < segment.size:
            self.add(segment.number, self.fresh, segment.size, segment.next_offset)
            self.fresh = segment.size
        first = position // mmap.PAGESIZE * mmap.PAGESIZE
        stop = -(-(position + size) // mmap.PAGESIZE) * mmap.PAGESIZE
        if segment.number == self.number and stop > self.fresh:
            # what was appended since to the last of these pages
            self.fresh = stop
        known = self._checked.get(segment.number)
        if known is not None:
            known.cut(first, stop)

    # in any thread

    def asking(self, segment: Segment, position: int, size: int) -> Asking:
        """Around a call that may have the system read these bytes from the disk. They count as missed when it ends,
        unless it says `found`.

        The request alone makes the system begin to read: from then on others may find bytes there that were not
        checked.
        """
        return Asking(self, self._asks, segment, position, size)

    def asked(self, segment: Segment, position: int, size: int, but: Asking | None = None) -> bool:
        """Whether somebody (but for one) asks for some of these bytes, and has not said yet whether they were there."""
        asks = [ask for who, ask in list(self._asks.items()) if who is not but]
        mine = self.loop_asks
        if mine is not None:
            asks.append((mine.segment.number, mine.position, mine.position + mine.size))
        return any(
            number == segment.number and start < position + size and position < end
            for number, start, end in asks
        )

    def lost(self, segment: Segment, position: int, size: int) -> int:
        """As `missed`, in any thread; how many misses there are now."""
        with self._lock:
            self.misses += 1
            self._told.append(Evicted(segment, position, size))
            return self.misses

    def found(self, number: int, start: int, end: int, next_offset: int, misses: int) -> None:
        """As `add`, in any thread. `misses`: how many there had been when the bytes were read."""
        self._told.append(Verified(number, start, end, next_offset, misses))


def go_on(
    database: Database, files: Files, partition: int, segment: Segment, position: int, expected: int
) -> tuple[int, int]:
    """(position, offset) of the first good batch behind the damaged one at `position`, or the segment's end.

    Lengths lead on as long as the headers make sense; from where they do not, the index says where the next batch
    stands, a few KB further on. Reads the disk: for a thread.
    """
    end = segment.size, segment.next_offset
    try:
        descriptor = files.open(partition, segment.base, segment.number)
    except OSError:
        return end
    try:
        size = min(segment.size, file_size(descriptor))
        key = rows.PARTITION_OFFSET.pack(partition, expected)
        for found, value in database.scan(Family.INDEX, rows.U32.pack(partition), key):
            row = rows.index_row(value)
            if row.number != segment.number or row.position <= position:
                continue
            offset = rows.PARTITION_OFFSET.unpack(found)[1]
            if offset >= segment.next_offset or row.position >= size:
                break
            place = _by_lengths(files, descriptor, segment, (position, expected), (row.position, offset))
            if place is not None:
                return place
            if _is_good(files, descriptor, segment, row.position, offset, offset, segment.next_offset):
                return row.position, offset
            position, expected = row.position, offset
        return _by_lengths(files, descriptor, segment, (position, expected), (size, end[1])) or end
    finally:
        files.close(descriptor)


def _by_lengths(
    files: Files, descriptor: int, segment: Segment, begin: tuple[int, int], end: tuple[int, int]
) -> tuple[int, int] | None:
    """The first good batch between two places, (position, offset) each, behind the one at the first."""
    position, expected = begin
    first = True
    while position < end[0]:
        data = _read(files, descriptor, HEADER_BYTES, position)
        if len(data) < HEADER_BYTES:
            return None
        problem, size, base, _ = header(data, 0, end[0] - position, expected, end[1])
        if not first:
            if problem:
                return None
            if _is_good(files, descriptor, segment, position, base, expected, end[1]):
                return position, base
        if size < HEADER_BYTES:
            return None
        first = False
        position += size
    return None


def _is_good(
    files: Files, descriptor: int, segment: Segment, position: int, base: int, expected: int, last: int
) -> bool:
    data = _read(files, descriptor, HEADER_BYTES, position)
    if len(data) < HEADER_BYTES:
        return False
    problem, size, stands, _ = header(data, 0, segment.size - position, expected, last)
    if problem or stands != base:
        return False
    data = _read(files, descriptor, size + HEADER_BYTES, position)
    return sound(data, 0, segment.size - position, base, last).batches > 0


def _read(files: Files, descriptor: int, size: int, position: int) -> bytes:
    try:
        return files.read(descriptor, size, position)
    except OSError:
        return b""
