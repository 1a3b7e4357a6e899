"""CreateTopics, DeleteTopics and CreatePartitions over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.serving import Client, create

Request = messages.CreateTopicsRequest
BAD_NAME, BAD_CONFIG = Error.INVALID_TOPIC_EXCEPTION, Error.INVALID_CONFIG
BAD_REQUEST, BAD_ASSIGNMENT = Error.INVALID_REQUEST, Error.INVALID_REPLICA_ASSIGNMENT


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    assigned: list[tuple[int, list[int]]] | None = None,
    **configs: str | None,
) -> Any:
    return Request.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            Request.CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in assigned or []
        ],
        configs=[
            Request.CreatableTopicConfig(name=key.replace("__", "."), value=value)
            for key, value in configs.items()
        ],
    )


async def make(client: Client, *topics: Any, version: int = 7, validate_only: bool = False) -> list[Any]:
    request = Request(topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    answer = await client.ask(ApiKey.CREATE_TOPICS, version, request)
    return list(answer.topics)


@pytest.mark.parametrize("version", range(2, 8))
def test_what_is_told_of_a_new_topic(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        (made,) = await make(client, topic("t", 3, retention__ms="5000"), version=version)
        assert (made.name, made.error_code, made.error_message) == ("t", 0, None)
        kept = gateway.broker.catalog.get("t")
        assert kept is not None
        assert (len(kept.partitions), kept.configs) == (3, {"retention.ms": "5000"})
        if version >= 5:
            assert (made.num_partitions, made.replication_factor) == (3, 1)
            configs = {config.name: config for config in made.configs}
            assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5000", 1)
            assert configs["cleanup.policy"].config_source == 5
        if version >= 7:
            assert made.topic_id == kept.topic_id

    run(test)


def test_only_checked() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "there")
        count = len(store.commits)
        asked = [topic("t", 3), topic("there"), topic("no/slash"), topic("c", retention__ms="soon")]
        made = await make(client, *asked, validate_only=True)
        assert [each.error_code for each in made] == [0, Error.TOPIC_ALREADY_EXISTS, BAD_NAME, BAD_CONFIG]
        assert made[0].num_partitions == 3
        assert len(store.commits) == count
        assert gateway.broker.catalog.names() == ["there"]

    run_held(test)


def test_each_topic_of_a_request_for_itself() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        made = await make(client, topic("twice"), topic("a.b"), topic("twice"), topic("a_b"), topic("good"))
        assert [(each.name, each.error_code) for each in made] == [
            ("twice", BAD_REQUEST),
            ("a.b", 0),
            ("a_b", BAD_NAME),
            ("good", 0),
        ]
        assert gateway.broker.catalog.names() == ["a.b", "good"]

    run(test)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (topic(""), BAD_NAME),
        (topic(".."), BAD_NAME),
        (topic("x" * 250), BAD_NAME),
        (topic("t", 0), Error.INVALID_PARTITIONS),
        (topic("t", -2), Error.INVALID_PARTITIONS),
        (topic("t", 1_000_000), Error.INVALID_PARTITIONS),
        (topic("t", 1, 0), Error.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, 3), Error.INVALID_REPLICATION_FACTOR),
        (topic("t", -1, -1), 0),
        (topic("t", -1, -1, [(0, [1]), (1, [1])]), 0),
        (topic("t", 2, -1, [(0, [1]), (1, [1])]), BAD_REQUEST),
        (topic("t", -1, 1, [(0, [1])]), BAD_REQUEST),
        (topic("t", -1, -1, [(0, [7])]), BAD_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [1, 1])]), BAD_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [])]), BAD_ASSIGNMENT),
        (topic("t", -1, -1, [(1, [1])]), BAD_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [1]), (0, [1])]), BAD_ASSIGNMENT),
        (topic("t", retention__ms=None), BAD_CONFIG),
        (topic("t", retention__ms="-5"), BAD_CONFIG),
        (topic("t", cleanup__policy="keep"), BAD_CONFIG),
    ],
)
def test_what_is_refused(asked: Any, error: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        (made,) = await make(client, asked)
        assert made.error_code == error
        assert (made.error_message is None) == (error == 0)
        assert len(gateway.broker.catalog.names()) == (0 if error else 1)

    run(test, "node.id=1")


def test_an_unknown_config_is_named_with_the_nearest_spelling() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        (made,) = await make(client, topic("t", retention__m="1"))
        assert made.error_code == BAD_CONFIG
        assert '"retention.ms"' in made.error_message

    run(test)


def test_a_thousand_topics_are_one_commit() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        count = len(store.commits)
        made = await make(client, *[topic(f"t{number}") for number in range(1000)])
        assert {each.error_code for each in made} == {0}
        assert len({each.topic_id for each in made}) == 1000
        assert len(store.commits) == count + 1
        assert len(gateway.broker.catalog.names()) == 1000

    run_held(test)


async def drop(client: Client, *names: str, version: int = 5) -> list[Any]:
    request = messages.DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000)
    return list((await client.ask(ApiKey.DELETE_TOPICS, version, request)).responses)


async def drop_by(client: Client, name: str | None, topic_id: bytes = bytes(16)) -> Any:
    state = messages.DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id)
    request = messages.DeleteTopicsRequest(topics=[state], timeout_ms=1000)
    (answer,) = (await client.ask(ApiKey.DELETE_TOPICS, 6, request)).responses
    return answer


@pytest.mark.parametrize("version", range(1, 6))
def test_delete_by_name(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a")
        await create(client, "b")
        missing = Error.UNKNOWN_TOPIC_OR_PARTITION
        dropped = await drop(client, "a", "missing", "b", "b", version=version)
        assert [(each.name, each.error_code) for each in dropped] == [
            ("a", 0),
            ("missing", missing),
            ("b", BAD_REQUEST),
        ]
        assert gateway.broker.catalog.names() == ["b"]

    run(test)


def test_delete_by_name_or_id() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        first, second = await create(client, "a"), await create(client, "b")
        by_id = await drop_by(client, None, first)
        assert (by_id.name, by_id.topic_id, by_id.error_code) == ("a", first, 0)
        assert (await drop_by(client, None, first)).error_code == Error.UNKNOWN_TOPIC_ID
        assert (await drop_by(client, None)).error_code == BAD_REQUEST
        assert (await drop_by(client, "b", second)).error_code == BAD_REQUEST
        assert (await drop_by(client, "missing")).error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        by_name = await drop_by(client, "b")
        assert (by_name.topic_id, by_name.error_code) == (second, 0)
        assert gateway.broker.catalog.names() == []

    run(test)


async def grow(
    client: Client, *asked: tuple[str, int, Any], validate_only: bool = False
) -> list[tuple[str, int]]:
    request = messages.CreatePartitionsRequest
    answer = await client.ask(
        ApiKey.CREATE_PARTITIONS,
        3,
        request(
            topics=[
                request.CreatePartitionsTopic(
                    name=name,
                    count=count,
                    assignments=assigned
                    and [request.CreatePartitionsAssignment(broker_ids=nodes) for nodes in assigned],
                )
                for name, count, assigned in asked
            ],
            timeout_ms=1000,
            validate_only=validate_only,
        ),
    )
    return [(each.name, each.error_code) for each in answer.results]


def test_create_partitions() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a", 2)

        def count() -> int:
            return len(gateway.broker.topics.get("a").partitions)

        assert await grow(client, ("a", 3, None), validate_only=True) == [("a", 0)]
        assert count() == 2
        assert await grow(client, ("a", 3, None), ("missing", 2, None)) == [("a", 0), ("missing", 3)]
        assert count() == 3
        for wrong in (3, 1, 0, -1, 1_000_000):
            assert await grow(client, ("a", wrong, None)) == [("a", Error.INVALID_PARTITIONS)]
        assert await grow(client, ("a", 4, None), ("a", 5, None)) == [("a", BAD_REQUEST)]
        assert await grow(client, ("a", 5, [[1]])) == [("a", BAD_ASSIGNMENT)]
        assert await grow(client, ("a", 4, [[7]])) == [("a", BAD_ASSIGNMENT)]
        assert await grow(client, ("a", 4, [[1]])) == [("a", 0)]
        assert count() == 4

    run(test, "node.id=1")
