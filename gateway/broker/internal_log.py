"""A partition of an internal topic: records made of rows of the store, and kept in memory while somebody reads.

It is a log that is compacted at all times: of each row it has the last record and no other. What is changed comes as a
new record at the end, and what is deleted as one without a value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gateway.broker.readable import Decided, Watcher
from gateway.wire.records import Record, build_batch
from store.api import Piece, StoreError

_OVERHEAD = 400
"""Bytes that a record costs in memory beside its key and its value."""
_MOST_RECORDS = 1_000
"""In a batch."""
MADE = 1024 * 1024
"""Bytes of records that are made in one turn of the loop, over all partitions, requests and clients: about ten ms."""
_A_RECORD = 200
"""A record takes as long as so many bytes, and those that it has."""
_SPARSE = 1_000
"""Places of records that are not there any more, before the list of places is made again."""


class Entry(NamedTuple):
    """A record. `timestamp` in ms since 1970."""

    offset: int
    key: bytes
    value: bytes | None
    timestamp: int

    @property
    def cost(self) -> int:
        return len(self.key) + len(self.value or b"") + _OVERHEAD


class Making:
    """How much may be made until the end of a turn. `soon` calls something in the next one."""

    def __init__(self, soon: Callable[[Callable[[], None]], object]) -> None:
        self._soon = soon
        self.left = MADE

    def spend(self, cost: int) -> None:
        if self.left == MADE:
            self._soon(self._renew)
        self.left -= cost

    def _renew(self) -> None:
        self.left = MADE


class InternalLog(Decided):
    """Offers itself to fetches as a partition does (`Readable`). `begin` is the offset of its first record."""

    dispatching = None

    def __init__(self, index: int, begin: int, leader_epoch: int, making: Making) -> None:
        self.index = index
        self._making = making
        self.leader_epoch = leader_epoch
        self.log_start = self.high_watermark = begin
        self.bytes_out = 0
        self.watchers: set[Watcher] = set()
        self.stale = False
        self.cost = 0
        """bytes of memory, about"""
        # by the key of the row, in the order of their offsets
        self._entries: dict[bytes, Entry] = {}
        # offsets, and the keys of the rows: some have a later record by now
        self._offsets: list[int] = []
        self._rows: list[bytes] = []
        # all keys of rows in their own order; some are not there any more
        self._sorted: list[bytes] = []

    # -- what is in it ----------------------------------------------------------------------------------------------

    def __contains__(self, row: bytes) -> bool:
        return row in self._entries

    def within(self, start: bytes, end: bytes) -> list[tuple[bytes, Entry]]:
        """Rows from one key to below another."""
        rows = self._sorted[bisect_left(self._sorted, start) : bisect_left(self._sorted, end)]
        return [(row, entry) for row in rows if (entry := self._entries.get(row)) is not None]

    def append(self, row: bytes, key: bytes, value: bytes | None, timestamp: int) -> int:
        """The last record of a row; how many bytes it has."""
        entry = Entry(self.high_watermark, key, value, timestamp)
        old = self._entries.pop(row, None)
        self._entries[row] = entry
        if old is None:
            self._order(row)
        self._offsets.append(entry.offset)
        self._rows.append(row)
        self.cost += entry.cost - (old.cost if old is not None else 0)
        self.high_watermark += 1
        if len(self._offsets) > 2 * len(self._entries) + _SPARSE:
            self._rows = list(self._entries)
            self._offsets = [each.offset for each in self._entries.values()]
        return len(key) + len(value or b"")

    def _order(self, row: bytes) -> None:
        if len(self._sorted) > 2 * len(self._entries) + _SPARSE:
            self._sorted = [each for each in self._sorted if each in self._entries]
        at = bisect_left(self._sorted, row)
        if self._sorted[at : at + 1] != [row]:
            self._sorted.insert(at, row)

    def evict(self, least: int) -> int:
        """Forget the oldest records, of so many bytes of memory at least. How many it were."""
        freed = 0
        while freed < least and self._entries:
            row = next(iter(self._entries))
            entry = self._entries.pop(row)
            freed += entry.cost
            self.log_start = entry.offset + 1
        self.cost -= freed
        return freed

    def wake(self, appended: int) -> None:
        """Tell those who wait of so many bytes."""
        for watcher in list(self.watchers):
            watcher.wake(self, appended)

    def close(self) -> None:
        """Nobody reads it any more, or may go on as before."""
        self.stale = True
        self.wake(0)

    def first_since(self, timestamp: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record of that time or later."""
        return next(
            ((each.timestamp, each.offset) for each in self._entries.values() if each.timestamp >= timestamp),
            None,
        )

    def newest(self) -> tuple[int, int] | None:
        """The same of the record with the largest timestamp."""
        return max(((each.timestamp, each.offset) for each in self._entries.values()), default=None)

    # -- as something to read ---------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """See `Readable`. Nothing of it is stored."""
        return self.cost

    def news_for(self, connection: int) -> bool:
        """See `Readable`."""
        return False

    def fetch(self, offset: int, max_bytes: int, *, whole_first: bool, least: int | None) -> list[Piece]:
        """See `Readable`. What is not made in this turn stays to be asked for again."""
        making = self._making
        found: list[Piece] = []
        batch: list[Entry] = []
        size = 0
        for entry in self._from(offset):
            bytes_of = len(entry.key) + len(entry.value or b"") + 16
            if (size + bytes_of > max_bytes or making.left <= 0) and not (whole_first and not size):
                break
            making.spend(bytes_of + _A_RECORD)
            batch.append(entry)
            size += bytes_of
            if len(batch) >= _MOST_RECORDS:
                found.append(self._batch(batch))
                batch = []
        if batch:
            found.append(self._batch(batch))
        return found

    def _from(self, offset: int) -> Iterator[Entry]:
        entries = self._entries
        for place in range(bisect_left(self._offsets, offset), len(self._offsets)):
            entry = entries.get(self._rows[place])
            if entry is not None and entry.offset == self._offsets[place]:
                yield entry

    def _batch(self, entries: list[Entry]) -> bytes:
        base = entries[0].offset
        records = [Record(each.offset - base, each.timestamp, each.key, each.value, []) for each in entries]
        return build_batch(records, base, leader_epoch=self.leader_epoch)

    def spanned(self, offset: int) -> list[Piece]:
        """See `Readable`: the last record is always there."""
        return []

    def at_end(self) -> None:
        """See `Readable`: what is changed comes by itself."""

    def unreadable(self, error: StoreError) -> None:
        """See `Readable`: no disk is read for it."""
