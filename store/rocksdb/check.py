"""Batches of a segment held against their CRC: what recovery and `verify` have in common."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import NamedTuple

from google_crc32c import value as crc32c

from store.batch import HEADER_BYTES, LENGTH_OVERHEAD
from store.rocksdb.files import Files

_HEAD = struct.Struct(">qi4xBI2xi8xq")  # base, length, magic, crc, last offset delta, max timestamp
_CHUNK = 1 << 20
_CHECKED = 21


class Checked(NamedTuple):
    """How far a segment is good, and what is in the good part (from where the check began)."""

    position: int
    next_offset: int
    batches: int
    max_timestamp: int
    max_from: int
    # why it is not good further on, or ""
    problem: str


def check(
    files: Files,
    descriptor: int,
    position: int,
    end: int,
    expected: int,
    each: Callable[[int, int, int, int], None] | None = None,
) -> Checked:
    """Check every batch from `position` to `end`; offsets must not fall below `expected`.

    `each(position, base offset, next offset, max timestamp)` is called for every good one.
    """
    data = b""
    at = 0
    batches = 0
    latest, latest_from = -1, expected
    problem = ""
    while position < end:
        left = len(data) - at
        if left < HEADER_BYTES:
            data = files.read(descriptor, min(_CHUNK, end - position), position)
            at = 0
            if len(data) < HEADER_BYTES:
                problem = "the file ends here" if position + len(data) < end else "half a batch header"
                break
            left = len(data)
        base, length, magic, crc, delta, timestamp = _HEAD.unpack_from(data, at)
        size = length + LENGTH_OVERHEAD
        if magic != 2 or size < HEADER_BYTES or delta < 0:
            problem = "no record batch"
            break
        if base < expected:
            problem = f"offset {base} where {expected} or more was due"
            break
        if position + size > end:
            problem = "a batch that is longer than the segment"
            break
        if size > left:
            data = files.read(descriptor, max(size, min(_CHUNK, end - position)), position)
            at = 0
            if len(data) < size:
                problem = "the file ends within a batch"
                break
        if crc32c(data[at + _CHECKED : at + size]) != crc:
            problem = "a wrong CRC"
            break
        expected = base + delta + 1
        if timestamp > latest:
            latest, latest_from = timestamp, base
        if each is not None:
            each(position, base, expected, timestamp)
        batches += 1
        position += size
        at += size
    return Checked(position, expected, batches, latest, latest_from, problem)


def file_size(descriptor: int) -> int:
    return os.fstat(descriptor).st_size
