"""Batches that are asked for a few records again and again: folded, within a bound that does not thrash.

What falls due lies scattered: each round takes a record here, a record there, of all batches in turn, ascending. A
cache that keeps what was used last would be of no use here: with one batch more than it holds, each would be thrown out
just before its turn. So a batch that is in stays in, and one that finds no room is not let in. A batch leaves when as
many records were sent as it has, or when nobody has asked for it for long (FORGOTTEN). Of a batch that found no room
only the starts of its records are kept: that saves half of the work of opening it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict

from gateway.wire.folded import Folded, size_of
from gateway.wire.opened import Opened

BYTES = 96 * 1024 * 1024

FROM_RECORDS = 64
"""Records of a batch from which on it is worth its place"""

FORGOTTEN = 16_384
"""A batch may go that was not asked for while others were, so many times."""

_STARTS_SHARE = 8
"""One byte in so many is for batches of which only the starts are kept."""

_ENTRY_BYTES = 400

Key = tuple[int, int]
"""Partition, base offset."""


class _Entry:
    __slots__ = ("asked", "folded", "left", "size", "starts", "stored_size")

    def __init__(self, folded: Folded | None, starts: array[int], stored_size: int, left: int) -> None:
        self.folded = folded
        self.starts = starts
        # of the batch as it is stored: another one at its place is another batch
        self.stored_size = stored_size
        # records that were not sent yet, if each is sent once
        self.left = left
        self.asked = 0
        self.size = _ENTRY_BYTES + (folded.size if folded is not None else size_of(starts))


class Kept:
    """One for all subscriptions."""

    def __init__(self, most: int = BYTES) -> None:
        self._most = most
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        # partition -> base offsets of those that are folded, ascending
        self._bases: dict[int, list[int]] = {}
        self._asked = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Key, stored_size: int) -> Folded | array[int] | None:
        """The batch, or where its records begin."""
        entry = self._entries.get(key)
        if entry is None or entry.stored_size != stored_size:
            return None
        return entry.starts if entry.folded is None else entry.folded

    def holding(self, partition: int, offset: int) -> Folded | None:
        """The batch that holds an offset."""
        bases = self._bases.get(partition)
        place = bisect_right(bases, offset) if bases is not None else 0
        if not place or bases is None:
            return None
        entry = self._entries[partition, bases[place - 1]]
        return (
            entry.folded if entry.folded is not None and offset <= entry.folded.header.last_offset else None
        )

    def sent(self, key: Key, records: int) -> None:
        """So many records of a batch were sent. It goes when that makes as many as it has."""
        self._asked += 1
        entry = self._entries.get(key)
        if entry is None:
            return
        entry.left -= records
        if entry.left <= 0:
            self._forget(key)
            return
        entry.asked = self._asked
        self._entries.move_to_end(key)

    def keep(self, key: Key, opened: Opened) -> None:
        """Keep a batch that was opened, as far as there is room. Raises Unreadable when it is damaged."""
        found = opened.header
        if found.count < FROM_RECORDS:
            return
        known = self._entries.get(key)
        left = found.count
        if known is not None:
            if known.stored_size == found.size:
                left = known.left
            self._forget(key)
        while self._entries and self.bytes > self._most >> 1:
            oldest = next(iter(self._entries))
            if self._asked - self._entries[oldest].asked < FORGOTTEN:
                break
            self._forget(oldest)
        most = self._most - self._most // _STARTS_SHARE
        entry: _Entry | None = None
        # what compresses at all is half as large, as a rule; to find out takes time
        if self.bytes + (len(opened.payload) >> 1) <= most:
            folded = Folded(opened)
            entry = _Entry(folded, folded.starts(), found.size, left)
            if self.bytes + entry.size > most:
                entry = None
        if entry is None:
            entry = _Entry(None, opened.starts(), found.size, left)
            if self.bytes + entry.size > self._most:
                return
        elif entry.folded is not None:
            insort(self._bases.setdefault(key[0], []), key[1])
        self._asked += 1
        entry.asked = self._asked
        self._entries[key] = entry
        self.bytes += entry.size

    def _forget(self, key: Key) -> None:
        entry = self._entries.pop(key)
        self.bytes -= entry.size
        if entry.folded is None:
            return
        partition, base = key
        bases = self._bases[partition]
        del bases[bisect_left(bases, base)]
        if not bases:
            del self._bases[partition]
