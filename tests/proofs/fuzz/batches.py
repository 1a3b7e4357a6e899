"""Record batches: right ones, wrong ones whose CRC is right all the same, and decompression bombs."""

from __future__ import annotations

import functools
import gzip
import random
import struct
from typing import Any

import cramjam

from gateway.wire import compression, records
from gateway.wire.batch import HEADER_SIZE, Header, assemble, header

EXTREME = (-(2**63), -(2**63) + 1, -1, 0, 1, 2**31, 2**62, 2**63 - 1)
"""Timestamps and producer ids that no clock and no broker gave."""


_CONTENT: list[tuple[bytes | None, bytes | None, records.Headers]] = [
    (None, b"value", []),
    (b"key", None, [("a", b"b"), ("a", None), ("é", b"")]),
    (b"", b"", []),
    (b"k" * 70, b"v" * 300, [("h" * 70, b"x" * 70)]),
]


@functools.cache
def good_batches() -> list[bytes]:
    """One of each kind that a producer may send."""
    found = []
    for codec in range(5):
        content = [
            records.Record(number, 1_700_000_000_000 + number, key, value, headers)
            for number, (key, value, headers) in enumerate(_CONTENT)
        ]
        found.append(records.build_batch(content, codec=codec))
        found.append(
            records.build_batch(content[:1], codec=codec, producer_id=7, producer_epoch=0, base_sequence=0)
        )
    return found


def resealed(batch: bytes, payload: bytes | None = None, **fields: int) -> bytes:
    """The batch with other records or header fields, and a CRC and length that are right for them."""
    found = header(batch)
    for name, value in fields.items():
        setattr(found, name, value)
    return assemble(found, batch[HEADER_SIZE:] if payload is None else payload)


def mutated(pick: random.Random, batch: bytes) -> bytes:
    """A batch that admission cannot tell by its CRC: the mutation is sealed by a new one."""
    found = header(batch)
    try:
        payload = compression.decompress(found.codec, batch[HEADER_SIZE:], 1 << 20)
    except compression.CorruptError:
        payload = batch[HEADER_SIZE:]
    kind = pick.randrange(10)
    if kind <= 3 and payload:
        # inside the records: lengths, deltas, counts
        data = bytearray(payload)
        for _ in range(pick.choice((1, 1, 2, 8))):
            place = pick.randrange(len(data))
            data[place : place + pick.choice((0, 1, 1))] = pick.choice(
                (
                    bytes((pick.randrange(256),)),
                    b"\xff" * 5,
                    b"\x80" * 10,
                    b"\xff" * 9 + b"\x01",
                    b"\xfe\xff\xff\xff\x0f",
                )
            )
        return resealed(batch, compression.compress(found.codec, bytes(data)))
    if kind == 4:
        return resealed(batch, payload[: pick.randrange(len(payload) + 1)], attributes=0)
    if kind == 5 and found.codec:
        # inside the compressed bytes
        data = bytearray(batch[HEADER_SIZE:])
        for _ in range(pick.choice((1, 2, 8))):
            data[pick.randrange(len(data))] = pick.randrange(256)
        return resealed(batch, bytes(data))
    if kind == 6:
        count = pick.choice((0, 1, -1, 2, found.count + 1, 1_000_000, 2**31 - 1, -(2**31)))
        return resealed(batch, count=count, last_offset_delta=count - 1 if count > -(2**31) else 0)
    if kind == 7:
        return resealed(
            batch, attributes=pick.choice((1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, -1, -(2**15), 2**15 - 1))
        )
    if kind == 8:
        return resealed(batch, base_timestamp=pick.choice(EXTREME), max_timestamp=pick.choice(EXTREME))
    return resealed(
        batch,
        producer_id=pick.choice(EXTREME),
        producer_epoch=pick.choice((-(2**15), -1, 0, 1, 2**15 - 1)),
        base_sequence=pick.choice((-(2**31), -1, 0, 1, 2**31 - 1)),
    )


def unsealed(pick: random.Random, batch: bytes) -> bytes:
    """A batch with a byte changed or bytes missing: its CRC or its length tells."""
    if pick.random() < 0.3:
        return batch[: pick.randrange(len(batch))]
    data = bytearray(batch)
    data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
    return bytes(data)


# -- bombs ---------------------------------------------------------------------------------------------------------

ZEROS, RECORDS, HEADERS = "zeros", "records", "headers"
"""What a bomb unfolds to: one value of zeros, as many records as fit, or one record of as many headers as fit."""


@functools.cache
def bomb(codec: int, size: int, content: str = ZEROS) -> bytes:
    """A batch with a right CRC whose records unfold to about `size` bytes."""
    times = max(1, size >> 16)
    whole = times << 16
    count = 1
    if content == ZEROS:
        # the last zero says that there are no headers
        unit, start = bytes(1 << 16), b"\0\0\0\x01" + _zigzag(whole - 1)
    elif content == RECORDS:
        # each the smallest there is; offsets do not ascend, so a reader that walks is soon told
        unit, start = b"\x0c\0\0\0\x01\x01\0" * 9362, b""
        count = 9362 * times
    else:
        unit, start = b"\0\x01" * (1 << 15), b"\0\0\0\x01\x01" + _zigzag(whole // 2)
    if start:
        start = _zigzag(len(start) + whole) + start
    payload = _compressed(codec, start, unit, times)
    return assemble(Header(0, 0, -1, 2, 0, codec, count - 1, 0, 0, -1, -1, -1, count), payload)


def ascending(count: int, codec: int = compression.ZSTD) -> bytes:
    """A batch of `count` records of the smallest kind, all of them right."""
    parts = []
    for number in range(count):
        delta = _zigzag(number)
        parts.append(bytes(((len(delta) + 5) << 1, 0, 0)) + delta + b"\x01\x01\0")
    return assemble(
        Header(0, 0, -1, 2, 0, codec, count - 1, 0, 0, -1, -1, -1, count),
        compression.compress(codec, b"".join(parts)),
    )


def lying(codec: int) -> bytes:
    """A batch whose compressed records claim to be far longer than they are."""
    if codec == compression.SNAPPY:
        payload = b"\xff\xff\xff\xff\x0f" + b"\x00" * 20
    elif codec == compression.ZSTD:
        payload = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**62) + b"\x01\x00\x00"
    elif codec == compression.GZIP:
        payload = gzip.compress(b"x", mtime=0)[:-4] + b"\xff\xff\xff\xff"
    else:
        payload = bytes.fromhex("04224d186c40") + struct.pack("<Q", 2**62) + b"\x00" + b"\xff\xff\xff\x7f"
    return assemble(Header(0, 0, -1, 2, 0, codec, 0, 0, 0, -1, -1, -1, 1), payload)


def _compressed(codec: int, start: bytes, unit: bytes, times: int) -> bytes:
    """start + unit * times, compressed without ever holding all of it where the codec allows that."""
    squeeze: Any
    if codec == compression.GZIP:
        squeeze = cramjam.gzip.Compressor(9)
    elif codec == compression.ZSTD:
        squeeze = cramjam.zstd.Compressor(3)
    elif codec == compression.LZ4:
        squeeze = cramjam.lz4.Compressor(4)
    elif codec == compression.SNAPPY:
        return bytes(compression.compress(codec, start + unit * times))
    else:
        return start + unit * times
    squeeze.compress(start)
    for _ in range(times):
        squeeze.compress(unit)
    return bytes(squeeze.finish())


def _zigzag(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
