"""Kafka's four compressions, with a hard limit on what comes out.

Compressed bytes come from strangers, and 8 KB of zstd can grow to 256 MB. So nothing here takes memory that
it has not measured first: the output is a buffer that never exceeds the limit, and it grows only when what
is in it was really produced.

Snappy comes in two framings: raw (librdkafka) and "xerial" (the Java client: a header, then blocks behind
their lengths). Both are read; xerial is written, since every client reads it. LZ4 is the frame format; what
is written has independent blocks, because the Java client refuses linked ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import cramjam

Buffer = bytes | memoryview

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
"""The codec ids in the attributes of a batch."""

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""The names of the codecs in `compression.type`, by id."""

LIMIT = 128 * 1024 * 1024
"""Bytes one batch may decompress to unless the caller says otherwise."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_LENGTH = struct.Struct(">i")

# Version 1, independent blocks of at most 64 KB, no sizes or checksums; the last byte checks the header
# itself.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 0x8000_0000
_LZ4_LENGTH = struct.Struct("<I")
_LZ4_COUNTED = 64

# Decompression starts with a buffer of this size, or of so many times the input.
_FIRST_GUESS = 16 * 1024
_GROWTH = 8


class CorruptError(ValueError):
    """The bytes are not what the codec writes."""


class TooLargeError(CorruptError):
    """The bytes grow beyond the limit."""


def decompress(codec: int, data: Buffer, limit: int = LIMIT) -> bytes:
    """What `data` was before it was compressed.

    Raises TooLargeError when that is more than `limit` bytes, CorruptError when it cannot be read or when
    the codec is not one of the five.
    """
    if codec == NONE:
        if len(data) > limit:
            raise TooLargeError(f"{len(data)} bytes are more than {limit}")
        return bytes(data)
    try:
        if codec == SNAPPY:
            return _snappy(data, limit)
        if codec == ZSTD:
            return _bounded(cramjam.zstd.decompress_into, data, limit, _zstd_size(data))
        if codec == LZ4:
            return _bounded(cramjam.lz4.decompress_into, data, limit, _lz4_size(data))
        if codec == GZIP:
            return _bounded(cramjam.gzip.decompress_into, data, limit, _gzip_size(data))
    except cramjam.DecompressionError as error:
        raise CorruptError(f"bad {NAMES[codec]} data: {error}") from None
    raise CorruptError(f"there is no compression codec {codec}")


def _bounded(
    decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, limit: int, hint: int
) -> bytes:
    """Decompresses into a buffer that grows as far as the limit; `hint` is the size the data claims, or 0."""
    # a claim is believed only as far as the data could be honest about it without being a bomb
    size = min(hint, len(data) * 256) if hint else len(data) * _GROWTH
    size = min(max(size, _FIRST_GUESS), limit)
    while True:
        buffer = bytearray(size)
        try:
            written = decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            # cramjam has one exception for all; this text is the standard library's for a full buffer
            if "write whole buffer" not in str(error):
                raise
            if size >= limit:
                raise TooLargeError(f"{len(data)} bytes grow to more than {limit}") from None
            size = min(size * _GROWTH, limit)
            continue
        return bytes(memoryview(buffer)[:written])


def _gzip_size(data: Buffer) -> int:
    """The size in the trailer: right for one member below 4 GB, and never more than a hint."""
    return int.from_bytes(data[-4:], "little") if len(data) > 18 else 0


def _lz4_size(data: Buffer) -> int:
    """The most that the blocks of the first frame can hold, 0 when they are many or that says no more than a guess.

    Most batches are a block or two, and a buffer that is many times too large costs more than the decompression.
    """
    if len(data) < 11:
        return 0
    flags = data[4]
    largest = 1 << 8 + 2 * (data[5] >> 4 & 7)
    position = 7 + (flags & 0x08) + (flags & 0x01) * 4
    checksum = 4 if flags & 0x10 else 0
    size = 0
    for _ in range(_LZ4_COUNTED):
        if position + 4 > len(data):
            break
        (length,) = _LZ4_LENGTH.unpack_from(data, position)
        if not length:
            return min(size, len(data) * _GROWTH)
        stored = length & ~_LZ4_STORED
        size += largest if stored == length else stored
        position += 4 + stored + checksum
    return 0


def _zstd_size(data: Buffer) -> int:
    """The content size in the header of the first frame (RFC 8878, 3.1.1.1), 0 when it is not there."""
    if len(data) < 14:
        return 0
    descriptor = data[4]
    single = descriptor >> 5 & 1
    flag = descriptor >> 6
    width = 1 << flag if flag or single else 0
    start = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(data[start : start + width], "little")
    return size + 256 if width == 2 else size


def _snappy(data: Buffer, limit: int) -> bytes:
    if len(data) < 16 or data[:8] != _XERIAL_MAGIC:
        return _raw_snappy(data, limit)
    parts = []
    position, end = 16, len(data)
    while position < end:
        if end - position < 4:
            raise CorruptError("bad snappy data: a block without a length")
        (length,) = _LENGTH.unpack_from(data, position)
        position += 4
        if not 0 <= length <= end - position:
            raise CorruptError("bad snappy data: a block runs past the end")
        part = _raw_snappy(data[position : position + length], limit)
        limit -= len(part)
        parts.append(part)
        position += length
    return b"".join(parts)


def _raw_snappy(data: Buffer, limit: int) -> bytes:
    # the length comes first; copies of 64 bytes from 3 are the most that snappy can do with its input
    size = cramjam.snappy.decompress_raw_len(data)
    if size > limit:
        raise TooLargeError(f"{len(data)} bytes grow to more than {limit}")
    if size > len(data) * 22:
        raise CorruptError("bad snappy data: it says it is longer than it can be")
    return bytes(cramjam.snappy.decompress_raw(data))


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`data` compressed, in the framing that every Kafka client reads.

    `level` as in Kafka's `compression.gzip.level`, `compression.lz4.level` and `compression.zstd.level`;
    None is the codec's default. Raises ValueError for a codec that does not exist.
    """
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return bytes(cramjam.gzip.compress(data, level=None if level is None or level < 0 else level))
    if codec == SNAPPY:
        return _xerial(data)
    if codec == LZ4:
        return _lz4(data, level)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=level))
    raise ValueError(f"there is no compression codec {codec}")


