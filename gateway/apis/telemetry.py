"""71 GetTelemetrySubscriptions (0) and 72 PushTelemetry (0): nothing is subscribed to (KIP-714).

Subscriptions that tools make are kept (`configs.py`), and clients are not told of them: nobody would read what comes.
Kafka without a plugin that takes metrics does the same.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from gateway.apis.registry import Context, handles
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

_SUBSCRIPTION = 0
_NO_ID = bytes(16)


@handles(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "GetTelemetrySubscriptions", 0, 0)
def get_telemetry_subscriptions(
    broker: Broker, context: Context, request: messages.GetTelemetrySubscriptionsRequest
) -> messages.GetTelemetrySubscriptionsResponse:
    instance = request.client_instance_id
    return messages.GetTelemetrySubscriptionsResponse(
        error_code=0,
        client_instance_id=uuid.uuid4().bytes if instance == _NO_ID else instance,
        subscription_id=_SUBSCRIPTION,
        accepted_compression_types=[4, 3, 1, 2],
        push_interval_ms=300_000,
        telemetry_max_bytes=1_048_576,
        delta_temporality=True,
        requested_metrics=[],
    )


@handles(ApiKey.PUSH_TELEMETRY, "PushTelemetry", 0, 0)
def push_telemetry(
    broker: Broker, context: Context, request: messages.PushTelemetryRequest
) -> messages.PushTelemetryResponse:
    known = request.subscription_id == _SUBSCRIPTION
    return messages.PushTelemetryResponse(error_code=0 if known else Error.UNKNOWN_SUBSCRIPTION_ID)
