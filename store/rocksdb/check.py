"""Batches of a segment held against their CRC: what reads, recovery and `verify` have in common.

The base offset, the length and the leader epoch lie outside a batch's CRC. So a batch must also follow the one before
it; where it leaves a gap, which is legal, the next one must not begin below its end.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from google_crc32c import value as crc32c

from store.batch import HEADER_BYTES, LENGTH_OVERHEAD
from store.rocksdb.files import Files

_HEAD = struct.Struct(">qi4xBI2xi8xq")  # base, length, magic, crc, last offset delta, max timestamp
_BASE = struct.Struct(">q")
_CHUNK = 4 << 20
_CHECKED = 21

Each = Callable[[int, int, int, int], None]
"""(position, base offset, next offset, max timestamp) of a good batch."""


class Checked(NamedTuple):
    """How far a segment is good, and what is in the good part (from where the check began)."""

    position: int
    next_offset: int
    batches: int
    max_timestamp: int
    max_from: int
    # why it is not good further on, or ""
    problem: str


def header(
    data: bytes | memoryview, at: int, room: int, expected: int, last: int
) -> tuple[str, int, int, int]:
    """(what is wrong or "", size, base offset, next offset) of the batch whose whole header stands at `at`.

    `room` is the bytes from there to the end of its segment, which ends below the offset `last`; offsets must not
    fall below `expected`. The CRC is not looked at.
    """
    base, length, magic, _, delta, _ = _HEAD.unpack_from(data, at)
    size = length + LENGTH_OVERHEAD
    problem = ""
    if magic != 2 or size < HEADER_BYTES or delta < 0:
        problem = "no record batch"
    elif base < expected:
        problem = f"offset {base} where {expected} or more was due"
    elif size > room:
        problem = "a batch that is longer than the segment"
    elif base + delta >= last:
        problem = f"offset {base + delta} in a segment that ends at {last - 1}"
    return problem, size, base, base + delta + 1


def sound(
    data: bytes | memoryview,
    at: int,
    room: int,
    expected: int,
    last: int,
    each: Each | None = None,
    place: int = 0,
    gap: bool = True,
    doubts: Sequence[tuple[int, int]] | None = None,
    sparse: bool = False,
) -> Checked:
    """Check the whole batches in a buffer from `at` on. `room`, `expected`, `last`: see `header`.

    Ends without a problem before a batch that is not whole here, and before one that leaves a gap: as the first, and
    if it may (`gap`), it is good when its follower is seen here and does not contradict it, or when no follower has
    room. Positions in the answer count from the buffer's begin; those given to `each` are `place` more. `doubts`: the
    bytes (from, to), in order, that are not known to be right (None: all); a batch without any of them is not held
    against its CRC. `sparse`: any batch may leave a gap, if its follower is seen.
    """
    begun = at
    end = len(data)
    batches = 0
    latest, latest_from = -1, expected
    problem = ""
    head = _HEAD.unpack_from
    doubtful = iter(((0, end),) if doubts is None else doubts)
    doubt = doubt_end = 0
    while end - at >= HEADER_BYTES:
        base, length, magic, crc, delta, timestamp = head(data, at)
        size = length + LENGTH_OVERHEAD
        left = room - (at - begun)
        if (
            magic != 2
            or size < HEADER_BYTES
            or delta < 0
            or base < expected
            or size > left
            or base + delta >= last
        ):
            problem = header(data, at, left, expected, last)[0]
            break
        if size > end - at:
            break
        if base > expected and left - size >= HEADER_BYTES:
            if (not sparse and (batches or not gap)) or end - at < size + 8:
                break
            following = _BASE.unpack_from(data, at + size)[0]
            if following <= base + delta:
                problem = f"offset {base + delta}, though {following} comes after it"
                break
        while doubt_end <= at:
            doubt, doubt_end = next(doubtful, (end, end + 1))
        if doubt < at + size and crc32c(bytes(data[at + _CHECKED : at + size])) != crc:
            problem = "a wrong CRC"
            break
        expected = base + delta + 1
        if timestamp > latest:
            latest, latest_from = timestamp, base
        if each is not None:
            each(place + at, base, expected, timestamp)
        batches += 1
        at += size
    return Checked(at, expected, batches, latest, latest_from, problem)


def check(
    files: Files,
    descriptor: int,
    position: int,
    end: int,
    expected: int,
    each: Each | None = None,
    last: int = 1 << 63,
    sparse: bool = False,
) -> Checked:
    """Check every batch of a segment from `position` to `end`; its offsets lie from `expected` to below `last`.
    `sparse`: see `sound`.
    """
    batches = 0
    latest, latest_from = -1, expected
    problem = ""
    wanted = _CHUNK
    while position < end and not problem:
        wanted = min(wanted, end - position)
        data = files.read(descriptor, wanted, position)
        found = sound(data, 0, end - position, expected, last, each, position, sparse=sparse)
        if found.max_timestamp > latest:
            latest, latest_from = found.max_timestamp, found.max_from
        batches += found.batches
        expected, problem = found.next_offset, found.problem
        position += found.position
        if found.batches or problem:
            wanted = _CHUNK
        elif len(data) < wanted:
            problem = "the file ends here" if len(data) < HEADER_BYTES else "the file ends within a batch"
        elif wanted < HEADER_BYTES:
            problem = "half a batch header"
        else:
            # larger than a chunk: all of it, and the header behind it
            wanted = header(data, 0, end - position, expected, last)[1] + HEADER_BYTES
    return Checked(position, expected, batches, latest, latest_from, problem)


def file_size(descriptor: int) -> int:
    return os.fstat(descriptor).st_size
