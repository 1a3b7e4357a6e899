"""Messages as the admin API answers with them: `X-Pulsar-…` headers and a payload, alone or several in a batch."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Message:
    """One message. `known` is what Pulsar has names for, `properties` the rest of its headers."""

    id: str
    payload: bytes | None
    known: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """For JSON: names as everywhere in the API, numbers as numbers; the payload as text, or in base64 where it is
        none.
        """
        known = {_JSON[shown]: _typed(shown, text) for shown, text in self.known.items()}
        value: dict[str, Any] = {"messageId": self.id, **known, "properties": self.properties}
        if self.payload is None:
            value["payload"] = None
            return value
        try:
            value["payload"] = self.payload.decode()
        except UnicodeDecodeError:
            value["payloadBase64"] = base64.b64encode(self.payload).decode()
        return value


_KNOWN = {
    "X-Magnetar-Offset": "Offset",
    "X-Pulsar-publish-time": "Publish time",
    "X-Pulsar-event-time": "Event time",
    "X-Pulsar-deliver-at-time": "Deliver at",
    "X-Pulsar-producer-name": "Producer name",
    "X-Pulsar-sequence-id": "Sequence id",
    "X-Pulsar-Base64-ordering-key": "Ordering key (base64)",
    "X-Magnetar-Properties-Left-Out": "Properties left out",
}


_JSON = {
    "Offset": "offset",
    "Publish time": "publishTime",
    "Event time": "eventTime",
    "Deliver at": "deliverAt",
    "Producer name": "producerName",
    "Sequence id": "sequenceId",
    "Ordering key (base64)": "orderingKeyBase64",
    "Properties left out": "propertiesLeftOut",
    "Key": "key",
    "Key (base64)": "keyBase64",
}
"""What a person reads, and the key in JSON."""
_NUMBERS = ("Offset", "Event time", "Deliver at", "Sequence id", "Properties left out")


def _typed(shown: str, text: str) -> str | int:
    return int(text) if shown in _NUMBERS and text.isascii() and text.isdigit() else text


def read_messages(headers: Mapping[str, str], body: bytes) -> list[Message]:
    """What an answer holds. Raises ValueError, IndexError or KeyError for what no gateway sends."""
    known = {shown: headers[name] for name, shown in _KNOWN.items() if name in headers}
    where = headers["X-Pulsar-Message-ID"]
    if "X-Pulsar-num-batch-message" in headers:
        return list(_batch(where, int(known.pop("Offset")), known, body))
    if "X-Pulsar-partition-key" in headers:
        encoded = headers.get("X-Pulsar-partition-key-b64-encoded") == "true"
        known["Key (base64)" if encoded else "Key"] = headers["X-Pulsar-partition-key"]
    payload = None if headers.get("X-Pulsar-null-value") == "true" else body
    return [Message(where, payload, known, json.loads(headers.get("X-Pulsar-PROPERTY", "{}")))]


def _batch(where: str, offset: int, known: dict[str, str], body: bytes) -> Iterator[Message]:
    """Length, metadata, payload, one message after the other."""
    at, number = 0, 0
    while at < len(body):
        stop = at + 4 + int.from_bytes(body[at : at + 4], "big")
        message = Message(f"{where}:{number}", None, {"Offset": str(offset + number), **known})
        size, absent = 0, False
        for tag, value in _fields(body[at + 4 : stop]):
            if tag == 1 and isinstance(value, bytes):
                pair = {key: text for key, text in _fields(value) if isinstance(text, bytes)}
                message.properties[pair[1].decode()] = pair.get(2, b"").decode()
            elif tag == 2 and isinstance(value, bytes):
                message.known["Key"] = value.decode()
            elif tag == 3 and isinstance(value, int):
                size = value
            elif tag == 6 and value:
                message.known["Key (base64)"] = message.known.pop("Key")
            elif tag == 9:
                absent = bool(value)
        if not absent:
            message.payload = body[stop : stop + size]
        yield message
        at = stop + size
        number += 1


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message that has only numbers and bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7 == 2:
            yield tag >> 3, data[at : at + value]
            at += value
        else:
            yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
