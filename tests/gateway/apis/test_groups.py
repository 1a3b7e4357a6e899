"""Group APIs through the codec, in every version: what a client of that version sends and gets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import gateway.apis.group_admin
import gateway.apis.groups
import gateway.apis.offsets  # noqa: F401 - registered when imported
from gateway.apis.registry import APIS, Context
from gateway.wire import codec, messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.fake_broker import FUTURES, FakeBroker

NO_ID = bytes(16)


class Client:
    """Asks in one version of an API; everything goes through bytes and back."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker

    def send(self, api: ApiKey, version: int, **fields: Any) -> Any:
        """A function that gives the response, or None as long as a future is awaited (a coroutine is waited for)."""
        name = messages_name(api)
        frame = codec.encode_request(api, version, getattr(messages, f"{name}Request")(**fields))
        request = codec.decode_request(api, version, bytes(frame), 0)
        context = Context(api, version, 1, "cli", "/10.0.0.1", "plain", 1)
        answer = APIS[api].handler(self.broker, context, request)  # type: ignore[arg-type]

        def get() -> Any:
            response = finished(answer)
            if response is None:
                return None
            return codec.decode_response(
                api, version, bytes(codec.encode_response(api, version, response)), 0
            )

        return get

    def ask(self, api: ApiKey, version: int, **fields: Any) -> Any:
        response = self.send(api, version, **fields)()
        assert response is not None
        return response

    def join(self, version: int, member_id: str = "", group_id: str = "g", **fields: Any) -> Any:
        protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol
        defaults: dict[str, Any] = {
            "group_id": group_id,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [protocol(name="range", metadata=SUBSCRIPTION)],
        }
        return self.send(ApiKey.JOIN_GROUP, version, **(defaults | fields))

    def member(self, version: int = 9, **fields: Any) -> str:
        """The id of the first member, joined and synced."""
        first = self.join(version, **fields)()
        if first is not None and first.error_code == Error.MEMBER_ID_REQUIRED:
            joined = self.join(version, first.member_id, **fields)
        else:
            joined = self.join(version, **fields)
        self.broker.advance(1_000)
        member_id: str = joined().member_id
        generation: int = joined().generation_id
        assignment = messages.SyncGroupRequest.SyncGroupRequestAssignment(
            member_id=member_id, assignment=b"A"
        )
        answer = self.ask(
            ApiKey.SYNC_GROUP,
            5,
            group_id="g",
            member_id=member_id,
            generation_id=generation,
            protocol_type=joined().protocol_type,
            protocol_name="range",
            assignments=[assignment],
        )
        assert answer.assignment == b"A"
        return member_id

    def commit(
        self, version: int, topic: Any, offset: int = 5, group_id: str = "g", **fields: Any
    ) -> dict[int, int]:
        """Partition -> error code."""
        request = messages.OffsetCommitRequest
        partitions = fields.pop("partitions", [0])
        metadata = fields.pop("metadata", "meta")
        asked = request.OffsetCommitRequestTopic(
            name=topic.name if version < 10 else "",
            topic_id=topic.topic_id if version >= 10 else NO_ID,
            partitions=[
                request.OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=2 if version >= 6 else -1,
                    committed_metadata=metadata,
                )
                for index in partitions
            ],
        )
        response = self.ask(ApiKey.OFFSET_COMMIT, version, group_id=group_id, topics=[asked], **fields)
        (found,) = response.topics
        if version >= 10:
            assert found.topic_id == topic.topic_id
        else:
            assert found.name == topic.name
        return {one.partition_index: one.error_code for one in found.partitions}

    def fetch(
        self, version: int, topic: Any, partitions: list[int], group_id: str = "g"
    ) -> list[tuple[Any, ...]]:
        """(partition, offset, leader epoch, metadata, error) of each."""
        request = messages.OffsetFetchRequest
        if version < 8:
            asked = [request.OffsetFetchRequestTopic(name=topic.name, partition_indexes=partitions)]
            response = self.ask(ApiKey.OFFSET_FETCH, version, group_id=group_id, topics=asked)
            (found,) = response.topics
        else:
            many = request.OffsetFetchRequestTopics(
                name=topic.name if version < 10 else "",
                topic_id=topic.topic_id if version >= 10 else NO_ID,
                partition_indexes=partitions,
            )
            group = request.OffsetFetchRequestGroup(group_id=group_id, topics=[many])
            response = self.ask(ApiKey.OFFSET_FETCH, version, groups=[group], require_stable=True)
            assert (response.groups[0].group_id, response.groups[0].error_code) == (group_id, 0)
            (found,) = response.groups[0].topics
        return [
            (
                one.partition_index,
                one.committed_offset,
                one.committed_leader_epoch,
                one.metadata,
                one.error_code,
            )
            for one in found.partitions
        ]


SUBSCRIPTION = b"\0\x01\0\0\0\x01\0\x01t\xff\xff\xff\xff"


class Unknown:
    """A topic that does not exist."""

    name = "unknown"
    topic_id = b"x" * 16


def messages_name(key: ApiKey) -> str:
    return APIS[key].name


def finished(answer: Any) -> Any:
    if isinstance(answer, asyncio.Future):
        return answer.result() if answer.done() else None
    if asyncio.iscoroutine(answer):
        return FUTURES.run_until_complete(answer)
    return answer


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
def client(broker: FakeBroker) -> Client:
    return Client(broker)


# -- membership


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
    if len(fields.get("group_id", "")) > 32_767 and version < 6:
        pytest.skip("not encodable")
    answer = client.join(version, **fields)()
    assert answer.error_code == error
    assert answer.generation_id == -1
    assert answer.protocol_name == (None if version >= 7 else "")
    assert client.broker.groups.listing() == []


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


