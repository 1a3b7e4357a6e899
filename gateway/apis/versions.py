"""18 ApiVersions, versions 0 to 4 (KIP-511: an unknown version is answered in the form of version 0, error 35).

What is registered is what is told. No features are finalized: those that clients look for (group.version,
share.version) come with the protocols they stand for.
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


@handles(ApiKey.API_VERSIONS, "ApiVersions", 0, 4)
def api_versions(
    broker: Broker, context: Context, request: messages.ApiVersionsRequest | None
) -> messages.ApiVersionsResponse:
    if request is not None and context.api_version >= 3:
        named = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.match(name) for name in named):
            return messages.ApiVersionsResponse(error_code=Error.INVALID_REQUEST)
    return messages.ApiVersionsResponse(
        api_keys=[
            messages.ApiVersionsResponse.ApiVersion(
                api_key=api.key, min_version=api.min_version, max_version=api.max_version
            )
            for api in sorted(APIS.values(), key=lambda api: api.key)
        ]
    )
