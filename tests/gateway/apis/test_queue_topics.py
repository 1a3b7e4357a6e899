"""A queue topic as clients meet it: fetched, committed, asked about and not written to, by the APIs that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.patterns import Pattern
from tests.gateway.broker.asking import delete_records, errors, fetch, list_offsets, offsets, told
from tests.gateway.broker.held import part, run, until
from tests.gateway.broker.share_asking import share_fetch
from tests.gateway.broker.share_members import beat
from tests.gateway.serving import Client, batch, create, produce_body

NAME = "t-g-QUEUE"


async def queue(
    gateway: Gateway, client: Client, records: int = 0, lanes: int = 1, kind: str = "shared"
) -> bytes:
    """Topic t with records, and the subscription g on it that is served by lanes; the queue topic's id."""
    await create(client, "t")
    await gateway.broker.group_configs.alter("g", lambda old: {**old, "share.auto.offset.reset": "earliest"})
    made = await gateway.broker.queues.make("t", "g", lanes, {"pulsar.subscription.type": kind})
    if records:
        await produce(client, *range(records))
    return made.topic_id


async def produce(client: Client, *numbers: int) -> None:
    await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(*[b"%d" % n for n in numbers])))


async def read(client: Client, lane: int = 0, offset: int = 0) -> list[int]:
    """The offsets of one fetch that waits."""
    answer = await fetch(client, {NAME: {lane: offset}}, max_wait=5_000)
    assert errors(answer) == {lane: 0}
    return offsets(told(answer)[lane].records)


async def commit(
    client: Client,
    lanes: Mapping[int, tuple[int, str | None]],
    *,
    version: int = 9,
    topic: str | bytes = NAME,
    group: str = "g",
    member: tuple[str, int] = ("", -1),
) -> dict[int, int]:
    """Lane -> (offset, metadata). Lane -> error."""
    request = messages.OffsetCommitRequest
    named: dict[str, Any] = {"name": topic} if isinstance(topic, str) else {"topic_id": topic}
    answer = await client.ask(
        ApiKey.OFFSET_COMMIT,
        version,
        request(
            group_id=group,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            topics=[
                request.OffsetCommitRequestTopic(
                    **named,
                    partitions=[
                        request.OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=metadata
                        )
                        for index, (offset, metadata) in lanes.items()
                    ],
                )
            ],
        ),
    )
    (found,) = answer.topics
    return {each.partition_index: each.error_code for each in found.partitions}


async def committed(
    client: Client,
    lanes: Sequence[int],
    *,
    version: int = 9,
    topic: str | bytes = NAME,
    group: str = "g",
    stable: bool = False,
) -> list[tuple[int, str, int]]:
    """(offset, metadata, error) of each lane."""
    request = messages.OffsetFetchRequest
    if version < 8:
        assert isinstance(topic, str), "ids came later"
        asked = request.OffsetFetchRequestTopic(name=topic, partition_indexes=list(lanes))
        answer = await client.ask(ApiKey.OFFSET_FETCH, version, request(group_id=group, topics=[asked]))
    else:
        named: dict[str, Any] = {"name": topic} if isinstance(topic, str) else {"topic_id": topic}
        topics = [request.OffsetFetchRequestTopics(**named, partition_indexes=list(lanes))]
        groups = [request.OffsetFetchRequestGroup(group_id=group, topics=topics)]
        (answer,) = (
            await client.ask(ApiKey.OFFSET_FETCH, version, request(groups=groups, require_stable=stable))
        ).groups
    (found,) = answer.topics
    return [(each.committed_offset, each.metadata, each.error_code) for each in found.partitions]


# -- OffsetCommit and OffsetFetch ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_acknowledges_and_the_group_goes_on_at_the_first_open_delivery(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 5)
        topic = topic_id if version >= 10 else NAME
        assert await committed(client, [0], version=version, topic=topic) == [(0, "", 0)]
        assert await read(client) == [0, 1, 2, 3, 4]
        assert await commit(client, {0: (3, "mine")}, version=version, topic=topic) == {0: 0}
        subscription = gateway.broker.subscriptions.get("g", "t")
        assert subscription is not None
        assert subscription.partition(0).ready().start == 3
        # with what was said at that very offset, and with nothing elsewhere
        assert await committed(client, [0], version=version, topic=topic) == [(3, "mine", 0)]
        assert await commit(client, {0: (3, "ack1;a=3")}, version=version, topic=topic) == {0: 0}
        assert await committed(client, [0], version=version, topic=topic) == [(4, "", 0)]

    run(test)


