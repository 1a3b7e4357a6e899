"""A client that wants to log in where nothing asks for a password."""

from __future__ import annotations

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import run
from tests.gateway.serving import Client


def test_it_is_answered_in_words_and_leaves_a_line(caplog: pytest.LogCaptureFixture) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        answer = await client.ask(
            ApiKey.SASL_HANDSHAKE, 1, messages.SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
        )
        assert (answer.error_code, answer.mechanisms) == (Error.ILLEGAL_SASL_STATE, [])
        answer = await client.ask(
            ApiKey.SASL_AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=b"\0user\0secret")
        )
        assert answer.error_code == Error.ILLEGAL_SASL_STATE
        assert "security.protocol=PLAINTEXT" in answer.error_message

    with caplog.at_level("INFO", "magnetar.apis"):
        run(test)
    (line,) = [each for each in caplog.records if each.name == "magnetar.apis"]
    assert "security.protocol=PLAINTEXT" in line.getMessage()
    assert "secret" not in str(line.__dict__)
