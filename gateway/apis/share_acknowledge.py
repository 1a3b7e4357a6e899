"""79 ShareAcknowledge, versions 1 and 2 (KIP-932, KIP-1222): acknowledgements without a fetch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gateway.apis.registry import SMALL_REQUEST, serves
from gateway.apis.waiting import Asked
from gateway.broker.acknowledging import ShareAcknowledge
from gateway.wire import share as wire
from semantics import group_names
from semantics.names import Namespace

if TYPE_CHECKING:
    from gateway.broker.broker import Broker


@serves(79, "ShareAcknowledge", wire.MIN_VERSION, wire.MAX_VERSION, flexible=0, largest=2 * SMALL_REQUEST)
def share_acknowledge(broker: Broker, asked: Asked) -> ShareAcknowledge:
    """The answer tells what came of each partition's acknowledgements, once that is durable."""
    client_id = asked.client_id.decode(errors="replace")
    request = wire.decode_acknowledge(asked.version, asked.data, asked.position, asked.stop)
    if asked.peer.prefix and request.group_id is not None:
        request.group_id = group_names.scoped(Namespace.parse(asked.peer.namespace), request.group_id)
    encode = partial(wire.encode_acknowledge, asked.version, asked.correlation_id)
    if asked.peer.quotas is not None:
        # what the work on it costs is counted when it is done, and told with the next answer
        encode = partial(encode, throttle_ms=asked.peer.quotas.after_request())
    return ShareAcknowledge(broker, asked.peer, client_id, request, encode)
