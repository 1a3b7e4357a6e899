"""01 Fetch, versions 4 to 18: what consumers read with, and replicas do not. Decoded by hand."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gateway.apis.registry import SMALL_REQUEST, serves
from gateway.apis.waiting import Asked
from gateway.broker.fetching import Fetch
from gateway.wire import fetch as wire

if TYPE_CHECKING:
    from gateway.broker.broker import Broker


# a fetch of 60,000 partitions without a session takes two megabytes
@serves(1, "Fetch", wire.MIN_VERSION, wire.MAX_VERSION, flexible=12, parks=True, largest=2 * SMALL_REQUEST)
def fetch(broker: Broker, asked: Asked) -> Fetch:
    """Topics are named by their ids from version 13 on."""
    version = asked.version
    request = wire.decode(version, asked.data, asked.position, asked.stop)
    encode = partial(wire.encode, version, asked.correlation_id, request.isolation)
    return Fetch(broker, asked.connection, request, version >= 13, encode)
