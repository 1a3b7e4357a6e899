"""Metadata in its variants, what is kept of its answers, and DescribeTopicPartitions."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.names import DEFAULT
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.broker.placing import TwoNodes
from tests.gateway.serving import Client, create

Request = messages.MetadataRequest
MISSING = Error.UNKNOWN_TOPIC_OR_PARTITION


async def ask(
    client: Client, names: list[str] | None, *, version: int = 9, auto: bool = False, **options: Any
) -> Any:
    topics = None if names is None else [Request.MetadataRequestTopic(name=name) for name in names]
    return await client.ask(
        ApiKey.METADATA, version, Request(topics=topics, allow_auto_topic_creation=auto, **options)
    )


async def by_id(client: Client, topic_id: bytes, version: int = 12) -> Any:
    asked = [Request.MetadataRequestTopic(name=None, topic_id=topic_id)]
    answer = await client.ask(
        ApiKey.METADATA, version, Request(topics=asked, allow_auto_topic_creation=False)
    )
    (topic,) = answer.topics
    return topic


def told(answer: Any) -> list[tuple[str, int, int]]:
    """(name, error, partitions) of each topic."""
    return [(topic.name, topic.error_code, len(topic.partitions)) for topic in answer.topics]


def test_all_topics_some_and_none() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a", 2)
        await create(client, "b")
        every = [("a", 0, 2), ("b", 0, 1)]
        for version in range(14):
            if version:
                assert told(await ask(client, None, version=version)) == every
            assert told(await ask(client, [], version=version)) == ([] if version else every)
            assert told(await ask(client, ["b"], version=version)) == [("b", 0, 1)]

    run(test)


def test_who_leads_what() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await create(client, "a", 2)
        answer = await ask(client, ["a"], version=12)
        (node,) = answer.brokers
        assert (node.host, node.port) == gateway.broker.endpoints["PLAINTEXT"]
        assert answer.controller_id == node.node_id == gateway.broker.node_id
        assert answer.cluster_id == gateway.broker.cluster_id
        (topic,) = answer.topics
        assert (topic.topic_id, topic.is_internal) == (topic_id, False)
        numbers = gateway.broker.topics.get("a").partitions
        for index, partition in enumerate(topic.partitions):
            assert (partition.partition_index, partition.leader_id) == (index, node.node_id)
            assert partition.leader_epoch == gateway.broker.store.leader_epoch(numbers[index])
            assert partition.replica_nodes == partition.isr_nodes == [node.node_id]

    run(test)


def test_of_two_nodes_each_is_named_where_it_leads() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a", 3)
        alone = await ask(client, ["a"], version=12)
        assert len(alone.brokers) == 1
        gateway.broker.placement = placement = TwoNodes()
        # the same question: what was kept of the answer is old
        answer = await ask(client, ["a"], version=12)
        assert [(each.node_id, each.host, each.port, each.rack) for each in answer.brokers] == [
            (7, "seven.example", 9092, None),
            (8, "eight.PLAINTEXT.example", 9093, "r"),
        ]
        assert answer.controller_id == 8
        (topic,) = answer.topics
        assert [each.leader_id for each in topic.partitions] == [7, 8, 7]
        for each in topic.partitions:
            assert each.replica_nodes == each.isr_nodes == [each.leader_id]
        placement.gone, placement.version = {8}, 2
        assert [each.node_id for each in (await ask(client, ["a"], version=12)).brokers] == [7]
        asked = messages.DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2, cursor=None)
        (described,) = (await client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, asked)).topics
        assert [(each.leader_id, each.replica_nodes, each.isr_nodes) for each in described.partitions] == [
            (7, [7], [7]),
            (8, [8], [8]),
        ]

    run(test)


def test_by_id() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await create(client, "a", 2)
        found = await by_id(client, topic_id)
        assert (found.name, found.error_code, len(found.partitions)) == ("a", 0, 2)
        unknown = await by_id(client, b"?" * 16)
        assert (unknown.name, unknown.error_code, unknown.topic_id) == (
            None,
            Error.UNKNOWN_TOPIC_ID,
            b"?" * 16,
        )
        for version in (10, 11):
            for each in (topic_id, b"?" * 16):
                old = await by_id(client, each, version)
                assert (old.name, old.error_code) == ("", Error.INVALID_REQUEST)
        # an id wins over a name
        await create(client, "b")
        both = messages.MetadataRequest(
            topics=[messages.MetadataRequest.MetadataRequestTopic(topic_id=topic_id, name="b")]
        )
        for version, name, error in ((11, "b", Error.INVALID_REQUEST), (12, "a", 0), (13, "a", 0)):
            (found,) = (await client.ask(ApiKey.METADATA, version, both)).topics
            assert (found.name, found.error_code) == (name, error)

    run(test)


def test_missing_and_illegal_names_and_one_twice() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a")
        names = ["missing", "a", "no/slash", "a", "", ".", "x" * 250]
        answer = told(await ask(client, names, version=9))
        bad = Error.INVALID_TOPIC_EXCEPTION
        assert answer == [
            ("missing", MISSING, 0),
            ("a", 0, 1),
            ("no/slash", bad, 0),
            ("", bad, 0),
            (".", bad, 0),
            ("x" * 250, bad, 0),
        ]
        assert gateway.broker.catalog.names() == ["a"]

    run(test)


def test_topics_are_made_when_client_and_settings_allow_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        assert told(await ask(client, ["t"], auto=False)) == [("t", MISSING, 0)]
        answer = told(await ask(client, ["t", "no/slash", "u"], auto=True))
        assert answer == [("t", 0, 3), ("no/slash", Error.INVALID_TOPIC_EXCEPTION, 0), ("u", 0, 3)]
        assert told(await ask(client, ["t"], auto=False)) == [("t", 0, 3)]
        assert told(await ask(client, ["old"], version=1)) == [("old", 0, 3)], "version 1 has no say in it"
        collides = await ask(client, ["a.b", "a_b"], auto=True)
        assert sorted(topic.error_code for topic in collides.topics) == [0, Error.INVALID_TOPIC_EXCEPTION]

    run(test, "num.partitions=3")


def test_what_is_made_without_a_word_of_partitions_is_a_plain_topic_to_pulsar() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await ask(client, ["asked"], auto=True)
        await create(client, "default", -1)
        await create(client, "one", 1)
        await ask(client, ["asked-g-DLQ", "one-g-DLQ"], auto=True)
        names = ("asked", "default", "one", "asked-g-DLQ", "one-g-DLQ")
        kinds = {name: gateway.broker.topics.get(name).partitioned for name in names}
        assert kinds == {
            "asked": False,
            "default": False,
            "one": True,
            "asked-g-DLQ": False,
            "one-g-DLQ": True,
        }

    run(test)


def test_a_partitions_name_makes_no_topic() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "orders", 2)
        answer = told(await ask(client, ["orders-partition-0"], auto=True))
        assert answer == [("orders-partition-0", Error.INVALID_TOPIC_EXCEPTION, 0)]
        assert gateway.broker.catalog.names() == ["orders"]

    run(test)


def test_a_typo_makes_no_topic_of_a_subscription() -> None:
    """Retry and dead letter topics come into being with their base only, unless somebody creates them."""

    async def test(gateway: Gateway, client: Client) -> None:
        names = ["ordrs-billing-RETRY", "ordrs-billing-DLQ", "ordrs-billing-QUEUE", "-RETRY"]
        assert told(await ask(client, names, auto=True)) == [(name, MISSING, 0) for name in names]
        await create(client, "my-orders")
        made = ["my-orders-billing-RETRY", "my-orders-a-b-DLQ"]
        assert told(await ask(client, made, auto=True)) == [(name, 0, 1) for name in made]
        await create(client, "wide", 3)
        assert told(await ask(client, ["wide-g-RETRY"], auto=True)) == [("wide-g-RETRY", 0, 3)], "its base's"
        never = ["my-orders-RETRY", "my-orders-billing-QUEUE"]
        assert told(await ask(client, never, auto=True)) == [(name, MISSING, 0) for name in never]

    run(test)


def test_topics_are_not_made_when_the_settings_forbid_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        assert told(await ask(client, ["t"], auto=True)) == [("t", MISSING, 0)]
        assert told(await ask(client, ["t"], version=1)) == [("t", MISSING, 0)]

    run(test, "auto.create.topics.enable=false")


def test_a_namespace_says_whether_and_how_topics_are_made() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        async def say(**said: str) -> None:
            named = {f"pulsar.auto.topic.{name.replace('_', '.')}": value for name, value in said.items()}
            await gateway.broker.tenancy.change(DEFAULT, partial(msgspec.structs.replace, policies=named))

        await say(creation="false")
        assert told(await ask(client, ["t"], auto=True)) == [("t", MISSING, 0)]
        await say(creation="true", creation_partitions="3")
        assert told(await ask(client, ["t"], auto=True)) == [("t", 0, 3)]
        # RETRY topics have as many as what they belong to
        await say(creation_type="non-partitioned")
        assert told(await ask(client, ["u", "t-g-RETRY"], auto=True)) == [("u", 0, 1), ("t-g-RETRY", 0, 3)]
        assert [gateway.broker.topics.get(name).partitioned for name in ("t", "u")] == [True, False]

    run(test)


def test_many_topics_are_made_in_one_commit_and_two_clients_agree() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        other = await Client.connect(gateway)
        names = [f"t{number}" for number in range(50)]
        count = len(store.commits)
        store.holding = True
        first = asyncio.ensure_future(ask(client, names, auto=True))
        await store.has(1)
        second = await ask(other, names[:2], auto=True)
        assert {error for _, error, _ in told(second)} == {Error.LEADER_NOT_AVAILABLE}, "ask again"
        store.release()
        assert {error for _, error, _ in told(await first)} == {0}
        assert len(store.commits) == count + 1
        assert {error for _, error, _ in told(await ask(other, names))} == {0}
        other.close()

    run_held(test)


@pytest.mark.parametrize("version", [8, 10])
def test_authorized_operations_when_asked(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a")
        plain = await ask(client, ["a"], version=version)
        assert plain.topics[0].topic_authorized_operations == -(2**31)
        asked = await ask(
            client,
            ["a"],
            version=version,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        assert asked.topics[0].topic_authorized_operations > 0
        assert asked.cluster_authorized_operations > 0

    run(test)


# -- DescribeTopicPartitions ---------------------------------------------------------------------------------------


async def describe(
    client: Client, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, int, list[int]]], tuple[str, int] | None]:
    request = messages.DescribeTopicPartitionsRequest
    answer = await client.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        request(
            topics=[request.TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=cursor and request.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        ),
    )
    topics = [
        (topic.name, topic.error_code, [partition.partition_index for partition in topic.partitions])
        for topic in answer.topics
    ]
    following = answer.next_cursor
    return topics, following and (following.topic_name, following.partition_index)


def test_describe_by_name_with_errors() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "b", 2)
        await create(client, "a")
        found, cursor = await describe(client, "b", "missing", "a", "no/slash")
        bad = Error.INVALID_TOPIC_EXCEPTION
        assert found == [("a", 0, [0]), ("b", 0, [0, 1]), ("missing", MISSING, []), ("no/slash", bad, [])]
        assert cursor is None

    run(test)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 5, 6, 7, 100])
@pytest.mark.parametrize("names", [(), ("c", "a", "b")])
def test_walking_with_a_cursor_tells_everything_once(limit: int, names: tuple[str, ...]) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        for name, count in (("a", 1), ("b", 3), ("c", 2)):
            await create(client, name, count)
        seen: list[tuple[str, int]] = []
        cursor: tuple[str, int] | None = None
        for _ in range(10):
            found, cursor = await describe(client, *names, limit=limit, cursor=cursor)
            here = [(name, index) for name, _, indexes in found for index in indexes]
            assert len(here) <= max(1, limit)
            seen += here
            if cursor is None:
                break
        assert seen == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("c", 1)]

    run(test)
