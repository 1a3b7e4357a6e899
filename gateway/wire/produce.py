"""Produce, by hand: the generated codec would copy what need not be copied.

Decoding yields slices of the frame; the records are not looked at. Versions 3 to 13 (flexible from 9, topic ids in
place of names from 13). Versions 0 to 2 are advertised and refused: librdkafka drops compression when the lowest
version is above 0 (KAFKA-18659).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gateway.wire.malformed import Malformed
from gateway.wire.varint import encode_uvarint, skip_tags, uvarint

MIN_VERSION = 0
"""Advertised; see above."""
MIN_SERVED = 3
MAX_VERSION = 13

Partitions = list[tuple[int, bytes | None]]
Topics = list[tuple[bytes, Partitions]]
"""By topic: its name in UTF-8 (or its 16-byte id from version 13 on), and (partition, records) in the order asked."""

MAX_PARTITIONS = 50_000
"""Topics, and partitions, that one request may name: 100 MB could name 30 million, which would take gigabytes."""

_ACKS_TIMEOUT = struct.Struct(">hi")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


class ProduceRequest:
    """A decoded request. `acks` is -1, 0 or 1; `timeout_ms` what the client is willing to wait."""

    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")

    def __init__(self, acks: int, timeout_ms: int, topics: Topics, transactional_id: bytes | None) -> None:
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics = topics
        self.transactional_id = transactional_id


def decode(version: int, frame: bytes, position: int, end: int) -> ProduceRequest:
    """Body of a request in `frame[position:end]`. Raises Malformed."""
    try:
        if version >= 9:
            return _decode_flexible(version, frame, position, end)
        return _decode_classic(frame, position, end)
    except (IndexError, struct.error) as error:
        raise Malformed(f"Produce v{version}: {error}") from None


def _decode_flexible(version: int, frame: bytes, position: int, end: int) -> ProduceRequest:
    length = frame[position]
    position += 1
    transactional_id = None
    if length:
        if length > 127:
            length, position = uvarint(frame, position - 1)
        transactional_id = frame[position : position + length - 1]
        position += length - 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    topic_count, position = uvarint(frame, position + 6)
    if topic_count > MAX_PARTITIONS:
        raise Malformed("Produce: too many topics")
    topics: Topics = []
    room = MAX_PARTITIONS
    by_id = version >= 13
    for _ in range(topic_count - 1):
        if by_id:
            name = frame[position : position + 16]
            position += 16
        else:
            length = frame[position]
            position += 1
            if length > 127:
                length, position = uvarint(frame, position - 1)
            name = frame[position : position + length - 1]
            position += length - 1
        count = frame[position]
        position += 1
        if count > 127:
            count, position = uvarint(frame, position - 1)
        room -= count
        if room < 0:
            raise Malformed("Produce: too many partitions")
        partitions: Partitions = []
        for _ in range(count - 1):
            (index,) = _I32.unpack_from(frame, position)
            position += 4
            size = frame[position]
            position += 1
            if size > 127:
                size, position = uvarint(frame, position - 1)
            if size:
                stop = position + size - 1
                if stop > end:
                    raise Malformed("Produce: records reach beyond the request")
                partitions.append((index, frame[position:stop]))
                position = stop
            else:
                partitions.append((index, None))
            if frame[position]:
                position = skip_tags(frame, position)
            else:
                position += 1
        if frame[position]:
            position = skip_tags(frame, position)
        else:
            position += 1
        topics.append((name, partitions))
        if position > end:
            break
    position = skip_tags(frame, position) if frame[position] else position + 1
    if position != end:
        raise Malformed("Produce: the request does not end where its frame ends")
    return ProduceRequest(acks, timeout_ms, topics, transactional_id)


def _decode_classic(frame: bytes, position: int, end: int) -> ProduceRequest:
    (length,) = _I16.unpack_from(frame, position)
    position += 2
    transactional_id = None
    if length >= 0:
        transactional_id = frame[position : position + length]
        position += length
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    (topic_count,) = _I32.unpack_from(frame, position + 6)
    position += 10
    if topic_count > MAX_PARTITIONS:
        raise Malformed("Produce: too many topics")
    topics: Topics = []
    room = MAX_PARTITIONS
    for _ in range(topic_count):
        (length,) = _I16.unpack_from(frame, position)
        position += 2
        if length < 0:
            raise Malformed("Produce: a topic without a name")
        name = frame[position : position + length]
        position += length
        (count,) = _I32.unpack_from(frame, position)
        position += 4
        if count > room:
            raise Malformed("Produce: too many partitions")
        room -= max(0, count)
        partitions: Partitions = []
        for _ in range(count):
            (index,) = _I32.unpack_from(frame, position)
            (size,) = _I32.unpack_from(frame, position + 4)
            position += 8
            if size < 0:
                partitions.append((index, None))
                continue
            stop = position + size
            if stop > end:
                raise Malformed("Produce: records reach beyond the request")
            partitions.append((index, frame[position:stop]))
            position = stop
        topics.append((name, partitions))
    if position != end:
        raise Malformed("Produce: the request does not end where its frame ends")
    return ProduceRequest(acks, timeout_ms, topics, transactional_id)


# -- answers -------------------------------------------------------------------------------------------------------

RecordErrors = Sequence[tuple[int, str | None]]
"""Records of the batch, from 0, for which it was refused, and why each (KIP-467)."""
PartitionResult = tuple[int, int, int, int, int, RecordErrors, str | None]
"""partition, error code, base offset, log append time or -1, log start offset, records, message or None."""
TopicResult = tuple[bytes, list[PartitionResult]]

_HEAD_FLEXIBLE = struct.Struct(">iiB")  # size, correlation id, no tags
_TAIL_ONE = struct.Struct(">qqqBBBBiB")
_INDEX_ERROR = struct.Struct(">ih")
_PREFIX_SIZE = 5


def prefix(name: bytes, index: int) -> bytes:
    """What the answer to a batch for one partition begins with, from version 9 to 12: to be kept by the partition."""
    return b"\x02" + _compact(name) + b"\x02" + _INDEX_ERROR.pack(index, 0)


def prefix_by_id(topic_id: bytes, index: int) -> bytes:
    """The same from version 13 on."""
    return b"\x02" + topic_id + b"\x02" + _INDEX_ERROR.pack(index, 0)


def encode_one(
    correlation_id: int,
    start: bytes,
    base_offset: int,
    append_time: int,
    log_start: int,
    throttle_ms: int = 0,
) -> bytes:
    """The whole answer frame, version 9 and later, for one stored batch; `start` is the partition's `prefix`."""
    return (
        _HEAD_FLEXIBLE.pack(len(start) + 38, correlation_id, 0)
        + start
        + _TAIL_ONE.pack(base_offset, append_time, log_start, 1, 0, 0, 0, throttle_ms, 0)
    )


