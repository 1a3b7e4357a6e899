"""78 ShareFetch, versions 1 and 2 (KIP-932, KIP-1206, KIP-1222): records, and acknowledgements of those before."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gateway.apis.registry import SMALL_REQUEST, serves
from gateway.apis.waiting import Asked
from gateway.broker.sharing import ShareFetch
from gateway.wire import share as wire

if TYPE_CHECKING:
    from gateway.broker.broker import Broker


# 100,000 acknowledgements take two megabytes
@serves(
    78, "ShareFetch", wire.MIN_VERSION, wire.MAX_VERSION, flexible=0, parks=True, largest=2 * SMALL_REQUEST
)
def share_fetch(broker: Broker, asked: Asked) -> ShareFetch:
    """A session belongs to who opened it: the address and the client id."""
    client_id = asked.client_id.decode(errors="replace")
    request = wire.decode_fetch(asked.version, asked.data, asked.position, asked.stop)
    encode = partial(wire.encode_fetch, asked.version, asked.correlation_id)
    return ShareFetch(broker, asked.peer, client_id, request, encode)
