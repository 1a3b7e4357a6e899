"""RecordBatch v2 (KIP-98): its header, its admission, and what can be changed without touching its records.

    0 base offset i64      8 length i32 (of all that follows)     12 leader epoch i32     16 magic i8 = 2
    17 CRC-32C u32 (of all that follows)     21 attributes i16     23 last offset delta i32
    27 base timestamp i64     35 max timestamp i64     43 producer id i64     51 producer epoch i16
    53 base sequence i32     57 record count i32     61 records, compressed as a whole

Base offset and leader epoch lie outside the CRC: the broker fills them in without reading the rest.
Attributes: bits 0-2 codec, 3 log-append time, 4 transactional, 5 control, 6 delete horizon.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import google_crc32c
import msgspec

from gateway.wire import compression, crc
from gateway.wire.errors import Error

Buffer = bytes | memoryview

HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""Bytes in front of what `length` counts."""

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_unpack = _HEADER.unpack_from
_crc32c = google_crc32c.value
_OFFSET_LENGTH_EPOCH = struct.Struct(">qii").pack
_OFFSET_TO_CRC = struct.Struct(">qiibI").pack
_AFTER_CRC = struct.Struct(">hiqqqhii").pack
_CONTROL_KEY = struct.Struct(">hh").pack
_CONTROL_VALUE = struct.Struct(">hi").pack
_MAX_DELTA = 2**31 - 1

# What no client may set: these bits are the broker's.
_BROKERS_OWN = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON

SMALLEST_RECORD = 7
"""Bytes of a record with nothing in it."""

_LARGE = 4096
_SMALLEST = 14
"""What Kafka takes for the length of a message of any format at least."""


