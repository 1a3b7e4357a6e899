"""What rights do to answers beyond yes and no: nothing tells what is there, parts of requests, what is remembered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from gateway import rights
from gateway.apis.rights_table import How, Kind
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from tests.gateway.apis import holding
from tests.gateway.apis.rights_cases import CASES, Case
from tests.gateway.apis.rights_double import RightsDouble, everything, two_clients
from tests.gateway.apis.rights_world import GROUP, NAMES, NEW, TOPIC, TX, World, build, join, names
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body

ABSENT = "nobodys"
NO_ID = bytes(16)
NOT_ASKED = -(2**31)
FORBIDDEN = Error.TOPIC_AUTHORIZATION_FAILED

Body = Callable[[Gateway, Client, Client, RightsDouble], Awaitable[None]]


def run(body: Body, *flags: str) -> None:
    """With a client that may do everything, and one that may do nothing at first."""

    async def main() -> None:
        double = RightsDouble()
        async with two_clients(double, *flags) as (gateway, admin, client):
            await body(gateway, admin, client, double)

    uvloop.run(main())


# -- what is there -----------------------------------------------------------------------------------------------------


def _by_name(case: Case) -> bool:
    """Whether it names a topic that it needs a right to by its name, and by no other in which this stands."""
    topics = [need for need in case.needs if need.any_of[-1].kind is Kind.TOPIC]
    by_id = case.label == "by_id" or case.key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
    made = case.label in ("queue", "pattern", "letters")
    return any(need.how in (How.EACH, How.WHOLE) for need in topics) and not (by_id or made)


def _instead(value: Any, old: str, new: str) -> Any:
    """The same message with another name in it."""
    if isinstance(value, str):
        # in a sentence as well
        return new if value == old else value.replace(f" {old}", f" {new}") if " " in value else value
    if isinstance(value, list):
        return [_instead(each, old, new) for each in value]
    for name in getattr(type(value), "__struct_fields__", ()):
        setattr(value, name, _instead(getattr(value, name), old, new))
    return value


@pytest.mark.parametrize("case", [case for case in CASES if _by_name(case)], ids=str)
def test_a_topic_that_may_not_be_used_answers_as_one_that_is_not_there(case: Case) -> None:
    async def main() -> None:
        double = RightsDouble(everything(*NAMES))
        async with two_clients(double) as (gateway, admin, client):
            world = World(gateway, admin, client, double)
            await world.begin()
            if case.begin is not None:
                await case.begin(world)
            double.granted = {each for each in everything(*NAMES) if each[0] is not Kind.TOPIC}
            # these are enough by themselves
            enough = (Operation.CREATE, Operation.DELETE, Operation.CLUSTER_ACTION)
            double.granted -= {(Kind.CLUSTER, operation, "") for operation in enough}
            answers = []
            for name in (TOPIC, ABSENT):
                said = case.said(world)
                asked = build(case.key, said) if isinstance(said, dict) else said
                asked = _instead(_instead(asked, NEW, TOPIC), TOPIC, name)
                answers.append(_instead(await client.ask(case.key, case.version, asked), ABSENT, TOPIC))
            assert answers[0] == answers[1]

    uvloop.run(main())


def test_an_id_of_a_topic_that_may_not_be_described_names_nothing() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic_id = await create(admin, TOPIC)
        asked = messages.MetadataRequest.MetadataRequestTopic(name=None, topic_id=topic_id)
        answer = await client.ask(ApiKey.METADATA, 12, messages.MetadataRequest(topics=[asked]))
        assert [(each.error_code, each.name) for each in answer.topics] == [(Error.UNKNOWN_TOPIC_ID, None)]

    run(test)


def test_a_topic_that_may_not_be_deleted_is_named_to_who_may_describe_it() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic_id = await create(admin, TOPIC)
        state = messages.DeleteTopicsRequest.DeleteTopicState
        request = messages.DeleteTopicsRequest(topics=[state(name=None, topic_id=topic_id)], timeout_ms=1000)
        told = []
        for granted in (set(), {(Kind.TOPIC, Operation.DESCRIBE, TOPIC)}):
            double.granted = granted
            (answer,) = (await client.ask(ApiKey.DELETE_TOPICS, 6, request)).responses
            assert answer.topic_id == topic_id
            told.append((answer.error_code, answer.name))
        assert told == [(FORBIDDEN, None), (FORBIDDEN, TOPIC)]

    run(test)


def test_who_may_not_join_a_group_is_named_no_member() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, rights: RightsDouble) -> None:
        said = build(ApiKey.JOIN_GROUP, {**join(), "member_id": "mine", "session_timeout_ms": 1})
        for version in (0, 9):
            forbidden = await client.ask(ApiKey.JOIN_GROUP, version, said)
            assert (forbidden.error_code, forbidden.member_id) == (Error.GROUP_AUTHORIZATION_FAILED, "")
            refused = await admin.ask(ApiKey.JOIN_GROUP, version, said)
            assert (refused.error_code, refused.member_id) == (Error.INVALID_SESSION_TIMEOUT, "mine")

    run(test)


def test_that_no_topic_can_be_called_so_is_told_to_whoever_asks_for_producers() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, rights: RightsDouble) -> None:
        await create(admin, TOPIC)
        topics = [{"name": name, "partition_indexes": [0]} for name in ("not/legal", TOPIC, ABSENT)]
        said = build(ApiKey.DESCRIBE_PRODUCERS, {"topics": topics})
        answer = await client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, said)
        found = [each.partitions[0].error_code for each in answer.topics]
        assert found == [Error.INVALID_TOPIC_EXCEPTION, FORBIDDEN, FORBIDDEN]

    run(test)


def test_two_who_ask_the_same_of_metadata_hear_what_each_may_hear() -> None:
    """What is kept by the bytes of a question is nobody's who is checked."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        await create(admin, TOPIC)
        await create(admin, "other")
        request = messages.MetadataRequest(topics=None)
        assert {TOPIC, "other"} <= names(await admin.ask(ApiKey.METADATA, 9, request))
        told = []
        for name in (TOPIC, "other"):
            double.granted = {(Kind.TOPIC, Operation.DESCRIBE, name)}
            told.append([each.name for each in (await client.ask(ApiKey.METADATA, 9, request)).topics])
        assert told == [[TOPIC], ["other"]]
        assert {TOPIC, "other"} <= names(await admin.ask(ApiKey.METADATA, 9, request))

    run(test)


