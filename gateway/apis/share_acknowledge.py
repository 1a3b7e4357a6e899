"""79 ShareAcknowledge, versions 1 and 2 (KIP-932, KIP-1222): acknowledgements without a fetch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gateway.apis.registry import SMALL_REQUEST, serves
from gateway.apis.waiting import Asked
from gateway.broker.acknowledging import ShareAcknowledge
from gateway.wire import share as wire

if TYPE_CHECKING:
    from gateway.broker.broker import Broker


@serves(79, "ShareAcknowledge", wire.MIN_VERSION, wire.MAX_VERSION, flexible=0, largest=2 * SMALL_REQUEST)
def share_acknowledge(broker: Broker, asked: Asked) -> ShareAcknowledge:
    """The answer tells what came of each partition's acknowledgements, once that is durable."""
    client_id = asked.client_id.decode(errors="replace")
    request = wire.decode_acknowledge(asked.version, asked.data, asked.position, asked.stop)
    encode = partial(wire.encode_acknowledge, asked.version, asked.correlation_id)
    return ShareAcknowledge(broker, asked.peer, client_id, request, encode)
