"""Records that say themselves whose they are: who sent them and as which one, and what every byte must be."""

from __future__ import annotations

import random
import struct
from typing import NamedTuple

_HEAD = struct.Struct(">4sHIQ")  # magic, producer, bytes behind the head, sequence
_MAGIC = b"soak"
_POOL = random.Random(4).randbytes(1 << 20)
"""Filling: half of it does not compress, so that segments and frames have a size worth the name."""
KEYS = 29
"""Keys of a producer. Each stays in one partition, whatever the client's partitioner makes of it."""
EPOCH_MS = 1_700_000_000_000


class Record(NamedTuple):
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]
    timestamp: int


def size(producer: int, sequence: int, large: int = 0) -> int:
    """Bytes of the filling: most are small, a few are not. `large` is that of every record of some producers."""
    mixed = (sequence * 2_654_435_761 + producer * 40_503) & 0xFFFFFFFF
    if large:
        return large + mixed % large
    if mixed % 89 == 0:
        return 2_000 + mixed % 30_000
    return mixed % 180


def make(producer: int, sequence: int, filling: int) -> Record:
    begin = (sequence * 7_919 + producer * 104_729) % (len(_POOL) - filling)
    return Record(
        b"%d-%d" % (producer, sequence % KEYS),
        _HEAD.pack(_MAGIC, producer, filling, sequence) + _POOL[begin : begin + filling],
        [("n", b"%d" % sequence)] if sequence % 5 == 0 else [],
        EPOCH_MS + sequence,
    )


def parse(value: bytes | None) -> tuple[int, int, int] | None:
    """(producer, sequence, bytes of the filling), None when it is none of ours."""
    if value is None or len(value) < _HEAD.size:
        return None
    magic, producer, filling, sequence = _HEAD.unpack_from(value)
    return (producer, sequence, filling) if magic == _MAGIC and filling < len(_POOL) else None
