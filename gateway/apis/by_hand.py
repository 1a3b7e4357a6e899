"""01 Fetch, 78 ShareFetch, 79 ShareAcknowledge: decoded by hand, without coroutines on their way.

Each becomes an object that answers at once, or waits and calls back. `connection.py` runs them.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from gateway.broker.acknowledging import ShareAcknowledge
from gateway.broker.fetching import Fetch
from gateway.broker.sharing import ShareFetch
from gateway.wire import fetch, share
from gateway.wire.varint import skip_tags
from store.api import Piece

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE = 1, 78, 79
BY_HAND = frozenset((FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE))

_HEAD = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id


Answer = Sequence[Piece]
"""One frame in pieces; its first four bytes, and more, are in the first."""


class Waiting(Protocol):
    """A request with a codec of its own that may have to wait: for data, or for its acknowledgements to be stored."""

    done: Callable[[Answer | Awaitable[Answer]], None] | None

    def start(self) -> Answer | Awaitable[Answer] | None:
        """The answer, at once or to wait for, or None: `done` will be called with it."""

    def expire(self) -> None:
        """Do not wait for data any longer."""

    def cancel(self) -> None:
        """The connection is gone."""


def take(broker: Broker, connection: int, host: str, data: bytes, position: int, stop: int) -> Waiting | None:
    """The request of one of these APIs in the frame at `data[position:stop]`, decoded; None for a version that is not
    served. Raises Malformed.
    """
    key, version, correlation_id, named = _HEAD.unpack_from(data, position + 4)
    name = position + 14
    position = name + named if named > 0 else name
    if key == FETCH:
        if not fetch.MIN_VERSION <= version <= fetch.MAX_VERSION:
            return None
        if version >= 12:
            position = position + 1 if not data[position] else skip_tags(data, position)
        request = fetch.decode(version, data, position, stop)
        return Fetch(broker, connection, version, correlation_id, request)
    if not share.MIN_VERSION <= version <= share.MAX_VERSION:
        return None
    peer = (host, data[name:position].decode(errors="replace"))
    position = position + 1 if not data[position] else skip_tags(data, position)
    if key == SHARE_FETCH:
        asked = share.decode_fetch(version, data, position, stop)
        return ShareFetch(broker, connection, peer, version, correlation_id, asked)
    acks = share.decode_acknowledge(version, data, position, stop)
    return ShareAcknowledge(broker, connection, peer, version, correlation_id, acks)
