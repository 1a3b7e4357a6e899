"""78 ShareFetch, versions 1 and 2 (KIP-932, KIP-1206, KIP-1222): records, and acknowledgements of those before."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gateway.apis.registry import SMALL_REQUEST, serves
from gateway.apis.waiting import Asked
from gateway.broker.sharing import ShareFetch
from gateway.wire import share as wire
from semantics import group_names
from semantics.names import Namespace

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
    if asked.peer.prefix and request.group_id is not None:
        request.group_id = group_names.scoped(Namespace.parse(asked.peer.namespace), request.group_id)
    encode = partial(wire.encode_fetch, asked.version, asked.correlation_id)
    return ShareFetch(broker, asked.peer, client_id, request, encode)
