"""A gateway that must read what it answers, with large batches and clients that do or do not read them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from gateway.connection import Connection
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body, serving

BIG = 300_000


def run(
    folder: Path,
    test: Callable[[Gateway, Client], Coroutine[Any, Any, None]],
    *flags: str,
    loop: Callable[[Coroutine[Any, Any, None]], None] = uvloop.run,
    seconds: float | None = None,
) -> None:
    """Run a test with a gateway that keeps nothing of what was written in memory, and a connection. `seconds`: what it
    may take at most, start and stop included.
    """

    async def body() -> None:
        own = ["store.driver=rocksdb", f"data={folder}", "store.tail.cache.bytes=0", *flags]
        async with asyncio.timeout(seconds), serving(*own) as gateway:
            client = await Client.connect(gateway)
            try:
                await create(client, "t", max__message__bytes="2000000")
                await test(gateway, client)
            finally:
                client.close()

    loop(body())


def records_of(answer: Any) -> bytes:
    return bytes(answer.responses[0].partitions[0].records)


async def nothing_unsent(gateway: Gateway, client: Client) -> None:
    """The loop learns of what a thread has sent a little later than the client may."""
    async with asyncio.timeout(10):
        while gateway.broker.unsent_bytes:
            await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())


async def filled(client: Client, count: int = 4) -> list[bytes]:
    """So many large batches, as they are stored."""
    batches = [batch(os.urandom(BIG)) for _ in range(count)]
    for each in batches:
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", each))
    return batches


def same(stored: bytes, produced: bytes) -> bool:
    return stored[21:] == produced[21:]  # offset and epoch are the gateway's


SMALL_BUFFER = "socket.send.buffer.bytes=20000"


async def unread(gateway: Gateway, client: Client) -> tuple[Client, Connection]:
    """A client that does not read a large answer, and its connection, once the transport has what is left."""
    known = {each for listener in gateway.listeners for each in listener.connections}
    slow = await Client.connect(gateway)
    await slow.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
    (theirs,) = {each for listener in gateway.listeners for each in listener.connections} - known
    slow.send(ApiKey.FETCH, 11, fetch_body("t", 0))
    async with asyncio.timeout(10):
        while not theirs.transport.get_write_buffer_size():
            await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
    return slow, theirs
