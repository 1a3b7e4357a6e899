"""Producers: who has published to a partition and is still there; how many there may be, and how stats show them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

import msgspec
import pytest

from gateway.admin import publishers
from gateway.broker.partition import Partition
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.names import DEFAULT
from tests.gateway.apis.holding import body, only, run
from tests.gateway.serving import Client, create


async def code(client: Client, topic: str = "t", partition: int = 0) -> int:
    answer = await client.ask(ApiKey.PRODUCE, 9, body(topic, partition=partition))
    found: int = only(answer).error_code
    return found


def partition_of(gateway: Gateway, topic: str = "t", index: int = 0) -> Partition:
    runtime = gateway.broker.topic(topic.encode())
    assert runtime is not None
    found = runtime.partitions[index]
    assert found is not None
    return found


async def say(gateway: Gateway, level: str, value: str | None) -> None:
    said: Mapping[str, str] = {} if value is None else {"pulsar.max.producers": value}
    broker = gateway.broker
    if level == "namespace":
        await broker.tenancy.change(DEFAULT, partial(msgspec.structs.replace, policies=said))
    elif level == "topic":
        await broker.topics.configure("t", lambda old: dict(said))
    else:
        await broker.broker_configs.alter("", lambda old: {"maxProducersPerTopic": value} if value else {})


@pytest.mark.parametrize("level", ["topic", "namespace", "broker"])
def test_a_partition_has_so_many_producers_and_no_more(level: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        second, third = [await Client.connect(gateway) for _ in "ab"]
        await say(gateway, level, "2")
        assert [await code(each) for each in (client, second, third)] == [0, 0, Error.POLICY_VIOLATION]
        answer = only(await third.ask(ApiKey.PRODUCE, 9, body()))
        assert "may have no more than 2 producers" in answer.error_message
        # who is there goes on, and other partitions have others
        assert await code(client) == 0
        assert await code(third, partition=1) == 0
        second.close()
        while len(partition_of(gateway).publishers) == 2:
            await asyncio.sleep(0.001)
        assert await code(third) == 0
        await say(gateway, level, "1")
        assert [await code(each) for each in (client, third)] == [0, 0], "those there are stay"
        fourth = await Client.connect(gateway)
        assert await code(fourth) == Error.POLICY_VIOLATION
        await say(gateway, level, None)
        assert await code(fourth) == 0
        third.close()
        fourth.close()

    run(test)


def test_one_whose_batches_were_all_refused_is_none_and_keeps_nobody_out() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", pulsar__max__producers="1", max__message__bytes="200")
        large = await client.ask(ApiKey.PRODUCE, 9, body(value=b"x" * 1_000))
        assert only(large).error_code == Error.MESSAGE_TOO_LARGE
        second = await Client.connect(gateway)
        assert await code(second) == 0
        second.close()

    run(test)


def test_one_that_was_refused_is_no_producer() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", pulsar__max__producers="1")
        second = await Client.connect(gateway)
        assert await code(client) == 0
        assert await code(second) == Error.POLICY_VIOLATION
        assert len(partition_of(gateway).publishers) == 1
        second.close()

    run(test)


def test_what_comes_of_a_connection_that_is_closed_makes_no_producer() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", pulsar__max__producers="1")
        assert await code(client) == 0
        (publishing,) = partition_of(gateway).publishers
        publishing.close()
        assert publishing.begin(partition_of(gateway)).records == 0
        assert not partition_of(gateway).publishers
        assert not publishing.at

    run(test)


def test_retry_letters_are_taken_of_anybody() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await gateway.broker.subscriptions.ensure("g", "t")
        await create(client, "t-g-RETRY", pulsar__max__producers="1")
        second = await Client.connect(gateway)
        assert [await code(each, "t-g-RETRY") for each in (client, second)] == [0, 0]
        second.close()

    run(test)


def test_stats_name_them_with_their_rates() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        second = await Client.connect(gateway, "second")
        for each, index in ((client, 0), (client, 0), (second, 0), (client, 1)):
            assert await code(each, partition=index) == 0
        found = [partition_of(gateway, index=index) for index in (0, 1)]
        (publishing, first), (_, other) = found[0].publishers.items()
        assert (first.records, other.records) == (2, 1)
        shown = publishers.of(found[0], first.since + 4_000)
        assert [each["producerName"] for each in shown] == ["test", "second"]
        assert shown[0]["msgRateIn"] == 0.5
        assert shown[0]["msgThroughputIn"] == first.bytes / 4
        assert shown[0]["averageMsgSize"] == first.bytes / 2
        assert shown[0]["address"].startswith("/127.0.0.1")
        merged = publishers.merged(publishers.of(each, first.since + 4_000) for each in found)
        assert [each["producerName"] for each in merged] == ["test", "second"]
        assert merged[0]["msgRateIn"] >= 0.75
        # one that leaves memory is not kept by who has published there
        found[0].let_go()
        assert not found[0].publishers
        assert list(publishing.at) == [found[1]]
        second.close()

    run(test)
