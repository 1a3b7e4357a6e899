"""ShareFetch as an API: its versions, its clients' names, its place among other requests, frames that are none."""

from __future__ import annotations

import struct

import pytest

from gateway.apis.registry import SMALL_REQUEST
from gateway.server import Gateway
from gateway.wire import codec
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import run
from tests.gateway.broker.share_asking import (
    ACCEPT,
    ack_errors,
    acquired,
    share_fetch,
    share_fetch_body,
    topic,
)
from tests.gateway.serving import Client, batch, produce_body


def test_a_share_fetch_sees_what_was_produced_before_it_on_its_connection() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, [0]))
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"w")))
        await client.receive()
        assert acquired((await client.receive())[1]) == {0: {0: 1}}
        await client.receive()

    run(test)


def test_bytes_that_are_no_request_end_the_connection() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        client.send(ApiKey.SHARE_FETCH, 2, b"\x02g\x02m\0\0")
        assert await client.at_end()

    run(test)


@pytest.mark.parametrize("version", [1, 2])
def test_each_version_gives_records_and_takes_acknowledgements(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 3)
        first = await share_fetch(client, "m", 0, topic_id, [0], version=version)
        assert acquired(first) == {0: {0: 1, 1: 1, 2: 1}}
        acked = await share_fetch(client, "m", 1, topic_id, acks={0: [(0, 2, ACCEPT)]}, version=version)
        assert ack_errors(acked) == {0: 0}
        assert await share_fetch(client, "m", 2, version=version) is not None
        wrong = await share_fetch(client, "m", 7, version=version)
        assert wrong.error_code == Error.INVALID_SHARE_SESSION_EPOCH

    run(test)


def test_a_client_id_that_is_no_text_keeps_nobody_out() -> None:
    """In another encoding than UTF-8 it is some name: Kafka serves such clients, too."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        for epoch, expected in ((0, {0: {0: 1}}), (1, {})):
            body = codec.encode_request(78, 2, share_fetch_body("m", epoch, topic_id, [0]))
            frame = struct.pack(">hhih", 78, 2, 5, 2) + b"\xff\xfe" + b"\0" + body
            client.writer.write(struct.pack(">i", len(frame)) + frame)
            client._asked[5] = (78, 2)
            assert acquired((await client.receive())[1]) == expected

    run(test)


def test_a_session_is_not_found_under_another_client_id() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        await share_fetch(client, "m", 0, topic_id, [0])
        other = await Client.connect(gateway, "other")
        assert (await share_fetch(other, "m", 1)).error_code != 0
        assert (await share_fetch(client, "m", 1)).error_code == 0
        other.close()

    run(test)


def test_many_acknowledgements_come_in_one_frame_and_too_many_are_none() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        await share_fetch(client, "m", 0, topic_id, [0])
        acks = {0: [(n, n, ACCEPT) for n in range(SMALL_REQUEST // 16)]}
        large = codec.encode_request(78, 2, share_fetch_body("m", 1, topic_id, acks=acks))
        assert SMALL_REQUEST < len(large) < 2 * SMALL_REQUEST
        # one of them is of a record that this member holds
        assert (await client.ask(ApiKey.SHARE_FETCH, 2, large)).error_code == 0
        acks = {0: [(n, n, ACCEPT) for n in range(SMALL_REQUEST // 8)]}
        larger = codec.encode_request(78, 2, share_fetch_body("m", 2, topic_id, acks=acks))
        assert 2 * SMALL_REQUEST < len(larger) < 3 * SMALL_REQUEST
        client.send(ApiKey.SHARE_FETCH, 2, larger)
        assert await client.at_end()

    run(test)
