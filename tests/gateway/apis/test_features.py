"""The quorum of one, and features that are as they are."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.apis import homes_asking
from tests.gateway.broker.held import run
from tests.gateway.serving import Client, create

LOG = "__cluster_metadata"
MISSING = Error.UNKNOWN_TOPIC_OR_PARTITION


async def quorum(client: Client, version: int, *places: tuple[str, list[int]]) -> Any:
    request = messages.DescribeQuorumRequest
    topics = [
        request.TopicData(
            topic_name=name, partitions=[request.PartitionData(partition_index=each) for each in indexes]
        )
        for name, indexes in places
    ]
    answer = await client.ask(ApiKey.DESCRIBE_QUORUM, version, request(topics=topics))
    assert answer.error_code == 0
    return answer


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_controller_is_the_one_voter(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        ends = []
        for name in "ab":
            answer = await quorum(client, version, (LOG, [0]))
            ((part,),) = [topic.partitions for topic in answer.topics]
            (voter,) = part.current_voters
            assert (part.error_code, part.leader_id, voter.replica_id, part.observers) == (0, 5, 5, [])
            assert part.leader_epoch >= 0
            assert voter.log_end_offset == part.high_watermark, "it lags behind nobody"
            assert version == 0 or voter.last_caught_up_timestamp == voter.last_fetch_timestamp > 0
            ends.append(part.high_watermark)
            if version == 2:
                (node,) = answer.nodes
                (listener,) = node.listeners
                address = gateway.broker.endpoints["PLAINTEXT"]
                assert (node.node_id, listener.name) == (5, "PLAINTEXT")
                assert (listener.host, listener.port) == address
            await create(client, name)
        assert ends[1] > ends[0], "what was decided is in it"

    run(test, "node.id=5")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_there_is_no_other_quorum(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")

        async def codes(*places: tuple[str, list[int]]) -> list[int]:
            answer = await quorum(client, version, *places)
            assert answer.nodes == []
            assert all(not each.current_voters for topic in answer.topics for each in topic.partitions)
            return [each.error_code for topic in answer.topics for each in topic.partitions]

        assert await codes((LOG, [1])) == [MISSING]
        assert await codes(("t", [0])) == [MISSING]
        assert await codes((LOG, [0, 0])) == [MISSING, MISSING]
        assert await codes((LOG, [0]), ("t", [0])) == [MISSING, MISSING]
        assert await codes((LOG, [])) == []
        assert await codes() == []

    run(test)


def test_clients_of_another_namespace_ask_for_it_by_the_same_name() -> None:
    async def test(gateway: Gateway, public: Client, eu: Client, us: Client) -> None:
        for client in (public, eu, us):
            answer = await quorum(client, 2, (LOG, [0]))
            (topic,) = answer.topics
            assert (topic.topic_name, topic.partitions[0].error_code) == (LOG, 0)

    homes_asking.run(test)


async def update(client: Client, version: int, *levels: tuple[str, int], **kind: Any) -> Any:
    request = messages.UpdateFeaturesRequest
    rows = [request.FeatureUpdateKey(feature=name, max_version_level=level, **kind) for name, level in levels]
    answer = await client.ask(ApiKey.UPDATE_FEATURES, version, request(feature_updates=rows))
    assert bool(answer.error_message) == bool(answer.error_code)
    if version < 2:
        assert [each.feature for each in answer.results] == (
            [] if answer.error_code else [name for name, _ in levels]
        )
    return answer.error_code


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_feature_may_be_set_to_what_it_is(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        told = await client.ask(
            ApiKey.API_VERSIONS,
            4,
            messages.ApiVersionsRequest(client_software_name="t", client_software_version="1"),
        )
        finalized = [(each.name, each.max_version_level) for each in told.finalized_features]
        assert ("metadata.version", 30) in finalized
        assert await update(client, version) == 0
        assert await update(client, version, *finalized) == 0
        wrong = Error.INVALID_UPDATE_VERSION
        for name, level in finalized:
            for other in (level - 1, level + 1, -1, 99):
                assert await update(client, version, (name, other)) == wrong
        assert await update(client, version, *finalized, ("bogus", 1)) == wrong

    run(test)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        (0, {"allow_downgrade": True}),
        (1, {"upgrade_type": 2}),
        (2, {"upgrade_type": 3}),
        (2, {"upgrade_type": 0}),
    ],
)
def test_no_feature_is_taken_back(version: int, kind: dict[str, Any]) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        wrong = Error.INVALID_UPDATE_VERSION
        assert await update(client, version, ("transaction.version", 1), **kind) == wrong
        again = await update(client, version, ("transaction.version", 2), **kind)
        assert again == (wrong if kind == {"upgrade_type": 0} else 0)

    run(test)
