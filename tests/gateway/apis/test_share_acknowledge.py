"""ShareAcknowledge as an API: its versions, answers of each partition once it is durable, frames that are none."""

from __future__ import annotations

import asyncio

import pytest

from gateway.apis.registry import SMALL_REQUEST
from gateway.server import Gateway
from gateway.wire import codec, messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.broker.share_asking import (
    ACCEPT,
    RELEASE,
    acquired,
    errors,
    share_acknowledge,
    share_acknowledge_body,
    share_fetch,
    topic,
)
from tests.gateway.serving import Client


@pytest.mark.parametrize("version", [1, 2])
def test_each_version_is_told_what_came_of_each_partition(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2, partitions=2)
        await share_fetch(client, "m", 0, topic_id, [0, 1])
        answer = await share_acknowledge(
            client,
            "m",
            1,
            topic_id,
            {0: [(0, 0, ACCEPT), (1, 1, RELEASE)], 1: [(5, 5, ACCEPT)]},
            version=version,
        )
        assert errors(answer) == {0: 0, 1: Error.INVALID_REQUEST}
        # what was released comes again, what was accepted does not
        assert acquired(await share_fetch(client, "m", 2)) == {0: {1: 2}}

    run(test)


def test_nothing_is_acknowledged_before_it_is_durable() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, 1)
        await share_fetch(client, "m", 0, topic_id, [0])
        store.holding = True
        client.send(
            ApiKey.SHARE_ACKNOWLEDGE, 2, share_acknowledge_body("m", 1, topic_id, {0: [(0, 0, ACCEPT)]})
        )
        await store.has(1)
        answer = asyncio.ensure_future(client.receive())
        # somebody else is answered meanwhile
        other = await Client.connect(gateway)
        await other.ask(ApiKey.METADATA, 9, messages.MetadataRequest())
        other.close()
        assert not answer.done()
        store.release()
        assert errors((await answer)[1]) == {0: 0}

    run_held(test)


def test_a_session_is_opened_by_a_fetch_and_not_by_this() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        refused = await share_acknowledge(client, "m", 0, topic_id, {0: [(0, 0, ACCEPT)]})
        assert refused.error_code == Error.INVALID_SHARE_SESSION_EPOCH
        refused = await share_acknowledge(client, "m", 1, topic_id, {0: [(0, 0, ACCEPT)]})
        assert refused.error_code == Error.SHARE_SESSION_NOT_FOUND

    run(test)


def test_many_acknowledgements_come_in_one_frame_and_bytes_that_are_none_end_the_connection() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        await share_fetch(client, "m", 0, topic_id, [0])
        acks = {0: [(n, n, ACCEPT) for n in range(SMALL_REQUEST // 16)]}
        large = codec.encode_request(79, 2, share_acknowledge_body("m", 1, topic_id, acks))
        assert SMALL_REQUEST < len(large) < 2 * SMALL_REQUEST
        assert (await client.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, large)).error_code == 0
        client.send(ApiKey.SHARE_ACKNOWLEDGE, 2, b"\x02g\x02m\0\0")
        assert await client.at_end()

    run(test)


def test_a_client_may_acknowledge_by_another_connection_and_another_client_may_not() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2)
        await share_fetch(client, "m", 0, topic_id, [0])
        other = await Client.connect(gateway, "other")
        refused = await share_acknowledge(other, "m", 1, topic_id, {0: [(0, 0, ACCEPT)]})
        assert refused.error_code == Error.SHARE_SESSION_NOT_FOUND
        same = await Client.connect(gateway)
        assert errors(await share_acknowledge(same, "m", 1, topic_id, {0: [(0, 0, ACCEPT)]})) == {0: 0}
        other.close()
        same.close()

    run(test)
