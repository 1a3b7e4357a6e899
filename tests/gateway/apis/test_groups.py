"""Membership of groups in every version: what a client of that version sends and gets."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.apis.rights_table import Kind
from gateway.peer import Peer
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from tests.gateway.apis.group_client import SUBSCRIPTION, Client
from tests.gateway.apis.rights_double import RightsDouble
from tests.gateway.broker.fake_broker import FakeBroker


@pytest.mark.parametrize("version", range(10))
def test_join_sync_beat_leave(broker: FakeBroker, client: Client, version: int) -> None:
    first = client.join(version)
    if version >= 4:
        promised = first()
        assert promised.error_code == Error.MEMBER_ID_REQUIRED
        assert promised.member_id.startswith("cli-")
        joined = client.join(version, promised.member_id)
    else:
        joined = first
    assert joined() is None
    broker.advance(300)
    answer = joined()
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert [(one.member_id, one.metadata) for one in answer.members] == [(answer.member_id, SUBSCRIPTION)]
    assert answer.protocol_type == ("consumer" if version >= 7 else None)

    member: dict[str, Any] = {"group_id": "g", "member_id": answer.member_id, "generation_id": 1}
    assignment = messages.SyncGroupRequest.SyncGroupRequestAssignment(
        member_id=answer.member_id, assignment=b"A"
    )
    protocol: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    synced = client.ask(ApiKey.SYNC_GROUP, min(version, 5), assignments=[assignment], **member, **protocol)
    assert (synced.error_code, synced.assignment) == (0, b"A")
    assert synced.protocol_name == ("range" if version >= 5 else None)
    assert client.ask(ApiKey.HEARTBEAT, min(version, 4), **member).error_code == 0

    leave = min(version, 5)
    if leave < 3:
        left = client.ask(ApiKey.LEAVE_GROUP, leave, group_id="g", member_id=answer.member_id)
        assert left.error_code == 0
    else:
        one = messages.LeaveGroupRequest.MemberIdentity(member_id=answer.member_id)
        left = client.ask(ApiKey.LEAVE_GROUP, leave, group_id="g", members=[one])
        assert [found.error_code for found in left.members] == [0]
    assert client.ask(ApiKey.HEARTBEAT, min(version, 4), **member).error_code == Error.UNKNOWN_MEMBER_ID


def test_version_0_waits_for_others_as_long_as_the_session(client: Client) -> None:
    client.join(0, session_timeout_ms=7_000, rebalance_timeout_ms=-1)
    core = client.broker.groups.look("g")
    assert core is not None
    (member,) = core.roster
    assert member.rebalance_timeout == 7_000


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, Error.INVALID_GROUP_ID),
        ({"group_id": "x" * 32_768}, Error.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, Error.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, Error.INVALID_SESSION_TIMEOUT),
        ({"protocols": []}, Error.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stranger"}, Error.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("version", [6, 9])
def test_join_refused(client: Client, version: int, fields: dict[str, Any], error: Error) -> None:
    answer = client.join(version, **fields)()
    assert answer.error_code == error
    assert answer.generation_id == -1
    assert answer.protocol_name == (None if version >= 7 else "")
    assert client.broker.group_kinds.listing() == []


def test_a_static_members_id_names_its_instance(broker: FakeBroker, client: Client) -> None:
    joined = client.join(9, group_instance_id="inst")
    broker.advance(300)
    assert joined().member_id.startswith("inst-")
    assert joined().members[0].group_instance_id == "inst"


@pytest.mark.parametrize("version", range(6))
def test_leaving_a_group_that_does_not_exist(client: Client, version: int) -> None:
    if version < 3:
        answer = client.ask(ApiKey.LEAVE_GROUP, version, group_id="g", member_id="m")
        assert answer.error_code == Error.UNKNOWN_MEMBER_ID
    else:
        one = messages.LeaveGroupRequest.MemberIdentity(member_id="m", group_instance_id="i")
        answer = client.ask(ApiKey.LEAVE_GROUP, version, group_id="g", members=[one])
        assert answer.error_code == 0
        found = answer.members[0]
        assert (found.member_id, found.group_instance_id, found.error_code) == (
            "m",
            "i",
            Error.UNKNOWN_MEMBER_ID,
        )


@pytest.mark.parametrize("lacks", ["protocol_type", "protocol_name"])
def test_sync_must_name_its_protocol_from_version_5_on(client: Client, lacks: str) -> None:
    member_id = client.member()
    fields = {"protocol_type": "consumer", "protocol_name": "range"} | {lacks: None}
    answer = client.ask(ApiKey.SYNC_GROUP, 5, group_id="g", member_id=member_id, generation_id=1, **fields)
    assert answer.error_code == Error.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("key", [ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP])
def test_an_empty_group_id(client: Client, key: ApiKey) -> None:
    assert client.ask(key, 2, group_id="").error_code == Error.INVALID_GROUP_ID


def test_who_may_not_read_any_more_is_told_nothing_when_its_turn_comes(broker: FakeBroker) -> None:
    may = {(Kind.GROUP, Operation.READ, "g")}
    doubles = [RightsDouble(may) for _ in range(2)]
    one, two = (
        Client(broker, Peer(number, "/10.0.0.1", "plain", rights=double))
        for number, double in enumerate(doubles)
    )
    joining = [one.join(3), two.join(3)]
    broker.advance(300)
    leader, follower = (each().member_id for each in joining)
    assert joining[0]().leader == leader
    given = messages.SyncGroupRequest.SyncGroupRequestAssignment(member_id=follower, assignment=b"A")
    in_group: dict[str, Any] = {"group_id": "g", "generation_id": 1}
    synced = two.send(ApiKey.SYNC_GROUP, 3, member_id=follower, assignments=[], **in_group)
    assert synced() is None
    doubles[1].granted = set()
    told = one.ask(ApiKey.SYNC_GROUP, 3, member_id=leader, assignments=[given], **in_group)
    assert told.error_code == 0
    assert (synced().error_code, synced().assignment) == (Error.GROUP_AUTHORIZATION_FAILED, b"")
    # the next generation: the leader would be told of all members
    doubles[1].granted = may
    joined = one.join(3, leader)
    assert joined() is None
    doubles[0].granted = set()
    others = two.join(3, follower)
    broker.advance(300)
    assert others().error_code == 0
    assert (joined().error_code, joined().members, joined().member_id) == (
        Error.GROUP_AUTHORIZATION_FAILED, [], "",
    )  # fmt: skip
