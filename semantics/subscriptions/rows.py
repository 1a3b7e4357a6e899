"""What a cursor writes down: four kinds of rows, keys and values.

| kind   | key                       | value                                                                    |
|--------|---------------------------|--------------------------------------------------------------------------|
| CURSOR | empty                     | format u8, start, read, how many DUE rows there are u64, mending bool,    |
|        |                           | how many of [start, read) are open, delayed, in backoff, dying u64, and   |
|        |                           | how many retention took while they were open u64                         |
| ACK    | start u64                 | end u64: [start, end) is DONE, whole chunks only                         |
| ACK    | 1 << 63 and a number u64  | offsets that became DONE since the rows of their chunks: runs of u64     |
| COUNT  | number of a chunk u64     | what is known of its offsets: bit maps by state, counts                  |
| DUE    | due u64, first offset u64 | the offsets that are due then: runs of u64                               |
| DUE    | bucket u64, 1 << 63 and   | delayed offsets of one chunk that are due in that bucket of 256 ms:      |
|        | the first offset u64      | u32 each, ms from its begin << 20, offset in the chunk << 10, more of it |

All integers in keys are big-endian and of fixed width, so that due rows scan in due order. A row with an empty key and
no value, of another kind than CURSOR, says: delete every row of this kind.
"""

from __future__ import annotations

import enum
import re
import struct
import sys
from array import array
from collections.abc import Iterator
from typing import Literal, NamedTuple

from semantics.subscriptions.chunks import HELD_RUN, SHIFT, SIZE, Chunk
from semantics.subscriptions.states import BACKOFF, BURYING, DELAYED, DONE, DYING, NAMES, REASONS


class RowKind(enum.StrEnum):
    CURSOR = "cursor"
    ACK = "ack"
    COUNT = "count"
    DUE = "due"


class CursorRow(NamedTuple):
    """A row to put, or to delete (no value). Keys are relative to (subscription, partition)."""

    kind: RowKind
    key: bytes
    value: bytes | None


_U64 = struct.Struct(">Q")
_TWO = struct.Struct(">QQ")
_CURSOR = struct.Struct(">BQQQ?5Q")
# without what retention took, and without the counts, as it was once
_COUNTED_ROW = struct.Struct(">BQQQ?4Q")
_UNCOUNTED = struct.Struct(">BQQQ?")
_FORMAT = 3
_SIZES = {_FORMAT: _CURSOR.size, 2: _COUNTED_ROW.size, 1: _UNCOUNTED.size}
_SWAP = sys.byteorder == "big"


class RowError(ValueError):
    """A row that cannot be read."""


class Counts(NamedTuple):
    """How many records of a window wait for what; what was in somebody's hands is only open."""

    open: int = 0
    delayed: int = 0
    backoff: int = 0
    dying: int = 0


class Stands(NamedTuple):
    """Where a cursor stood when it was last written: [start, read) is its window."""

    start: int
    read: int
    counts: Counts | None
    """None in a row from before there were any"""
    expired: int = 0
    """how many open records retention has taken from it"""


def cursor(
    start: int, known: int, due_rows: int, mending: bool, counts: Counts, expired: int = 0
) -> CursorRow:
    return CursorRow(
        RowKind.CURSOR, b"", _CURSOR.pack(_FORMAT, start, known, due_rows, mending, *counts, expired)
    )


def read_cursor(value: bytes) -> tuple[int, int, int, bool]:
    """(start, read, number of DUE rows, whether those may name offsets from `read` on). Raises RowError."""
    if not value or _SIZES.get(value[0]) != len(value):
        raise RowError(f"A cursor's row of {len(value)} bytes that begins with {value[:1].hex()} is unknown.")
    _, start, known, due_rows, mending = _UNCOUNTED.unpack_from(value)
    return start, known, due_rows, mending


