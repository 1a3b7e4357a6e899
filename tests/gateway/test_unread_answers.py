"""A client that does not read its answers is served no further, and goes on when it reads."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import cast

import uvloop

from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body, serving


def test_what_comes_behind_a_fetch_whose_answer_is_not_read_waits_and_ends_the_next_fetch() -> None:
    async def main() -> None:
        async with serving("memory.connection.max.bytes=65536") as gateway:
            client = await Client.connect(gateway)
            await create(client, "t")
            for _ in range(8):
                await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(os.urandom(90_000))))
            (listener,) = gateway.listeners
            before = set(listener.connections)
            end = socket.socket()
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            end.setblocking(False)
            await asyncio.get_running_loop().sock_connect(end, gateway.broker.endpoints["PLAINTEXT"])
            slow = Client(*await asyncio.open_connection(sock=end))
            await slow.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
            (connection,) = listener.connections - before
            own = connection.transport.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            transport = cast(asyncio.Transport, slow.writer.transport)
            transport.pause_reading()

            for offset in (0, 8):
                body = fetch_body(
                    "t",
                    offset,
                    max_wait=60_000,
                    min_bytes=1 << 30,
                    max_bytes=200_000,
                    partition_max_bytes=200_000,
                )
                slow.send(ApiKey.FETCH, 11, body)
            slow.send(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
            async with asyncio.timeout(10):
                while not gateway.broker.unsent_bytes:
                    await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
                transport.resume_reading()
                first = await slow.receive()
                second = await slow.receive()
                third = await slow.receive()
            assert [each[0] for each in (first, second, third)] == sorted(
                each[0] for each in (first, second, third)
            )
            slow.close()
            client.close()

    uvloop.run(main())
