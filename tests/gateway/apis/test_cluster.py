"""What is told of the cluster, its log dirs and what has configs; every listener tells its own address."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from gateway.config import Settings
from gateway.server import Gateway, start
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import part, run
from tests.gateway.broker.placing import TwoNodes
from tests.gateway.serving import Client, batch, create, produce_body


async def addresses(client: Client) -> set[tuple[str, int]]:
    """What Metadata, DescribeCluster and FindCoordinator (its first and its last form) tell."""
    metadata = await client.ask(ApiKey.METADATA, 12, messages.MetadataRequest(topics=[]))
    cluster = await client.ask(ApiKey.DESCRIBE_CLUSTER, 1, messages.DescribeClusterRequest())
    old = await client.ask(ApiKey.FIND_COORDINATOR, 1, messages.FindCoordinatorRequest(key="g", key_type=0))
    new = await client.ask(
        ApiKey.FIND_COORDINATOR, 4, messages.FindCoordinatorRequest(coordinator_keys=["g"], key_type=0)
    )
    found = [*metadata.brokers, *cluster.brokers, old, *new.coordinators]
    assert len(found) == 4
    return {(each.host, each.port) for each in found}


def test_every_listener_tells_its_own_address() -> None:
    async def main() -> None:
        settings = Settings.load(
            [
                "store.driver=memory",
                "listeners=INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,PLAIN://localhost:0",
                "advertised.listeners=INSIDE://inside.example:1111,OUTSIDE://[2001:db8::1]:2222",
            ],
            options={"admin.listen": ""},
        )
        async with contextlib.AsyncExitStack() as stack:
            gateway = await start(settings, stack)
            told = {}
            for listener in gateway.listeners:
                port = int(listener.address.rpartition(":")[2])
                client = Client(*await asyncio.open_connection("127.0.0.1", port))
                (told[listener.name],) = await addresses(client)
                client.close()
            plain = int(gateway.listeners[2].address.rpartition(":")[2])
            assert told == {
                "INSIDE": ("inside.example", 1111),
                "OUTSIDE": ("2001:db8::1", 2222),
                "PLAIN": ("localhost", plain),
            }

    asyncio.run(main())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        request = messages.DescribeClusterRequest
        answer = await client.ask(ApiKey.DESCRIBE_CLUSTER, version, request())
        assert (answer.error_code, answer.cluster_id) == (0, gateway.broker.cluster_id)
        (node,) = answer.brokers
        assert answer.controller_id == node.broker_id == 5
        assert (node.rack, node.is_fenced) == ("r1", False)
        assert answer.cluster_authorized_operations == -(2**31)
        asked = await client.ask(
            ApiKey.DESCRIBE_CLUSTER, version, request(include_cluster_authorized_operations=True)
        )
        assert asked.cluster_authorized_operations > 0
        if version:
            wrong = await client.ask(ApiKey.DESCRIBE_CLUSTER, version, request(endpoint_type=2))
            assert (wrong.error_code, wrong.brokers) == (Error.MISMATCHED_ENDPOINT_TYPE, [])

    run(test, "node.id=5", "broker.rack=r1")


@pytest.mark.parametrize("version", range(1, 6))
def test_log_dirs(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        one = batch(b"v")
        await create(client, "a", 2)
        await create(client, "b")
        assert part(await client.ask(ApiKey.PRODUCE, 9, produce_body("a", one, partition=1))).error_code == 0

        async def ask(topics: Any) -> dict[str, list[tuple[int, int]]]:
            request = messages.DescribeLogDirsRequest
            wanted = topics and [
                request.DescribableLogDirTopic(topic=name, partitions=indexes)
                for name, indexes in topics.items()
            ]
            answer = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, version, request(topics=wanted))
            (folder,) = answer.results
            assert folder.error_code == 0
            return {
                topic.name: [(each.partition_index, each.partition_size) for each in topic.partitions]
                for topic in folder.topics
            }

        assert await ask(None) == {"a": [(0, 0), (1, len(one))], "b": [(0, 0)]}
        assert await ask({"a": [1, 7, -1], "missing": [0]}) == {"a": [(1, len(one))]}

    run(test)


def test_what_has_configs() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "b")
        await create(client, "a")

        async def ask(version: int, *kinds: int) -> Any:
            request = messages.ListConfigResourcesRequest(resource_types=list(kinds))
            answer = await client.ask(ApiKey.LIST_CONFIG_RESOURCES, version, request)
            return answer.error_code, [
                (each.resource_type, each.resource_name) for each in answer.config_resources
            ]

        node = str(gateway.broker.node_id)
        assert await ask(0) == (0, [])
        assert await ask(1) == (0, [(2, "a"), (2, "b"), (4, node), (8, node)])
        assert await ask(1, 2) == (0, [(2, "a"), (2, "b")])
        assert await ask(1, 16, 32) == (0, [])
        assert await ask(1, 2, 99) == (Error.UNSUPPORTED_VERSION, [])
        # an internal topic once somebody has looked for its coordinator, as in a list of all topics
        await client.ask(ApiKey.FIND_COORDINATOR, 1, messages.FindCoordinatorRequest(key="g", key_type=0))
        assert await ask(1, 2) == (0, [(2, "a"), (2, "b"), (2, "__consumer_offsets")])

    run(test)


def test_a_cluster_of_two_nodes() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        gateway.broker.placement = TwoNodes()
        answer = await client.ask(ApiKey.DESCRIBE_CLUSTER, 2, messages.DescribeClusterRequest())
        assert answer.controller_id == 8
        assert [(each.broker_id, each.host, each.port, each.rack) for each in answer.brokers] == [
            (7, "seven.example", 9092, None),
            (8, "eight.PLAINTEXT.example", 9093, "r"),
        ]
        asked = messages.ListConfigResourcesRequest(resource_types=[4])
        found = (await client.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, asked)).config_resources
        assert [(each.resource_type, each.resource_name) for each in found] == [(4, "7"), (4, "8")]
        topic = messages.CreateTopicsRequest.CreatableTopic
        assigned = messages.CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[7])
        made = messages.CreateTopicsRequest(
            topics=[topic(name="t", num_partitions=-1, replication_factor=-1, assignments=[assigned])],
            timeout_ms=1000,
        )
        (refused,) = (await client.ask(ApiKey.CREATE_TOPICS, 7, made)).topics
        assert refused.error_code == Error.INVALID_REPLICA_ASSIGNMENT
        assert refused.error_message is not None
        assert "placed by the cluster" in refused.error_message

    run(test)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (1, 0),
        (2, Error.MISMATCHED_ENDPOINT_TYPE),
        (0, Error.UNSUPPORTED_ENDPOINT_TYPE),
        (7, Error.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_endpoint_types(kind: int, error: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        request = messages.DescribeClusterRequest(endpoint_type=kind)
        assert (await client.ask(ApiKey.DESCRIBE_CLUSTER, 1, request)).error_code == error

    run(test)


def test_log_dirs_while_a_topic_is_being_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store has dropped the log already, the catalog still has the topic."""

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "going", 2)
        await create(client, "staying")
        store = gateway.broker.durable
        topic = gateway.broker.catalog.get("going")
        assert topic is not None
        right = store.log

        def log(partition: int) -> Any:
            if partition in topic.partitions:
                raise KeyError(partition)
            return right(partition)

        monkeypatch.setattr(store, "log", log)
        answer = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, messages.DescribeLogDirsRequest(topics=None))
        assert {t.name: len(t.partitions) for t in answer.results[0].topics} == {"going": 0, "staying": 1}

    run(test)
