"""Offsets of groups in every version: committed, fetched, refused."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.apis.group_client import Client, Unknown
from tests.gateway.broker.fake_broker import FakeBroker


@pytest.mark.parametrize("version", range(2, 11))
def test_commit_and_fetch(broker: FakeBroker, client: Client, version: int) -> None:
    topic = broker.topic("t", 3)
    assert client.commit(version, topic, 41, partitions=[0, 2]) == {0: 0, 2: 0}
    epoch = 2 if version >= 6 else -1
    for fetch in range(1, 11):
        shown = epoch if fetch >= 5 else -1
        assert client.fetch(fetch, topic, [2, 1, 0]) == [
            (2, 41, shown, "meta", 0),
            (1, -1, -1, "", 0),
            (0, 41, shown, "meta", 0),
        ]


@pytest.mark.parametrize("version", range(2, 11))
def test_fetch_all(broker: FakeBroker, client: Client, version: int) -> None:
    topic = broker.topic("t", 2)
    client.commit(9, topic, 7, partitions=[1])
    if version < 8:
        (found,) = client.ask(ApiKey.OFFSET_FETCH, version, group_id="g", topics=None).topics
    else:
        group = messages.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
        (found,) = client.ask(ApiKey.OFFSET_FETCH, version, groups=[group]).groups[0].topics
    assert found.name == ("t" if version < 10 else "")
    if version >= 10:
        assert found.topic_id == topic.topic_id
    assert [(one.partition_index, one.committed_offset) for one in found.partitions] == [(1, 7)]


def test_fetch_of_several_groups(broker: FakeBroker, client: Client) -> None:
    topic = broker.topic("t")
    client.commit(9, topic, 1, group_id="g1")
    client.commit(9, topic, 2, group_id="g2")
    request = messages.OffsetFetchRequest
    many = [
        request.OffsetFetchRequestGroup(
            group_id=group_id, topics=[request.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        )
        for group_id in ("g2", "nobody", "g1")
    ]
    answer = client.ask(ApiKey.OFFSET_FETCH, 8, groups=many)
    found = [(one.group_id, one.topics[0].partitions[0].committed_offset) for one in answer.groups]
    assert found == [("g2", 2), ("nobody", -1), ("g1", 1)]


@pytest.mark.parametrize("version", [9, 10])
def test_unknown_topics(broker: FakeBroker, client: Client, version: int) -> None:
    unknown: int = Error.UNKNOWN_TOPIC_OR_PARTITION if version < 10 else Error.UNKNOWN_TOPIC_ID
    assert client.commit(version, Unknown()) == {0: unknown}
    fetched: int = 0 if version < 10 else unknown
    assert client.fetch(version, Unknown(), [0]) == [(0, -1, -1, "", fetched)]
    topic = broker.topic("t", 1)
    assert client.commit(version, topic, partitions=[0, 1, -1]) == {
        0: 0,
        1: Error.UNKNOWN_TOPIC_OR_PARTITION,
        -1: Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert client.fetch(version, topic, [-1, 1]) == [(-1, -1, -1, "", 0), (1, -1, -1, "", 0)]


def test_refused_topics_come_first_and_once(broker: FakeBroker, client: Client) -> None:
    broker.topic("t", 1)
    request = messages.OffsetCommitRequest

    def topic(name: str, *partitions: int) -> Any:
        return request.OffsetCommitRequestTopic(
            name=name,
            partitions=[request.OffsetCommitRequestPartition(partition_index=index) for index in partitions],
        )

    answer = client.ask(ApiKey.OFFSET_COMMIT, 9, group_id="g", topics=[topic("t", 0, 9), topic("no", 0)])
    assert [
        (one.name, [(p.partition_index, p.error_code) for p in one.partitions]) for one in answer.topics
    ] == [
        ("t", [(9, 3), (0, 0)]),
        ("no", [(0, 3)]),
    ]


@pytest.mark.parametrize(
    ("metadata", "stored"),
    [
        (None, ""),
        ("", ""),
        ("x" * 4096, "x" * 4096),
        ("ü€\U0001f600\0", "ü€\U0001f600\0"),
        ("€" * 4096, "€" * 4096),
    ],
)
def test_metadata_comes_back_as_it_was(
    broker: FakeBroker, client: Client, metadata: str | None, stored: str
) -> None:
    topic = broker.topic("t")
    assert client.commit(9, topic, metadata=metadata) == {0: 0}
    assert client.fetch(9, topic, [0])[0][3] == stored


@pytest.mark.parametrize("metadata", ["x" * 4097, "\U0001f600" * 2049])
def test_metadata_too_large(broker: FakeBroker, client: Client, metadata: str) -> None:
    topic = broker.topic("t")
    assert client.commit(9, topic, metadata=metadata) == {0: Error.OFFSET_METADATA_TOO_LARGE}
    assert client.fetch(9, topic, [0])[0][1] == -1
    assert broker.group_kinds.listing() == []


@pytest.mark.parametrize(("version", "error"), [(8, Error.ILLEGAL_GENERATION), (9, Error.GROUP_ID_NOT_FOUND)])
def test_a_generation_without_a_group(broker: FakeBroker, client: Client, version: int, error: Error) -> None:
    topic = broker.topic("t")
    assert client.commit(version, topic, generation_id_or_member_epoch=1, member_id="m") == {0: error}


def test_members_and_strangers(broker: FakeBroker, client: Client) -> None:
    topic = broker.topic("t")
    member_id = client.member()
    mine: dict[str, Any] = {"member_id": member_id, "generation_id_or_member_epoch": 1}
    assert client.commit(9, topic, **mine) == {0: 0}
    assert client.commit(9, topic) == {0: Error.UNKNOWN_MEMBER_ID}
    assert client.commit(9, topic, **(mine | {"generation_id_or_member_epoch": 0})) == {
        0: Error.ILLEGAL_GENERATION
    }
    assert client.commit(9, topic, **(mine | {"group_instance_id": "i"})) == {0: Error.UNKNOWN_MEMBER_ID}


def test_a_retention_time_of_old_clients(broker: FakeBroker, client: Client) -> None:
    topic = broker.topic("t")
    client.commit(4, topic, retention_time_ms=60_000)
    broker.advance(600_000)
    assert client.fetch(9, topic, [0])[0][1] == -1


def test_a_retention_time_that_no_time_can_hold(broker: FakeBroker, client: Client) -> None:
    topic = broker.topic("t")
    assert client.commit(4, topic, retention_time_ms=(1 << 63) - 1) == {0: 0}
    broker.advance(600_000)
    assert client.fetch(9, topic, [0])[0][1] != -1


def test_fetch_waits_for_commits_under_way(broker: FakeBroker, client: Client) -> None:
    topic = broker.topic("t")
    client.commit(9, topic, 1)
    broker.at_once = False
    request = messages.OffsetCommitRequest
    partition = request.OffsetCommitRequestPartition(partition_index=0, committed_offset=2)
    asked = request.OffsetCommitRequestTopic(name="t", partitions=[partition])
    client.send(ApiKey.OFFSET_COMMIT, 9, group_id="g", topics=[asked])
    many = messages.OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    group = messages.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[many])
    fetched = client.send(ApiKey.OFFSET_FETCH, 9, groups=[group])
    broker.land()
    (found,) = fetched().groups[0].topics[0].partitions
    assert found.committed_offset == 2