def test_pages_of_described_topics_have_only_those_that_may_be_described() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        for name in "abcdef":
            await create(admin, name)
        double.granted = {(Kind.TOPIC, Operation.DESCRIBE, name) for name in "bdf"}
        request = messages.DescribeTopicPartitionsRequest
        cursor, told = None, []
        for _ in range(3):
            answer = await client.ask(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                0,
                request(topics=[], response_partition_limit=1, cursor=cursor),
            )
            told.append([each.name for each in answer.topics])
            assert all(each.topic_authorized_operations == 1 << Operation.DESCRIBE for each in answer.topics)
            its = answer.next_cursor
            cursor = its and request.Cursor(topic_name=its.topic_name, partition_index=its.partition_index)
        assert told == [["b"], ["d"], ["f"]]
        assert cursor is None

    run(test)


# -- parts of a request ------------------------------------------------------------------------------------------------


def test_of_a_request_for_two_topics_the_one_that_is_allowed_is_done() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        double.granted = {
            (Kind.TOPIC, Operation.CREATE, "mine"),
            (Kind.TOPIC, Operation.DESCRIBE_CONFIGS, "mine"),
        }
        topic = messages.CreateTopicsRequest.CreatableTopic
        request = messages.CreateTopicsRequest(
            topics=[topic(name=name, num_partitions=1, replication_factor=1) for name in ("theirs", "mine")],
            timeout_ms=1000,
        )
        made = (await client.ask(ApiKey.CREATE_TOPICS, 7, request)).topics
        assert {each.name: each.error_code for each in made} == {"theirs": FORBIDDEN, "mine": 0}
        assert list(gateway.broker.catalog.names()) == ["mine"]
        double.granted = {(Kind.TOPIC, Operation.DELETE, "mine")}
        await create(admin, "theirs")
        gone = messages.DeleteTopicsRequest(topic_names=["theirs", "mine"], timeout_ms=1000)
        answer = await client.ask(ApiKey.DELETE_TOPICS, 5, gone)
        assert {each.name: each.error_code for each in answer.responses} == {"theirs": FORBIDDEN, "mine": 0}
        assert list(gateway.broker.catalog.names()) == ["theirs"]

    run(test)


