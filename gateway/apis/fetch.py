"""01 Fetch, versions 4 to 18: what consumers read with, and replicas do not. Decoded by hand."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

from gateway.apis.reach import Names, names_of, reach
from gateway.apis.registry import SMALL_REQUEST, serves
from gateway.apis.waiting import Answer, Asked
from gateway.broker.fetch_one import fetch_again, fetch_one
from gateway.broker.fetching import FINAL_EPOCH, Encoder, Fetch
from gateway.broker.requests import TopicTold
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
    if peer.prefix:
        # the long way knows what it may reach
        return None
    version, correlation_id, named = _HEAD.unpack_from(data, position + 6)
    body = position + 15 + (named if named > 0 else 0)
    if not FIRST_VERSION <= version <= wire.MAX_VERSION or data[body - 1]:
        return None
    asked = decode_one(data, body, stop)
    if asked is None:
        return None
    _, min_bytes, max_bytes, isolation, session_id, epoch, topic, index, leader_epoch, offset, limit = asked
    quotas = peer.quotas
    if quotas is not None and not quotas.lets_fetch(limit if limit < max_bytes else max_bytes):
        # the long way tells it to wait, or gives it less
        return None
    found = fetch_one(
        broker,
        peer,
        min_bytes,
        max_bytes,
        isolation,
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
    high, stable, start, buffers, size = found
    if quotas is not None and quotas.fetched is not None:
        # which was asked just now; the work is charged when all that was read has been looked at
        quotas.fetched.level -= size
    return encode_one(correlation_id, session_id, isolation, topic, index, high, stable, start, buffers, size)


async def again(broker: Broker, data: bytes, position: int, stop: int) -> Answer:
    """A large answer of `quick` with its bytes in memory, or what is wrong with them."""
    version, correlation_id, named = _HEAD.unpack_from(data, position + 6)
    asked = decode_one(data, position + 15 + (named if named > 0 else 0), stop)
    assert asked is not None, "it was asked before"
    _, _, max_bytes, isolation, session_id, _, topic, index, _, offset, limit = asked
    error, again, aborted = await fetch_again(broker, max_bytes, isolation, topic, index, offset, limit)
    high, stable, start, buffers, size = again
    found: wire.PartitionResult[Piece] = index, error, high, stable, start, buffers, size, aborted
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
    encode: Encoder = partial(wire.encode, version, asked.correlation_id, request.isolation)
    by_id = version >= 13
    if by_id:
        return Fetch(broker, asked.peer, request, by_id, encode, reach(broker, asked.peer))
    said = names_of(broker, asked.peer)
    if said is None:
        return Fetch(broker, asked.peer, request, by_id, encode)
    meant = {name: said.meanings(name) for name, _ in (*request.topics, *request.forgotten)}
    if said.whole:
        # a session would answer later by another name than these: there is none with them
        if request.session_epoch > 0:
            # FETCH_SESSION_ID_NOT_FOUND: the client asks anew for all
            request.session_id = 0
        else:
            request.session_epoch = FINAL_EPOCH
    request.forgotten = [(each, indexes) for name, indexes in request.forgotten for each in meant[name]]
    if request.session_epoch > 0:
        # a session has a name once: with what it means now
        request.forgotten += [
            (each, [wanted[0] for wanted in partitions])
            for name, partitions in request.topics
            for each in meant[name][1:]
        ]
    request.topics = [(meant[name][0], partitions) for name, partitions in request.topics]
    return Fetch(broker, asked.peer, request, by_id, partial(_told, encode, said))


def _told(
    encode: Encoder, said: Names, error: int, session_id: int, topics: list[TopicTold], throttle_ms: int = 0
) -> Answer:
    """The answer with a client's own names."""
    told = [(said.outward(name), partitions) for name, partitions in topics]
    return encode(error, session_id, told, throttle_ms)
