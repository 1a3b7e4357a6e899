"""Which transactions were aborted in a partition: one row each, found by the offsets that they lie over. Pure.

Readers of committed records are told of all that overlap what they are given, and pass over their records. One that
was open for days overlaps millions of offsets; it must not make anybody look at all that were aborted meanwhile. So
each row lies in a class by how many offsets it spans: of class k at most 16 * 16^k. Within a class rows lie by their
last offset, that of the marker, and those that overlap a range are next to each other but for a few.

    key     partition u32, class u8, offset of the marker u64
    value   producer id i64, first offset u64
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from gateway.broker.open_transactions import NEVER
from store.api import Delete, DeleteRange, Family, Put, Write

MOST_TOLD = 10_000
"""Transactions that one answer tells of a partition: it has fewer records rather than more of them."""

_KEY = struct.Struct(">IBQ")
_VALUE = struct.Struct(">qQ")
_CLASSES = 16
_FIRST_PAGE = 32
_PAGE = 1000
# so many rows are deleted one by one
_FEW = 32


class Rows(Protocol):
    """A store, as far as it is read here."""

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]: ...


class Aborted(NamedTuple):
    """An aborted transaction; offsets of its first record and of its marker."""

    marker: int
    producer_id: int
    first: int


def prefix(partition: int) -> bytes:
    """How the keys of a partition begin."""
    return partition.to_bytes(4, "big")


def span_of(number: int) -> int:
    """How many offsets lie between the first record and the marker at most, in the class of that number."""
    return 16 << (4 * number)


def class_of(first: int, marker: int) -> int:
    """The number of the class that a transaction lies in."""
    span = marker - first
    return 0 if span <= 16 else ((span - 1).bit_length() - 1) // 4


def put(partition: int, aborted: Aborted) -> Put:
    """The row of one."""
    marker, producer_id, first = aborted
    key = _KEY.pack(partition, class_of(first, marker), marker)
    return Put(Family.ABORTED, key, _VALUE.pack(producer_id, first))


def decode(key: bytes, value: bytes) -> Aborted:
    """A row of the family."""
    return Aborted(_KEY.unpack(key)[2], *_VALUE.unpack(value))


def overlapping(rows: Rows, partition: int, start: int, end: int) -> list[Aborted]:
    """Those that have an offset from `start` to below `end`, by the offsets of their markers.

    Of each class it reads no more than what overlaps, and those behind `end` whose markers lie less than the span of
    their class behind it.
    """
    found: list[Aborted] = []
    whole = prefix(partition)
    key: bytes | None = _KEY.pack(partition, 0, start)
    number, page = 0, _FIRST_PAGE
    while key is not None:
        got = list(rows.scan(Family.ABORTED, whole, key, page))
        # behind the last page there is nothing
        key = got[-1][0] + b"\0" if len(got) == page else None
        page = min(4 * page, _PAGE)
        for at, value in got:
            _, its, marker = _KEY.unpack(at)
            if its != number and marker < start:
                # of the classes between there are none
                number, key, page = its, _KEY.pack(partition, its, start), _FIRST_PAGE
                break
            number = its
            if marker >= end + span_of(its):
                number += 1
                key = _KEY.pack(partition, number, start) if number < _CLASSES else None
                page = _FIRST_PAGE
                break
            producer_id, first = _VALUE.unpack(value)
            if first < end:
                found.append(Aborted(marker, producer_id, first))
    found.sort()
    return found


def any_from(rows: Rows, partition: int, start: int) -> int:
    """The offset of a marker at `start` or behind it, -1 if there is none."""
    whole = prefix(partition)
    key = _KEY.pack(partition, 0, start)
    while (got := next(rows.scan(Family.ABORTED, whole, key, 1), None)) is not None:
        _, number, marker = _KEY.unpack(got[0])
        if marker >= start:
            return int(marker)
        key = _KEY.pack(partition, number, start)
    return -1


def cut(found: list[Aborted], start: int, most: int = MOST_TOLD) -> tuple[list[Aborted], int]:
    """(at most so many of those that overlap what begins at `start`, below which offset they are all there are).

    NEVER where nothing is left out. More than `most` are told where already so many lie over `start` itself: a reader
    could not go on there otherwise.
    """
    if len(found) <= most:
        return found, NEVER
    end = max(sorted(each.first for each in found)[most], start + 1)
    return [each for each in found if each.first < end], end


def below(rows: Rows, partition: int, offset: int) -> list[Write]:
    """What deletes the rows of those that have nothing at `offset` or behind it: the log begins there now."""
    whole = prefix(partition)
    if next(rows.scan(Family.ABORTED, whole, limit=1), None) is None:
        return []
    writes: list[Write] = []
    for number in range(_CLASSES):
        first, end = _KEY.pack(partition, number, 0), _KEY.pack(partition, number, offset)
        gone = [key for key, _ in rows.scan(Family.ABORTED, first[:5], limit=_FEW + 1) if key < end]
        if len(gone) > _FEW:
            writes.append(DeleteRange(Family.ABORTED, first, end))
        else:
            writes += [Delete(Family.ABORTED, key) for key in gone]
    return writes


def within(rows: Rows, partition: int, lost: Iterable[tuple[int, int]]) -> list[Delete]:
    """What deletes the rows of those whose markers are lost: offsets from the one to below the other, for each."""
    ranges = list(lost)
    return [
        Delete(Family.ABORTED, key)
        for key, _ in rows.scan(Family.ABORTED, prefix(partition))
        if any(first <= int.from_bytes(key[5:], "big") < last for first, last in ranges)
    ]


class AbortedTransactions:
    """Those of a partition in use. `over` finds nothing at or behind `clean_from`: who reads there need not ask."""

    __slots__ = ("_behind", "_last", "_partition", "_rows", "clean_from")

    def __init__(self, rows: Rows, partition: int) -> None:
        self._rows = rows
        self._partition = partition
        # nobody knows before somebody asks
        self.clean_from = NEVER
        # behind the last one that was added: its row may not be stored yet
        self._behind = 0
        # the last marker that is known
        self._last = -1

    def added(self, marker: int) -> None:
        """One has its marker there, behind all others."""
        self._behind = marker + 1
        if self.clean_from <= marker:
            self.clean_from = marker + 1

    def any_from(self, start: int) -> bool:
        """Whether there is one with its marker at `start` or behind it. After rows were deleted it may say so of those
        that are gone: whoever believes it looks, and finds none. Raises StoreError.
        """
        if start >= self.clean_from:
            return False
        if start <= self._last:
            return True
        found = any_from(self._rows, self._partition, start)
        if found >= 0:
            self._last = found
            return True
        self.clean_from = max(start, self._behind)
        return False

    def over(self, start: int, end: int) -> list[Aborted]:
        """See `overlapping`. Raises StoreError."""
        if not self.any_from(start):
            return []
        return overlapping(self._rows, self._partition, start, end)
