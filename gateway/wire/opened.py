"""A stored batch that is opened: where its records are, some of them, a batch of only some of them.

A batch that was stored was admitted by its header and CRC, so its inside may be anything. It is walked by its lengths;
single records are read where somebody asks for them. What cannot be opened is Unreadable, as a whole.

Records of a batch have the offsets [base, next); some may be missing, as compaction leaves it.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from gateway.wire.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchError,
    Buffer,
    Header,
    assemble,
    header,
    open_payload,
)
from gateway.wire.errors import Error
from gateway.wire.keys import SMALLEST_RECORD, Keys, Slots
from gateway.wire.records import MAX_SKIMMED, Headers, walk
from gateway.wire.unreadable import TooLarge, Unreadable, damaged, wide

LIMIT = 64 * 1024 * 1024
"""Bytes that a batch may decompress to, unless the caller says otherwise."""
MAX_RECORDS = MAX_SKIMMED
"""Records of a batch that is opened."""
_EARLIEST, _LATEST = -(2**63), 2**63 - 1
Range = tuple[int, int]
"""First and last offset, both included."""


class Found(NamedTuple):
    """A record with its offset and its timestamp in ms since 1970."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Opened:
    """A batch that was decompressed; it may be kept for the next question.

    `batch` begins with the batch and may be longer. Raises Unreadable, as all methods do.
    """

    __slots__ = ("_deltas", "_rising", "_stamps", "_starts", "batch", "header", "payload")

    def __init__(self, batch: Buffer, limit: int = LIMIT, starts: array[int] | None = None) -> None:
        """`starts`: what it answered when it was open before."""
        try:
            found = header(batch)
            if not 0 <= found.count <= MAX_RECORDS or not found.count - 1 <= found.last_offset_delta:
                raise Unreadable(
                    f"The header says {found.count} records, the last number {found.last_offset_delta}."
                )
            if not HEADER_SIZE <= found.size <= len(batch):
                raise Unreadable(f"The batch says it has {found.size} bytes, but there are {len(batch)}.")
            self.payload = open_payload(batch, found, limit)
        except BatchError as error:
            kind = TooLarge if error.code is Error.MESSAGE_TOO_LARGE else Unreadable
            raise kind(str(error)) from None
        if found.count * SMALLEST_RECORD > len(self.payload):
            raise Unreadable(f"{found.count} records cannot be in {len(self.payload)} bytes.")
        self.batch = batch[: found.size]
        self.header = found
        # where each record begins, and where the last one ends
        self._starts = starts
        # timestamp deltas, still in zigzag; they are there once every offset was seen to be what it should
        self._stamps: list[int] | None = None
        # offset deltas of the records, None where they are 0, 1, 2 …
        self._deltas: list[int] | None = None
        # whether no timestamp is earlier than the one before; None before that was asked
        self._rising: bool | None = None

    def subset(self, ranges: Sequence[Range]) -> Buffer:
        """A batch of only the records in `ranges` (offsets, ascending, disjoint), uncompressed, offsets kept.

        Where it would be larger than the batch itself, which compression may do, the batch itself. b"" when none of
        the records is in the ranges. All else stays as it was: timestamps, producer, sequence.
        """
        part = self.part(ranges)
        return self.batch if part is None else part

    def part(self, ranges: Sequence[Range]) -> bytes | None:
        """`subset`, and None where that is the batch itself."""
        seen = self._stamps
        room = self.header.size - HEADER_SIZE
        parts: list[bytes] = []
        stamps: list[int] = []
        count = last = 0
        for begin, end in self._indexes(ranges):
            part = self._bytes_of(begin, end)
            room -= len(part)
            if room < 0:
                return None
            parts.append(part)
            count += end - begin
            last = end - 1
            if seen is None:
                stamps += self._stamps_of(begin, end, part)
            elif last == begin:
                stamps.append(seen[begin])
            else:
                stamps += seen[begin:end]
        if not stamps:
            return b""
        newest = max(stamps)
        if newest & 1:
            # of those that are negative the smallest is the latest
            newest = max((stamp >> 1) ^ -(stamp & 1) for stamp in stamps)
        else:
            newest >>= 1
        return self._of_some(count, self._delta(last), newest, b"".join(parts))

    def cut(self, parts: Sequence[tuple[int, int, int]]) -> Buffer:
        """`subset` of ranges that have nothing but records, and a third number that is of no concern here: the short
        way for a batch whose keys were looked at. Raises Unreadable.
        """
        starts, stamps = self._starts, self._stamps
        if starts is None or stamps is None or self._deltas is not None:
            return self.subset([(first, last) for first, last, _ in parts])
        payload, base = self.payload, self.header.base_offset
        records = b"".join(
            [payload[starts[first - base] : starts[last - base + 1]] for first, last, _ in parts]
        )
        if len(records) > len(self.batch) - HEADER_SIZE:
            return self.batch
        rising = self._rising
        if rising is None:
            rising = self._rising = stamps == sorted(stamps) and not any(stamp & 1 for stamp in stamps)
        if not rising:
            return self.subset([(first, last) for first, last, _ in parts])
        last = parts[-1][1] - base
        count = sum([last - first for first, last, _ in parts]) + len(parts)
        return self._of_some(count, last, stamps[last] >> 1, records)

    def _of_some(self, count: int, last: int, newest: int, records: bytes) -> bytes:
        """A batch of so many records, the last of offset delta `last`, the newest with timestamp delta `newest`."""
        found = self.header
        if found.attributes & LOG_APPEND_TIME:
            stamp = found.max_timestamp
        else:
            stamp = max(_EARLIEST, min(found.base_timestamp + newest, _LATEST))
        return assemble(
            Header(
                found.base_offset,
                0,
                found.leader_epoch,
                2,
                0,
                found.attributes & ~CODEC_MASK,
                last,
                found.base_timestamp,
                stamp,
                found.producer_id,
                found.producer_epoch,
                found.base_sequence,
                count,
            ),
            records,
        )

    def records_at(self, ranges: Sequence[Range]) -> list[Found]:
        """The records whose offsets are in `ranges` (ascending, disjoint)."""
        return self._read([index for begin, end in self._indexes(ranges) for index in range(begin, end)])

    def records(self) -> list[Found]:
        """All of them."""
        return self._read(range(self.header.count))

    # -- where records are ----------------------------------------------------------------------------------------

    def starts(self) -> array[int]:
        """Where each record begins in the payload, and where the last one ends: what `__init__` takes to be spared the
        walk the next time.
        """
        return self._boundaries()

    def deltas(self) -> list[int] | None:
        """The offset deltas of a batch with gaps, None for one without."""
        return self._sparse()

    def _bytes_of(self, begin: int, end: int) -> bytes:
        """The records of the numbers [begin, end)."""
        starts = self._boundaries()
        return self.payload[starts[begin] : starts[end]]

    def _boundaries(self) -> array[int]:
        """Where each record begins in the payload, and where the last one ends."""
        if self._starts is not None:
            return self._starts
        payload = self.payload
        starts = [0]
        append = starts.append
        position = 0
        try:
            for _ in range(self.header.count):
                length = payload[position]
                position += 1
                if length > 127:
                    byte = payload[position]
                    if byte < 128:
                        length = length & 127 | byte << 7
                        position += 1
                    else:
                        length, position = wide(payload, position - 1)
                if length & 1:
                    raise damaged("a record's length")
                position += length >> 1
                append(position)
        except IndexError:
            raise damaged("the end of the records") from None
        if position != len(payload):
            raise damaged("the number of records")
        self._starts = array("I", starts)
        return self._starts

    def _sparse(self) -> list[int] | None:
        """The offset deltas of a batch with gaps, None for one without."""
        found = self.header
        if found.count == found.last_offset_delta + 1:
            return None
        if self._deltas is None:
            payload = self.payload
            deltas: list[int] = []
            before = -1
            try:
                for start, end in pairwise(self._boundaries()):
                    _, position = wide(payload, start)
                    _, position = wide(payload, position + 1)
                    delta, position = wide(payload, position)
                    delta = (delta >> 1) ^ -(delta & 1)
                    if position > end or not before < delta <= found.last_offset_delta:
                        raise damaged("the order of offsets")
                    deltas.append(delta)
                    before = delta
            except IndexError:
                raise damaged("the end of the records") from None
            self._deltas = deltas
        return self._deltas

    def _delta(self, index: int) -> int:
        deltas = self._sparse()
        return index if deltas is None else deltas[index]

    def gaps(self) -> list[Range]:
        """The offsets of the batch that have no record, ascending."""
        deltas = self._sparse()
        if deltas is None:
            return []
        base = self.header.base_offset
        gaps: list[Range] = []
        following = 0
        for delta in (*deltas, self.header.last_offset_delta + 1):
            if delta > following:
                gaps.append((base + following, base + delta - 1))
            following = delta + 1
        return gaps

    def numbers(self, ranges: Iterable[Range]) -> list[tuple[int, int]]:
        """Half-open ranges of the numbers of records whose offsets are in `ranges` (ascending, disjoint)."""
        return list(self._indexes(ranges))

    def _indexes(self, ranges: Iterable[Range]) -> Iterator[tuple[int, int]]:
        """Half-open ranges of record numbers for ranges of offsets; those without a record are left out."""
        base, count = self.header.base_offset, self.header.count
        deltas = self._sparse()
        for first, last in ranges:
            if deltas is None:
                begin, end = max(first - base, 0), min(last - base + 1, count)
            else:
                begin, end = bisect_left(deltas, first - base), bisect_right(deltas, last - base)
            if begin < end:
                yield begin, end

    # -- what is in them ------------------------------------------------------------------------------------------

    def slots(self, slots: Slots) -> list[int]:
        """The slots of the keys, one for each offset of the batch; 0 where there is no record."""
        deltas = self._sparse()
        listed = self._slots_and_boundaries(slots)
        if deltas is None:
            return listed
        spread = [0] * (self.header.last_offset_delta + 1)
        for delta, slot in zip(deltas, listed, strict=True):
            spread[delta] = slot
        return spread

    def _slots_and_boundaries(self, slots: Slots) -> list[int]:
        """One slot for each record; where the records are is found with them."""
        found = Keys(self.payload, self.header, self._deltas, slots)
        self._starts, self._stamps = array("I", found.starts), found.stamps
        return found.slots

    def _stamps_of(self, begin: int, end: int, part: bytes) -> list[int]:
        """The timestamp deltas, in zigzag, of the records [begin, end), whose bytes are `part` and whose offsets are
        looked at.
        """
        starts = self._boundaries()
        deltas = self._deltas
        stamps: list[int] = []
        first = starts[begin]
        try:
            for index in range(begin, end):
                start = starts[index] - first
                position = start + (2 if part[start] < 128 else 3 if part[start + 1] < 128 else 0)
                if position == start:
                    position = wide(part, start)[1] + 1
                stamp = part[position]
                position += 1
                if stamp > 127:
                    stamp, position = wide(part, position - 1)
                delta = part[position]
                if delta > 127:
                    delta, position = wide(part, position)
                if (
                    delta != (index if deltas is None else deltas[index]) << 1
                    or position >= starts[index + 1] - first
                ):
                    raise damaged("the order of offsets")
                stamps.append(stamp)
        except IndexError:
            raise damaged("the end of the records") from None
        return stamps

    def mentioning(self, marks: Sequence[bytes]) -> list[Found]:
        """The records in which one of these bytes strings stands somewhere."""
        payload = self.payload
        search = re.compile(b"|".join(map(re.escape, marks))).search
        starts = self._boundaries()
        indexes: list[int] = []
        position = index = 0
        while (hit := search(payload, position)) is not None:
            index = bisect_right(starts, hit.start(), index) - 1
            indexes.append(index)
            index += 1
            position = starts[index]
        return self._read(indexes)

    def _read(self, indexes: Sequence[int]) -> list[Found]:
        """The records of these numbers, ascending."""
        if not indexes:
            return []
        payload, found = self.payload, self.header
        starts = self._boundaries()
        if len(indexes) == found.count:
            picked = payload
        else:
            picked = b"".join([payload[starts[index] : starts[index + 1]] for index in indexes])
        part = Header(
            found.base_offset,
            0,
            found.leader_epoch,
            2,
            0,
            found.attributes,
            found.last_offset_delta,
            found.base_timestamp,
            found.max_timestamp,
            -1,
            -1,
            -1,
            len(indexes),
        )
        try:
            read = walk(picked, part)
        except BatchError as error:
            raise Unreadable(str(error)) from None
        deltas = self._sparse()
        base = found.base_offset
        records: list[Found] = []
        for index, (delta, timestamp, key, value, headers) in zip(indexes, read, strict=True):
            if delta != (index if deltas is None else deltas[index]):
                raise damaged("the order of offsets")
            records.append(Found(base + delta, timestamp, key, value, headers))
        return records
