"""What Pulsar's producers say of each message: who sends it, and which of theirs it is."""

from __future__ import annotations

from gateway.wire import compression
from gateway.wire.batch import Buffer, header, open_payload
from gateway.wire.properties import number
from gateway.wire.records import walk
from gateway.wire.searching import holds

PRODUCER_NAME = "pulsar-producer-name"
SEQUENCE_ID = "pulsar-sequence-id"

_MARK = SEQUENCE_ID.encode()

Said = tuple[bytes | None, int]
"""The name, None where it is not said, and the sequence id."""


def said(batch: Buffer, limit: int = compression.LIMIT) -> list[Said | None] | None:
    """Of each record of a batch, None of those that have no sequence id; None at all when no record has one.

    `limit` bounds what it may decompress to, in bytes. Raises BatchError.
    """
    found = header(batch)
    payload = open_payload(batch, found, limit)
    if not holds(payload, _MARK):
        return None
    listed: list[Said | None] = []
    for record in walk(payload, found):
        name: bytes | None = None
        sequence: int | None = None
        for key, value in record.headers:
            if key == SEQUENCE_ID:
                sequence = number(value)
            elif key == PRODUCER_NAME and value:
                name = value
        listed.append((name, sequence) if sequence is not None else None)
    return listed if any(listed) else None
