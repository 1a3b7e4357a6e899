"""ConsumerGroupHeartbeat and ConsumerGroupDescribe on the wire, and consumer groups as other APIs see them."""

from __future__ import annotations

from typing import Any

import pytest
import uvloop

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import memory
from tests.gateway.apis.transacting import committed
from tests.gateway.broker.consumer_members import (
    assigned,
    beat,
    commit,
    describe,
    fetched,
    listed,
)
from tests.gateway.broker.held import Clock, run, serving_on
from tests.gateway.broker.share_members import beat as share_beat
from tests.gateway.broker.share_members import delete
from tests.gateway.serving import Client, create

CONSUMER = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff"
"""The metadata of a classic consumer that subscribes to t."""


async def join_classic(client: Client, member: str = "") -> Any:
    request = messages.JoinGroupRequest
    return await client.ask(
        ApiKey.JOIN_GROUP,
        3,
        request(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[request.JoinGroupRequestProtocol(name="range", metadata=CONSUMER)],
        ),
    )


def test_two_members_share_a_topic_and_one_leaves() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        t = await create(client, "t", 4)
        first = await beat(client, "a", 0, "t")
        assert (first.error_code, first.member_id, first.member_epoch) == (0, "a", 2)
        assert assigned(first) == {t: [0, 1, 2, 3]}
        joined = await beat(client, "b", 0, "t")
        assert (joined.member_epoch, assigned(joined)) == (3, {})
        told = assigned(await beat(client, "a", 2))
        assert told is not None
        assert (await describe(client)).group_state == "Reconciling"
        assert (await beat(client, "a", 2, owned=told)).member_epoch == 3
        got = assigned(await beat(client, "b", 3))
        assert got is not None
        assert sorted(told[t] + got[t]) == [0, 1, 2, 3]
        left = await beat(client, "b", -1)
        assert (left.error_code, left.member_epoch) == (0, -1)
        assert assigned(await beat(client, "a", 3)) == {t: [0, 1, 2, 3]}

    run(test)


def test_version_0_is_given_its_id() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        answer = await beat(client, "", 0, "t", version=0)
        assert answer.error_code == 0
        assert answer.member_id
        assert (await beat(client, answer.member_id, 2, version=0)).error_code == 0

    run(test)


