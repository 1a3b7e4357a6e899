"""group.protocol=consumer, until it is served: a client says so instead of polling in silence."""

from __future__ import annotations

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import run
from tests.gateway.serving import Client


@pytest.mark.parametrize("version", [0, 1])
def test_the_heartbeat_is_refused_for_good(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        answer = await client.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            version,
            messages.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"]),
        )
        assert answer.error_code == Error.UNSUPPORTED_VERSION
        assert "group.protocol=classic" in answer.error_message

    run(test)
