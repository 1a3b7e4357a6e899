"""Segments written anew without some of their batches: what is read, and what comes into its place.

Whoever does it needs no store, only files: `batches` reads those of a `Source`, `SegmentWriter` fills the file that the
store has made for it (`Store.reserve`), and `Swap` puts that file in the place of the old ones.

Message ids count the batches of a ledger, also those that are gone. So the index of such a segment says how many are
missing, and where: a row has, behind its fixed part, the batches before which some were left out (`SKIP`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from store import batch

STRETCH = 64 * 1024
"""Bytes between two rows of the index."""

SKIP = struct.Struct(">HI")
"""(number of the batch, counted from that of the row; how many were left out between the row and it)."""

_MOST_SKIPS = 4000
_CHUNK = 1 << 20
_SYNC_BYTES = 8 << 20
_ROW = struct.Struct(">QQqQQH")

_fdatasync = getattr(os, "fdatasync", os.fsync)


class Mark(NamedTuple):
    """A batch whose place in Pulsar's message ids is known; those behind it count on. `skips`: see `SKIP`."""

    position: int
    ledger: int
    entry: int
    skips: bytes = b""


class Source(NamedTuple):
    """A segment that takes no more appends, as it can be read without the store; times in ms since 1970."""

    path: str
    base_offset: int
    next_offset: int
    number: int
    size: int
    max_timestamp: int
    created_at: int
    marks: Sequence[Mark]


class Place(NamedTuple):
    """An empty file for a segment whose first batch has this base offset."""

    path: str
    base_offset: int
    number: int


class Rewritten(NamedTuple):
    """What stands in a file. `table` has the rows of its index: see `rows`."""

    place: Place
    next_offset: int
    size: int
    max_timestamp: int
    max_from: int
    """Base offset of the first batch that has it."""
    created_at: int
    table: bytes


class Row(NamedTuple):
    """A row of the index: a batch, where it stands, and the largest timestamp before it in its segment."""

    base_offset: int
    position: int
    earlier_max: int
    ledger: int
    entry: int
    skips: bytes


class Damaged(ValueError):
    """A source cannot be read as it should; the text is for a person."""


class Numbered(NamedTuple):
    """A stored batch, and where Pulsar's message ids have it."""

    data: bytes
    ledger: int
    entry: int


def rows(table: bytes) -> Iterator[Row]:
    """The rows of an index, in order."""
    at = 0
    while at < len(table):
        base, position, earlier, ledger, entry, length = _ROW.unpack_from(table, at)
        at += _ROW.size
        yield Row(base, position, earlier, ledger, entry, table[at : at + length])
        at += length


def batches(source: Source) -> Iterator[Numbered]:
    """All batches of a segment, in order; their CRCs are right. Raises Damaged, OSError."""
    marks = iter(source.marks)
    mark = next(marks, None)
    ledger, entry = -1, 0
    skips: Iterator[tuple[int, int]] = iter(())
    skip: tuple[int, int] | None = None
    nth = skipped = first = 0
    for position, data in _whole(source):
        if mark is not None and position == mark.position:
            ledger, first, nth, skipped = mark.ledger, mark.entry, 0, 0
            skips = cast("Iterator[tuple[int, int]]", SKIP.iter_unpack(mark.skips))
            skip = next(skips, None)
            mark = next(marks, None)
        elif mark is not None and position > mark.position:
            raise Damaged(f"{source.path}: no batch begins at byte {mark.position}")
        if ledger < 0:
            raise Damaged(f"{source.path}: nothing says which messages its first batch has")
        if skip is not None and nth == skip[0]:
            skipped = skip[1]
            skip = next(skips, None)
        entry = first + nth + skipped
        yield Numbered(data, ledger, entry)
        nth += 1


def _whole(source: Source) -> Iterator[tuple[int, bytes]]:
    """(position, bytes) of each batch."""
    expected = source.base_offset
    with open(source.path, "rb", buffering=0) as file:
        position = 0
        data, begin = b"", 0
        while position < source.size:
            at = position - begin
            left = source.size - position
            size = batch.size(data, at) if len(data) - at >= batch.HEADER_BYTES else 0
            if size and not batch.HEADER_BYTES <= size <= left:
                raise Damaged(f"{source.path} at byte {position}: no record batch")
            if not size or size > len(data) - at:
                wanted = min(left, max(_CHUNK, size))
                data, begin, at = os.pread(file.fileno(), wanted, position), position, 0
                if len(data) < min(wanted, max(size, batch.HEADER_BYTES)):
                    raise Damaged(f"{source.path} at byte {position}: the file ends here")
                if not size:
                    continue
            whole = data[at : at + size]
            base = batch.base_offset(whole)
            if not batch.intact(whole) or base < expected or batch.next_offset(whole) > source.next_offset:
                raise Damaged(f"{source.path} at byte {position}: a wrong CRC or offset")
            expected = batch.next_offset(whole)
            yield position, whole
            position += size


class SegmentWriter:
    """Fills one file with batches, in the order of their offsets, and makes their index. Raises OSError."""

    def __init__(self, place: Place, created_at: int) -> None:
        """The file must be there: whoever has removed it wants nothing of it any more."""
        self._place = place
        self._created_at = created_at
        self._file = open(place.path, "r+b", buffering=_CHUNK)  # noqa: SIM115
        self._index: list[bytes] = []
        # the row that is not complete yet, and what is left out behind it
        self._row: Row | None = None
        self._skips: list[bytes] = []
        self._nth = 0
        self._due = 0
        self._since = 0
        self._unsynced = 0
        self.size = 0
        self._next = 0
        self._max, self._max_from = -1, 0

    def add(self, data: bytes, ledger: int, entry: int) -> None:
        """A batch more. `ledger` and `entry` are where it was in the old segment."""
        base = batch.base_offset(data)
        row = self._row
        if (
            row is None
            or row.ledger != ledger
            or self._since >= STRETCH
            or len(self._skips) >= _MOST_SKIPS
            or self._nth >= 0xFFFF
        ):
            self._end_row()
            row = self._row = Row(base, self.size, self._max, ledger, entry, b"")
            self._nth = self._since = 0
            self._due = entry
        if entry != self._due:
            self._skips.append(SKIP.pack(self._nth, entry - row.entry - self._nth))
        self._due = entry + 1
        self._nth += 1
        if not self.size:
            assert base == self._place.base_offset, "a file bears the offset of its first batch"
            self._max_from = base
        timestamp = batch.max_timestamp(data)
        if timestamp > self._max:
            self._max, self._max_from = timestamp, base
        self._file.write(data)
        self._next = batch.next_offset(data)
        self.size += len(data)
        self._since += len(data)
        self._unsynced += len(data)
        if self._unsynced >= _SYNC_BYTES:
            # little by little: a sync of all of it would hold up everybody else's
            self._file.flush()
            _fdatasync(self._file.fileno())
            self._unsynced = 0

    def _end_row(self) -> None:
        if self._row is not None:
            skips = b"".join(self._skips)
            self._index.append(_ROW.pack(*self._row[:5], len(skips)) + skips)
            self._skips.clear()

    def finish(self) -> Rewritten:
        """All of it is on disk."""
        self._end_row()
        self._row = None
        with self._file as file:
            file.flush()
            os.fsync(file.fileno())
        return Rewritten(
            self._place,
            self._next,
            self.size,
            self._max,
            self._max_from,
            self._created_at,
            b"".join(self._index),
        )

    def close(self) -> None:
        """It is not needed any more."""
        self._file.close()
