"""Broker settings altered at run time: in force at once, durable, one change after the other."""

from __future__ import annotations

import asyncio

import pytest

from gateway.broker.errors import KafkaError
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import memory
from tests.gateway.broker.altering import setting
from tests.gateway.broker.held import part, run, serving_on
from tests.gateway.serving import Client, batch, create, produce_body


async def taken(client: Client, size: int) -> bool:
    answer = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"x" * size)))
    code = part(answer).error_code
    assert code in (0, Error.MESSAGE_TOO_LARGE)
    return bool(code == 0)


def test_a_topics_default_follows_and_its_own_config_wins() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        configs = gateway.broker.broker_configs
        await create(client, "t")
        assert await taken(client, 2000)
        await configs.alter("", setting("message.max.bytes", "1000"))
        assert not await taken(client, 2000)
        await configs.alter("1", setting("message.max.bytes", "3000"))
        assert await taken(client, 2000), "the node's own wins over that of all"
        await gateway.broker.topics.configure("t", setting("max.message.bytes", "1500"))
        assert not await taken(client, 2000)
        await gateway.broker.topics.configure("t", setting("max.message.bytes", None))
        await configs.alter("1", setting("message.max.bytes", None))
        assert not await taken(client, 2000)
        await configs.alter("", setting("message.max.bytes", None))
        assert await taken(client, 2000)

    run(test, "node.id=1")


def test_they_are_there_after_a_restart() -> None:
    async def main() -> None:
        store = memory.open()
        async with serving_on(store, "node.id=1") as gateway:
            await gateway.broker.broker_configs.alter("1", setting("log.retention.bytes", "5"))
            await gateway.broker.broker_configs.alter("", setting("message.max.bytes", "1000"))
        again = memory.open()
        again._rows, again._keys = store._rows, store._keys
        async with serving_on(again, "node.id=1", "log.retention.bytes=2000") as gateway:
            assert gateway.broker.settings.integer("log.retention.bytes") == 5
            assert gateway.broker.settings.integer("message.max.bytes") == 1000

    asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "value"), [("message.max.byte", "1"), ("message.max.bytes", "many"), ("node.id", "7")]
)
def test_what_cannot_be_altered(name: str, value: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        with pytest.raises(KafkaError) as caught:
            await gateway.broker.broker_configs.alter("", setting(name, value))
        assert caught.value.code == Error.INVALID_REQUEST
        assert "message.max.bytes" in str(caught.value) or name in str(caught.value)
        assert gateway.broker.broker_configs.cluster == {}

    run(test)
