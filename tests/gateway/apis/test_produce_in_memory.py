"""Produce to non-persistent topics while the disk does not answer: only who has something for the disk waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvloop

from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from semantics.names import Namespace
from tests.gateway.broker.held import HeldStore, run_held, serving_on
from tests.gateway.serving import Client, batch, produce_body


async def make(gateway: Gateway) -> None:
    persistence = {"pulsar.persistence": "non-persistent"}
    await gateway.broker.create_topic("memory", 2, persistence)
    await gateway.broker.create_topic("disk", 2, {})


def with_disk(body: Any) -> Any:
    """The same request with a batch for a topic on disk beside it."""
    other = produce_body("disk", batch(b"d"), partition=1)
    return messages.ProduceRequest(
        transactional_id=None,
        acks=body.acks,
        timeout_ms=1000,
        topic_data=[*body.topic_data, *other.topic_data],
    )


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("acks", [1, -1])
def test_what_is_in_memory_only_is_answered_while_the_disk_is_busy(batches: int, acks: int) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await make(gateway)
        store.holding = True
        other = await Client.connect(gateway)
        other.send(ApiKey.PRODUCE, 9, produce_body("disk", batch(b"x")))
        await store.has(1)
        body = produce_body("memory", *[batch(b"v")] * batches, acks=acks)
        async with asyncio.timeout(20):
            answer = await client.ask(ApiKey.PRODUCE, 9, body)
        (told,) = answer.responses
        assert [each.error_code for each in told.partition_responses] == [0] * batches
        assert all(each.base_offset == each.log_start_offset > 0 for each in told.partition_responses)
        assert len(store.queued) == 1
        # one that has something for both waits for both
        asking = asyncio.ensure_future(client.ask(ApiKey.PRODUCE, 9, with_disk(body)))
        await store.has(2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not asking.done()
        store.release()
        answer = await asking
        assert [each.error_code for one in answer.responses for each in one.partition_responses] == [0] * (
            batches + 1
        )
        other.close()

    run_held(test)


def test_a_topic_in_memory_of_another_namespace_acknowledges_nothing() -> None:
    """Clients of two listeners call two topics by one name: each waits for the store of its own."""

    async def main() -> None:
        store = HeldStore()
        async with serving_on(
            store,
            "listener.name.eu.pulsar.namespace=shop/eu",
            listeners="127.0.0.1:0,EU://127.0.0.1:0",
        ) as gateway:
            await gateway.broker.tenancy.create_tenant("shop", TenantRow())
            await gateway.broker.tenancy.create(Namespace("shop", "eu"), NamespaceRow())
            await gateway.broker.create_topic("orders", 1, {"pulsar.persistence": "non-persistent"})
            await gateway.broker.create_topic("shop/eu/orders", 1, {})
            client = await Client.connect(gateway, listener="EU")
            store.holding = True
            asking = asyncio.ensure_future(client.ask(ApiKey.PRODUCE, 9, produce_body("orders", batch(b"v"))))
            await store.has(1)
            for _ in range(20):
                await asyncio.sleep(0)
            assert not asking.done(), "it is not on the disk"
            store.release()
            (told,) = (await asking).responses
            assert told.partition_responses[0].error_code == 0
            client.close()

    uvloop.run(main())
