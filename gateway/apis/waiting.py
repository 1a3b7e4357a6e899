"""Requests with codecs of their own, that may have to wait: for data, a disk, or until what they say is stored.

Each becomes an object whose answer is there at once, or pending; `connection.py` runs it.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gateway.wire.varint import skip_tags
from store.api import Piece
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.peer import Peer

_HEAD = struct.Struct(">xxxxhhih")  # size, API key, version, correlation id, length of the client id

Answer = Sequence[Piece]
"""One frame in pieces; its first four bytes, and more, are in the first."""


class Waiting(Protocol):
    """One such request."""

    def start(self) -> Pending[Answer]:
        """The answer. A promise of it, when it waits for records or a commit: then `expire` and `cancel` are heard."""

    def expire(self) -> None:
        """Do not wait for data any longer."""

    def cancel(self) -> None:
        """The connection is gone."""


class Asked(NamedTuple):
    """The head of a request, and where its body stands in the bytes that came."""

    peer: Peer
    version: int
    correlation_id: int
    client_id: bytes
    data: bytes
    position: int
    stop: int


Quick = Callable[["Broker", "Peer", bytes, int, int], Answer | None]
"""(broker, peer, data, position, stop) -> the answer to the frame there; None, and nothing has happened, for what
is not of the commonest kind."""

Again = Callable[["Broker", bytes, int, int], Awaitable[Answer]]
"""(broker, data, position, stop) -> that answer with its bytes in memory, when what was lent for it cannot be read."""

Direct = Callable[["Broker", Asked], Waiting]
"""Decodes a request and makes what answers it. Raises Malformed."""


def asked(peer: Peer, data: bytes, position: int, stop: int, flexible: int) -> Asked:
    """Of the frame at `data[position:stop]`. From version `flexible` on its header ends with tags."""
    _, version, correlation_id, named = _HEAD.unpack_from(data, position)
    name = position + 14
    position = name + named if named > 0 else name
    client_id = data[name:position]
    if version >= flexible:
        position = position + 1 if not data[position] else skip_tags(data, position)
    return Asked(peer, version, correlation_id, client_id, data, position, stop)
