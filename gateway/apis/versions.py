"""18 ApiVersions, versions 0 to 4 (KIP-511: an unknown version is answered in the form of version 0, error 35).

What is registered is what is told. Of the features that clients look for, group.version (KIP-848), share.version
(KIP-932) and transaction.version (KIP-890) are finalized. metadata.version says which Kafka this is like: its level is
that of 4.3, and there is no other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gateway.apis.registry import APIS, Context, handles
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?\Z")


_LONGEST = 100
"""Characters that are kept of what a client library is called."""


class Feature(NamedTuple):
    """Which level it has, and the least that it could have."""

    level: int
    least: int = 0


FEATURES = {
    "group.version": Feature(1),
    "metadata.version": Feature(30, 30),
    "share.version": Feature(1),
    "transaction.version": Feature(2),
}
FEATURES_EPOCH = 2
"""To be raised when FEATURES change: a Java producer believes only what has a higher one than it has seen."""


@handles(ApiKey.API_VERSIONS, "ApiVersions", 0, 4)
def api_versions(
    broker: Broker, context: Context, request: messages.ApiVersionsRequest | None
) -> messages.ApiVersionsResponse:
    if request is not None and context.api_version >= 3:
        named = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.match(name) for name in named):
            return messages.ApiVersionsResponse(error_code=Error.INVALID_REQUEST)
        peer = context.peer
        peer.software = " ".join(named)[:_LONGEST]
        broker.client_software.note(peer.host, peer.client_id, peer.software)
    response = messages.ApiVersionsResponse
    return response(
        api_keys=[
            response.ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
            for api in sorted(APIS.values(), key=lambda api: api.key)
        ],
        # Clients of version 3 cannot take a least level of 0 (KAFKA-17492).
        supported_features=[
            response.SupportedFeatureKey(name=name, min_version=its.least, max_version=its.level)
            for name, its in FEATURES.items()
            if context.api_version >= 4 or its.least
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            response.FinalizedFeatureKey(name=name, max_version_level=its.level, min_version_level=its.level)
            for name, its in FEATURES.items()
        ],
    )
