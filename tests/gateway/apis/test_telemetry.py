"""Client metrics: nothing is subscribed to."""

from __future__ import annotations

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import run
from tests.gateway.serving import Client


def test_an_instance_id_is_given_and_kept_and_nothing_is_asked_for() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        async def ask(instance: bytes) -> tuple[bytes, list[str]]:
            request = messages.GetTelemetrySubscriptionsRequest(client_instance_id=instance)
            answer = await client.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, request)
            assert answer.error_code == 0
            assert answer.push_interval_ms > 0
            return answer.client_instance_id, answer.requested_metrics

        first, metrics = await ask(bytes(16))
        assert first != bytes(16)
        assert metrics == []
        assert (await ask(first))[0] == first
        assert (await ask(bytes(16)))[0] != first

    run(test)


def test_a_push() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        async def push(subscription: int) -> int:
            request = messages.PushTelemetryRequest(
                client_instance_id=b"i" * 16, subscription_id=subscription, compression_type=0, metrics=b""
            )
            answer = await client.ask(ApiKey.PUSH_TELEMETRY, 0, request)
            code: int = answer.error_code
            return code

        assert await push(0) == 0
        assert await push(5) == Error.UNKNOWN_SUBSCRIPTION_ID

    run(test)
