"""One listener: how many connections it has, and which it ends."""

from __future__ import annotations

import asyncio

from gateway.listener import CLOSING_SECONDS
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.held import run
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body


def test_more_connections_than_allowed_are_closed() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        second = await Client.connect(gateway)
        assert await second.at_end()
        client.close()
        await client.writer.wait_closed()
        while gateway.listeners[0].connections:
            await asyncio.sleep(0)
        third = await Client.connect(gateway)
        await third.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        third.close()

    run(test, "max.connections=1")


def test_a_closed_connection_whose_client_reads_nothing_goes_away() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", max__message__bytes="20000000")
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"x" * 15_000_000)))
        greedy = await Client.connect(gateway)
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        greedy.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_bytes=1 << 30, partition_max_bytes=1 << 30))
        listener = gateway.listeners[0]
        while not (waiting := [c for c in listener.connections if c.transport.get_write_buffer_size()]):
            await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        waiting[0].close("for a test")
        for _ in range(CLOSING_SECONDS):
            listener.second()
        await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert waiting[0] in listener.connections, "it has its time to read"
        listener.second()
        while waiting[0] in listener.connections:
            await asyncio.sleep(0)
        greedy.close()

    run(test)
