"""Stored batches as they are read: which whole ones there are, and which of them hold some offsets."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from gateway.wire import delivery
from gateway.wire.keys import SMALLEST_RECORD
from gateway.wire.searching import holds
from semantics.subscriptions.states import Acquired
from store.api import Buffer

# base offset, length, attributes, last offset delta, record count
_HEADER = struct.Struct(">qi9xhi30xi")
_PRODUCER = struct.Struct(">q")
_PRODUCER_AT = 43
HEADER_BYTES = 61
TRANSACTIONAL = 0x10
_TELLS = 0x27
"""attributes: a codec, control"""

LARGEST = 2**63 - 1


class Stored(NamedTuple):
    """A batch as it was read: `size` bytes at `position` of `buffer`, offsets [base, next), `count` records."""

    buffer: Buffer
    position: int
    size: int
    base: int
    next: int
    attributes: int
    count: int  # type: ignore[assignment]

    @property
    def producer_id(self) -> int:
        """Whose it is; -1 for nobody's who said so."""
        found: int = _PRODUCER.unpack_from(self.buffer, self.position + _PRODUCER_AT)[0]
        return found

    def raw(self) -> Buffer:
        if self.size == len(self.buffer):
            return self.buffer
        return memoryview(self.buffer)[self.position : self.position + self.size]


def walk(data: Sequence[Buffer], offset: int, below: int = LARGEST) -> list[Stored]:
    """The whole batches among what was read, from the one that holds `offset` on; those that begin below another."""
    found: list[Stored] = []
    unpack = _HEADER.unpack_from
    for buffer in data:
        position, end = 0, len(buffer)
        while end - position >= HEADER_BYTES:
            base, length, attributes, delta, count = unpack(buffer, position)
            size = length + 12
            if size > end - position or base >= below:
                break
            if base + delta >= offset:
                found.append(Stored(buffer, position, size, base, base + delta + 1, attributes, count))
            position += size
    return found


def pick(data: Sequence[Buffer], ranges: Sequence[Acquired]) -> tuple[list[Stored], list[tuple[int, int]]]:
    """The whole batches that hold some of these offsets (ascending), and between which offsets there is nothing, of
    those that come before the last batch.
    """
    found: list[Stored] = []
    gaps: list[tuple[int, int]] = []
    unpack = _HEADER.unpack_from
    index, count = 0, len(ranges)
    reached = ranges[0].first
    for buffer in data:
        position, end = 0, len(buffer)
        while end - position >= HEADER_BYTES and index < count:
            base, length, attributes, delta, records = unpack(buffer, position)
            size = length + 12
            if size > end - position:
                break
            following = base + delta + 1
            if base > reached:
                gaps.append((reached, base))
                while index < count and ranges[index].last < base:
                    index += 1
            if following > reached:
                reached = following
            if index < count and ranges[index].first < following:
                found.append(Stored(buffer, position, size, base, following, attributes, records))
                while index < count and ranges[index].last < following:
                    index += 1
            position += size
    return found, gaps


Plain = tuple[int, list[tuple[Buffer, int, int]]]
"""Where batches end, and their bytes: (buffer, begin, end) each."""


def skim(
    data: Sequence[Buffer], offset: int, records: int, below: int = LARGEST, *, committed: bool = False
) -> Plain | None:
    """The batches from `offset` on that begin below another, at least so many records if they are there, as what most
    of them are: one after the other, not compressed, no delays; and where only what is `committed` is wanted, of no
    transaction. None when there is more to say of them, or there are none.
    """
    unpack, tells = _HEADER.unpack_from, _TELLS | TRANSACTIONAL if committed else _TELLS
    pieces: list[tuple[Buffer, int, int]] = []
    expected = -1
    enough = offset + records
    for buffer in data:
        position, end = 0, len(buffer)
        begin = -1
        while end - position >= HEADER_BYTES:
            base, length, attributes, delta, count = unpack(buffer, position)
            stop = position + length + 12
            if stop > end or base >= below:
                break
            following = base + delta + 1
            if following > offset:
                if (
                    attributes & tells
                    or count != delta + 1
                    # a header may say more records than there can be
                    or count * SMALLEST_RECORD > length
                    or (base != expected and (expected >= 0 or base > offset))
                ):
                    return None
                if begin < 0:
                    begin = position
                expected = following
            position = stop
            if following >= enough:
                break
        if begin >= 0:
            if holds(buffer, delivery.DELAY_MARK, begin, position):
                return None
            pieces.append((buffer, begin, position))
            if expected >= enough:
                break
    return (expected, pieces) if pieces else None
