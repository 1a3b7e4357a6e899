"""17 SaslHandshake (0 to 1) and 36 SaslAuthenticate (0 to 2), of connections that are served.

On a listener that asks nobody they are refused, as Kafka refuses them on a PLAINTEXT listener. They are told so that a
client that wants to log in gets an answer in words, and leaves a line in the log. Elsewhere a client logs in at a
`Gate`; with these it logs in again, before its session ends (KIP-368).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from gateway.apis.registry import Context, handles
from gateway.peer import Progress, Session
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

log = logging.getLogger("magnetar.apis")

REFUSAL = "This listener asks for no password: set security.protocol=PLAINTEXT."


@handles(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1)
def sasl_handshake(
    broker: Broker, context: Context, request: messages.SaslHandshakeRequest
) -> Pending[messages.SaslHandshakeResponse]:
    session = context.peer.session
    if session is not None:
        return _begun(session, session.handshake(request.mechanism))
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
) -> Pending[messages.SaslAuthenticateResponse]:
    session = context.peer.session
    if session is not None:
        progress = session.authenticate(request.auth_bytes)
        return _later(progress) if isinstance(progress, Awaitable) else _told(progress)
    return messages.SaslAuthenticateResponse(
        error_code=Error.ILLEGAL_SASL_STATE, error_message=REFUSAL, auth_bytes=b"", session_lifetime_ms=0
    )


def _begun(session: Session, error: Pending[int]) -> Pending[messages.SaslHandshakeResponse]:
    if isinstance(error, Awaitable):
        return _begun_later(session, error)
    return messages.SaslHandshakeResponse(error_code=error, mechanisms=list(session.offered))


async def _begun_later(session: Session, error: Awaitable[int]) -> messages.SaslHandshakeResponse:
    return messages.SaslHandshakeResponse(error_code=await error, mechanisms=list(session.offered))


async def _later(progress: Awaitable[Progress]) -> messages.SaslAuthenticateResponse:
    return _told(await progress)


def _told(progress: Progress) -> messages.SaslAuthenticateResponse:
    return messages.SaslAuthenticateResponse(
        error_code=progress.error,
        error_message=progress.text,
        auth_bytes=progress.data,
        session_lifetime_ms=progress.lifetime_ms,
    )
