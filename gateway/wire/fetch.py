"""Fetch, by hand: stored bytes go to the transport as they are, beside the few bytes that describe them.

Versions 4 to 18 (flexible from 12, topic ids in place of names from 13).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeVar

from gateway.wire.malformed import Malformed
from gateway.wire.varint import encode_uvarint, skip_tags, uvarint

MIN_VERSION = 4
MAX_VERSION = 18

P = TypeVar("P")
"""What an answer is made of beside the bytes that describe it: buffers, or what stands for them."""

_HEAD_4 = struct.Struct(">iiiib")  # replica id, max wait, min bytes, max bytes, isolation
_HEAD_15 = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
_PARTITION_4 = struct.Struct(">iqi")  # index, fetch offset, max bytes
_PARTITION_5 = struct.Struct(">iqqi")  # with log start offset
_PARTITION_9 = struct.Struct(">iiqqi")  # with current leader epoch
_PARTITION_12 = struct.Struct(">iiqiqi")  # with last fetched epoch
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")

PartitionAsk = tuple[int, int, int, int]
"""partition, current leader epoch or -1, fetch offset, max bytes."""
TopicAsk = tuple[bytes, list[PartitionAsk]]
"""Topic name in UTF-8 (its 16-byte id from version 13 on), and what is asked of its partitions."""


class FetchRequest:
    """A decoded request; times in ms, sizes in bytes. Sessions as in KIP-227: epoch -1 is a fetch without one."""

    __slots__ = (
        "forgotten",
        "isolation",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(
        self,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: int,
        session_id: int,
        session_epoch: int,
        topics: list[TopicAsk],
        forgotten: list[tuple[bytes, list[int]]],
    ) -> None:
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = isolation
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.forgotten = forgotten


def decode(version: int, frame: bytes, position: int, end: int) -> FetchRequest:
    """Body of a request in `frame[position:end]`. Raises Malformed."""
    try:
        return (
            _decode_flexible(version, frame, position, end)
            if version >= 12
            else _decode_classic(version, frame, position, end)
        )
    except (IndexError, struct.error) as error:
        raise Malformed(f"Fetch v{version}: {error}") from None


def _decode_flexible(version: int, frame: bytes, position: int, end: int) -> FetchRequest:
    if version >= 15:
        max_wait, min_bytes, max_bytes, isolation = _HEAD_15.unpack_from(frame, position)
        position += 13
    else:
        _, max_wait, min_bytes, max_bytes, isolation = _HEAD_4.unpack_from(frame, position)
        position += 17
    session_id, session_epoch = _SESSION.unpack_from(frame, position)
    position += 8
    by_id = version >= 13
    count, position = uvarint(frame, position)
    topics: list[TopicAsk] = []
    for _ in range(count - 1):
        if by_id:
            name = frame[position : position + 16]
            position += 16
        else:
            length, position = uvarint(frame, position)
            name = frame[position : position + length - 1]
            position += length - 1
        partition_count = frame[position]
        position += 1
        if partition_count > 127:
            partition_count, position = uvarint(frame, position - 1)
        partitions: list[PartitionAsk] = []
        for _ in range(partition_count - 1):
            index, epoch, offset, _, _, limit = _PARTITION_12.unpack_from(frame, position)
            position += 32
            if frame[position]:
                position = skip_tags(frame, position)
            else:
                position += 1
            partitions.append((index, epoch, offset, limit))
        position = skip_tags(frame, position) if frame[position] else position + 1
        topics.append((name, partitions))
    count = frame[position]
    position += 1
    if count > 127:
        count, position = uvarint(frame, position - 1)
    forgotten: list[tuple[bytes, list[int]]] = []
    for _ in range(count - 1):
        if by_id:
            name = frame[position : position + 16]
            position += 16
        else:
            length, position = uvarint(frame, position)
            name = frame[position : position + length - 1]
            position += length - 1
        partition_count, position = uvarint(frame, position)
        if partition_count < 1 or position + 4 * (partition_count - 1) > end:
            raise Malformed("Fetch: forgotten partitions reach beyond the request")
        forgotten.append((name, list(struct.unpack_from(f">{partition_count - 1}i", frame, position))))
        position += 4 * (partition_count - 1)
        position = skip_tags(frame, position)
    # the client's rack: there is one replica of everything here
    length, position = uvarint(frame, position)
    position += length - 1
    position = skip_tags(frame, position) if frame[position] else position + 1
    if position != end:
        raise Malformed("Fetch: the request does not end where its frame ends")
    return FetchRequest(
        max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch, topics, forgotten
    )


def _decode_classic(version: int, frame: bytes, position: int, end: int) -> FetchRequest:
    _, max_wait, min_bytes, max_bytes, isolation = _HEAD_4.unpack_from(frame, position)
    position += 17
    session_id, session_epoch = 0, -1
    if version >= 7:
        session_id, session_epoch = _SESSION.unpack_from(frame, position)
        position += 8
    (count,) = _I32.unpack_from(frame, position)
    position += 4
    topics: list[TopicAsk] = []
    for _ in range(count):
        name, position = _string(frame, position)
        (partition_count,) = _I32.unpack_from(frame, position)
        position += 4
        partitions: list[PartitionAsk] = []
        for _ in range(partition_count):
            epoch = -1
            if version >= 9:
                index, epoch, offset, _, limit = _PARTITION_9.unpack_from(frame, position)
                position += 28
            elif version >= 5:
                index, offset, _, limit = _PARTITION_5.unpack_from(frame, position)
                position += 24
            else:
                index, offset, limit = _PARTITION_4.unpack_from(frame, position)
                position += 16
            partitions.append((index, epoch, offset, limit))
        topics.append((name, partitions))
    forgotten: list[tuple[bytes, list[int]]] = []
    if version >= 7:
        (count,) = _I32.unpack_from(frame, position)
        position += 4
        for _ in range(count):
            name, position = _string(frame, position)
            (partition_count,) = _I32.unpack_from(frame, position)
            position += 4
            if partition_count < 0 or position + 4 * partition_count > end:
                raise Malformed("Fetch: forgotten partitions reach beyond the request")
            forgotten.append((name, list(struct.unpack_from(f">{partition_count}i", frame, position))))
            position += 4 * partition_count
    if version >= 11:
        _, position = _string(frame, position)
    if position != end:
        raise Malformed("Fetch: the request does not end where its frame ends")
    return FetchRequest(
        max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch, topics, forgotten
    )


def _string(frame: bytes, position: int) -> tuple[bytes, int]:
    (length,) = _I16.unpack_from(frame, position)
    if length < 0:
        raise Malformed("Fetch: a name is missing")
    stop = position + 2 + length
    return frame[position + 2 : stop], stop


# -- answers -------------------------------------------------------------------------------------------------------

AbortedTransaction = tuple[int, int]
"""producer id, first offset"""
PartitionResult = tuple[int, int, int, int, int, Sequence[P], int, Sequence[AbortedTransaction]]
"""partition, error code, high watermark, last stable offset, log start offset, buffers of batches, their bytes, aborted
transactions that they have records of.
"""
TopicResult = tuple[bytes, list[PartitionResult[P]]]

_RESULT_4 = struct.Struct(">ihqq")
_RESULT_5 = struct.Struct(">ihqqq")
_RESULT_12 = struct.Struct(">ihqqqBi")
_ABORTED = struct.Struct(">qq")
_TOP_7 = struct.Struct(">ihi")
_FRAME = struct.Struct(">ii")
_FRAME_FLEXIBLE = struct.Struct(">iiBihi")


def encode(
    version: int,
    correlation_id: int,
    isolation: int,
    error: int,
    session_id: int,
    topics: list[TopicResult[P]],
    throttle_ms: int = 0,
) -> list[bytes | P]:
    """The whole answer frame, header and length included, as buffers for one `writelines`.

    `throttle_ms`: so long the client should wait (KIP-219).
    The list of aborted transactions is null but for read_committed (1): clients pass over what it says.
    """
    out: list[bytes | P] = [b""]
    total = 0
    flexible = version >= 12
    # what describes the next partition, until a buffer of records ends the run
    run: list[bytes] = []
    if flexible:
        run.append(encode_uvarint(len(topics) + 1))
        aborted = 1 if isolation else 0
        by_id = version >= 13
        for name, partitions in topics:
            if by_id:
                run.append(name)
            else:
                run.append(encode_uvarint(len(name) + 1))
                run.append(name)
            run.append(encode_uvarint(len(partitions) + 1))
            for index, code, high, stable, start, buffers, size, ended in partitions:
                if ended and isolation:
                    run.append(_RESULT_5.pack(index, code, high, stable, start))
                    run.append(encode_uvarint(len(ended) + 1))
                    run += [_ABORTED.pack(*each) + b"\x00" for each in ended]
                    run.append(b"\xff\xff\xff\xff")
                else:
                    run.append(_RESULT_12.pack(index, code, high, stable, start, aborted, -1))
                run.append(encode_uvarint(size + 1))
                if size:
                    described = b"".join(run)
                    run = []
                    out.append(described)
                    out.extend(buffers)
                    total += len(described) + size
                run.append(b"\x00")
            run.append(b"\x00")
        run.append(b"\x00")
    else:
        run.append(_I32.pack(len(topics)))
        aborted_list = _I32.pack(0 if isolation else -1)
        for name, partitions in topics:
            run.append(_I16.pack(len(name)) + name + _I32.pack(len(partitions)))
            for index, code, high, stable, start, buffers, size, ended in partitions:
                if version >= 5:
                    run.append(_RESULT_5.pack(index, code, high, stable, start))
                else:
                    run.append(_RESULT_4.pack(index, code, high, stable))
                if ended and isolation:
                    run.append(_I32.pack(len(ended)))
                    run += [_ABORTED.pack(*each) for each in ended]
                else:
                    run.append(aborted_list)
                if version >= 11:
                    run.append(b"\xff\xff\xff\xff")
                run.append(_I32.pack(size))
                if size:
                    described = b"".join(run)
                    run = []
                    out.append(described)
                    out.extend(buffers)
                    total += len(described) + size
    rest = b"".join(run)
    if rest:
        out.append(rest)
        total += len(rest)
    if flexible:
        out[0] = _FRAME_FLEXIBLE.pack(total + 15, correlation_id, 0, throttle_ms, error, session_id)
    elif version >= 7:
        out[0] = _FRAME.pack(total + 14, correlation_id) + _TOP_7.pack(throttle_ms, error, session_id)
    else:
        out[0] = _FRAME.pack(total + 8, correlation_id) + _I32.pack(throttle_ms)
    return out