def test_each_lane_is_answered_for_itself() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 5, lanes=3)
        assert await read(client) == [0, 1, 2, 3, 4]
        said = {0: (4, "ack1;n=1"), 1: (9, ""), 2: (0, "ack9;"), 7: (0, "")}
        assert await commit(client, said) == {
            0: Error.NONE,
            1: Error.INVALID_REQUEST,
            2: Error.INVALID_REQUEST,
            7: Error.UNKNOWN_TOPIC_OR_PARTITION,
        }
        # what was refused is not what the group is told afterwards
        assert await committed(client, [0, 1, 2]) == [(4, "ack1;n=1", 0), (0, "", 0), (0, "", 0)]
        assert await commit(client, {0: (5, "x" * 5_000)}) == {0: Error.OFFSET_METADATA_TOO_LARGE}
        assert await committed(client, [0]) == [(4, "ack1;n=1", 0)]

    run(test)


def test_another_group_keeps_its_own_offsets_and_acknowledges_nothing() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 5)
        assert await read(client) == [0, 1, 2, 3, 4]
        assert await committed(client, [0], group="audit") == [(-1, "", 0)]
        assert await commit(client, {0: (5, "ack1;n=nonsense")}, group="audit") == {0: 0}
        assert await committed(client, [0], group="audit") == [(5, "ack1;n=nonsense", 0)]
        assert await committed(client, [0]) == [(0, "", 0)]

    run(test)


def test_lanes_of_a_subscription_that_is_gone_are_answered_with_an_error() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 5)
        await read(client)
        await gateway.broker.subscriptions.delete("g")
        assert await commit(client, {0: (5, "")}) == {0: Error.COORDINATOR_LOAD_IN_PROGRESS}
        assert await committed(client, [0]) == [(-1, "", Error.UNSTABLE_OFFSET_COMMIT)]
        answer = await fetch(client, {NAME: {0: 0}})
        assert errors(answer) == {0: Error.UNKNOWN_TOPIC_OR_PARTITION}
        # and the connection goes on
        assert part(await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"x")))).error_code == 0

    run(test)


def test_a_member_commits_while_it_is_one_and_what_it_leaves_counts() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 5, lanes=2)
        member, generation = await join(client, NAME, 0, 1)
        work = gateway.broker.queues.of(gateway.broker.topics.get(NAME))
        assert work.lanes.owners == [member, member]
        assert await read(client) == [0, 1, 2, 3, 4]
        assert await commit(client, {0: (2, "")}, member=(member, generation)) == {0: 0}
        assert await commit(client, {0: (3, "")}, member=(member, generation - 1)) == {
            0: Error.ILLEGAL_GENERATION
        }
        assert await commit(client, {0: (3, "")}) == {0: Error.UNKNOWN_MEMBER_ID}
        assert work.at[0].lane.open == 2
        leave = messages.LeaveGroupRequest
        identity = leave.MemberIdentity(member_id=member)
        await client.ask(ApiKey.LEAVE_GROUP, 4, leave(group_id="g", members=[identity]))
        assert work.lanes.owners == [None, None]
        (source,) = work.sources.values()
        assert [source.failures(offset) for offset in range(5)] == [0, 0, 1, 0, 0]

    run(test)


def test_a_record_at_which_a_static_member_dies_each_time_is_a_dead_letter() -> None:
    """It is back under its name before anybody misses it."""

    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 5)
        await gateway.broker.subscriptions.configs.alter_properties(
            "g", "t", {"pulsar.max.redeliver.count": "2"}
        )
        for times in range(3):
            await join(client, NAME, 0, instance="i")
            position, _, _ = (await committed(client, [0]))[0]
            assert (await read(client, offset=position))[0] == position, times
        await join(client, NAME, 0, instance="i")
        await until(lambda: gateway.broker.catalog.get("t-g-DLQ") is not None)
        position, _, _ = (await committed(client, [0]))[0]
        assert len(await read(client, offset=position)) == 4

    run(test)


