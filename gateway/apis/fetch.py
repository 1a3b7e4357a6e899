"""01 Fetch, versions 4 to 18: what consumers read with, and replicas do not. Decoded by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gateway.apis.registry import SMALL_REQUEST, serves
from gateway.apis.waiting import Asked
from gateway.broker.fetch_one import fetch_one
from gateway.broker.fetching import Fetch
from gateway.wire import fetch as wire
from gateway.wire.fetch_one import FIRST_VERSION, decode_one, encode_one

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from store.api import Buffer

_HEAD = struct.Struct(">hih")  # version, correlation id, length of the client id


def quick(broker: Broker, connection: int, data: bytes, position: int, stop: int) -> Sequence[Buffer] | None:
    """The answer to one that asks one partition of which the next records were just written; else None."""
    version, correlation_id, named = _HEAD.unpack_from(data, position + 6)
    body = position + 15 + (named if named > 0 else 0)
    if not FIRST_VERSION <= version <= wire.MAX_VERSION or data[body - 1]:
        return None
    asked = decode_one(data, body, stop)
    if asked is None:
        return None
    _, min_bytes, max_bytes, isolation, session_id, epoch, topic, index, leader_epoch, offset, limit = asked
    found = fetch_one(
        broker,
        connection,
        min_bytes,
        max_bytes,
        session_id,
        epoch,
        topic,
        index,
        leader_epoch,
        offset,
        limit,
    )
    if found is None:
        return None
    high, start, buffers, size = found
    return encode_one(correlation_id, session_id, isolation, topic, index, high, start, buffers, size)


# a fetch of 60,000 partitions without a session takes two megabytes
@serves(
    1,
    "Fetch",
    wire.MIN_VERSION,
    wire.MAX_VERSION,
    flexible=12,
    quick=quick,
    parks=True,
    largest=2 * SMALL_REQUEST,
)
def fetch(broker: Broker, asked: Asked) -> Fetch:
    """Topics are named by their ids from version 13 on."""
    version = asked.version
    request = wire.decode(version, asked.data, asked.position, asked.stop)
    encode = partial(wire.encode, version, asked.correlation_id, request.isolation)
    return Fetch(broker, asked.connection, request, version >= 13, encode)
