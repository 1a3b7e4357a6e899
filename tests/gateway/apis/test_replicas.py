"""Where copies are and who leads, asked of a node that has all there is."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import run
from tests.gateway.broker.placing import TwoNodes
from tests.gateway.serving import Client, create

MISSING = Error.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [1, 2])
def test_a_partition_may_go_to_the_folder_where_it_is_and_to_no_other(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        folder = gateway.broker.disk()[0]
        request = messages.AlterReplicaLogDirsRequest

        async def ask(*asked: tuple[str, str, list[int]]) -> dict[str, list[tuple[int, int]]]:
            dirs = [
                request.AlterReplicaLogDir(
                    path=path, topics=[request.AlterReplicaLogDirTopic(name=name, partitions=indexes)]
                )
                for path, name, indexes in asked
            ]
            answer = await client.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, request(dirs=dirs))
            return {
                topic.topic_name: [(each.partition_index, each.error_code) for each in topic.partitions]
                for topic in answer.results
            }

        assert await ask((folder, "t", [0, 1, 2, -1]), (folder, "missing", [0])) == {
            "t": [(0, 0), (1, 0), (2, MISSING), (-1, MISSING)],
            "missing": [(0, MISSING)],
        }
        assert await ask(("/elsewhere", "t", [0, 9])) == {
            "t": [(0, Error.LOG_DIR_NOT_FOUND), (9, Error.LOG_DIR_NOT_FOUND)]
        }
        assert await ask((folder, "t", [0]), ("/elsewhere", "t", [0])) == {
            "t": [(0, Error.LOG_DIR_NOT_FOUND)]
        }
        assert await ask() == {}

    run(test)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_there_is_nothing_to_elect(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        request = messages.ElectLeadersRequest

        async def ask(topics: dict[str, list[int]] | None, kind: int = 0) -> Any:
            named = None
            if topics is not None:
                named = [
                    request.TopicPartitions(topic=name, partitions=indexes)
                    for name, indexes in topics.items()
                ]
            body = request(election_type=kind, topic_partitions=named, timeout_ms=1000)
            answer = await client.ask(ApiKey.ELECT_LEADERS, version, body)
            results = {
                topic.topic: [(each.partition_id, each.error_code) for each in topic.partition_result]
                for topic in answer.replica_election_results
            }
            texts = [e.error_message for t in answer.replica_election_results for e in t.partition_result]
            assert all(texts), "each says why"
            return (answer.error_code if version else 0), results

        needless = Error.ELECTION_NOT_NEEDED
        assert await ask({"t": [1, 0, 9], "missing": [0]}) == (
            0,
            {"t": [(1, needless), (0, needless), (9, MISSING)], "missing": [(0, MISSING)]},
        )
        # all: those are told that had an election
        assert await ask(None) == (0, {"t": []})
        if version:
            assert await ask({"t": [0]}, 1) == (0, {"t": [(0, needless)]})
            wrong = Error.INVALID_REQUEST
            assert await ask({"t": [0]}, 2) == (wrong, {"t": [(0, wrong)]})
            assert await ask(None, -1) == (wrong, {})

    run(test)


async def reassign(
    client: Client, version: int, topics: dict[str, list[tuple[int, list[int] | None]]]
) -> Any:
    request = messages.AlterPartitionReassignmentsRequest
    named = [
        request.ReassignableTopic(
            name=name,
            partitions=[
                request.ReassignablePartition(partition_index=index, replicas=nodes) for index, nodes in each
            ],
        )
        for name, each in topics.items()
    ]
    body = request(topics=named, timeout_ms=1000, allow_replication_factor_change=False)
    answer = await client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, body)
    assert answer.error_code == 0
    assert version == 0 or answer.allow_replication_factor_change is False
    for topic in answer.responses:
        for each in topic.partitions:
            assert bool(each.error_message) == bool(each.error_code)
    return {
        topic.name: [(each.partition_index, each.error_code) for each in topic.partitions]
        for topic in answer.responses
    }


@pytest.mark.parametrize("version", [0, 1])
def test_a_partition_stays_where_it_is(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        wrong = Error.INVALID_REPLICA_ASSIGNMENT
        asked: list[tuple[int, list[int] | None]] = [
            (0, [5]), (1, [5, 6]), (0, [6]), (0, [5, 5]), (0, []), (1, None), (2, [5]), (-1, None),
        ]  # fmt: skip
        assert await reassign(client, version, {"t": asked, "missing": [(0, [5])]}) == {
            "t": [
                (0, 0),
                (1, wrong),
                (0, wrong),
                (0, wrong),
                (0, wrong),
                (1, Error.NO_REASSIGNMENT_IN_PROGRESS),
                (2, MISSING),
                (-1, MISSING),
            ],
            "missing": [(0, MISSING)],
        }
        listing = messages.ListPartitionReassignmentsRequest
        named = [listing.ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 1])]
        for topics in (None, [], named):
            answer = await client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, listing(topics=topics))
            assert (answer.error_code, answer.topics) == (0, [])

    run(test, "node.id=5")


def test_where_there_are_several_nodes_the_cluster_places_partitions() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        gateway.broker.placement = TwoNodes()
        wrong = Error.INVALID_REPLICA_ASSIGNMENT
        asked: list[tuple[int, list[int] | None]] = [(0, [7]), (1, [8]), (0, [8]), (0, [7, 8])]
        assert await reassign(client, 1, {"t": asked}) == {"t": [(0, 0), (1, 0), (0, wrong), (0, wrong)]}

    run(test)