def stands(value: bytes) -> Stands:
    """What a cursor's row says of a cursor that is not loaded. Raises RowError."""
    start, known, _, _ = read_cursor(value)
    if value[0] == _FORMAT:
        *counted, expired = _CURSOR.unpack(value)[5:]
        return Stands(start, known, Counts(*counted), expired)
    return Stands(
        start, known, Counts(*_COUNTED_ROW.unpack(value)[5:]) if len(value) == _COUNTED_ROW.size else None
    )


def forget_all(kind: RowKind) -> CursorRow:
    """Delete every row of this kind."""
    return CursorRow(kind, b"", None)


def number_key(number: int) -> bytes:
    return _U64.pack(number)


def read_number(data: bytes) -> int:
    """Raises RowError."""
    if len(data) != 8:
        raise RowError(f"{data.hex()} is not a number of eight bytes.")
    return int(_U64.unpack(data)[0])


LOG = 1 << 63
"""In the key of an ACK row: it is a log"""
BUNDLE = 1 << 63
"""In the second half of a due row's key: it is a bundle, whose key says when its bucket begins"""
BUCKET_BITS = 8
"""ms of a bucket, as a power of two"""
RUN_MASK = (1 << 2 * SHIFT) - 1
"""Of an entry of a bundle: where in its chunk, and how many"""


def due_key(due: int, first: int) -> bytes:
    return _TWO.pack(due, first)


def read_due_key(key: bytes) -> tuple[int, int]:
    """(due, first offset). Raises RowError."""
    if len(key) != 16:
        raise RowError(f"{key.hex()} is not the key of a due row.")
    due, first = _TWO.unpack(key)
    return due, first


def runs(packed: array[int]) -> bytes:
    """Runs as u64, little-endian: first offset << 10 | length - 1."""
    return _little(packed)


def read_runs(value: bytes) -> array[int]:
    """Raises RowError."""
    return _read_little("Q", value)


def bundle(entries: array[int]) -> bytes:
    """Entries as u32, little-endian: ms after the bucket's begin << 20 | offset in the chunk << 10 | length - 1."""
    return _little(entries)


def read_bundle(value: bytes) -> array[int]:
    """Raises RowError."""
    return _read_little("I", value)


def _little(numbers: array[int]) -> bytes:
    if _SWAP:
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _read_little(code: Literal["Q", "I"], value: bytes) -> array[int]:
    numbers = array(code)
    if len(value) % numbers.itemsize:
        raise RowError(f"A row of {len(value)} bytes is not made of numbers of {numbers.itemsize} bytes.")
    numbers.frombytes(value)
    if _SWAP:
        numbers.byteswap()
    return numbers


def due_runs(key: bytes, value: bytes) -> Iterator[tuple[int, int]]:
    """A due row as (due, run). Raises RowError."""
    due, first = read_due_key(key)
    if not first & BUNDLE:
        for run in read_runs(value):
            yield due, run
        return
    high = (first & ~BUNDLE) >> SHIFT << 2 * SHIFT
    for entry in read_bundle(value):
        yield due + (entry >> 2 * SHIFT), high | entry & RUN_MASK


# -- the planes of a chunk ------------------------------------------------------------------------------------

_PLANES = (DONE, DELAYED, BACKOFF, *(DYING + number for number in range(len(REASONS))))
_BIT = {plane: bytes(49 if code == plane else 48 for code in range(256)) for plane in _PLANES}
for _number in range(len(REASONS)):
    # in somebody's hands it is still to be buried
    _BIT[DYING + _number] = bytes(
        49 if code in (DYING + _number, BURYING + _number) else 48 for code in range(256)
    )
_STATE_OF = {plane: bytes(plane if code == 49 else 0 for code in range(256)) for plane in _PLANES}
_COUNTED = bytes(48 if code == 0 else 49 for code in range(256))
_COUNTS, _WIDE = 1 << 6, 1 << 7
_WAITING = sum(1 << at for at, plane in enumerate(_PLANES) if plane != DONE)

_TO_SAY = re.compile(rb"[\x02-\x0a]")