def test_records_for_two_topics_are_stored_in_the_one_that_may_be_written() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        for name in ("mine", "theirs"):
            await create(admin, name)
        double.granted = {(Kind.TOPIC, Operation.WRITE, "mine")}
        request = produce_body("theirs", batch(b"x"))
        request.topic_data += produce_body("mine", batch(b"y")).topic_data
        answer = await client.ask(ApiKey.PRODUCE, 9, request)
        codes = {each.name: each.partition_responses[0].error_code for each in answer.responses}
        assert codes == {"theirs": FORBIDDEN, "mine": 0}
        assert await _stored(admin, "theirs") == 0
        assert await _stored(admin, "mine") == 1

    run(test)


def test_records_that_nobody_waits_for_and_may_not_be_written_close_the_connection() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        await create(admin, TOPIC)
        client.send(ApiKey.PRODUCE, 9, produce_body(TOPIC, batch(b"x"), acks=0))
        assert await client.at_end()
        assert await _stored(admin, TOPIC) == 0

    run(test)


@pytest.mark.parametrize("version", [9, 13])
def test_the_short_way_of_produce_asks_as_the_long_one_does(version: int) -> None:
    """By name, and by id: one batch of one partition, as nearly all requests are."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic_id = await create(admin, TOPIC)
        body = produce_body(TOPIC, batch(b"x"))
        body.topic_data[0].topic_id = topic_id
        codes = []
        for granted in (set(), {(Kind.TOPIC, Operation.WRITE, TOPIC)}, set()):
            double.granted = granted
            (told,) = (await client.ask(ApiKey.PRODUCE, version, body)).responses
            codes.append(told.partition_responses[0].error_code)
        assert codes == [FORBIDDEN, 0, FORBIDDEN]
        assert await _stored(admin, TOPIC) == 1

    run(test)


@pytest.mark.parametrize("version", [9, 13])
def test_a_producer_that_has_written_before_writes_no_more_once_the_right_is_gone(version: int) -> None:
    """The short way remembers that it was allowed: not beyond a change of anything."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        topic_id = await create(admin, TOPIC)
        body = produce_body(TOPIC, batch(b"x"))
        body.topic_data[0].topic_id = topic_id
        codes = []
        right = (Kind.TOPIC, Operation.WRITE, TOPIC)
        for granted in ({right}, {right}, {right}, set(), set(), {right}):
            double.granted = granted
            (told,) = (await client.ask(ApiKey.PRODUCE, version, body)).responses
            codes.append(told.partition_responses[0].error_code)
        assert codes == [0, 0, 0, FORBIDDEN, FORBIDDEN, 0]
        assert await _stored(admin, TOPIC) == 4

    run(test)


