"""Messages as Pulsar's admin API shows them: the payload as body, all else in headers.

Headers are `X-Pulsar-…` in the case that Pulsar's Java client looks for. A record is one message; only a call for a
whole entry (a Kafka batch) answers with several, in Pulsar's batch form.
"""

from __future__ import annotations

import base64
import json
import struct
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gateway.admin.exchange import RefusedError, Reply, iso
from gateway.broker.errors import KafkaError
from gateway.broker.message_ids import id_at
from gateway.wire import records
from gateway.wire.batch import CONTROL, BatchError
from gateway.wire.properties import number
from gateway.wire.records import Record
from semantics.message_id import MessageId
from store.api import Corrupt, StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.partition import Partition

AT_ONCE = 64 * 1024
"""Bytes of a batch that is opened on the loop, unless they are compressed: few of these may unfold to many."""
BINARY = "application/octet-stream"
LARGEST_HEADER = 6 * 1024
"""Bytes of properties that are sent: above some 8 KB Java's client refuses the whole answer."""

PRODUCER_NAME, SEQUENCE_ID, EVENT_TIME = "pulsar-producer-name", "pulsar-sequence-id", "pulsar-event-time"
ORDERING_KEY, DELIVER_AT = "pulsar-ordering-key", "pulsar-deliver-at"


class Stored(NamedTuple):
    """A record and where it is. `entry` is the base offset of its batch."""

    offset: int
    entry: int
    record: Record


async def entry_at(
    broker: Broker, partition: Partition, offset: int, *, only: bool = False
) -> tuple[list[Stored], int]:
    """The records of the batch that holds `offset`, or of the next one, and the offset behind it; none at the end.
    `only`: just the first of them at `offset` or behind it. What may be large is opened in a thread.

    Refuses what cannot be read.
    """
    nothing: list[Stored] = []
    if offset >= partition.high_watermark:
        return nothing, offset
    try:
        found = partition.read(offset, 1)
        buffers = found if isinstance(found, list) else await found
        batch = b"".join(buffers)
        header = records.header(batch)
        batch = batch[: header.size]
        opened = partial(_stored, batch, header, offset, only, broker.decompression_limit)
        few = not header.codec and header.size <= AT_ONCE
        stored = opened() if few else await broker.loop.run_in_executor(None, opened)
    except IndexError:
        return nothing, partition.high_watermark
    except (Corrupt, BatchError) as error:
        raise RefusedError(500, f"The entry at offset {offset} cannot be opened: {error}") from None
    except (StoreError, KafkaError) as error:
        raise RefusedError(503, f"The log cannot be read at present: {error}") from None
    return stored, header.base_offset + header.last_offset_delta + 1


def _stored(batch: bytes, header: records.Header, offset: int, only: bool, limit: int) -> list[Stored]:
    """The records of a batch; `only`: the first one at `offset` or behind it. Raises BatchError."""
    if header.attributes & CONTROL:
        return []
    base = header.base_offset
    found = (
        Stored(base + each.offset_delta, base, each)
        for each in records.records(batch, limit)
        if not only or base + each.offset_delta >= offset
    )
    return list(islice(found, 1) if only else found)


async def record_at(broker: Broker, partition: Partition, offset: int) -> Stored | None:
    """The record at `offset`, or the first one behind it; None at the end of the log."""
    while offset < partition.high_watermark:
        entry, behind = await entry_at(broker, partition, offset, only=True)
        if entry:
            return entry[0]
        offset = max(behind, offset + 1)
    return None


def message_id(partition: Partition, stored: Stored) -> MessageId:
    """Where Pulsar finds it."""
    return id_at(partition, stored.offset)


def reply(partition: Partition, stored: Stored, java: bool) -> Reply:
    """One message. Java's client takes the third part of an id for the batch index, others for the partition."""
    found = message_id(partition, stored)
    shown = f"{found.ledger}:{found.entry}:{found.batch_index}" if java else str(found)
    headers = {"X-Pulsar-Message-ID": shown, **described(stored.record)}
    headers["X-Magnetar-Offset"] = str(stored.offset)
    headers["X-Magnetar-Partition"] = str(partition.index)
    return Reply(200, stored.record.value or b"", BINARY, headers)


