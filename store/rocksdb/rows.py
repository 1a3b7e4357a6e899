"""Keys and values of the families that the store itself owns. Big-endian, fixed width, packed with struct.

The log row is the head of a partition: it is written with every append, holds everything that the next append
must know, and makes the other rows (segments, ledgers, epochs) necessary only when one of them ends.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from store.api import NEWEST_FORMAT
from store.rewriting import SKIP

U32 = struct.Struct(">I")
U64 = struct.Struct(">Q")

PARTITION_OFFSET = struct.Struct(">IQ")
"""Key of SEGMENT, INDEX and LEDGER: partition, then base offset or ledger."""

PARTITION_U32 = struct.Struct(">II")
"""Key of EPOCH (partition, leader epoch) and DOOMED (partition, segment number)."""

JOURNAL_KEY = struct.Struct(">QIH")
"""Group, partition, and which part of it (a group that rolls a segment has two)."""

TOUCHED_KEY = struct.Struct(">QI")
"""Checkpoint, partition."""

MAX_U64 = (1 << 64) - 1

# keys of META
EPOCH_COUNTER = b"store.epoch"
CLEAN = b"store.clean"
NEXT_LEDGER = b"store.ledger"
NEXT_CLEANED = b"store.cleaned"

FORMATS = (b"1", NEWEST_FORMAT)
"""That can be read."""

REFUSES = 1
"""Flag of a log row: acknowledged bytes were found damaged, no appends until somebody has looked."""

ACTIVE = 2
"""Flag of a log row: there is an active segment (none before the first append and after a trim of
everything).
"""


class SegmentRow(NamedTuple):
    """A segment that takes no more appends."""

    number: int
    next_offset: int
    size: int
    max_timestamp: int
    max_timestamp_from: int
    created_at: int


SEGMENT = struct.Struct(">IQQqQq")


class LogRow(NamedTuple):
    """The head of a log. Sizes in bytes, times in ms since 1970, offsets Kafka's."""

    flags: int = 0
    start: int = 0
    end: int = 0
    size: int = 0  # of all segments
    durable_end: int = 0  # everything below was promised to survive the machine
    number: int = 0  # of the active segment, or the last that was
    segment_base: int = 0
    segment_size: int = 0
    segment_created: int = 0
    segment_max: int = -1  # largest timestamp in the active segment
    segment_max_from: int = 0  # the append that brought it: its batch is here or a little after
    since_index: int = 0  # bytes since the last index row
    ledger: int = 0  # 0 is none yet
    ledger_first: int = 0
    ledger_entries: int = 0
    ledger_size: int = 0
    ledger_opened: int = 0
    epoch: int = -1  # last leader epoch with an EPOCH row

    def closed(self) -> SegmentRow:
        """The row of the active segment once it takes no more appends."""
        return SegmentRow(
            self.number,
            self.end,
            self.segment_size,
            self.segment_max,
            self.segment_max_from,
            self.segment_created,
        )


LOG = struct.Struct(">BQQQQIQQqqQIQQQQqi")


class IndexRow(NamedTuple):
    """Where the batch stands whose base offset is in the key.

    `earlier_max` is the largest timestamp of the batches before it in its segment (-1 at the segment's
    begin): it only grows along a segment, which makes a search by time a binary search.
    """

    number: int
    position: int
    earlier_max: int
    ledger: int
    entry: int
    skips: bytes = b""
    """In a segment that was written anew: where entries are missing behind this one (`rewriting.SKIP`)."""

    def entry_at(self, nth: int) -> int:
        """The entry of the batch that is so many behind this one, in this row's stretch."""
        skipped = 0
        for at, before in SKIP.iter_unpack(self.skips):
            if at > nth:
                break
            skipped = before
        return self.entry + nth + skipped

    def nth_of(self, entry: int) -> int:
        """Which batch has an entry, counted from this one; -1 when it is missing. Right only in this row's stretch."""
        skipped = 0
        for at, before in SKIP.iter_unpack(self.skips):
            if entry < self.entry + at + before:
                if entry >= self.entry + at + skipped:
                    return -1
                break
            skipped = before
        return entry - self.entry - skipped


INDEX = struct.Struct(">IQqQQ")


class LedgerRow(NamedTuple):
    """`entries` and `size` are right once the ledger is closed; the log row has them while it is open."""

    first_offset: int
    first_entry: int
    opened_at: int
    entries: int
    size: int


LEDGER = struct.Struct(">QQqQQ")


class TouchedRow(NamedTuple):
    """What was the end of the log's bytes at its first append after a checkpoint."""

    segment_base: int
    number: int  # 0: there was no segment
    position: int
    end_offset: int


TOUCHED = struct.Struct(">QIQQ")


class JournalHead(NamedTuple):
    """Stands before the payload: where it belongs."""

    segment_base: int
    number: int
    position: int
    next_offset: int
    created_at: int


JOURNAL_HEAD = struct.Struct(">QIQQq")

DOOMED = U64
"""Value of DOOMED: base offset of the segment (for its file name)."""


def log_row(value: bytes) -> LogRow:
    return LogRow._make(LOG.unpack(value))


def segment_row(value: bytes) -> SegmentRow:
    return SegmentRow._make(SEGMENT.unpack(value))


def index_row(value: bytes) -> IndexRow:
    return IndexRow._make((*INDEX.unpack_from(value), value[INDEX.size :]))


def ledger_row(value: bytes) -> LedgerRow:
    return LedgerRow._make(LEDGER.unpack(value))


def touched_row(value: bytes) -> TouchedRow:
    return TouchedRow._make(TOUCHED.unpack(value))


def journal_head(value: bytes) -> JournalHead:
    return JournalHead._make(JOURNAL_HEAD.unpack_from(value))


def partition_range(partition: int, first: int = 0) -> tuple[bytes, bytes]:
    """Start and end of a partition's keys from `first` on, for families keyed by partition and a u64."""
    return PARTITION_OFFSET.pack(partition, first), successor(U32.pack(partition))


def successor(prefix: bytes) -> bytes:
    """The smallest key above all keys that begin with `prefix`."""
    trimmed = prefix.rstrip(b"\xff")
    if not trimmed:
        return b"\xff" * (len(prefix) + 32)
    return trimmed[:-1] + bytes([trimmed[-1] + 1])
