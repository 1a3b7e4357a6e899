"""What a new topic may be called, also beside others that are on their way to the disk."""

from __future__ import annotations

import asyncio

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.broker.new_topics import check_name
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.names import Namespace
from store.api import DiskFull
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.serving import Client


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "x" * 249, "..."])
def test_legal_names(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250, "a\n", "a\0"])
def test_illegal_names(name: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_name(name)
    assert caught.value.code == Error.INVALID_TOPIC_EXCEPTION


def test_a_name_that_is_too_long_is_told_as_such() -> None:
    with pytest.raises(KafkaError, match="at most 249 characters; this one has 300"):
        check_name("x" * 300)


def test_the_name_of_krafts_log_is_nobodys() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        with pytest.raises(KafkaError) as caught:
            await gateway.broker.create_topic("__cluster_metadata", 1, {})
        assert caught.value.code == Error.INVALID_REQUEST

    run(test)


@pytest.mark.parametrize(
    "name", ["__change_events", "heartbeat", "shop/eu/__change_events", "shop/eu/heartbeat"]
)
def test_the_names_of_pulsars_system_topics_are_nobodys(name: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await gateway.broker.tenancy.create_tenant("shop", TenantRow())
        await gateway.broker.tenancy.create(Namespace("shop", "eu"), NamespaceRow())
        with pytest.raises(KafkaError, match="reserved") as caught:
            await gateway.broker.create_topic(name, 1, {})
        assert caught.value.code == Error.INVALID_TOPIC_EXCEPTION
        asked = messages.MetadataRequest(topics=[messages.MetadataRequest.MetadataRequestTopic(name=name)])
        (told,) = (await client.ask(ApiKey.METADATA, 12, asked)).topics
        assert told.error_code == Error.INVALID_TOPIC_EXCEPTION
        await gateway.broker.create_topic(f"{name}s", 1, {})

    run(test)


def code(result: object) -> int:
    return result.code if isinstance(result, KafkaError) else 0


def test_two_that_make_the_same_topic_at_once() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        make = gateway.broker.create_topic
        made = await asyncio.gather(
            make("a.b", 1, {}),
            make("a.b", 1, {}),
            make("a_b", 1, {}),
            make("c", 1, {}),
            return_exceptions=True,
        )
        exists, illegal = Error.TOPIC_ALREADY_EXISTS, Error.INVALID_TOPIC_EXCEPTION
        assert [code(each) for each in made] == [0, exists, illegal, 0]
        with pytest.raises(KafkaError) as caught:
            await make("a_b", 1, {})
        assert caught.value.code == illegal
        assert "a.b" in str(caught.value)
        assert gateway.broker.catalog.names() == ["a.b", "c"]

    run(test)


def test_a_name_is_free_again_after_a_failed_creation() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        store.holding = True
        making = asyncio.ensure_future(gateway.broker.create_topic("a.b", 1, {}))
        await store.has(1)
        store.fail(DiskFull("full"))
        with pytest.raises(KafkaError) as caught:
            await making
        assert caught.value.code == Error.KAFKA_STORAGE_ERROR
        assert "full" in str(caught.value)
        store.release()
        assert gateway.broker.catalog.names() == []
        await gateway.broker.create_topic("a_b", 2, {})
        assert gateway.broker.catalog.names() == ["a_b"]

    run_held(test)


@pytest.mark.parametrize("partitions", [-1, 1, 3])
def test_a_topic_and_one_that_is_called_like_its_partition_are_not_both_made(partitions: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        make = gateway.broker.create_topic
        illegal = Error.INVALID_TOPIC_EXCEPTION
        await make("orders", partitions, {}, partitioned=partitions != -1)
        with pytest.raises(KafkaError, match="partition 0 of topic 'orders'") as caught:
            await make("orders-partition-0", 1, {})
        assert caught.value.code == illegal
        await make("orders-partition-03", 1, {})
        await make("orders-partition-a", 1, {})
        await make("other-partition-12", 1, {})
        with pytest.raises(KafkaError, match="other-partition-12") as caught:
            await make("other", 1, {})
        assert caught.value.code == illegal
        both = await asyncio.gather(
            make("x", 1, {}), make("x-partition-1", 1, {}), make("y-partition-1", 1, {}), make("y", 1, {}),
            return_exceptions=True,
        )  # fmt: skip
        assert [code(each) for each in both] == [0, illegal, 0, illegal]
        await gateway.broker.delete_topic("y-partition-1")
        await make("y", 1, {})

    run(test)
