"""68 ConsumerGroupHeartbeat (0 to 1): told and refused, so that one with group.protocol=consumer says why it stops.

librdkafka polls for ever without a word where version 1 is not told; given UNSUPPORTED_VERSION it ends with a fatal
error. The Java client says it either way, and franz-go falls back to the classic protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.apis.registry import Context, handles
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

REFUSAL = "The consumer group protocol of KIP-848 is not served yet: set group.protocol=classic."


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1)
def consumer_group_heartbeat(
    broker: Broker, context: Context, request: messages.ConsumerGroupHeartbeatRequest
) -> messages.ConsumerGroupHeartbeatResponse:
    return messages.ConsumerGroupHeartbeatResponse(
        error_code=Error.UNSUPPORTED_VERSION,
        error_message=REFUSAL,
        member_id=request.member_id or None,
        member_epoch=0,
        heartbeat_interval_ms=0,
        assignment=None,
    )
