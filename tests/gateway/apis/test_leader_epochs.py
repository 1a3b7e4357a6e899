"""Every log has a leader epoch of its own, whoever asks for it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import batch as layout
from store import memory
from tests.gateway.admin.conftest import running
from tests.gateway.broker.asking import errors, fetch, told
from tests.gateway.broker.held import run
from tests.gateway.serving import Client, batch, create, produce_body

FIRST = 40


class ManyOwners(memory.MemoryStore):
    """As if each log had been taken over a different number of times."""

    def leader_epoch(self, partition: int) -> int:
        return FIRST + partition


def many_owners() -> ManyOwners:
    return ManyOwners(lambda: 1_700_000_000_000, 1)


async def described(client: Client) -> list[int]:
    asked = messages.DescribeTopicPartitionsRequest
    body = asked(topics=[asked.TopicRequest(name="t")], response_partition_limit=10, cursor=None)
    (topic,) = (await client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body)).topics
    return [each.leader_epoch for each in topic.partitions]


async def in_metadata(client: Client) -> list[int]:
    asked = messages.MetadataRequest
    body = asked(topics=[asked.MetadataRequestTopic(name="t")])
    (topic,) = (await client.ask(ApiKey.METADATA, 12, body)).topics
    return [each.leader_epoch for each in topic.partitions]


async def in_share_offsets(client: Client) -> list[int]:
    asked = messages.DescribeShareGroupOffsetsRequest
    body = asked(groups=[asked.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)])
    (group,) = (await client.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, body)).groups
    (topic,) = group.topics
    return [each.leader_epoch for each in topic.partitions]


def test_every_answer_tells_the_epoch_of_the_log_it_is_about() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "other", 3)
        await create(client, "t", 3)
        expected = [FIRST + number for number in gateway.broker.topics.get("t").partitions]
        assert len(set(expected)) == 3
        assert await in_metadata(client) == expected, "no log is open yet"
        assert await described(client) == expected
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", *[batch(b"v")] * 3))
        for index, epoch in enumerate(expected):
            answer = await fetch(client, {"t": {index: 0}}, epoch=epoch)
            assert layout.leader_epoch(told(answer)[index].records) == epoch
            answer = await fetch(client, {"t": {index: 0}}, epoch=epoch - 1)
            assert errors(answer) == {index: Error.FENCED_LEADER_EPOCH}
        await gateway.broker.subscriptions.ensure("g", "t")
        assert await in_share_offsets(client) == expected

    run(test, store=many_owners())


def test_stats_tell_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running() as admin:
            await admin.partitioned("t", 2)
            monkeypatch.setattr(admin.broker.durable, "leader_epoch", many_owners().leader_epoch)
            topic = admin.broker.topics.get("t")
            for index, number in enumerate(topic.partitions):
                answer = await admin.ask("GET", f"P/t-partition-{index}/stats")
                assert answer.json["magnetar"]["leaderEpoch"] == FIRST + number

    asyncio.run(main())
