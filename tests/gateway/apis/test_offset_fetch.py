"""OffsetFetch in every version: what was committed, and what is waited for."""

from __future__ import annotations

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
