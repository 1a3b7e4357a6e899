"""OffsetCommit in every version: what is taken, and of whom."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.apis.group_client import Client
from tests.gateway.broker.fake_broker import FakeBroker


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