def described(record: Record) -> dict[str, str]:
    """A record's key, times and properties as headers."""
    headers = {"X-Pulsar-publish-time": iso(max(record.timestamp, 0))}
    properties: dict[str, str] = {}
    for name, value in record.headers:
        text = (value or b"").decode("utf-8", "replace")
        if name == PRODUCER_NAME:
            headers["X-Pulsar-producer-name"] = _line(text)
        elif name == SEQUENCE_ID:
            headers["X-Pulsar-sequence-id"] = _line(text)
        elif name == EVENT_TIME:
            headers["X-Pulsar-event-time"] = _line(text)
        elif name == DELIVER_AT:
            headers["X-Pulsar-deliver-at-time"] = _line(text)
        elif name == ORDERING_KEY:
            headers["X-Pulsar-Base64-ordering-key"] = base64.b64encode(value or b"").decode()
        else:
            properties[name] = text
    if record.key is not None:
        try:
            key = record.key.decode("ascii")
            plain = key.isprintable() and key == key.strip()
        except UnicodeDecodeError:
            plain = False
        headers["X-Pulsar-partition-key"] = key if plain else base64.b64encode(record.key).decode()
        headers["X-Pulsar-partition-key-b64-encoded"] = "false" if plain else "true"
    if record.value is None:
        headers["X-Pulsar-null-value"] = "true"
    headers["X-Pulsar-PROPERTY"] = _properties(properties, headers)
    return headers


def _properties(properties: dict[str, str], headers: dict[str, str]) -> str:
    """One JSON object in ASCII, cut to what a header may hold; a header of its own says so."""
    kept: dict[str, str] = {}
    size = 2
    for name, value in properties.items():
        size += len(json.dumps({name: value}))
        if size > LARGEST_HEADER:
            headers["X-Magnetar-Properties-Left-Out"] = str(len(properties) - len(kept))
            break
        kept[name] = value
    return json.dumps(kept)


def _line(text: str) -> str:
    """What a header can carry."""
    return text if text.isascii() and text.isprintable() else json.dumps(text)[1:-1]


def batch_reply(partition: Partition, entry: list[Stored]) -> Reply:
    """A whole entry in Pulsar's batch form: for each message its length, its metadata (protobuf), its payload."""
    first = entry[0]
    found = message_id(partition, first)
    if len(entry) == 1:
        return reply(partition, first, java=False)
    body = bytearray()
    for stored in entry:
        metadata = _single_message_metadata(stored.record)
        body += struct.pack(">I", len(metadata)) + metadata + (stored.record.value or b"")
    headers = {
        "X-Pulsar-Message-ID": f"{found.ledger}:{found.entry}:{found.partition}",
        "X-Pulsar-num-batch-message": str(len(entry)),
        "X-Pulsar-publish-time": described(first.record)["X-Pulsar-publish-time"],
        "X-Magnetar-Offset": str(first.offset),
    }
    return Reply(200, bytes(body), BINARY, headers)


def _single_message_metadata(record: Record) -> bytes:
    """Pulsar's SingleMessageMetadata: 1 property (1 key, 2 value), 2 key, 3 payload size, 5 event time, 6 key is
    base64, 7 ordering key, 9 null value.
    """
    out = bytearray()
    for name, value in record.headers:
        # a name may be no UTF-8, which protobuf's texts are
        pair = _field(1, name.encode("utf-8", "replace")) + _field(
            2, (value or b"").decode("utf-8", "replace").encode()
        )
        if name == ORDERING_KEY:
            out += _field(7, value or b"")
        elif name == EVENT_TIME and (at := number(value)) is not None:
            out += b"\x28" + _varint(at)
        else:
            out += _field(1, pair)
    if record.key is not None:
        try:
            out += _field(2, record.key.decode().encode())
        except UnicodeDecodeError:
            out += _field(2, base64.b64encode(record.key)) + b"\x30\x01"
    out += b"\x18" + _varint(len(record.value or b""))
    if record.value is None:
        out += b"\x48\x01"
    return bytes(out)


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
