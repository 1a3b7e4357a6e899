"""RocksDB's log format, in which its WALs and its MANIFEST are written, as far as a start after a power cut needs it.

A file is blocks of 32 KB; a record is one fragment, or several over as many blocks. A fragment is a masked CRC-32C
(u32), its length (u16), its type (u8), all little-endian, then its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c

BLOCK = 32 * 1024
HEAD = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MASK = 0xA282EAD8


class LogRecord(NamedTuple):
    begin: int
    end: int
    data: bytes


def intact(data: bytes, at: int) -> bool:
    """Whether a whole fragment stands at `at` whose CRC is right."""
    if at + HEAD.size > len(data):
        return False
    masked, size, kind = HEAD.unpack_from(data, at)
    end = at + HEAD.size + size
    if not kind or end > len(data) or at % BLOCK + HEAD.size + size > BLOCK:
        return False
    found = google_crc32c.value(data[at + 6 : end])
    return bool(((found >> 15 | found << 17) + _MASK) & 0xFFFFFFFF == masked)


def next_block(at: int) -> int:
    return (at // BLOCK + 1) * BLOCK


def records(data: bytes) -> Iterator[LogRecord]:
    """The whole records from the beginning on, up to the first that is not. What RocksDB notes between them
    (types above those of fragments) is left out.
    """
    at = begin = 0
    parts: list[bytes] = []
    while at < len(data):
        if BLOCK - at % BLOCK < HEAD.size:
            at = next_block(at)
            continue
        if not intact(data, at):
            return
        _, size, kind = HEAD.unpack_from(data, at)
        if kind in (_FULL, _FIRST):
            begin, parts = at, []
        at += HEAD.size + size
        if kind <= _LAST:
            parts.append(data[at - size : at])
        if kind in (_FULL, _LAST):
            yield LogRecord(begin, at, parts[0] if len(parts) == 1 else b"".join(parts))


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(number, where it ends)."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
        shift += 7


def text(data: bytes, at: int) -> int:
    """Where bytes end that have their length before them."""
    size, at = varint(data, at)
    return at + size