# -- offsets


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
    assert broker.groups.listing() == []


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


# -- administration


@pytest.mark.parametrize("version", range(7))
def test_describe(broker: FakeBroker, client: Client, version: int) -> None:
    broker.topic("t")
    member_id = client.member()
    fields: dict[str, Any] = {"groups": ["g", "nobody"]}
    if version >= 3:
        fields["include_authorized_operations"] = True
    found, missing = client.ask(ApiKey.DESCRIBE_GROUPS, version, **fields).groups
    assert (found.error_code, found.group_state, found.protocol_type, found.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (member,) = found.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "cli", "/10.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION, b"A")
    if version >= 3:
        assert found.authorized_operations == 3400
    assert missing.group_state == "Dead"
    assert missing.error_code == (Error.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    if version >= 6:
        assert missing.error_message == "Group nobody not found."


@pytest.mark.parametrize("version", range(6))
def test_list(broker: FakeBroker, client: Client, version: int) -> None:
    topic = broker.topic("t")
    client.member()
    client.commit(9, topic, group_id="simple")
    groups = client.ask(ApiKey.LIST_GROUPS, version).groups
    assert [(one.group_id, one.protocol_type) for one in groups] == [("g", "consumer"), ("simple", "")]
    if version >= 4:
        assert [one.group_state for one in groups] == ["Stable", "Empty"]
    if version >= 5:
        assert [one.group_type for one in groups] == ["classic", "classic"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"states_filter": ["STABLE "]}, ["g"]),
        ({"states_filter": ["empty", "Dead"]}, ["simple"]),
        ({"types_filter": ["Classic"]}, ["g", "simple"]),
        ({"types_filter": ["share", "consumer"]}, []),
    ],
)
def test_list_filters(broker: FakeBroker, client: Client, filters: dict[str, Any], found: list[str]) -> None:
    topic = broker.topic("t")
    client.member()
    client.commit(9, topic, group_id="simple")
    answer = client.ask(ApiKey.LIST_GROUPS, 5, **filters)
    assert [one.group_id for one in answer.groups] == found


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("version", range(3))
def test_delete_groups(broker: FakeBroker, client: Client, version: int, at_once: bool) -> None:
    topic = broker.topic("t")
    client.member()
    client.commit(9, topic, group_id="simple")
    broker.at_once = at_once
    asked = client.send(ApiKey.DELETE_GROUPS, version, groups_names=["g", "simple", "nobody", "simple"])
    broker.land()
    answer = asked()
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        ("g", Error.NON_EMPTY_GROUP),
        ("simple", 0),
        ("nobody", Error.GROUP_ID_NOT_FOUND),
    ]
    assert client.fetch(9, topic, [0], "simple")[0][1] == -1


def test_offset_delete(broker: FakeBroker, client: Client) -> None:
    used, free = broker.topic("t", 1), broker.topic("free", 2)
    client.commit(9, used)
    client.commit(9, free, partitions=[0, 1])
    client.member()
    request = messages.OffsetDeleteRequest

    def topic(name: str, *partitions: int) -> Any:
        return request.OffsetDeleteRequestTopic(
            name=name,
            partitions=[request.OffsetDeleteRequestPartition(partition_index=index) for index in partitions],
        )

    asked = [topic("t", 0), topic("free", 0, 7), topic("no", 0)]
    answer = client.ask(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=asked)
    assert answer.error_code == 0
    results = {one.name: {p.partition_index: p.error_code for p in one.partitions} for one in answer.topics}
    assert results == {
        "t": {0: Error.GROUP_SUBSCRIBED_TO_TOPIC},
        "free": {0: 0, 7: Error.UNKNOWN_TOPIC_OR_PARTITION},
        "no": {0: Error.UNKNOWN_TOPIC_OR_PARTITION},
    }
    assert [row[1] for row in client.fetch(9, free, [0, 1])] == [-1, 5]
    assert client.fetch(9, used, [0])[0][1] == 5


@pytest.mark.parametrize(
    ("group_id", "error"), [("", Error.INVALID_GROUP_ID), ("nobody", Error.GROUP_ID_NOT_FOUND)]
)
def test_offset_delete_refused(client: Client, group_id: str, error: Error) -> None:
    assert client.ask(ApiKey.OFFSET_DELETE, 0, group_id=group_id).error_code == error


def test_offset_delete_of_other_protocols(client: Client) -> None:
    client.member(protocol_type="connect")
    assert client.ask(ApiKey.OFFSET_DELETE, 0, group_id="g").error_code == Error.NON_EMPTY_GROUP


# -- FindCoordinator


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(client: Client, version: int) -> None:
    if version < 4:
        found = client.ask(ApiKey.FIND_COORDINATOR, version, key="g")
    else:
        answer = client.ask(ApiKey.FIND_COORDINATOR, version, coordinator_keys=["g", "h"])
        assert [one.key for one in answer.coordinators] == ["g", "h"]
        found = answer.coordinators[1]
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 7, "plain.example", 9092)


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize(
    ("kind", "error"), [(1, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), (2, Error.INVALID_REQUEST)]
)
def test_no_coordinator_of_other_kinds(client: Client, version: int, kind: int, error: Error) -> None:
    if version < 4:
        found = client.ask(ApiKey.FIND_COORDINATOR, version, key="x", key_type=kind)
    else:
        answer = client.ask(ApiKey.FIND_COORDINATOR, version, coordinator_keys=["x"], key_type=kind)
        (found,) = answer.coordinators
    assert (found.error_code, found.node_id, found.host, found.port) == (error, -1, "", -1)
    assert error.retriable is False
    assert found.error_message