async def join(
    client: Client, topic: str, *lanes: int, member: str = "", instance: str | None = None
) -> tuple[str, int]:
    """The only member of group g, with these lanes; its id and generation. `member` joins once more."""
    asked = messages.JoinGroupRequest
    protocol = asked.JoinGroupRequestProtocol(
        name="range", metadata=b"\0\0\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode()
    )
    body: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [protocol],
    }
    version = 3 if instance is None else 5
    joined = await client.ask(
        ApiKey.JOIN_GROUP, version, asked(member_id=member, group_instance_id=instance, **body)
    )
    assert joined.error_code == 0
    given = b"\0\1\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode()
    given += len(lanes).to_bytes(4, "big") + b"".join(lane.to_bytes(4, "big") for lane in lanes) + b"\xff" * 4
    sync = messages.SyncGroupRequest
    assignment = sync.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=given)
    synced = await client.ask(
        ApiKey.SYNC_GROUP,
        3,
        sync(
            group_id="g",
            group_instance_id=instance,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assignment],
        ),
    )
    assert synced.error_code == 0
    return joined.member_id, joined.generation_id


# -- Fetch, ListOffsets, OffsetForLeaderEpoch ------------------------------------------------------------------------


def test_a_fetch_at_the_end_waits_for_the_next_record() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client)
        other = await Client.connect(gateway)
        work = gateway.broker.queues.of(gateway.broker.topics.get(NAME))
        client.send(
            ApiKey.FETCH,
            11,
            messages.FetchRequest(
                max_wait_ms=10_000,
                min_bytes=1,
                max_bytes=1 << 20,
                session_id=0,
                session_epoch=-1,
                topics=[
                    messages.FetchRequest.FetchTopic(
                        topic=NAME,
                        partitions=[
                            messages.FetchRequest.FetchPartition(
                                partition=0, fetch_offset=0, partition_max_bytes=1 << 20
                            )
                        ],
                    )
                ],
            ),
        )
        await until(lambda: work.at[0].watchers)
        await produce(other, 0, 1)
        _, answer = await client.receive()
        assert offsets(told(answer)[0].records) == [0, 1]
        other.close()

    run(test)


def test_a_fetch_session_goes_on_over_a_queue_that_is_read_again() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        first = await fetch(client, {NAME: {0: 0}}, session=(0, 0), max_wait=5_000)
        assert offsets(told(first)[0].records) == [0, 1, 2]
        gateway.broker.queues.of(gateway.broker.topics.get(NAME)).throw_away("for a test")
        await produce(client, 3)
        second = await fetch(client, {NAME: {0: 3}}, session=(first.session_id, 1), max_wait=5_000)
        assert offsets(told(second)[0].records) == [3]

    run(test)


def test_fetches_beyond_the_ends_are_out_of_range() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        await read(client)
        assert errors(await fetch(client, {NAME: {0: 4}})) == {0: Error.OFFSET_OUT_OF_RANGE}
        assert errors(await fetch(client, {NAME: {1: 0}})) == {1: Error.UNKNOWN_TOPIC_OR_PARTITION}

    run(test)


def test_the_ends_of_a_lane_and_no_times() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        await read(client)
        await commit(client, {0: (2, "")})
        gateway.broker.queues.of(gateway.broker.topics.get(NAME)).at[0].trim(2)
        later = gateway.broker.clock.wall_ms() + 3_600_000
        for timestamp, found in ((-1, 3), (-2, 2), (-4, 2), (-3, -1), (0, 2), (2_000, 2), (later, -1)):
            (end,) = await list_offsets(client, NAME, (0, timestamp), version=8)
            assert (end.offset, end.error_code) == (found, 0), timestamp
            # clients take no offset without a time
            assert end.timestamp == (timestamp if timestamp >= 0 and found >= 0 else -1)
        (end, unknown) = await list_offsets(client, NAME, (0, -1), (1, -1))
        assert unknown.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        (fenced,) = await list_offsets(client, NAME, (0, -1), epoch=end.leader_epoch + 1)
        assert fenced.error_code == Error.UNKNOWN_LEADER_EPOCH

    run(test)


def test_who_asks_for_the_end_is_told_of_all_there_is_room_for_however_large() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client)
        for _ in range(50):
            await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"x" * 100_000)))
        answer = await list_offsets(client, NAME, (0, -1))
        assert [each.offset for each in answer] == [50]

    run(test)


def test_the_end_of_a_leader_epoch_is_that_of_the_lane() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        await read(client)
        (found,) = await list_offsets(client, NAME, (0, -1))
        epoch = found.leader_epoch
        asked = messages.OffsetForLeaderEpochRequest

        async def end(leader_epoch: int, lane: int = 0, current: int = -1) -> tuple[int, int, int]:
            partition = asked.OffsetForLeaderPartition(
                partition=lane, current_leader_epoch=current, leader_epoch=leader_epoch
            )
            topic = asked.OffsetForLeaderTopic(topic=NAME, partitions=[partition])
            answer = part(
                await client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, asked(replica_id=-1, topics=[topic]))
            )
            return answer.error_code, answer.leader_epoch, answer.end_offset

        assert await end(epoch) == (0, epoch, 3)
        assert await end(epoch + 1) == (0, -1, -1)
        assert (await end(epoch, current=epoch + 1))[0] == Error.UNKNOWN_LEADER_EPOCH
        assert (await end(epoch, lane=5))[0] == Error.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


