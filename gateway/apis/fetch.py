"""01 Fetch, versions 4 to 18: what consumers read with, and replicas do not. Decoded by hand."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

from gateway.apis.registry import SMALL_REQUEST, serves
from gateway.apis.waiting import Answer, Asked
from gateway.broker.fetch_one import fetch_again, fetch_one
from gateway.broker.fetching import Fetch
from gateway.wire import fetch as wire
from gateway.wire.fetch_one import FIRST_VERSION, decode_one, encode_one

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.peer import Peer
    from store.api import Piece

_HEAD = struct.Struct(">hih")  # version, correlation id, length of the client id


def quick(broker: Broker, peer: Peer, data: bytes, position: int, stop: int) -> Answer | None:
    """The answer to one that asks one partition of which the next records were just written, or follow those of a
    large answer; else None.
    """
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
        peer,
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


async def again(broker: Broker, data: bytes, position: int, stop: int) -> Answer:
    """A large answer of `quick` with its bytes in memory, or what is wrong with them."""
    version, correlation_id, named = _HEAD.unpack_from(data, position + 6)
    asked = decode_one(data, position + 15 + (named if named > 0 else 0), stop)
    assert asked is not None, "it was asked before"
    _, _, max_bytes, isolation, session_id, _, topic, index, _, offset, limit = asked
    error, (high, start, buffers, size) = await fetch_again(broker, max_bytes, topic, index, offset, limit)
    found: wire.PartitionResult[Piece] = index, error, high, high, start, buffers, size
    return wire.encode(version, correlation_id, isolation, 0, session_id, [(topic, [found])])


# a fetch of 60,000 partitions without a session takes two megabytes
@serves(
    1,
    "Fetch",
    wire.MIN_VERSION,
    wire.MAX_VERSION,
    flexible=12,
    quick=quick,
    again=again,
    parks=True,
    largest=2 * SMALL_REQUEST,
)
def fetch(broker: Broker, asked: Asked) -> Fetch:
    """Topics are named by their ids from version 13 on."""
    version = asked.version
    request = wire.decode(version, asked.data, asked.position, asked.stop)
    encode = partial(wire.encode, version, asked.correlation_id, request.isolation)
    return Fetch(broker, asked.peer, request, version >= 13, encode)