def _xerial(data: Buffer) -> bytes:
    parts: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, max(len(data), 1), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _lz4(data: Buffer, level: int | None) -> bytes:
    """An LZ4 frame by hand: cramjam's own has linked blocks, and checksums that take twice the time."""
    parts: list[bytes] = [_LZ4_HEADER]
    compress_block = cramjam.lz4.compress_block
    for start in range(0, len(data), _LZ4_BLOCK):
        plain = bytes(data[start : start + _LZ4_BLOCK])
        if level is None:
            block = bytes(compress_block(plain, store_size=False))
        else:
            block = bytes(compress_block(plain, mode="high_compression", compression=level, store_size=False))
        if len(block) < len(plain):
            parts += (_LZ4_LENGTH.pack(len(block)), block)
        else:
            parts += (_LZ4_LENGTH.pack(len(plain) | _LZ4_STORED), plain)
    parts.append(b"\0\0\0\0")
    return b"".join(parts)


def fold(data: bytes) -> bytes:
    """A block for memory: compressed if that makes it smaller, behind a byte that says so."""
    block = bytes(cramjam.lz4.compress_block(data, store_size=False))
    return b"\1" + block if len(block) < len(data) else b"\0" + data


def unfold(block: bytes, limit: int) -> bytes:
    """What `fold` was given: at most `limit` bytes."""
    if block[0]:
        return bytes(cramjam.lz4.decompress_block(block[1:], output_len=limit))
    return block[1:]