# -- what it is not for ----------------------------------------------------------------------------------------------


def test_it_has_no_records_of_its_own() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client)
        answer = await client.ask(ApiKey.PRODUCE, 9, produce_body(NAME, batch(b"x")))
        assert part(answer).error_code == Error.INVALID_TOPIC_EXCEPTION
        assert (await delete_records(client, NAME, {0: 0}))[0][0] == Error.INVALID_TOPIC_EXCEPTION

    run(test)


@pytest.mark.parametrize(("lanes", "code"), [(4, Error.NONE), (1_001, Error.INVALID_PARTITIONS)])
def test_it_gets_more_lanes_as_other_topics_get_partitions(lanes: int, code: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client)
        asked = messages.CreatePartitionsRequest
        grown = asked.CreatePartitionsTopic(name=NAME, count=lanes, assignments=None)
        answer = await client.ask(
            ApiKey.CREATE_PARTITIONS, 3, asked(topics=[grown], timeout_ms=1_000, validate_only=False)
        )
        assert answer.results[0].error_code == code
        assert len(gateway.broker.topics.get(NAME).partitions) == (1 if code else lanes)

    run(test)


def test_its_subscription_is_not_for_share_groups() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        base = gateway.broker.topics.get("t")
        answer = await share_fetch(client, "m", 0, base.topic_id, [0])
        (topic,) = answer.responses
        assert [each.error_code for each in topic.partitions] == [Error.INVALID_REQUEST]
        # and what is there is for lanes
        assert await read(client) == [0, 1, 2]

    run(test)


def test_patterns_of_consumers_pass_over_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, lanes=2)
        asked = messages.MetadataRequest
        answer = await client.ask(ApiKey.METADATA, 9, asked(topics=[asked.MetadataRequestTopic(name=NAME)]))
        (topic,) = answer.topics
        assert (topic.error_code, topic.is_internal) == (0, True)
        assert [each.partition_index for each in topic.partitions] == [0, 1]
        # Spark looks for topics by Java's Admin client, and would leave it out
        admin = await Client.connect(gateway, "adminclient-3")
        for topics in ([asked.MetadataRequestTopic(name=NAME)], None):
            told = (await admin.ask(ApiKey.METADATA, 9, asked(topics=topics))).topics
            assert {each.name: each.is_internal for each in told}[NAME] is False
            told = (await client.ask(ApiKey.METADATA, 9, asked(topics=topics))).topics
            assert {each.name: each.is_internal for each in told}[NAME] is True
        admin.close()

    run(test)


# -- over a pattern --------------------------------------------------------------------------------------------------


