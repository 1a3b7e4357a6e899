"""ShareFetch and ShareAcknowledge by hand (KIP-932, KIP-1206, KIP-1222): versions 1 and 2, both flexible.

Acknowledgements come by the hundred and answers with as many acquired ranges, so both have a fast path: a batch of
acknowledgements with one type is 19 bytes, and a row of them is unpacked in one call; acquired ranges are packed in one
go. Records go to the transport as they are stored, beside the bytes that describe them.

    request, an acknowledgement    first i64, last i64, number of types + 1, types i8 each, tags
    answer, an acquired range      first i64, last i64, delivery count i16, tags
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, overload

from gateway.wire.malformed import Malformed
from gateway.wire.primitives import NO_GROUP_HAS
from gateway.wire.varint import encode_uvarint, skip_tags, uvarint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIN_VERSION = 1
MAX_VERSION = 2

MAX_ELEMENTS = 100_000
"""Topics, partitions and acknowledgements that one request may name, together; as for generated decoders."""
MAX_TYPES = 1_000_000
"""Acknowledge types beyond the first of each batch that one request may name: they are bytes, and kept as such."""
MAX_DELIVERY_COUNT = 2**15 - 1
"""What the answer can say; more deliveries than that are said to be so many."""

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""Acknowledge types. They are not checked here: what is wrong with one is its partition's error."""

BATCH_OPTIMIZED, RECORD_LIMIT = range(2)
"""Acquire modes (KIP-1206): whole batches may go beyond `max_records`, or never more than it."""

Buffer = bytes | memoryview

Acknowledgement = tuple[int, int, bytes]
"""first offset, last offset, and one type for all of them or one for each, in a byte each."""
TopicAcks = tuple[bytes, list[tuple[int, Sequence[Acknowledgement]]]]
"""16-byte topic id, and (partition, acknowledgements); a partition to be fetched from may come with none."""

FEW_ACKS = 64
"""More acknowledgements of one type each than so many are kept as they came."""


