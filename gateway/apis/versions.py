"""18 ApiVersions, versions 0 to 4 (KIP-511: an unknown version is answered in the form of version 0, error 35).

What is registered is what is told. Of the features that clients look for, group.version (KIP-848), share.version
(KIP-932) and transaction.version (KIP-890) are finalized.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gateway.apis.registry import APIS, Context, handles
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?\Z")


_LONGEST = 100
"""Characters that are kept of what a client library is called."""

FEATURES = {"group.version": 1, "share.version": 1, "transaction.version": 2}
"""Features and their level."""
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
        context.peer.software = " ".join(named)[:_LONGEST]
    response = messages.ApiVersionsResponse
    return response(
        api_keys=[
            response.ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
            for api in sorted(APIS.values(), key=lambda api: api.key)
        ],
        # Clients of version 3 cannot take a least level of 0 (KAFKA-17492).
        supported_features=[
            response.SupportedFeatureKey(name=name, min_version=0, max_version=level)
            for name, level in FEATURES.items()
            if context.api_version >= 4
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            response.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in FEATURES.items()
        ],
    )