async def make(client: Client, name: str, configs: Mapping[str, str], *, validate_only: bool = False) -> Any:
    """CreateTopics with two partitions."""
    request = messages.CreateTopicsRequest
    asked = request.CreatableTopic(
        name=name,
        num_partitions=2,
        replication_factor=-1,
        assignments=[],
        configs=[request.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    whole = request(topics=[asked], timeout_ms=1_000, validate_only=validate_only)
    (made,) = (await client.ask(ApiKey.CREATE_TOPICS, 7, whole)).topics
    return made


def test_any_admin_client_makes_one_over_a_pattern() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "orders-a")
        said = {"pulsar.queue.pattern": "orders-.*", "pulsar.subscription.type": "key_shared"}
        for validate_only in (True, False):
            made = await make(client, "g-QUEUE", said, validate_only=validate_only)
            assert (made.error_code, made.num_partitions) == (0, 2), made.error_message
            there = gateway.broker.catalog.get("g-QUEUE")
            assert (there is None) == validate_only
        assert there is not None
        assert made.topic_id == there.topic_id
        found = gateway.broker.subscriptions.get("g", "orders-a")
        assert found is not None
        assert found.config.subscription.type == "key_shared"
        again = await make(client, "g-QUEUE", said)
        assert again.error_code == Error.TOPIC_ALREADY_EXISTS

    run(test)


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(
    ("name", "configs", "code", "why"),
    [
        ("g", {}, Error.INVALID_REQUEST, "is called <subscription>-QUEUE"),
        ("-QUEUE", {}, Error.INVALID_REQUEST, "is called <subscription>-QUEUE"),
        ("t-g-QUEUE", {}, Error.INVALID_REQUEST, "subscription g of topic 't'"),
        ("g-QUEUE", {"pulsar.queue.pattern": "orders-["}, Error.INVALID_CONFIG, "a ']' is missing"),
        ("g-QUEUE", {"retention.ms": "7"}, Error.INVALID_CONFIG, "'retention.ms' is none"),
        ("g-QUEUE", {"pulsar.subscription.type": "exclusive"}, Error.INVALID_CONFIG, "shared"),
    ],
)
def test_what_is_no_queue_topic_over_a_pattern_is_refused(
    name: str, configs: dict[str, str], code: int, why: str, validate_only: bool
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        said = {"pulsar.queue.pattern": "t.*", **configs}
        made = await make(client, name, said, validate_only=validate_only)
        assert made.error_code == code
        assert why in made.error_message
        assert gateway.broker.catalog.get(name) is None
        assert gateway.broker.subscriptions.get("g", "t") is None

    run(test)


def test_a_group_is_told_where_it_stands_in_each_topic_of_a_pattern() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t-0")
        await gateway.broker.queues.make_over("g", Pattern("t-."), 1, {}, "earliest")
        await create(client, "t-1", partitions=2)
        for name in ("t-0", "t-1"):
            await client.ask(ApiKey.PRODUCE, 9, produce_body(name, batch(b"a", b"b", b"c")))
        answer = await fetch(client, {"g-QUEUE": {0: 0}}, max_wait=5_000)
        got = offsets(told(answer)[0].records)
        if got != [0, 1, 2, 3, 4, 5]:
            answer = await fetch(client, {"g-QUEUE": {0: len(got)}}, max_wait=5_000)
            got += offsets(told(answer)[0].records)
        assert got == [0, 1, 2, 3, 4, 5]
        assert await commit(client, {0: (6, "ack1;n:60000=2,5")}, topic="g-QUEUE") == {0: 0}
        assert await committed(client, [0], topic="g-QUEUE") == [(6, "ack1;n:60000=2,5", 0)]
        assert await committed(client, [0], topic="t-0") == [(2, "", 0)]
        assert await committed(client, [0, 1], topic="t-1") == [(2, "", 0), (0, "", 0)]
        # begun anew there
        assert await commit(client, {0: (0, "")}, topic="t-0") == {0: 0}
        assert await committed(client, [0], topic="t-0") == [(0, "", 0)]
        assert await committed(client, [0], topic="t-1") == [(2, "", 0)]

    run(test)


def test_no_share_group_takes_a_name_whose_pattern_nothing_matches_yet() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await gateway.broker.queues.make_over("g", Pattern("orders-.*"), 1, {})
        answer = await beat(client, "g", "m", 0, "t")
        assert "lanes of g-QUEUE" in answer.error_message
        assert await committed(client, [0], topic="g-QUEUE") == [(0, "", 0)]

    run(test)


def test_create_topics_refuses_alike_whether_it_only_validates_or_makes() -> None:
    async def ask(client: Client, kind: str, *, validate_only: bool) -> int:
        request = messages.CreateTopicsRequest
        config = request.CreatableTopicConfig(name="pulsar.subscription.type", value=kind)
        asked = request.CreatableTopic(name=NAME, num_partitions=2, replication_factor=1, configs=[config])
        answer = await client.ask(
            ApiKey.CREATE_TOPICS, 7, request(topics=[asked], timeout_ms=1000, validate_only=validate_only)
        )
        code: int = answer.topics[0].error_code
        return code

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        assert await ask(client, "exclusive", validate_only=True) == Error.INVALID_CONFIG
        assert await ask(client, "key_shared", validate_only=True) == Error.NONE
        assert gateway.broker.catalog.get(NAME) is None
        assert await ask(client, "shared", validate_only=False) == Error.NONE
        assert await ask(client, "shared", validate_only=True) == Error.TOPIC_ALREADY_EXISTS
        # the subscription stays, and with it its type: no other is promised
        await gateway.broker.topics.delete(NAME)
        for validate_only in (True, False):
            assert await ask(client, "key_shared", validate_only=validate_only) == Error.INVALID_CONFIG
        assert await ask(client, "shared", validate_only=False) == Error.NONE

    run(test)
