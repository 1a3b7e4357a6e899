"""Where share groups stand, and moving it: what kafka-share-groups.sh asks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.api import Family, StoreError
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.broker.share_asking import share_acknowledge, share_fetch, told
from tests.gateway.broker.share_members import beat, describe
from tests.gateway.serving import Client, batch, create, produce_body

Describe = messages.DescribeShareGroupOffsetsRequest
Alter = messages.AlterShareGroupOffsetsRequest
Drop = messages.DeleteShareGroupOffsetsRequest

NO_TOPIC = bytes(16)


async def positions(
    client: Client, group: str, asked: dict[str, list[int]] | None = None, version: int = 1
) -> dict[str, dict[int, Any]]:
    """Topic to partition to (start offset, lag); the start offset alone in version 0."""
    topics = None
    if asked is not None:
        topics = [
            Describe.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)
            for name, indexes in asked.items()
        ]
    body = Describe(groups=[Describe.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)])
    answer = await client.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, version, body)
    (found,) = answer.groups
    assert (found.error_code, found.group_id) == (0, group)
    for topic in found.topics:
        assert all(part.error_code == 0 for part in topic.partitions)
    return {
        topic.topic_name: {
            part.partition_index: (part.start_offset, part.lag) if version else part.start_offset
            for part in topic.partitions
        }
        for topic in found.topics
    }


async def alter(client: Client, group: str, wanted: dict[str, dict[int, int]]) -> Any:
    topic = Alter.AlterShareGroupOffsetsRequestTopic
    part = Alter.AlterShareGroupOffsetsRequestPartition
    body = Alter(
        group_id=group,
        topics=[
            topic(
                topic_name=name,
                partitions=[part(partition_index=index, start_offset=at) for index, at in offsets.items()],
            )
            for name, offsets in wanted.items()
        ],
    )
    return await client.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, body)


async def drop(client: Client, group: str, *names: str) -> Any:
    topics = [Drop.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
    return await client.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, Drop(group_id=group, topics=topics))


async def produce(client: Client, topic: str, count: int) -> None:
    await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, batch(*[b"x"] * count)))


def test_start_and_lag_follow_what_is_acknowledged() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic = await create(client, "t", 2)
        await beat(client, "g", "m", 0, "t")
        await produce(client, "t", 10)
        assert await positions(client, "g") == {"t": {0: (0, 10), 1: (0, 0)}}
        await share_fetch(client, "m", 0, topic, [0])
        # 5 and 6 are done, what lies before is not
        answer = await share_fetch(client, "m", 1, topic, [0], acks={0: [(5, 6, 1)]})
        assert told(answer)[0].acknowledge_error_code == 0
        assert await positions(client, "g") == {"t": {0: (0, 8), 1: (0, 0)}}
        await share_fetch(client, "m", 2, topic, [0], acks={0: [(0, 4, 1)]})
        assert await positions(client, "g") == {"t": {0: (7, 3), 1: (0, 0)}}
        assert await positions(client, "g", {"t": [0]}, version=0) == {"t": {0: 7}}

    run(test)


@pytest.mark.parametrize(
    ("failure", "start", "lag"),
    [(None, 5, 5), (StoreError("the disk is full"), 0, 10)],
    ids=["stored", "failed"],
)
def test_a_start_is_told_when_it_is_stored(failure: StoreError | None, start: int, lag: int) -> None:
    """Else it would come back lower after a crash, and dead letters below it might not be there."""

    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic = await create(client, "t")
        await beat(client, "g", "m", 0, "t")
        await produce(client, "t", 10)
        await share_fetch(client, "m", 0, topic, [0])
        other = await Client.connect(gateway)
        store.holding = True
        acknowledged = asyncio.create_task(share_acknowledge(client, "m", 1, topic, {0: [(0, 4, 1)]}))
        await store.has(1)
        asked = asyncio.create_task(positions(other, "g"))
        await store.has(2)
        assert not asked.done()
        store.holding = False
        if failure is None:
            store.land(2)
        else:
            store.fail(failure)
        await acknowledged
        assert await asked == {"t": {0: (start, lag)}}
        other.close()

    run_held(test)


def test_what_has_no_subscription_is_no_error() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await create(client, "u")
        await beat(client, "g", "m", 0, "t")
        assert await positions(client, "none") == {}
        assert await positions(client, "") == {}
        assert await positions(client, "g", {"t": [0, 7, -1], "u": [0], "missing": [3]}) == {
            "t": {0: (0, 0), 7: (-1, -1), -1: (-1, -1)},
            "u": {0: (-1, -1)},
            "missing": {3: (-1, -1)},
        }

    run(test)


class TestAlter:
    def test_an_empty_group_begins_anew(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            topic = await create(client, "t", 2)
            await beat(client, "g", "m", 0, "t")
            await produce(client, "t", 10)
            await beat(client, "g", "m", -1)
            answer = await alter(client, "g", {"t": {0: 4}})
            assert (answer.error_code, answer.error_message) == (0, None)
            assert answer.responses[0].topic_id == topic
            assert await positions(client, "g") == {"t": {0: (4, 6), 1: (0, 0)}}
            await alter(client, "g", {"t": {0: 1}})
            assert await positions(client, "g") == {"t": {0: (1, 9), 1: (0, 0)}}

        run(test)

    def test_an_offset_outside_of_the_log_is_its_nearest_end(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await produce(client, "t", 10)
            await alter(client, "g", {"t": {0: 99}})
            assert await positions(client, "g") == {"t": {0: (10, 0)}}
            await alter(client, "g", {"t": {0: -5}})
            assert await positions(client, "g") == {"t": {0: (0, 10)}}

        run(test)

    def test_makes_the_group(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t", 2)
            await produce(client, "t", 10)
            assert (await alter(client, "new", {"t": {0: 3}})).error_code == 0
            assert (await describe(client, "new"))[0].group_state == "Empty"
            # the other partition begins as its config says: latest
            assert await positions(client, "new") == {"t": {0: (3, 7), 1: (0, 0)}}

        run(test)

    def test_unknown_topics_and_partitions(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            answer = await alter(client, "g", {"t": {0: 0, 7: 0}, "missing": {0: 0}})
            found = {
                topic.topic_name: [(part.partition_index, part.error_code) for part in topic.partitions]
                for topic in answer.responses
            }
            missing = Error.UNKNOWN_TOPIC_OR_PARTITION
            assert found == {"t": [(0, 0), (7, missing)], "missing": [(0, missing)]}
            assert [topic.topic_id == NO_TOPIC for topic in answer.responses] == [False, True]

        run(test)

    def test_not_while_it_has_members(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await beat(client, "g", "m", 0, "t")
            for answer in (await alter(client, "g", {"t": {0: 0}}), await drop(client, "g", "t")):
                assert answer.error_code == Error.NON_EMPTY_GROUP
                assert answer.error_message == "The group is not empty."
                assert answer.responses == []

        run(test)


class TestDelete:
    def test_drops_the_subscriptions_that_are_named(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            for name in ("t", "u"):
                await create(client, name)
            await beat(client, "g", "m", 0, "t", "u")
            await beat(client, "g", "m", -1)
            answer = await drop(client, "g", "t", "missing", "t")
            assert answer.error_code == 0
            assert [(one.topic_name, one.error_code) for one in answer.responses] == [
                ("t", 0),
                ("missing", Error.UNKNOWN_TOPIC_OR_PARTITION),
            ]
            assert await positions(client, "g") == {"u": {0: (0, 0)}}
            await produce(client, "t", 3)
            await beat(client, "g", "m", 0, "t", "u")
            assert await positions(client, "g") == {"t": {0: (3, 0)}, "u": {0: (0, 0)}}, (
                "a new one, at the end"
            )

        run(test)

    def test_of_no_group(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            answer = await drop(client, "none", "t")
            assert (answer.error_code, answer.error_message) == (
                Error.GROUP_ID_NOT_FOUND,
                "Group none not found.",
            )
            for answer in (await drop(client, "", "t"), await alter(client, "", {"t": {0: 0}})):
                assert answer.error_code == Error.INVALID_GROUP_ID

        run(test)


def test_a_subscription_that_a_policy_refuses_leaves_no_group() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "full")
        await create(client, "free")
        await beat(client, "g", "m", 0, "full")
        one = {"pulsar.max.subscriptions": "1"}
        await gateway.broker.topics.configure("full", lambda old: {**old, **one})
        answer = await alter(client, "new", {"full": {0: 0, 7: 0}, "unknown": {0: 0}})
        assert answer.error_code == 0
        codes = {
            (topic.topic_name, part.partition_index): part.error_code
            for topic in answer.responses
            for part in topic.partitions
        }
        assert codes == {
            ("full", 0): Error.POLICY_VIOLATION,
            ("full", 7): Error.UNKNOWN_TOPIC_OR_PARTITION,
            ("unknown", 0): Error.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert gateway.broker.store.get(Family.GROUP, b"new") is None
        answer = await alter(client, "new", {"full": {0: 0}, "free": {0: 0}})
        assert [topic.partitions[0].error_code for topic in answer.responses] == [Error.POLICY_VIOLATION, 0]
        assert gateway.broker.store.get(Family.GROUP, b"new") is not None

    run(test)