def encode(version: int, correlation_id: int, topics: list[TopicResult], throttle_ms: int = 0) -> bytes:
    """The whole answer frame, header and length included. `throttle_ms`: so long the client should wait (KIP-219)."""
    parts: list[bytes] = []
    flexible = version >= 9
    parts.append(_length(len(topics), flexible))
    for name, partitions in topics:
        if version >= 13:
            parts.append(name)
        else:
            parts.append(_compact(name) if flexible else _I16.pack(len(name)) + name)
        parts.append(_length(len(partitions), flexible))
        for index, error, base_offset, append_time, log_start, records, message in partitions:
            parts.append(struct.pack(">ihqq", index, error, base_offset, append_time))
            if version >= 5:
                parts.append(struct.pack(">q", log_start))
            if version >= 8:
                parts.append(_length(len(records), flexible))
                for at, why in records:
                    parts.append(_I32.pack(at) + _text(why, flexible) + (b"\x00" if flexible else b""))
                parts.append(_text(message, flexible))
                if flexible:
                    parts.append(b"\x00")
        if flexible:
            parts.append(b"\x00")
    parts.append(_I32.pack(throttle_ms) + (b"\x00" if flexible else b""))
    body = b"".join(parts)
    if flexible:
        return _HEAD_FLEXIBLE.pack(len(body) + 5, correlation_id, 0) + body
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


def _length(count: int, flexible: bool) -> bytes:
    return encode_uvarint(count + 1) if flexible else _I32.pack(count)


def _text(text: str | None, flexible: bool) -> bytes:
    """A nullable string."""
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    encoded = text.encode()
    return _compact(encoded) if flexible else _I16.pack(len(encoded)) + encoded


def _compact(text: bytes) -> bytes:
    return encode_uvarint(len(text) + 1) + text