def test_a_transactional_id_that_may_not_be_used_refuses_every_batch_of_a_request() -> None:
    """Also one that is of no transaction, as in Kafka; and nothing is stored."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        world = World(gateway, admin, client, double)
        await world.begin()
        await world.transaction()
        await create(admin, "plain")
        double.granted = {(Kind.TOPIC, Operation.WRITE, name) for name in (TOPIC, "plain")}
        its = batch(
            b"x", producer_id=world.tx.id, producer_epoch=world.tx.epoch, base_sequence=1, transactional=True
        )
        request = produce_body(TOPIC, its)
        request.topic_data += produce_body("plain", batch(b"y")).topic_data
        request.transactional_id = TX
        answer = await client.ask(ApiKey.PRODUCE, 9, request)
        codes = {each.partition_responses[0].error_code for each in answer.responses}
        assert codes == {Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
        assert await _stored(admin, "plain") == 0

    run(test)


def test_of_offsets_of_two_topics_those_are_committed_and_told_that_may_be() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        for name in ("mine", "theirs"):
            await create(admin, name)
        asked = messages.OffsetCommitRequest
        partition = asked.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=7, committed_metadata=""
        )
        request = asked(
            group_id=GROUP,
            topics=[
                asked.OffsetCommitRequestTopic(name=name, partitions=[partition])
                for name in ("mine", "theirs")
            ],
        )
        double.granted = {(Kind.GROUP, Operation.READ, GROUP), (Kind.TOPIC, Operation.READ, "mine")}
        answer = await client.ask(ApiKey.OFFSET_COMMIT, 8, request)
        codes = {each.name: each.partitions[0].error_code for each in answer.topics}
        assert codes == {"mine": 0, "theirs": FORBIDDEN}
        double.granted = everything(GROUP, "mine", "theirs")
        fetch = messages.OffsetFetchRequest(group_id=GROUP, topics=None)
        told = (await client.ask(ApiKey.OFFSET_FETCH, 7, fetch)).topics
        assert {each.name: each.partitions[0].committed_offset for each in told} == {"mine": 7}

    run(test)


async def _stored(client: Client, topic: str) -> int:
    """Batches that there are."""
    answer = await client.ask(ApiKey.FETCH, 11, fetch_body(topic, 0))
    (partition,) = answer.responses[0].partitions
    high: int = partition.high_watermark
    return high


# -- what may be done --------------------------------------------------------------------------------------------------


def test_authorized_operations_are_what_may_be_done() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        await create(admin, TOPIC)
        double.granted = {
            (Kind.TOPIC, Operation.DESCRIBE, TOPIC),
            (Kind.TOPIC, Operation.READ, TOPIC),
            (Kind.CLUSTER, Operation.DESCRIBE, ""),
            (Kind.CLUSTER, Operation.CREATE, ""),
            (Kind.GROUP, Operation.DESCRIBE, GROUP),
        }
        few = (1 << 8 | 1 << 3, 1 << 8 | 1 << 5, 1 << 8)
        for who, wanted in ((client, few), (admin, (rights.ALL_TOPIC, rights.ALL_CLUSTER, rights.ALL_GROUP))):
            assert await _operations(who, asked=True) == wanted
            assert await _operations(who, asked=False) == (NOT_ASKED,) * 3

    run(test)


async def _operations(client: Client, *, asked: bool) -> tuple[int, int, int]:
    """On the topic, the cluster and the group."""
    metadata = messages.MetadataRequest(
        topics=[messages.MetadataRequest.MetadataRequestTopic(name=TOPIC)],
        include_topic_authorized_operations=asked,
        include_cluster_authorized_operations=asked,
    )
    cluster = await client.ask(ApiKey.METADATA, 9, metadata)
    groups = await client.ask(
        ApiKey.DESCRIBE_GROUPS,
        5,
        messages.DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=asked),
    )
    return (
        cluster.topics[0].topic_authorized_operations,
        cluster.cluster_authorized_operations,
        groups.groups[0].authorized_operations,
    )


def test_an_id_for_gapless_records_is_had_by_who_may_write_to_some_topic() -> None:
    """Not by who may do anything else to topics."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        request = messages.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        codes = []
        for operation in (Operation.READ, Operation.WRITE):
            double.granted = {(Kind.TOPIC, operation, "any")}
            codes.append((await client.ask(ApiKey.INIT_PRODUCER_ID, 4, request)).error_code)
        assert codes == [Error.CLUSTER_AUTHORIZATION_FAILED, 0]

    run(test)


def test_a_group_is_not_described_to_who_may_not_describe_all_that_it_reads() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        world = World(gateway, admin, client, double)
        await world.begin()
        await world.consumer()
        double.granted = {(Kind.GROUP, Operation.DESCRIBE, GROUP), (Kind.TOPIC, Operation.DESCRIBE, "other")}
        (group,) = (
            await client.ask(
                ApiKey.CONSUMER_GROUP_DESCRIBE, 1, messages.ConsumerGroupDescribeRequest(group_ids=[GROUP])
            )
        ).groups
        assert (group.error_code, group.members) == (FORBIDDEN, [])

    run(test)


def test_a_batch_that_waits_for_a_backlog_is_refused_if_the_right_went_meanwhile() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        await holding.full(gateway, admin)
        double.granted = {(Kind.TOPIC, Operation.WRITE, "t")}
        client.send(ApiKey.PRODUCE, 9, holding.body())
        await holding.held(gateway)
        double.granted = set()
        await holding.acknowledge(gateway)
        _, answer = await client.receive()
        assert holding.only(answer).error_code == FORBIDDEN
        assert holding.stored(gateway) == 1
        await holding.nothing_is_left(gateway)

    run(test)