def chunk(window_chunk: Chunk, start: int) -> bytes | None:
    """What must be known of a chunk after a crash; None when that is nothing.

    A byte of flags: a bit for each plane there is (DONE, DELAYED, BACKOFF, DYING by reason), one for counts, one for
    counts of two bytes. Then each plane, and the bit map of what has a count, as one byte of length and a
    little-endian number whose bit i is offset i. Then the counts, in the order of their offsets.
    """
    state = window_chunk.state
    counts = window_chunk.count
    if _TO_SAY.search(state, max(start - window_chunk.base, 0)) is None and (
        counts is None or not any(counts)
    ):
        return None
    flags = 0
    parts = [b""]
    for at, plane in enumerate(_PLANES):
        if plane in state or (plane >= DYING and plane + 3 in state):
            flags |= 1 << at
            parts.append(_bits(state.translate(_BIT[plane])))
    if counts is not None and any(counts):
        flags |= _COUNTS
        if isinstance(counts, bytearray):
            parts.append(_bits(counts.translate(_COUNTED)))
            parts.append(bytes(counts.translate(None, b"\0")))
        else:
            flags |= _WIDE
            parts.append(_bits(bytes(49 if count else 48 for count in counts)))
            wide = [count for count in counts if count]
            parts.append(struct.pack(f">{len(wide)}H", *wide))
    parts[0] = bytes([flags])
    return b"".join(parts)


def read_chunk(number: int, value: bytes) -> Chunk:
    """The chunk again, everything else in it AVAILABLE. Raises RowError."""
    found = Chunk(number)
    found.stored = True
    if not value:
        raise RowError(f"The row of chunk {number} is empty.")
    flags, at = value[0], 1
    states = 0
    for bit, plane in enumerate(_PLANES):
        if flags & 1 << bit:
            digits, at = _read_bits(value, at)
            states |= int.from_bytes(digits.translate(_STATE_OF[plane]), "little")
    found.state = bytearray(states.to_bytes(SIZE, "little"))
    if flags & _COUNTS:
        digits, at = _read_bits(value, at)
        width = 2 if flags & _WIDE else 1
        counts = array("H", bytes(2 * SIZE)) if flags & _WIDE else bytearray(SIZE)
        place = digits.find(b"1")
        while place >= 0:
            if at + width > len(value):
                raise RowError(f"The row of chunk {number} ends in its counts.")
            counts[place] = int.from_bytes(value[at : at + width], "big")
            at += width
            place = digits.find(b"1", place + 1)
        found.count = counts
    if at != len(value):
        raise RowError(f"The row of chunk {number} has {len(value)} bytes, and {at} are read.")
    return found


def first_held(number: int, value: bytes, start: int, end: int) -> tuple[int, str] | None:
    """The first offset of [start, end) that the row of a chunk says is DELAYED, in BACKOFF or DYING, and which.

    Cheap for a chunk that has none. Raises RowError.
    """
    if not value or not value[0] & _WAITING:
        return None
    found = read_chunk(number, value)
    held = HELD_RUN.search(found.state, max(start - found.base, 0), max(min(end - found.base, SIZE), 0))
    return None if held is None else (found.base + held.start(), NAMES[found.state[held.start()]])


def _bits(digits: bytes | bytearray) -> bytes:
    """A 0 or 1 an offset -> length and number."""
    number = int(digits[::-1], 2)
    length = (number.bit_length() + 7) >> 3
    return bytes([length]) + number.to_bytes(length, "little")


def _read_bits(value: bytes, at: int) -> tuple[bytes, int]:
    """Length and number -> a 0 or 1 an offset, and where to read on."""
    length = value[at] if at < len(value) else 255
    end = at + 1 + length
    if length > SIZE >> 3 or end > len(value):
        raise RowError("The row of a chunk ends in a bit map.")
    number = int.from_bytes(value[at + 1 : end], "little")
    return f"{number:0{SIZE}b}".encode()[::-1], end
