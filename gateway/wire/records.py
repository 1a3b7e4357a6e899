"""The records inside a batch: walking them, and building batches. `batch` has what needs no look inside.

Kafka's names for the parts (KIP-82, KIP-98). A record is: its length, attributes (unused), timestamp delta,
offset delta, key, value, headers; numbers are zigzag varints, -1 as a length is null. Everything is checked
against the end of what was decompressed: records come from clients, and a batch's CRC says nothing of its
inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gateway.wire import compression
from gateway.wire.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchError,
    Buffer,
    Header,
    admit,
    assemble,
    batches,
    check,
    empty_batch,
    end_marker,
    header,
    open_payload,
    patch,
    patch_log_append_time,
    reencode,
)
from gateway.wire.errors import Error

__all__ = [
    "CONTROL",
    "HEADER_SIZE",
    "LOG_APPEND_TIME",
    "LOG_OVERHEAD",
    "TRANSACTIONAL",
    "BatchError",
    "Header",
    "Headers",
    "Record",
    "admit",
    "assemble",
    "batches",
    "build_batch",
    "check",
    "empty_batch",
    "end_marker",
    "first_from",
    "header",
    "patch",
    "patch_log_append_time",
    "records",
    "reencode",
    "skim",
]

Headers = list[tuple[str, bytes | None]]
"""Names may repeat and their order counts. A name that is not UTF-8 survives as lone surrogates."""


class Record(NamedTuple):
    """One record. `offset_delta` counts from the batch's base offset; `timestamp` in ms since 1970."""

    offset_delta: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


_NO_END = 1 << 62
_SMALLEST = 7
"""Bytes of a record with nothing in it."""


def records(batch: Buffer, limit: int = compression.LIMIT, last: int | None = None) -> list[Record]:
    """All records of a batch, or those up to the offset delta `last`: what follows is not looked at. `limit` bounds
    what they may decompress to, in bytes.

    Timestamps are those a consumer sees: the batch's own under log-append time. Raises BatchError:
    CORRUPT_MESSAGE for anything that is not as it should be, MESSAGE_TOO_LARGE beyond the limit.
    """
    found = header(batch)
    return walk(open_payload(batch, found, limit), found, last)


def walk(payload: bytes, found: Header, last: int | None = None) -> list[Record]:
    """The records in a decompressed payload; see `records`."""
    count = found.count
    end = len(payload)
    if not 0 <= count * _SMALLEST <= end:
        raise BatchError(Error.CORRUPT_MESSAGE, f"{count} records cannot be in {end} bytes.")
    base = found.base_timestamp
    stamped = found.max_timestamp if found.attributes & LOG_APPEND_TIME else None
    out: list[Record] = []
    append = out.append
    position = 0
    last_delta = -1
    enough = _NO_END if last is None else last
    try:
        for _ in range(count):
            length = payload[position]
            position += 1
            if length > 127:
                length, position = _long(payload, position, length, 5)
            stop = position + (length >> 1)
            # odd is negative in zigzag; the attributes byte is unused
            if length & 1 or stop > end:
                raise _corrupt("a record's length")
            position += 1
            delta = payload[position]
            position += 1
            if delta > 127:
                delta, position = _long(payload, position, delta, 10)
            timestamp = base + ((delta >> 1) ^ -(delta & 1))
            delta = payload[position]
            position += 1
            if delta > 127:
                delta, position = _long(payload, position, delta, 5)
            offset_delta = (delta >> 1) ^ -(delta & 1)
            if offset_delta <= last_delta:
                raise _corrupt("the order of offsets")
            last_delta = offset_delta

            size = payload[position]
            position += 1
            if size > 127:
                size, position = _long(payload, position, size, 5)
            if size & 1:
                if size != 1:
                    raise _corrupt("a key's length")
                key = None
            else:
                start = position
                position += size >> 1
                if position > stop:
                    raise _corrupt("a key's length")
                key = payload[start:position]

            size = payload[position]
            position += 1
            if size > 127:
                size, position = _long(payload, position, size, 5)
            if size & 1:
                if size != 1:
                    raise _corrupt("a value's length")
                value = None
            else:
                start = position
                position += size >> 1
                if position > stop:
                    raise _corrupt("a value's length")
                value = payload[start:position]

            size = payload[position]
            position += 1
            if size:
                headers, position = _headers(payload, position, size, stop)
            else:
                headers = []
            if position != stop:
                raise _corrupt("a record's length")
            append(Record(offset_delta, timestamp if stamped is None else stamped, key, value, headers))
            if offset_delta >= enough:
                return out
    except IndexError:
        raise _corrupt("the end of the records") from None
    if position != end or last_delta > found.last_offset_delta:
        raise _corrupt("the number of records")
    return out


MAX_SKIMMED = 1_000_000
"""Records of one batch that are looked at on behalf of a client; the most that librdkafka can be told to send."""


