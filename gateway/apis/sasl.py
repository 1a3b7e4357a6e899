"""17 SaslHandshake (0 to 1) and 36 SaslAuthenticate (0 to 2): refused as Kafka refuses them on a PLAINTEXT listener.

They are told so that a client that wants to log in gets an answer in words, and leaves a line in the log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gateway.apis.registry import Context, handles
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

log = logging.getLogger("magnetar.apis")

REFUSAL = "This listener asks for no password: set security.protocol=PLAINTEXT."


@handles(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1)
def sasl_handshake(
    broker: Broker, context: Context, request: messages.SaslHandshakeRequest
) -> messages.SaslHandshakeResponse:
    log.info(
        "a client wants to log in, and this listener asks for no password: it needs security.protocol=PLAINTEXT",
        extra={
            "client": context.peer.host,
            "listener": context.peer.listener,
            "client_id": context.client_id,
        },
    )
    return messages.SaslHandshakeResponse(error_code=Error.ILLEGAL_SASL_STATE, mechanisms=[])


@handles(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2)
def sasl_authenticate(
    broker: Broker, context: Context, request: messages.SaslAuthenticateRequest
) -> messages.SaslAuthenticateResponse:
    return messages.SaslAuthenticateResponse(
        error_code=Error.ILLEGAL_SASL_STATE, error_message=REFUSAL, auth_bytes=b"", session_lifetime_ms=0
    )
