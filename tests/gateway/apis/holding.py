"""A topic whose backlog quota is used up, and what a client that produces to it does and sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from gateway.broker.subscriptions import positions
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from tests.gateway.serving import Client, batch, create, produce_body, serving

Test = Callable[[Gateway, Client], Coroutine[Any, Any, None]]

HOLD = {
    "pulsar__backlog__quota__bytes": "1",
    "pulsar__backlog__quota__bytes__policy": "producer_request_hold",
}
REFUSE = {**HOLD, "pulsar__backlog__quota__bytes__policy": "producer_exception"}
LONG = 60_000


def run(test: Test) -> None:
    async def body() -> None:
        async with asyncio.timeout(60), serving() as gateway:
            client = await Client.connect(gateway)
            try:
                await test(gateway, client)
            finally:
                client.close()

    uvloop.run(body())


async def full(gateway: Gateway, client: Client, topic: str = "t", partitions: int = 1) -> None:
    """A topic with a subscription and a backlog of one message in each partition, which is all that it takes."""
    await create(client, topic, partitions, **HOLD)
    subscription = await gateway.broker.subscriptions.ensure("g", topic)
    for index in range(partitions):
        await produced(client, topic, partition=index)
    assert subscription is not None


async def produced(client: Client, topic: str = "t", **options: Any) -> Any:
    return only(await client.ask(ApiKey.PRODUCE, 9, body(topic, **options)))


def body(
    topic: str = "t", value: bytes = b"v", timeout: int = LONG, partition: int = 0, **options: Any
) -> Any:
    made = produce_body(topic, batch(value, **options), partition=partition)
    made.timeout_ms = timeout
    return made


def only(answer: Any) -> Any:
    (topic,) = answer.responses
    (found,) = topic.partition_responses
    return found


async def acknowledge(gateway: Gateway, topic: str = "t", index: int = 0) -> None:
    """All that there is."""
    found = gateway.broker.subscriptions.get("g", topic)
    assert found is not None
    at = found.partition(index)
    at.ready()
    positions.move([(at, at.partition.high_watermark)], lambda cursor, end: cursor.clear(end))
    await gateway.broker.write(())


async def held(gateway: Gateway, count: int = 1) -> None:
    """So many requests wait."""
    while gateway.broker.held_back.count != count:
        await asyncio.sleep(0.001)


def stored(gateway: Gateway, topic: str = "t", index: int = 0) -> int:
    found = gateway.broker.catalog.get(topic)
    assert found is not None
    return gateway.broker.partition(found, index).high_watermark


async def nothing_is_left(gateway: Gateway) -> None:
    while gateway.broker.preparing_bytes:
        await asyncio.sleep(0.001)
    await held(gateway, 0)
    assert not gateway.broker.waited_for(gateway.broker.catalog.get("t").topic_id, 0)  # type: ignore[union-attr]


def named(configs: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in configs.items()}