def skim(batch: Buffer, limit: int = compression.LIMIT) -> Iterator[tuple[int, int, bool]]:
    """(offset delta, timestamp, whether it has a key) of each record, without looking at what else is in it.

    For questions that strangers ask of what strangers sent: nothing is kept of a record, so a batch that unfolds to
    millions of records or headers costs the time to pass over it and no memory. Raises BatchError as `records`, and
    MESSAGE_TOO_LARGE for more than MAX_SKIMMED records.
    """
    found = header(batch)
    if found.count > MAX_SKIMMED:
        raise BatchError(Error.MESSAGE_TOO_LARGE, f"{found.count} records in one batch are too many.")
    payload = open_payload(batch, found, limit)
    end = len(payload)
    if not 0 <= found.count * _SMALLEST <= end:
        raise BatchError(Error.CORRUPT_MESSAGE, f"{found.count} records cannot be in {end} bytes.")
    base = found.base_timestamp
    stamped = found.max_timestamp if found.attributes & LOG_APPEND_TIME else None
    position = 0
    last_delta = -1
    try:
        for _ in range(found.count):
            length, position = _varint(payload, position, 5)
            stop = position + (length >> 1)
            if length & 1 or stop > end:
                raise _corrupt("a record's length")
            delta, position = _varint(payload, position + 1, 10)
            timestamp = base + ((delta >> 1) ^ -(delta & 1)) if stamped is None else stamped
            delta, position = _varint(payload, position, 5)
            offset_delta = (delta >> 1) ^ -(delta & 1)
            if offset_delta <= last_delta:
                raise _corrupt("the order of offsets")
            last_delta = offset_delta
            size, position = _varint(payload, position, 5)
            if (size & 1 and size != 1) or position + (size >> 1) > stop:
                raise _corrupt("a key's length")
            yield offset_delta, timestamp, size != 1
            position = stop
    except IndexError:
        raise _corrupt("the end of the records") from None
    if position != end or last_delta > found.last_offset_delta:
        raise _corrupt("the number of records")


def _varint(payload: bytes, position: int, most: int) -> tuple[int, int]:
    first = payload[position]
    return (first, position + 1) if first < 128 else _long(payload, position + 1, first, most)


def _headers(payload: bytes, position: int, count: int, stop: int) -> tuple[Headers, int]:
    """The headers of a record; `count` is the first byte of their number, in zigzag."""
    if count > 127:
        count, position = _long(payload, position, count, 5)
    # each takes at least its two lengths
    if count & 1 or count > stop - position:
        raise _corrupt("the number of headers")
    headers: Headers = []
    for _ in range(count >> 1):
        size = payload[position]
        position += 1
        if size > 127:
            size, position = _long(payload, position, size, 5)
        start = position
        position += size >> 1
        if size & 1 or position > stop:
            raise _corrupt("a header's name")
        name = str(payload[start:position], "utf-8", "surrogateescape")
        size = payload[position]
        position += 1
        if size > 127:
            size, position = _long(payload, position, size, 5)
        if size == 1:
            headers.append((name, None))
            continue
        start = position
        position += size >> 1
        if size & 1 or position > stop:
            raise _corrupt("a header's value")
        headers.append((name, payload[start:position]))
    return headers, position


def _long(payload: bytes, position: int, first: int, most: int) -> tuple[int, int]:
    """A varint of several bytes, still in zigzag, whose first byte was read; at most so many bytes in all."""
    value = first & 0x7F
    shift = 7
    for _ in range(most - 1):
        byte = payload[position]
        position += 1
        if byte < 128:
            return value | byte << shift, position
        value |= (byte & 0x7F) << shift
        shift += 7
    raise _corrupt("a varint")


def _corrupt(what: str) -> BatchError:
    return BatchError(Error.CORRUPT_MESSAGE, f"The records are damaged: {what} is wrong.")


def first_from(batch: Buffer, timestamp: int, limit: int = compression.LIMIT) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record not older than `timestamp`, None if there is none (ListOffsets)."""
    found = header(batch)
    if found.max_timestamp < timestamp:
        return None
    if found.attributes & LOG_APPEND_TIME:
        return found.base_offset, found.max_timestamp
    for offset_delta, stamp, _ in skim(batch, limit):
        if stamp >= timestamp:
            return found.base_offset + offset_delta, stamp
    # the header promises more than the records hold
    return None


def build_batch(
    contents: Iterable[Record],
    base_offset: int = 0,
    codec: int = compression.NONE,
    *,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    log_append_time: int | None = None,
    transactional: bool = False,
    last_offset_delta: int | None = None,
    level: int | None = None,
) -> bytes:
    """A batch of records, whose offset deltas must ascend (they may leave gaps, as compaction does).

    `log_append_time` (ms) stamps all of them. `last_offset_delta` keeps offsets that had a record once: it
    is the last record's unless said. Raises ValueError when there are no records; `empty_batch` is for
    that.
    """
    listed = list(contents)
    if not listed:
        raise ValueError("a batch needs a record")
    base = listed[0].timestamp
    newest = base
    parts: list[bytes] = []
    append = parts.append
    for offset_delta, timestamp, key, value, headers in listed:
        newest = max(newest, timestamp)
        body = [b"\0", _zigzag(timestamp - base), _zigzag(offset_delta)]
        body += (b"\x01",) if key is None else (_zigzag(len(key)), key)
        body += (b"\x01",) if value is None else (_zigzag(len(value)), value)
        body.append(_zigzag(len(headers)))
        for name, content in headers:
            encoded = name.encode("utf-8", "surrogateescape")
            body += (_zigzag(len(encoded)), encoded)
            body += (b"\x01",) if content is None else (_zigzag(len(content)), content)
        whole = b"".join(body)
        append(_zigzag(len(whole)))
        append(whole)
    attributes = codec
    if transactional:
        attributes |= TRANSACTIONAL
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        newest = log_append_time
    return assemble(
        Header(
            base_offset,
            0,
            leader_epoch,
            2,
            0,
            attributes,
            listed[-1].offset_delta if last_offset_delta is None else last_offset_delta,
            base,
            newest,
            producer_id,
            producer_epoch,
            base_sequence,
            len(listed),
        ),
        compression.compress(codec, b"".join(parts), level),
    )


_SMALL_ZIGZAG = tuple(bytes((n << 1,)) for n in range(64))


def _zigzag(value: int) -> bytes:
    if 0 <= value < 64:
        return _SMALL_ZIGZAG[value]
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
