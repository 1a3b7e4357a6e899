"""Topics, as clients at home in another namespace reach them on a socket: those of the home, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.errors import Error
from tests.gateway.apis.homes_asking import (
    by_id,
    errors,
    run,
)
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_stores_in_the_namespace_and_nowhere_else(version: int) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        own, others = await create(eu, "orders"), await create(us, "orders")
        assert own != others

        async def produced(name: str, topic_id: bytes) -> tuple[str, bytes, int, int]:
            answer = await eu.ask(0, version, by_id(produce_body(name, batch(b"v")), topic_id))
            (topic,) = answer.responses
            (found,) = topic.partition_responses
            return topic.name, topic.topic_id, found.error_code, found.base_offset

        named = version < 13
        assert await produced("orders", own) == (("orders", bytes(16)) if named else ("", own)) + (0, 0)
        # the second is one that is in use
        assert (await produced("orders", own))[2:] == (0, 1)
        told = await produced("shop.us.orders", others)
        missing = Error.UNKNOWN_TOPIC_OR_PARTITION if named else Error.UNKNOWN_TOPIC_ID
        assert told[:3] == (("shop.us.orders", bytes(16)) if named else ("", others)) + (missing,)
        for name in ("", ".", "..", "shop.eu.none", "a/b", "x" * 249) if named else ():
            assert (await produced(name, own))[2] == missing, name
        ends = {
            name: gateway.broker.partition(topic, 0).high_watermark
            for name in ("shop/eu/orders", "shop/us/orders")
            if (topic := gateway.broker.catalog.get(name))
        }
        assert ends == {"shop/eu/orders": 2, "shop/us/orders": 0}

    run(test)


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_reads_in_the_namespace_and_nowhere_else(version: int) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        own, others = await create(eu, "orders"), await create(us, "orders")
        for client, value in ((eu, b"eu"), (us, b"us")):
            await client.ask(0, 9, produce_body("orders", batch(value)))
        named = version < 13

        async def fetched(name: str, topic_id: bytes, session: tuple[int, int] = (0, -1)) -> Any:
            return await eu.ask(1, version, by_id(fetch_body(name, 0, session=session), topic_id))

        # twice: the second time all is in memory
        for _ in range(2):
            answer = await fetched("orders", own)
            (topic,) = answer.responses
            assert (topic.topic, topic.topic_id) == (("orders", bytes(16)) if named else ("", own))
            assert b"eu" in bytes(topic.partitions[0].records)
        answer = await fetched("shop.us.orders", others)
        missing = Error.UNKNOWN_TOPIC_OR_PARTITION if named else Error.UNKNOWN_TOPIC_ID
        assert errors(answer) == [missing]
        (topic,) = answer.responses
        assert (topic.topic, topic.topic_id) == (("shop.us.orders", bytes(16)) if named else ("", others))
        for name in ("", ".", "..", "shop.eu.none", "a/b", "x" * 249) if named else ():
            answer = await fetched(name, own)
            assert errors(answer) == [missing]
            assert answer.responses[0].topic == name
        if version >= 7:
            opened = await fetched("orders", own, (0, 0))
            assert opened.session_id
            await eu.ask(0, 9, produce_body("orders", batch(b"2")))
            more = await fetched("orders", own, (opened.session_id, 1))
            assert errors(more) == [0]
            more = await fetched("shop.us.orders", others, (opened.session_id, 2))
            assert missing in errors(more)

    run(test)


def test_topics_are_listed_page_by_page_within_the_namespace() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        for client, names in ((at_home, ["a", "z"]), (eu, ["a", "b", "c"]), (us, ["a"])):
            for name in names:
                await create(client, name)
        request = messages.DescribeTopicPartitionsRequest
        told: list[str] = []
        cursor = None
        while True:
            answer = await eu.ask(75, 0, request(topics=[], response_partition_limit=1, cursor=cursor))
            told += [topic.name for topic in answer.topics]
            if answer.next_cursor is None:
                break
            cursor = request.Cursor(topic_name=answer.next_cursor.topic_name, partition_index=0)
        assert told == ["a", "b", "c"]
        logs = await eu.ask(35, 4, messages.DescribeLogDirsRequest(topics=None))
        assert [topic.name for topic in logs.results[0].topics] == ["a", "b", "c"]
        found = await eu.ask(74, 1, messages.ListConfigResourcesRequest(resource_types=[2]))
        assert [each.resource_name for each in found.config_resources] == ["a", "b", "c"]
        everything = await at_home.ask(3, 9, messages.MetadataRequest(topics=None))
        assert len(everything.topics) == 6

    run(test)


def test_what_begins_like_a_topic_of_a_namespace_and_is_none_is_of_public_default() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        topic = messages.CreateTopicsRequest.CreatableTopic
        names = ["shop.eu.", "shop.us..", "shop.no.x", "shop.eu"]
        asked = [topic(name=name, num_partitions=1, replication_factor=1) for name in names]
        answer = await at_home.ask(19, 5, messages.CreateTopicsRequest(topics=asked, timeout_ms=1000))
        assert {each.name: each.error_code for each in answer.topics} == dict.fromkeys(names, 0)
        assert all(gateway.broker.catalog.get(name) is not None for name in names)
        found = await eu.ask(3, 9, messages.MetadataRequest(topics=None))
        assert found.topics == []

    run(test)


def test_metadata_and_deletion_by_id_reach_no_other_namespace() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        own, others = await create(eu, "orders"), await create(us, "orders")
        asked = messages.MetadataRequest.MetadataRequestTopic
        answer = await eu.ask(
            3,
            12,
            messages.MetadataRequest(topics=[asked(name=None, topic_id=each) for each in (own, others)]),
        )
        assert [(each.name, each.topic_id, each.error_code) for each in answer.topics] == [
            ("orders", own, 0),
            (None, others, Error.UNKNOWN_TOPIC_ID),
        ]
        state = messages.DeleteTopicsRequest.DeleteTopicState
        answer = await eu.ask(
            20, 6, messages.DeleteTopicsRequest(topics=[state(name=None, topic_id=others)], timeout_ms=1000)
        )
        assert [(each.topic_id, each.error_code) for each in answer.responses] == [
            (others, Error.UNKNOWN_TOPIC_ID)
        ]
        assert gateway.broker.catalog.get("shop/us/orders") is not None

    run(test)
