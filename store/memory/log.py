"""One partition's log as lists of batches."""

from __future__ import annotations

import copy
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from store import batch, limits
from store.api import Append, Buffer, LedgerInfo, Piece, Position, SegmentInfo
from store.pending import Pending
from store.rewriting import Rewritten, Source


@dataclass(slots=True)
class MemorySegment:
    base_offset: int
    next_offset: int
    size: int
    max_timestamp: int
    max_timestamp_offset: int
    created_at: int
    # by the clock that ages go by
    begun_at: int
    written_at: int
    # the number of the last write to it, of all logs
    write: int = 0
    # of the segments of its log
    number: int = 0


@dataclass(slots=True)
class Ledger:
    ledger: int
    first_offset: int
    opened_at: int
    entries: int = 0
    size: int = 0
    # offsets at which its entries begin
    offsets: list[int] = field(default_factory=list)


def _is_full(ledger: Ledger, entries: int, size: int, age: int, rollover: limits.Rollover) -> bool:
    """Whether so much more goes into another one."""
    if rollover.least_ms and age <= rollover.least_ms:
        return False
    too_much = ledger.entries and (
        ledger.entries + entries > rollover.entries or ledger.size + size > rollover.size
    )
    return bool(too_much) or age >= rollover.most_ms


class MemoryLog:
    """See `store.api.Log`. Each batch is an item of three parallel lists: base offset, next offset, bytes."""

    def __init__(self, partition: int, start: int = 0) -> None:
        self.partition = partition
        self.start_offset = start
        self.end_offset = start
        self.size = 0
        # beyond so many bytes the oldest segments go; 0 is no limit
        self.max_bytes = 0
        # the furthest that anybody has read
        self.read_to = start
        self.stale = False
        self.refuses = ""
        self._bases: list[int] = []
        self._nexts: list[int] = []
        self._batches: list[bytes] = []
        self._segments: list[MemorySegment] = []
        self._ledgers: list[Ledger] = []
        self._epochs: list[tuple[int, int]] = []
        self._segment_bytes = limits.SEGMENT_BYTES
        self._segment_ms = limits.SEGMENT_MS
        # the last segment takes no more
        self._rolled = False
        self._numbers = 0

    def configure(self, *, segment_bytes: int | None = None, segment_ms: int | None = None) -> None:
        if segment_bytes is not None:
            self._segment_bytes = segment_bytes
        if segment_ms is not None:
            self._segment_ms = segment_ms

    def again(self) -> MemoryLog:
        """The object in place of this one, which is stale from now on."""
        made = copy.deepcopy(self)
        self.stale = True
        return made

    # writing, by the store

    def append(self, write: Append, now: int, next_ledger: int, at: int, rollover: limits.Rollover) -> int:
        """Take the batches; answers the next free ledger id. `at`: now, by the clock that ages go by."""
        total = sum(map(len, write.batches))
        segment = self._segments[-1] if self._segments else None
        if (
            segment is None
            or self._rolled
            or (segment.size and segment.size + total > self._segment_bytes)
            or at - segment.begun_at >= self._segment_ms
        ):
            self._numbers += 1
            segment = MemorySegment(
                write.base_offset, write.base_offset, 0, -1, -1, now, at, at, number=self._numbers
            )
            self._segments.append(segment)
            self._rolled = False
        segment.written_at = at
        ledger = self._ledgers[-1] if self._ledgers else None
        if ledger is None or _is_full(ledger, len(write.batches), total, now - ledger.opened_at, rollover):
            ledger = Ledger(next_ledger, write.base_offset, now)
            self._ledgers.append(ledger)
            next_ledger += 1
        if not self._epochs or write.leader_epoch > self._epochs[-1][0]:
            self._epochs.append((write.leader_epoch, write.base_offset))
        for data in write.batches:
            base, end = batch.base_offset(data), batch.next_offset(data)
            self._bases.append(base)
            self._nexts.append(end)
            self._batches.append(bytes(data))
            ledger.offsets.append(base)
            timestamp = batch.max_timestamp(data)
            if timestamp > segment.max_timestamp:
                segment.max_timestamp, segment.max_timestamp_offset = timestamp, base
        ledger.entries += len(write.batches)
        ledger.size += total
        segment.size += total
        segment.next_offset = write.next_offset
        self.size += total
        self.end_offset = write.next_offset
        return next_ledger

    def trim(self, offset: int) -> None:
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        keep = len(self._segments)
        while keep and self._segments[-keep].next_offset <= offset:
            self.size -= self._segments[-keep].size
            keep -= 1
        first = self._segments[-keep].base_offset if keep else self.end_offset
        self._segments = self._segments[len(self._segments) - keep :]
        gone = bisect_left(self._bases, first)
        del self._bases[:gone], self._nexts[:gone], self._batches[:gone]
        while len(self._ledgers) > 1 and self._ledgers[1].first_offset <= offset:
            del self._ledgers[0]
        while len(self._epochs) > 1 and self._epochs[1][1] <= offset:
            del self._epochs[0]

    def roll(self) -> None:
        """The next append begins a new segment."""
        self._rolled = bool(self._segments)

    def closed(self) -> list[MemorySegment]:
        """The segments that take no more."""
        return self._segments if self._rolled else self._segments[:-1]

    def declines(self, old: Sequence[tuple[int, int]], new: Rewritten | None) -> bool:
        """Whether a swap does not fit."""
        closed = self.closed()
        known = [(each.base_offset, each.number) for each in closed]
        first = known.index(old[0]) if old[0] in known else 0
        last = first + len(old)
        if known[first:last] != list(old):
            return True
        end = 0 if new is None else new.next_offset
        ended = closed[last - 1].next_offset
        return end > ended or (last == len(self._segments) and end < ended)

    def swap(self, old: Sequence[tuple[int, int]], new: Rewritten | None) -> None:
        """Put what stands in a file in the place of closed segments, which are there."""
        first = [(each.base_offset, each.number) for each in self._segments].index(old[0])
        gone = self._segments[first : first + len(old)]
        begin = bisect_left(self._bases, gone[0].base_offset)
        end = bisect_left(self._bases, gone[-1].next_offset)
        data = b"" if new is None else Path(new.place.path).read_bytes()[: new.size]
        found = list(batch.walk(data))
        self._bases[begin:end] = [base for _, _, base, _ in found]
        self._nexts[begin:end] = [following for _, _, _, following in found]
        self._batches[begin:end] = [data[at : at + size] for at, size, _, _ in found]
        self.size += len(data) - sum(each.size for each in gone)
        made: list[MemorySegment] = []
        if new is not None:
            made.append(
                MemorySegment(
                    new.place.base_offset,
                    new.next_offset,
                    new.size,
                    new.max_timestamp,
                    new.max_from,
                    new.created_at,
                    gone[0].begun_at,
                    gone[-1].written_at,
                    gone[-1].write,
                    new.place.number,
                )
            )
        self._segments[first : first + len(old)] = made

    @property
    def segment_bytes(self) -> int:
        """From how many bytes on an append begins a new segment."""
        return self._segment_bytes

    @property
    def oldest(self) -> MemorySegment | None:
        """The first segment that is there."""
        return self._segments[0] if self._segments else None

    def has(self, segment: MemorySegment) -> bool:
        """Whether a segment is still there."""
        first = self.oldest
        return first is not None and segment.base_offset >= first.base_offset

    @property
    def newest(self) -> MemorySegment | None:
        return self._segments[-1] if self._segments else None

    def begin(self, epoch: int) -> None:
        """It is empty, and whoever asks where this leader epoch began is told the start of it."""
        self._epochs = [(epoch, self.start_offset)]

    # reading

    def read(self, offset: int, max_bytes: int, *, whole_first: bool = True) -> Pending[list[Buffer]]:
        return self._read(offset, max_bytes, whole_first=whole_first)

    def look(self, offset: int, max_bytes: int) -> Pending[list[Buffer]]:
        return self._look(offset, max_bytes)

    def _look(self, offset: int, max_bytes: int) -> list[Buffer]:
        read_to = self.read_to
        try:
            return self._read(offset, max_bytes)
        finally:
            self.read_to = read_to

    def _read(self, offset: int, max_bytes: int, *, whole_first: bool = True) -> list[Buffer]:
        if not self.start_offset <= offset <= self.end_offset:
            raise IndexError(f"offset {offset} is outside [{self.start_offset}, {self.end_offset}]")
        found: list[Buffer] = []
        for index in range(bisect_right(self._nexts, offset), len(self._batches)):
            data = self._batches[index]
            if len(data) > max_bytes:
                if not found:
                    if whole_first:
                        self.read_to = max(self.read_to, self._nexts[index])
                    return [data] if whole_first else []
                if max_bytes > 0:
                    found.append(memoryview(data)[:max_bytes])
                break
            found.append(data)
            max_bytes -= len(data)
            if self._nexts[index] > self.read_to:
                self.read_to = self._nexts[index]
        return found

    def read_at_once(self, offset: int, max_bytes: int, *, least: int) -> list[Piece] | None:
        if not self.start_offset <= offset < self.end_offset:
            return None
        return [*self._read(offset, max_bytes)]

    def lend(
        self, offset: int, max_bytes: int, *, least: int, whole_first: bool = True
    ) -> Pending[list[Piece]]:
        return [*self._read(offset, max_bytes, whole_first=whole_first)]

    def batch_at_or_after(self, timestamp: int, from_offset: int = 0) -> Pending[list[Buffer]]:
        return self._batch_at_or_after(timestamp, from_offset)

    def _batch_at_or_after(self, timestamp: int, from_offset: int) -> list[Buffer]:
        first = bisect_right(self._nexts, max(self.start_offset, from_offset))
        for index in range(first, len(self._batches)):
            if batch.max_timestamp(self._batches[index]) >= timestamp:
                return [self._batches[index]]
        return []

    def max_timestamp_batch(self) -> Pending[list[Buffer]]:
        return self._max_timestamp_batch()

    def _max_timestamp_batch(self) -> list[Buffer]:
        first = bisect_right(self._nexts, self.start_offset)
        return [max(self._batches[first:], key=batch.max_timestamp)] if first < len(self._batches) else []

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        index = bisect_right(self._epochs, leader_epoch, key=lambda row: row[0])
        if index == 0:
            return -1, -1
        end = self._epochs[index][1] if index < len(self._epochs) else self.end_offset
        return self._epochs[index - 1][0], end

    def position_of(self, offset: int) -> Position:
        if not self.start_offset <= offset < self.end_offset:
            raise IndexError(f"offset {offset} is outside [{self.start_offset}, {self.end_offset})")
        base = self._bases[bisect_right(self._nexts, offset)]
        ledger = self._ledgers[bisect_right(self._ledgers, base, key=lambda each: each.first_offset) - 1]
        return Position(ledger.ledger, bisect_left(ledger.offsets, base), max(0, offset - base))

    def offset_of(self, ledger: int, entry: int) -> int:
        for each in self._ledgers:
            if each.ledger == ledger and 0 <= entry < each.entries:
                base = each.offsets[entry]
                index = bisect_left(self._bases, base)
                if (
                    index < len(self._bases)
                    and self._bases[index] == base
                    and self._nexts[index] > self.start_offset
                ):
                    return base
        raise KeyError((ledger, entry))

    def size_from(self, offset: int) -> int:
        return sum(map(len, self._batches[bisect_right(self._nexts, offset) :]))

    def segments(self) -> list[SegmentInfo]:
        last = len(self._segments) - 1 if not self._rolled else -1
        return [
            SegmentInfo(
                each.base_offset,
                each.next_offset,
                each.size,
                each.max_timestamp,
                each.max_timestamp_offset,
                each.created_at,
                index == last,
                each.number,
            )
            for index, each in enumerate(self._segments)
        ]

    def sources(self, first: int, end: int) -> list[Source]:
        return []

    def ledgers(self) -> list[LedgerInfo]:
        return [
            LedgerInfo(each.ledger, each.first_offset, each.entries, each.size, each.opened_at)
            for each in self._ledgers
        ]