class BatchError(ValueError):
    """A batch that is refused. `code` is Kafka's error, `str()` the reason in words."""

    def __init__(self, code: Error, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Header(msgspec.Struct, gc=False):
    """The fixed part of a batch, field by field as on the wire; timestamps in ms since 1970."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """One of `compression`'s ids."""
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        """Whether every record carries the broker's time, `max_timestamp`, in place of its own."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether this is a transaction marker."""
        return bool(self.attributes & CONTROL)


def header(data: Buffer, position: int = 0) -> Header:
    """The header at a position, unchecked. BatchError (CORRUPT_MESSAGE) when there are fewer than 61 bytes."""
    try:
        return Header(*_unpack(data, position))
    except struct.error:
        raise BatchError(Error.CORRUPT_MESSAGE, "A batch has at least 61 bytes.") from None


def admit(batch: Buffer, within: bytes | None = None, start: int = 0) -> Header:
    """Checks what a producer sent as one batch, without touching its records. A large one need not be cut out of what
    was received for this: then it stands `within` that from `start` on.

    Raises BatchError: CORRUPT_MESSAGE for a wrong CRC, INVALID_RECORD for wrong lengths and for a batch that Kafka
    does not take from a client (magic 0 and 1 among them), UNSUPPORTED_COMPRESSION_TYPE, INVALID_TIMESTAMP. A
    transactional batch passes: whether its transaction is open is the broker's to know (`header.transactional`).
    """
    try:
        found = Header(*_unpack(batch))
    except struct.error:
        raise _refusal(bytes(batch)) from None
    attributes = found.attributes
    count = found.count
    # one comparison after the other in the order of likelihood is cheaper than one refusal function per rule
    if (
        found.length + 12 != len(batch)
        or found.magic != 2
        or count <= 0
        or found.last_offset_delta != count - 1
        or attributes & 0x68
        or attributes & 0x07 > 4
        or (count * 7 > found.length - 49 and not attributes & 0x07)
        or found.base_offset
        or (found.producer_id >= 0 and (found.base_sequence < 0 or found.producer_epoch < 0))
        or (
            _crc32c(batch[21:]) != found.crc
            if within is None
            else not crc.holds(within, start + 21, start + len(batch), found.crc)
        )
    ):
        raise _refusal(bytes(batch))
    return found


def _refusal(batch: bytes) -> BatchError:
    """Why `admit` refuses: the same rules once more, in the order in which they say most."""
    if len(batch) > 16 and batch[16] in (0, 1):
        return BatchError(Error.INVALID_RECORD, f"Message format {batch[16]} is not stored; only 2 is.")
    if len(batch) < HEADER_SIZE:
        # as Kafka: what is cut short would be cut short again, and CORRUPT_MESSAGE asks for another try
        return BatchError(Error.INVALID_RECORD, f"A batch has at least 61 bytes, this one {len(batch)}.")
    found = Header(*_unpack(batch))
    if found.magic != 2:
        return BatchError(Error.CORRUPT_MESSAGE, f"There is no message format {found.magic}.")
    if found.length < _SMALLEST:
        return BatchError(Error.CORRUPT_MESSAGE, f"The batch says it has {found.size} bytes: no batch has.")
    if found.size > len(batch) or found.length < HEADER_SIZE - LOG_OVERHEAD:
        return BatchError(
            Error.INVALID_RECORD, f"The batch says it has {found.size} bytes, but there are {len(batch)}."
        )
    if found.size < len(batch):
        return BatchError(Error.INVALID_RECORD, "A request may hold one batch for each partition, not more.")
    if _crc32c(batch[21:]) != found.crc:
        return BatchError(Error.CORRUPT_MESSAGE, "The CRC of the batch does not match its bytes.")
    if found.count <= 0 or found.last_offset_delta != found.count - 1:
        return BatchError(
            Error.INVALID_RECORD,
            f"The batch says {found.count} records, and that its last one is number {found.last_offset_delta}.",
        )
    if not found.codec and found.count * SMALLEST_RECORD > found.size - HEADER_SIZE:
        # it would take as many offsets, and every reader would wait for records that do not exist
        return BatchError(
            Error.INVALID_RECORD, f"{found.count} records cannot be in {found.size - HEADER_SIZE} bytes."
        )
    if found.base_offset:
        return BatchError(
            Error.INVALID_RECORD, f"A batch begins at offset 0 of its own, not at {found.base_offset}."
        )
    if found.codec > compression.ZSTD:
        return BatchError(Error.UNSUPPORTED_COMPRESSION_TYPE, f"There is no compression codec {found.codec}.")
    if found.control:
        return BatchError(
            Error.INVALID_RECORD, "Control batches are the broker's own; clients may not send them."
        )
    if found.log_append_time:
        return BatchError(Error.INVALID_TIMESTAMP, "Only the broker may mark a batch with log-append time.")
    if found.attributes & DELETE_HORIZON:
        return BatchError(Error.INVALID_RECORD, "Only the broker may give a batch a delete horizon.")
    return BatchError(
        Error.INVALID_RECORD,
        f"Producer {found.producer_id} sent epoch {found.producer_epoch} and base sequence {found.base_sequence}.",
    )


def patch(batch: Buffer, base_offset: int, leader_epoch: int) -> bytes:
    """The batch at its place in the log. The CRC holds, since both lie outside it."""
    size = len(batch)
    head = _OFFSET_LENGTH_EPOCH(base_offset, size - 12, leader_epoch)
    if size < _LARGE:
        return head + batch[16:]
    # one copy of the batch in place of two
    return b"".join((head, memoryview(batch)[16:]))


def patch_log_append_time(batch: bytes, base_offset: int, leader_epoch: int, now: int) -> bytes:
    """The batch at its place in the log, all its records stamped `now` (ms): the attribute, and the max
    timestamp.

    This is inside the CRC, which is computed anew.
    """
    found = header(batch)
    found.base_offset = base_offset
    found.leader_epoch = leader_epoch
    found.attributes |= LOG_APPEND_TIME
    found.max_timestamp = now
    return assemble(found, batch[HEADER_SIZE:])


def assemble(found: Header, payload: Buffer) -> bytes:
    """A batch of a header and its (compressed) records; length, magic and CRC are computed."""
    checked = b"".join(
        (
            _AFTER_CRC(
                found.attributes,
                found.last_offset_delta,
                found.base_timestamp,
                found.max_timestamp,
                found.producer_id,
                found.producer_epoch,
                found.base_sequence,
                found.count,
            ),
            payload,
        )
    )
    return (
        _OFFSET_TO_CRC(found.base_offset, len(checked) + 9, found.leader_epoch, 2, _crc32c(checked)) + checked
    )


def sealed(fields: tuple[int, int, int, int, int, int, int, int], payload: Buffer) -> bytes:
    """A batch at offset 0 with leader epoch 0: `fields` are those between the CRC and the records, as in `Header`."""
    checked = _AFTER_CRC(*fields) + payload
    return _OFFSET_TO_CRC(0, len(checked) + 9, 0, 2, _crc32c(checked)) + checked


def reencode(batch: bytes, codec: int, limit: int = compression.LIMIT, level: int | None = None) -> bytes:
    """The same batch with its records compressed by another codec (`compression.type`).

    Raises BatchError: CORRUPT_MESSAGE when the records cannot be decompressed, MESSAGE_TOO_LARGE when they
    grow beyond `limit` bytes.
    """
    found = header(batch)
    payload = compression.compress(codec, open_payload(batch, found, limit), level)
    found.attributes = found.attributes & ~CODEC_MASK | codec
    return assemble(found, payload)


def open_payload(batch: Buffer, found: Header, limit: int = compression.LIMIT) -> bytes:
    """The records of a batch, decompressed. `batch` begins with the batch and may be longer."""
    try:
        return compression.decompress(found.codec, batch[HEADER_SIZE : found.size], limit)
    except compression.TooLargeError as error:
        raise BatchError(Error.MESSAGE_TOO_LARGE, f"The records are too large: {error}.") from None
    except compression.CorruptError as error:
        raise BatchError(Error.CORRUPT_MESSAGE, f"The records cannot be decompressed: {error}.") from None


def check(batch: bytes) -> Header:
    """The header of one stored batch, with the CRC verified; anything a broker may have written passes.

    Raises BatchError (CORRUPT_MESSAGE).
    """
    found = header(batch)
    if found.magic != 2 or found.size != len(batch) or found.count < 0 or found.last_offset_delta < 0:
        raise BatchError(Error.CORRUPT_MESSAGE, "The header of the batch is damaged.")
    if _crc32c(batch[21:]) != found.crc:
        raise BatchError(Error.CORRUPT_MESSAGE, "The CRC of the batch does not match its bytes.")
    return found


def batches(data: Buffer, position: int = 0) -> Iterator[tuple[int, Header]]:
    """(position, header) of each whole batch in a records field or a stretch of a segment.

    A batch that is cut off at the end ends the walk, as it does in a fetch answer. Raises BatchError
    (CORRUPT_MESSAGE) for bytes that are no batch. CRCs are not looked at: `check` does.
    """
    end = len(data)
    while end - position >= HEADER_SIZE:
        found = Header(*_unpack(data, position))
        if found.magic != 2 or found.length < HEADER_SIZE - LOG_OVERHEAD:
            raise BatchError(Error.CORRUPT_MESSAGE, f"There is no batch at byte {position}.")
        if found.length + LOG_OVERHEAD > end - position:
            return
        yield position, found
        position += found.length + LOG_OVERHEAD


def empty_batch(base_offset: int, last_offset: int, leader_epoch: int = -1, timestamp: int = -1) -> bytes:
    """A batch without records that spans the offsets from `base_offset` to `last_offset`, both included.

    A gap at the end of a log needs one: librdkafka and aiokafka would wait for ever at its beginning. Raises
    ValueError for a span that is empty or above 2^31 offsets, which needs several.
    """
    if not 0 <= last_offset - base_offset <= _MAX_DELTA:
        raise ValueError(f"one batch cannot span the offsets {base_offset} to {last_offset}")
    return assemble(
        Header(
            base_offset,
            0,
            leader_epoch,
            2,
            0,
            0,
            last_offset - base_offset,
            timestamp,
            timestamp,
            -1,
            -1,
            -1,
            0,
        ),
        b"",
    )


def end_marker(
    base_offset: int,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int,
    timestamp: int,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a transaction on a partition (KIP-98): one record, its key the verdict."""
    key = _CONTROL_KEY(0, 1 if commit else 0)
    value = _CONTROL_VALUE(0, coordinator_epoch)
    # length 16, attributes 0, timestamp and offset delta 0, key of 4 bytes, value of 6, no headers; all
    # zigzag
    record = b"\x20\0\0\0\x08" + key + b"\x0c" + value + b"\0"
    return assemble(
        Header(
            base_offset,
            0,
            leader_epoch,
            2,
            0,
            TRANSACTIONAL | CONTROL,
            0,
            timestamp,
            timestamp,
            producer_id,
            producer_epoch,
            -1,
            1,
        ),
        record,
    )