@pytest.mark.parametrize(
    ("member", "epoch", "fields", "said"),
    [
        ("", 0, {}, "MemberId can't be empty."),
        ("a", 0, {"group": " "}, "GroupId can't be empty."),
        ("a", 0, {"instance_id": ""}, "InstanceId can't be empty."),
        ("a", 0, {"rack_id": ""}, "RackId can't be empty."),
        ("a", 0, {"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ("a", 0, {"owned": {b"t" * 16: [0]}}, "TopicPartitions must be empty when (re-)joining."),
        (
            "a",
            0,
            {},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ("a", -2, {}, "InstanceId can't be null."),
        ("a", -3, {}, "MemberEpoch is invalid."),
    ],
)
def test_what_is_wrong_by_itself(member: str, epoch: int, fields: dict[str, Any], said: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        answer = await beat(client, member, epoch, **fields)
        assert (answer.error_code, answer.error_message) == (Error.INVALID_REQUEST, said)

    run(test)


class TestPatterns:
    def test_topics_come_and_go(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            first = await create(client, "orders-1")
            await create(client, "others")
            await gateway.broker.queues.make("others", "orders", 2, {})
            answer = await beat(client, "a", 0, subscribed_topic_regex="^o.*-[0-9Q].*$")
            assert assigned(answer) == {first: [0]}, "queue topics of other groups are none for it"
            second = await create(client, "orders-2")
            answer = await beat(client, "a", 2)
            assert (answer.member_epoch, assigned(answer)) == (3, {first: [0], second: [0]})
            await gateway.broker.topics.delete("orders-1")
            assert assigned(await beat(client, "a", 3)) == {second: [0]}
            assert (await describe(client)).members[0].subscribed_topic_regex == "^o.*-[0-9Q].*$"

        run(test)

    def test_beside_names_and_no_more(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            t, u = await create(client, "t"), await create(client, "u")
            assert assigned(await beat(client, "a", 0, "u", subscribed_topic_regex="t")) == {t: [0], u: [0]}
            answer = await beat(client, "a", 2, owned={t: [0], u: [0]}, subscribed_topic_regex="")
            assert assigned(answer) == {u: [0]}

        run(test)

    @pytest.mark.parametrize(
        ("text", "said"), [("t(", "is missing"), ("(?=t)t", "(?:...)"), ("(t)\\1", "\\1")]
    )
    def test_what_cannot_be_one_is_refused_in_words(self, text: str, said: str) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            answer = await beat(client, "a", 0, subscribed_topic_regex=text)
            assert answer.error_code == Error.INVALID_REGULAR_EXPRESSION
            assert said in answer.error_message

        run(test)

    def test_over_a_restart(self) -> None:
        async def main() -> None:
            store = memory.open()
            async with serving_on(store) as gateway:
                client = await Client.connect(gateway)
                first = await create(client, "t1")
                await beat(client, "a", 0, subscribed_topic_regex="t.")
                client.close()
            async with serving_on(store) as gateway:
                client = await Client.connect(gateway)
                assert assigned(await beat(client, "a", 2)) is None
                second = await create(client, "t2")
                assert assigned(await beat(client, "a", 2)) == {first: [0], second: [0]}
                client.close()

        uvloop.run(main())


def test_a_group_that_there_is_not() -> None:
    """Clients would give up at GROUP_ID_NOT_FOUND."""

    async def test(gateway: Gateway, client: Client) -> None:
        for epoch in (5, -1):
            answer = await beat(client, "a", epoch)
            assert (answer.error_code, answer.error_message) == (
                Error.UNKNOWN_MEMBER_ID,
                "Member a is not a member of group g.",
            )

    run(test)


def test_as_it_is_described() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        t = await create(client, "t", 2)
        await beat(client, "a", 0, "t", "missing", rack_id="r", instance_id="i", server_assignor="range")
        group = await describe(client)
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
        assert group.assignor_name == "range"
        (member,) = group.members
        assert (member.member_id, member.instance_id, member.rack_id) == ("a", "i", "r")
        assert (member.member_epoch, member.client_id, member.member_type) == (2, "test", 1)
        assert member.subscribed_topic_names == ["missing", "t"]
        for its in (member.assignment, member.target_assignment):
            (topic,) = its.topic_partitions
            assert (topic.topic_id, topic.topic_name, topic.partitions) == (t, "t", [0, 1])
        # who names it often is told once
        asked = messages.ConsumerGroupDescribeRequest(group_ids=["g", "h", "g", "g"])
        answer = await client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, asked)
        assert [each.group_id for each in answer.groups] == ["g", "h"]

    run(test)


def test_described_by_the_api_of_its_kind_alone() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await beat(client, "a", 0, "t")
        await share_beat(client, "shares", "s", 0, "t")
        answer = await client.ask(ApiKey.DESCRIBE_GROUPS, 6, messages.DescribeGroupsRequest(groups=["g"]))
        (described,) = answer.groups
        assert (described.error_code, described.error_message, described.group_state) == (
            Error.GROUP_ID_NOT_FOUND,
            "Group g is not a classic group.",
            "Dead",
        )
        for group, said in (("shares", "Group shares is not a consumer group."), ("x", "Group x not found.")):
            found = await describe(client, group)
            assert (found.error_code, found.error_message) == (Error.GROUP_ID_NOT_FOUND, said)
        assert await listed(client, "consumer") == [("g", "consumer", "Stable")]

    run(test)


def test_deleted_when_empty_and_with_its_offsets() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await beat(client, "a", 0, "t")
        assert await commit(client, "a", 2) == 0
        assert await delete(client, "g") == {"g": Error.NON_EMPTY_GROUP}
        await beat(client, "a", -1)
        assert await fetched(client, None, -1) == (0, 5)
        assert await delete(client, "g") == {"g": 0}
        assert await listed(client) == []
        assert await fetched(client, None, -1) == (0, -1)

    run(test)


class TestOffsets:
    def test_of_members(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t", 2)
            await beat(client, "a", 0, "t")
            assert await commit(client, "a", 2) == 0
            assert await commit(client, "a", 3) == Error.STALE_MEMBER_EPOCH
            assert await commit(client, "x", 2) == Error.UNKNOWN_MEMBER_ID
            assert await commit(client, "", -1) == Error.UNKNOWN_MEMBER_ID
            assert await commit(client, "a", 2, version=8) == Error.UNSUPPORTED_VERSION
            assert await fetched(client, "a", 2) == (0, 5)
            assert await fetched(client, None, -1) == (0, 5)
            assert await fetched(client, "a", 0) == (Error.STALE_MEMBER_EPOCH, -1)
            assert await fetched(client, "x", 2) == (Error.UNKNOWN_MEMBER_ID, -1)

        run(test)

    def test_with_an_older_epoch_for_what_it_has_had_since_then(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            t = await create(client, "t", 2)
            await beat(client, "a", 0, "t")
            await beat(client, "b", 0, "t")
            kept = assigned(await beat(client, "a", 2))
            assert kept is not None
            await beat(client, "a", 2, owned=kept)
            (mine,) = kept[t]
            assert await commit(client, "a", 2, mine) == 0
            assert await commit(client, "a", 2, 1 - mine) == Error.STALE_MEMBER_EPOCH

        run(test)

    def test_by_nobody_while_nobody_is_there(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await beat(client, "a", 0, "t")
            await beat(client, "a", -1)
            assert await commit(client, "", -1, offset=7) == 0
            assert await fetched(client, None, -1) == (0, 7)
            assert await listed(client) == [("g", "consumer", "Empty")]

        run(test)

    def test_deleted_unless_a_member_reads_the_topic(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await create(client, "u")
            await beat(client, "a", 0, "u")
            assert await commit(client, "a", 2) == 0
            request = messages.OffsetDeleteRequest
            topics = [
                request.OffsetDeleteRequestTopic(
                    name=name, partitions=[request.OffsetDeleteRequestPartition(partition_index=0)]
                )
                for name in "tu"
            ]
            answer = await client.ask(ApiKey.OFFSET_DELETE, 0, request(group_id="g", topics=topics))
            assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {
                "t": 0,
                "u": Error.GROUP_SUBSCRIBED_TO_TOPIC,
            }
            assert await fetched(client, None, -1) == (0, -1)

        run(test)


class TestBesideClassicGroups:
    def test_an_empty_group_takes_the_protocol_of_who_joins_it_and_its_offsets_stay(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            assert await commit(client, "", -1, offset=4) == 0
            assert await listed(client) == [("g", "classic", "Empty")]
            assert (await beat(client, "a", 0, "t")).error_code == 0
            assert await listed(client) == [("g", "consumer", "Stable")]
            assert await fetched(client, "a", 2) == (0, 4)
            await beat(client, "a", -1)
            joined = await join_classic(client)
            assert joined.error_code == 0
            assert [one[1] for one in await listed(client)] == ["classic"]
            assert await committed(client, "g") == (0, 4)

        run(test, "group.initial.rebalance.delay.ms=0")


def test_configs_of_a_group_say_how_often_it_is_heard_of() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await gateway.broker.group_configs.alter(
            "g", lambda configs: {**configs, "consumer.heartbeat.interval.ms": "9000"}
        )
        assert (await beat(client, "a", 0, "t")).heartbeat_interval_ms == 9000
        assert (await beat(client, "a", 0, "t", group="other")).heartbeat_interval_ms == 5000

    run(test)


def test_a_group_may_be_full() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await beat(client, "a", 0, "t")
        assert (await beat(client, "b", 0, "t")).error_code == Error.GROUP_MAX_SIZE_REACHED

    run(test, "group.consumer.max.size=1")


def test_members_go_on_after_a_restart_in_the_middle_of_a_rebalance() -> None:
    async def main() -> None:
        store, clock = memory.open(), Clock()
        async with serving_on(store, clock=clock) as gateway:
            client = await Client.connect(gateway)
            t = await create(client, "t", 4)
            await beat(client, "a", 0, "t")
            await beat(client, "b", 0, "t")
            kept = assigned(await beat(client, "a", 2))
            client.close()
        assert kept is not None
        async with serving_on(store, clock=clock) as gateway:
            client = await Client.connect(gateway)
            assert assigned(await beat(client, "b", 3)) is None, "a has not given up yet"
            assert await commit(client, "a", 2) == 0
            assert (await beat(client, "a", 2, owned=kept)).member_epoch == 3
            got = assigned(await beat(client, "b", 3))
            assert got is not None
            assert sorted(kept[t] + got[t]) == [0, 1, 2, 3]
            assert (await describe(client)).group_epoch == 3
            client.close()

    uvloop.run(main())


def test_a_static_member_comes_back_to_what_it_had() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        t = await create(client, "t", 2)
        await beat(client, "a", 0, "t", instance_id="i")
        answer = await beat(client, "b", 0, "t", instance_id="i")
        assert answer.error_code == Error.UNRELEASED_INSTANCE_ID
        assert (await beat(client, "a", -2, instance_id="i")).member_epoch == -2
        answer = await beat(client, "b", 0, "t", instance_id="i")
        assert (answer.error_code, assigned(answer)) == (0, {t: [0, 1]})
        assert (await beat(client, "a", 2, instance_id="i")).error_code == Error.FENCED_INSTANCE_ID

    run(test)


def test_the_feature_is_told() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        answer = await client.ask(
            ApiKey.API_VERSIONS,
            4,
            messages.ApiVersionsRequest(client_software_name="test", client_software_version="1"),
        )
        features = {one.name: one.max_version_level for one in answer.finalized_features}
        assert features["group.version"] == 1

    run(test)