class PlainAcks(Sequence[Acknowledgement]):
    """Acknowledgements with one type each as the request has them, 19 bytes each: to be looked at by columns, or one by
    one, as whoever settles them likes.
    """

    __slots__ = ("_data", "_listed")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._listed: list[Acknowledgement] | None = None

    def __len__(self) -> int:
        return len(self._data) // _ONE_TYPE.size

    @overload
    def __getitem__(self, index: int) -> Acknowledgement: ...
    @overload
    def __getitem__(self, index: slice) -> list[Acknowledgement]: ...
    def __getitem__(self, index: int | slice) -> Acknowledgement | list[Acknowledgement]:
        return self.listed[index]

    def __iter__(self) -> Iterator[Acknowledgement]:
        return iter(self.listed)

    @property
    def listed(self) -> list[Acknowledgement]:
        """One by one."""
        if self._listed is None:
            self._listed = list(_ONE_TYPE.iter_unpack(self._data))
        return self._listed

    def runs(self) -> list[Acknowledgement]:
        """The same said with fewer: what follows the one before and says the same of its records is one with it.

        Clients name each record by itself, also where a hundred in a row are accepted.
        """
        rows = _ONE_TYPE.iter_unpack(self._data)
        begin, end, said = next(rows)
        found: list[Acknowledgement] = []
        for first, last, kind in rows:
            if first == end + 1 and kind == said and begin <= end and first <= last:
                end = last
            else:
                found.append((begin, end, said))
                begin, end, said = first, last, kind
        found.append((begin, end, said))
        return found

    def all_of(self, kind: int) -> bool:
        """Whether all are of this type."""
        return self._data[17::19].count(kind) == len(self)

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and last offsets."""
        import numpy as np

        rows = np.frombuffer(
            self._data, np.dtype({"names": ["first", "last"], "formats": [">i8", ">i8"], "itemsize": 19})
        )
        return rows["first"].astype(np.int64), rows["last"].astype(np.int64)


_LIMITS = struct.Struct(">6i")  # session epoch, max wait, min bytes, max bytes, max records, batch size
_LIMITS_2 = struct.Struct(">6ib?")  # with acquire mode, is renew ack
_EPOCH = struct.Struct(">i")
_EPOCH_2 = struct.Struct(">i?")
_TOPIC = struct.Struct(">16sB")
_PARTITION = struct.Struct(">iB")
_ACK = struct.Struct(">qqB")
_ONE_TYPE = struct.Struct(">qqxcx")


class ShareFetchRequest:
    """A decoded request; times in ms, sizes in bytes. Epoch 0 opens a session, -1 closes it."""

    __slots__ = (
        "acquire_mode",
        "batch_size",
        "forgotten",
        "group_id",
        "is_renew_ack",
        "max_bytes",
        "max_records",
        "max_wait_ms",
        "member_id",
        "min_bytes",
        "session_epoch",
        "topics",
    )

    def __init__(
        self,
        group_id: str | None,
        member_id: str | None,
        session_epoch: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        max_records: int,
        batch_size: int,
        acquire_mode: int,
        is_renew_ack: bool,
        topics: list[TopicAcks],
        forgotten: list[tuple[bytes, list[int]]],
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.session_epoch = session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.acquire_mode = acquire_mode
        self.is_renew_ack = is_renew_ack
        self.topics = topics
        self.forgotten = forgotten

    @property
    def exact(self) -> bool:
        """Never more than `max_records`, not even to the end of a batch."""
        return self.acquire_mode == RECORD_LIMIT


class ShareAcknowledgeRequest:
    """A decoded request."""

    __slots__ = ("group_id", "is_renew_ack", "member_id", "session_epoch", "topics")

    def __init__(
        self,
        group_id: str | None,
        member_id: str | None,
        session_epoch: int,
        is_renew_ack: bool,
        topics: list[TopicAcks],
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.session_epoch = session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics = topics


def decode_fetch(version: int, data: bytes, position: int, stop: int) -> ShareFetchRequest:
    """Body of a ShareFetch request in `data[position:stop]`. Raises Malformed."""
    try:
        group_id, position = _group_id(data, position, stop)
        member_id, position = _string(data, position, stop)
        mode, renew = BATCH_OPTIMIZED, False
        if version >= 2:
            epoch, wait, least, most, records, size, mode, renew = _LIMITS_2.unpack_from(data, position)
            position += 26
        else:
            epoch, wait, least, most, records, size = _LIMITS.unpack_from(data, position)
            position += 24
        topics, position, left = _topics(data, position, stop)
        forgotten, position = _forgotten(data, position, stop, left)
        _finish(data, position, stop)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise Malformed(f"ShareFetch v{version}: {error}") from None
    return ShareFetchRequest(
        group_id, member_id, epoch, wait, least, most, records, size, mode, renew, topics, forgotten
    )


def decode_acknowledge(version: int, data: bytes, position: int, stop: int) -> ShareAcknowledgeRequest:
    """Body of a ShareAcknowledge request in `data[position:stop]`. Raises Malformed."""
    try:
        group_id, position = _group_id(data, position, stop)
        member_id, position = _string(data, position, stop)
        renew = False
        if version >= 2:
            epoch, renew = _EPOCH_2.unpack_from(data, position)
            position += 5
        else:
            (epoch,) = _EPOCH.unpack_from(data, position)
            position += 4
        topics, position, _ = _topics(data, position, stop)
        _finish(data, position, stop)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise Malformed(f"ShareAcknowledge v{version}: {error}") from None
    return ShareAcknowledgeRequest(group_id, member_id, epoch, renew, topics)


def _string(data: bytes, position: int, stop: int) -> tuple[str | None, int]:
    length, position = uvarint(data, position)
    if not length:
        return None, position
    end = position + length - 1
    if end > stop:
        raise Malformed("Share: a string reaches beyond the request")
    return str(data[position:end], "utf-8"), end


def _group_id(data: bytes, position: int, stop: int) -> tuple[str | None, int]:
    found, position = _string(data, position, stop)
    if found is not None and NO_GROUP_HAS in found:
        raise Malformed("Share: the group id has a control character that no group may have")
    return found, position


def _topics(data: bytes, position: int, stop: int) -> tuple[list[TopicAcks], int, int]:
    """(topics, position behind them, how many elements the request may still name)."""
    count, position = uvarint(data, position)
    left = MAX_ELEMENTS + 1 - count
    if not count or left < 0:
        raise Malformed("Share: topics are missing or too many")
    types_left = MAX_TYPES
    topics: list[TopicAcks] = []
    for _ in range(count - 1):
        topic_id, count = _TOPIC.unpack_from(data, position)
        position += 17
        if count > 127:
            count, position = uvarint(data, position - 1)
        left -= count - 1
        if not count or left < 0:
            raise Malformed("Share: partitions are missing or too many")
        partitions: list[tuple[int, Sequence[Acknowledgement]]] = []
        for _ in range(count - 1):
            index, count = _PARTITION.unpack_from(data, position)
            position += 5
            if count == 1:
                partitions.append((index, ()))
            else:
                if count > 127:
                    count, position = uvarint(data, position - 1)
                count -= 1
                left -= count
                if count < 0 or left < 0:
                    raise Malformed("Share: acknowledgements are missing or too many")
                end = position + count * 19
                if (
                    end <= stop
                    and data[position + 16 : end : 19].count(2) == count
                    and not any(data[position + 18 : end : 19])
                ):
                    plain = PlainAcks(data[position:end])
                    partitions.append((index, plain if count > FEW_ACKS else plain.listed))
                    position = end
                else:
                    acks, position, types_left = _acks(data, position, stop, count, types_left)
                    partitions.append((index, acks))
            position = skip_tags(data, position) if data[position] else position + 1
        position = skip_tags(data, position) if data[position] else position + 1
        topics.append((topic_id, partitions))
        if position > stop:
            raise Malformed("Share: the topics reach beyond the request")
    return topics, position, left


def _acks(
    data: bytes, position: int, stop: int, count: int, types_left: int
) -> tuple[list[Acknowledgement], int, int]:
    """Acknowledgements one by one, for those that name a type for each offset, or tags."""
    acks: list[Acknowledgement] = []
    unpack = _ACK.unpack_from
    for _ in range(count):
        first, last, number = unpack(data, position)
        position += 17
        if number > 127:
            number, position = uvarint(data, position - 1)
        types_left -= number
        end = position + number - 1
        if not number or types_left < 0 or end > stop:
            raise Malformed("Share: acknowledge types are missing, too many, or reach beyond the request")
        acks.append((first, last, data[position:end]))
        position = skip_tags(data, end) if data[end] else end + 1
    return acks, position, types_left


def _forgotten(data: bytes, position: int, stop: int, left: int) -> tuple[list[tuple[bytes, list[int]]], int]:
    count, position = uvarint(data, position)
    left -= count - 1
    if not count or left < 0:
        raise Malformed("ShareFetch: forgotten topics are missing or too many")
    forgotten: list[tuple[bytes, list[int]]] = []
    for _ in range(count - 1):
        topic_id = data[position : position + 16]
        number, position = uvarint(data, position + 16)
        number -= 1
        left -= number
        end = position + 4 * number
        if number < 0 or left < 0 or end > stop:
            raise Malformed(
                "ShareFetch: forgotten partitions are missing, too many, or reach beyond the request"
            )
        forgotten.append((topic_id, list(struct.unpack_from(f">{number}i", data, position))))
        position = skip_tags(data, end)
    return forgotten, position


def _finish(data: bytes, position: int, stop: int) -> None:
    """The last tags. Bytes behind a request are ignored, as Kafka and the generated decoders do."""
    if skip_tags(data, position) > stop:
        raise Malformed("Share: the request does not end where its frame ends")


# -- answers -------------------------------------------------------------------------------------------------------

Acquired = tuple[int, int, int]
"""first offset, last offset, delivery count (1 for the first delivery)."""
Endpoint = tuple[int, str, int, str | None]
"""node id, host, port, rack."""


PartitionAnswer = tuple[int, int, str | None, int, str | None, Sequence[Buffer], Sequence[Acquired]]
"""What ShareFetch answers for a partition: partition, error and message of the fetch, error and message of the
acknowledgements, records, what of them was acquired in ascending order."""
AckAnswer = tuple[int, int, str | None]
"""What ShareAcknowledge answers for a partition: partition, error, message."""

_HEAD = struct.Struct(">iiBih")  # size, correlation id, no tags, throttle time, error
_I32 = struct.Struct(">i")
_INDEX_ERROR = struct.Struct(">ih")
_ERROR = struct.Struct(">h")
_NO_ERRORS = struct.Struct(">ihxhxiix")  # index, errors without messages, leader, no tags
_ACQUIRED = struct.Struct(">qqhx").pack
_NO_LEADER = struct.pack(">iix", -1, -1)


def encode_fetch(
    version: int,
    correlation_id: int,
    error: int,
    error_message: str | None,
    lock_timeout_ms: int,
    topics: Sequence[tuple[bytes, Sequence[PartitionAnswer]]],
    endpoints: Sequence[Endpoint] = (),
    throttle_ms: int = 0,
) -> list[Buffer]:
    """The whole ShareFetch answer, header and length included, as buffers for one `writelines`.

    Both versions look the same. `throttle_ms`: so long the client should wait (KIP-219).
    """
    out: list[Buffer] = [b""]
    total = 0
    # what describes the next partition, until a buffer of records ends the run
    run: list[bytes] = [_nullable(error_message), _I32.pack(lock_timeout_ms), encode_uvarint(len(topics) + 1)]
    for topic_id, partitions in topics:
        run.append(topic_id)
        run.append(encode_uvarint(len(partitions) + 1))
        for index, code, message, ack_error, ack_message, records, acquired in partitions:
            if message is None and ack_message is None:
                run.append(_NO_ERRORS.pack(index, code, ack_error, -1, -1))
            else:
                run.append(_INDEX_ERROR.pack(index, code))
                run.append(_nullable(message))
                run.append(_ERROR.pack(ack_error))
                run.append(_nullable(ack_message))
                run.append(_NO_LEADER)
            size = sum(map(len, records))
            run.append(encode_uvarint(size + 1))
            if size:
                described = b"".join(run)
                run = []
                out.append(described)
                out.extend(records)
                total += len(described) + size
            run.append(encode_uvarint(len(acquired) + 1))
            run.append(pack_acquired(acquired))
            run.append(b"\x00")
        run.append(b"\x00")
    run.append(_endpoints(endpoints))
    rest = b"".join(run)
    out.append(rest)
    out[0] = _HEAD.pack(total + len(rest) + 11, correlation_id, 0, throttle_ms, error)
    return out


def pack_acquired(acquired: Sequence[Acquired]) -> bytes:
    """Acquired ranges as they stand in the answer, 19 bytes each."""
    try:
        return b"".join(starmap(_ACQUIRED, acquired))
    except struct.error:
        return b"".join(
            [_ACQUIRED(first, last, min(count, MAX_DELIVERY_COUNT)) for first, last, count in acquired]
        )


def encode_acknowledge(
    version: int,
    correlation_id: int,
    error: int,
    error_message: str | None,
    lock_timeout_ms: int,
    topics: Sequence[tuple[bytes, Sequence[AckAnswer]]],
    endpoints: Sequence[Endpoint] = (),
    throttle_ms: int = 0,
) -> bytes:
    """The whole ShareAcknowledge answer, header and length included. Version 1 does not say the lock timeout."""
    run: list[bytes] = [_nullable(error_message)]
    if version >= 2:
        run.append(_I32.pack(lock_timeout_ms))
    run.append(encode_uvarint(len(topics) + 1))
    for topic_id, partitions in topics:
        run.append(topic_id)
        run.append(encode_uvarint(len(partitions) + 1))
        for index, code, message in partitions:
            run.append(_INDEX_ERROR.pack(index, code))
            run.append(_nullable(message))
            run.append(_NO_LEADER)
            run.append(b"\x00")
        run.append(b"\x00")
    run.append(_endpoints(endpoints))
    rest = b"".join(run)
    return _HEAD.pack(len(rest) + 11, correlation_id, 0, throttle_ms, error) + rest


def _nullable(text: str | None) -> bytes:
    return b"\x00" if text is None else _compact(text)


def _compact(text: str) -> bytes:
    encoded = text.encode()
    return encode_uvarint(len(encoded) + 1) + encoded


def _endpoints(endpoints: Sequence[Endpoint]) -> bytes:
    """The nodes, and the tags that end the answer."""
    if not endpoints:
        return b"\x01\x00"
    parts = [encode_uvarint(len(endpoints) + 1)]
    for node, host, port, rack in endpoints:
        parts += (_I32.pack(node), _compact(host), _I32.pack(port), _nullable(rack), b"\x00")
    parts.append(b"\x00")
    return b"".join(parts)
