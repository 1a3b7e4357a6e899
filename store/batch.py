"""Where things stand in the header of a RecordBatch v2, as far as a store must know.

| bytes | field | bytes | field |
|---|---|---|---|
| 0-7 | base offset | 21-22 | attributes |
| 8-11 | batch length (of what follows) | 23-26 | last offset delta |
| 12-15 | partition leader epoch | 27-34 | base timestamp |
| 16 | magic | 35-42 | max timestamp |
| 17-20 | CRC-32C of byte 21 to the end | 57-60 | record count |

Everything is pure. Positions are bytes into a buffer that may hold several batches; offsets are Kafka's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import google_crc32c

Buffer = bytes | bytearray | memoryview

HEADER_BYTES = 61
"""Size of the fixed header, and so of the smallest batch."""

LENGTH_OVERHEAD = 12
"""Bytes of a batch that its length field does not count."""

STEP = struct.Struct(">qi11xi")
"""(base offset, batch length, last offset delta): all that walking from batch to batch needs, in one call."""

_HEADER = struct.Struct(">qiiBIhiqq")
_I64 = struct.Struct(">q")
_I32 = struct.Struct(">i")
_U32 = struct.Struct(">I")

_BASE_OFFSET = 0
_LENGTH = 8
_LEADER_EPOCH = 12
_MAGIC = 16
_CRC = 17
_CHECKED = 21
_MAX_TIMESTAMP = 35
_COUNT = 57


def base_offset(data: Buffer, position: int = 0) -> int:
    return int(_I64.unpack_from(data, position)[0])


def next_offset(data: Buffer, position: int = 0) -> int:
    """One past the offset of the batch's last record."""
    base, _, delta = STEP.unpack_from(data, position)
    return int(base + delta + 1)


def size(data: Buffer, position: int = 0) -> int:
    """Bytes of the whole batch, its header included."""
    return int(_I32.unpack_from(data, position + _LENGTH)[0]) + LENGTH_OVERHEAD


def leader_epoch(data: Buffer, position: int = 0) -> int:
    return int(_I32.unpack_from(data, position + _LEADER_EPOCH)[0])


def max_timestamp(data: Buffer, position: int = 0) -> int:
    return int(_I64.unpack_from(data, position + _MAX_TIMESTAMP)[0])


def record_count(data: Buffer, position: int = 0) -> int:
    return int(_I32.unpack_from(data, position + _COUNT)[0])


def checksum(data: Buffer, position: int, total: int) -> int:
    """CRC-32C of the checked part of a batch of `total` bytes."""
    # google_crc32c takes nothing but bytes
    return int(google_crc32c.value(bytes(memoryview(data)[position + _CHECKED : position + total])))


def plausible(data: Buffer, position: int = 0) -> bool:
    """Whether a whole header stands here that could be a batch's (the CRC is not looked at)."""
    if len(data) - position < HEADER_BYTES:
        return False
    base, length, _, magic, _, _, delta, _, _ = _HEADER.unpack_from(data, position)
    return bool(magic == 2 and base >= 0 and length >= HEADER_BYTES - LENGTH_OVERHEAD and delta >= 0)


def intact(data: Buffer, position: int = 0) -> bool:
    """Whether a whole batch stands here whose CRC is right."""
    if not plausible(data, position):
        return False
    total = size(data, position)
    if len(data) - position < total:
        return False
    return int(_U32.unpack_from(data, position + _CRC)[0]) == checksum(data, position, total)


def walk(data: Buffer, position: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int, int]]:
    """(position, size, base offset, next offset) of each batch that begins below `end`.

    Ends at the first header that is cut off or not plausible; the last batch may reach beyond the buffer.
    """
    end = len(data) if end is None else end
    while position < end and plausible(data, position):
        base, length, delta = STEP.unpack_from(data, position)
        total = length + LENGTH_OVERHEAD
        yield position, total, base, base + delta + 1
        position += total


def build(
    base: int, payload: bytes, *, timestamp: int = 0, records: int = 1, epoch: int = 0, attributes: int = 0
) -> bytes:
    """A batch with a correct header and CRC around an opaque payload. For tests and measurements only."""
    checked = struct.pack(
        ">hiqqqhii", attributes, records - 1, timestamp, timestamp, -1, -1, -1, records
    ) + bytes(payload)
    head = struct.pack(">qiiBI", base, len(checked) + 9, epoch, 2, google_crc32c.value(checked))
    return head + checked
