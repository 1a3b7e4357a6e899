"""ShareGroupHeartbeat and ShareGroupDescribe on the wire, and share groups as other APIs see them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import run
from tests.gateway.broker.share_members import assigned, beat, beat_body, delete, describe
from tests.gateway.serving import Client, create

CONSUMER = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff"
"""The metadata of a consumer that subscribes to t."""


async def join_classic(client: Client, group: str) -> Any:
    request = messages.JoinGroupRequest
    return await client.ask(
        ApiKey.JOIN_GROUP,
        3,
        request(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id="",
            protocol_type="consumer",
            protocols=[request.JoinGroupRequestProtocol(name="range", metadata=CONSUMER)],
        ),
    )


async def commit(client: Client, group: str, version: int = 8) -> int:
    request = messages.OffsetCommitRequest
    answer = await client.ask(
        ApiKey.OFFSET_COMMIT,
        version,
        request(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                request.OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        request.OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=1, committed_metadata=""
                        )
                    ],
                )
            ],
        ),
    )
    code: int = answer.topics[0].partitions[0].error_code
    return code


class TestHeartbeat:
    def test_join_beat_leave(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            topic = await create(client, "t", 3)
            answer = await beat(client, "g", "m", 0, "t")
            assert assigned(answer) == {topic: [0, 1, 2]}
            assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("m", 2, 5000)
            answer = await beat(client, "g", "m", 2)
            assert assigned(answer) is None
            answer = await beat(client, "g", "m", -1)
            assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", -1)
            assert (answer.heartbeat_interval_ms, answer.assignment) == (0, None)

        run(test)

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            (beat_body("", "m", 0, "t"), "GroupId can't be empty."),
            (beat_body("g", "", 0, "t"), "MemberId can't be empty."),
            (beat_body("g", "m", 0, "t", rack=""), "RackId can't be empty."),
            (beat_body("g", "m", 0), "SubscribedTopicNames must be set in first request."),
            (beat_body("g", "m", -2, "t"), "MemberEpoch is invalid."),
        ],
    )
    def test_requests_that_make_no_sense(self, body: Any, said: str) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            answer = await client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, body)
            assert (answer.error_code, answer.error_message) == (Error.INVALID_REQUEST, said)
            assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)
            assert gateway.broker.group_kinds.listing() == []

        run(test)

    def test_no_such_group(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            answer = await beat(client, "g", "m", 1)
            assert answer.error_code == Error.GROUP_ID_NOT_FOUND
            assert answer.error_message == "Share group g not found."
            answer = await beat(client, "g", "m", -1)
            assert answer.error_code == Error.GROUP_ID_NOT_FOUND
            assert answer.error_message == "Group g not found."

        run(test)


class TestDescribe:
    def test_members_and_what_they_have(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            topic = await create(client, "t", 2)
            await beat(client, "g", "m1", 0, "t", "missing", rack="r")
            await beat(client, "g", "m2", 0, "missing")
            (group,) = await describe(client, "g")
            assert (group.error_code, group.group_id, group.group_state) == (0, "g", "Stable")
            assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (3, 3, "simple")
            one, two = group.members
            assert (one.member_id, one.rack_id, one.member_epoch) == ("m1", "r", 2)
            assert (one.client_id, one.client_host) == ("test", "/127.0.0.1")
            assert one.subscribed_topic_names == ["missing", "t"]
            (part,) = one.assignment.topic_partitions
            assert (part.topic_id, part.topic_name, part.partitions) == (topic, "t", [0, 1])
            assert two.assignment.topic_partitions == []
            assert group.authorized_operations == -(1 << 31)
            (group,) = await describe(client, "g", operations=True)
            assert group.authorized_operations == 3400

        run(test)

    def test_what_is_no_share_group(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            assert await commit(client, "classic") == 0
            found = await describe(client, "none", "", "classic", "none", "")
            assert [(one.group_id, one.error_code, one.error_message) for one in found] == [
                ("none", Error.GROUP_ID_NOT_FOUND, "Group none not found."),
                ("", Error.INVALID_GROUP_ID, None),
                ("classic", Error.GROUP_ID_NOT_FOUND, "Group classic is not a share group."),
            ]

        run(test)


class TestOneNameSpace:
    """A group id belongs to one protocol; the errors are Kafka 4.3's."""

    def test_classic_requests_to_a_share_group(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await beat(client, "g", "m", 0, "t")
            for _ in ("with members", "empty"):
                assert (await join_classic(client, "g")).error_code == Error.INCONSISTENT_GROUP_PROTOCOL
                answer = await client.ask(
                    ApiKey.HEARTBEAT,
                    4,
                    messages.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
                )
                assert answer.error_code == Error.UNKNOWN_MEMBER_ID
                answer = await client.ask(
                    ApiKey.SYNC_GROUP,
                    4,
                    messages.SyncGroupRequest(group_id="g", generation_id=1, member_id="m"),
                )
                assert answer.error_code == Error.UNKNOWN_MEMBER_ID
                leaver = messages.LeaveGroupRequest.MemberIdentity(member_id="m")
                answer = await client.ask(
                    ApiKey.LEAVE_GROUP, 4, messages.LeaveGroupRequest(group_id="g", members=[leaver])
                )
                assert (answer.error_code, answer.members[0].error_code) == (0, Error.UNKNOWN_MEMBER_ID)
                assert await commit(client, "g") == Error.GROUP_ID_NOT_FOUND
                assert await commit(client, "g", 9) == Error.GROUP_ID_NOT_FOUND
                answer = await client.ask(ApiKey.OFFSET_DELETE, 0, messages.OffsetDeleteRequest(group_id="g"))
                assert answer.error_code == Error.GROUP_ID_NOT_FOUND
                await beat(client, "g", "m", -1)

        run(test)

    def test_share_requests_to_a_classic_group(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            other = await Client.connect(gateway)
            join = messages.JoinGroupRequest
            other.send(
                ApiKey.JOIN_GROUP,
                3,
                join(
                    group_id="joining",
                    session_timeout_ms=30_000,
                    rebalance_timeout_ms=30_000,
                    member_id="",
                    protocol_type="consumer",
                    protocols=[join.JoinGroupRequestProtocol(name="range", metadata=CONSUMER)],
                ),
            )
            await commit(client, "committed")
            for group in ("joining", "committed"):
                for epoch in (0, 1, -1):
                    answer = await beat(client, group, "m", epoch, "t")
                    assert answer.error_code == Error.GROUP_ID_NOT_FOUND
                    assert answer.error_message == f"Group {group} is not a share group."
            await other.receive()
            other.close()

        run(test, "group.initial.rebalance.delay.ms=10")

    def test_described_as_a_classic_group_it_is_dead(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await beat(client, "g", "m", 0, "t")
            for version in (5, 6):
                answer = await client.ask(
                    ApiKey.DESCRIBE_GROUPS, version, messages.DescribeGroupsRequest(groups=["g"])
                )
                (group,) = answer.groups
                assert group.group_state == "Dead"
                assert group.error_code == (0 if version == 5 else Error.GROUP_ID_NOT_FOUND)
                if version == 6:
                    assert group.error_message == "Group g is not a classic group."

        run(test)

    def test_the_id_is_free_again_when_the_group_is_deleted(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await beat(client, "g", "m", 0, "t")
            await beat(client, "g", "m", -1)
            assert await delete(client, "g") == {"g": 0}
            assert await commit(client, "g") == 0
            assert await delete(client, "g") == {"g": 0}
            assert (await beat(client, "g", "m", 0, "t")).error_code == 0

        run(test)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, [("classic", "classic", "Empty"), ("empty", "share", "Empty"), ("stable", "share", "Stable")]),
        ({"types_filter": ["Share"]}, [("empty", "share", "Empty"), ("stable", "share", "Stable")]),
        ({"types_filter": ["share"], "states_filter": ["stable"]}, [("stable", "share", "Stable")]),
        ({"types_filter": ["classic"]}, [("classic", "classic", "Empty")]),
    ],
)
def test_listed(filters: dict[str, list[str]], found: list[tuple[str, str, str]]) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await commit(client, "classic")
        await beat(client, "stable", "m", 0, "t")
        await beat(client, "empty", "m", 0, "t")
        await beat(client, "empty", "m", -1)
        answer = await client.ask(ApiKey.LIST_GROUPS, 5, messages.ListGroupsRequest(**filters))
        assert [(one.group_id, one.group_type, one.group_state) for one in answer.groups] == found
        assert {one.protocol_type for one in answer.groups if one.group_type == "share"} <= {"share"}

    run(test)


def test_deleted_together() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await commit(client, "classic")
        await beat(client, "share", "m", 0, "t")
        await beat(client, "busy", "m", 0, "t")
        await beat(client, "share", "m", -1)
        assert await delete(client, "classic", "share", "busy", "none") == {
            "classic": 0,
            "share": 0,
            "busy": Error.NON_EMPTY_GROUP,
            "none": Error.GROUP_ID_NOT_FOUND,
        }

    run(test)
