"""Batches for the tests of what is in them, as clients and brokers make them."""

from __future__ import annotations

import struct
from typing import Any

import google_crc32c

from gateway.wire import records
from gateway.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from gateway.wire.records import Record

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
NOW = 1_700_000_000_000


def sample(count: int = 5) -> list[Record]:
    return [
        Record(n, NOW + n, b"key-%d" % n, b"value-%d" % n * 20, [("h", b"1"), ("n", None)])
        for n in range(count)
    ]


def read_by(reader: Any, data: bytes) -> list[Record]:
    """What a client's library makes of a records field with one batch."""
    memory = reader(data)
    batch = memory.next_batch()
    assert batch.validate_crc()
    found = [
        Record(
            record.offset - batch.base_offset,
            record.timestamp,
            record.key,
            record.value,
            list(record.headers),
        )
        for record in batch
    ]
    assert not memory.has_next()
    return found


def changed(batch: bytes, position: int, layout: str, value: int, *, valid_crc: bool = True) -> bytes:
    out = bytearray(batch)
    struct.pack_into(layout, out, position, value)
    if valid_crc:
        out[17:21] = struct.pack(">I", google_crc32c.value(bytes(out[21:])))
    return bytes(out)


GOOD = records.build_batch(sample(), 0, NONE, producer_id=7, producer_epoch=3, base_sequence=11)
