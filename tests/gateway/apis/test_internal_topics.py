"""`__consumer_offsets` and `__transaction_state`: listed, read in Kafka's format, and written by nobody."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, NamedTuple

import pytest

from gateway.broker import internal_topics
from gateway.broker.internal_topics import IDLE_MS, OFFSETS, TRANSACTIONS
from gateway.server import Gateway
from gateway.wire import internal_records as wire
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.batch import batches
from gateway.wire.errors import Error
from gateway.wire.records import records
from store import memory
from tests.gateway.apis import homes_asking
from tests.gateway.apis.test_configs import alter, describe
from tests.gateway.apis.transacting import Tx
from tests.gateway.broker.asking import fetch, list_offsets
from tests.gateway.broker.held import Clock, part, run, until
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
ONE = "offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1"


class Read(NamedTuple):
    """A record."""

    offset: int
    key: bytes
    value: bytes | None


def found_in(data: Any) -> list[Read]:
    raw = bytes(data or b"")
    return [
        Read(head.base_offset + each.offset_delta, each.key or b"", each.value)
        for position, head in batches(raw)
        for each in records(raw[position : position + head.size])
    ]


async def read(client: Client, offset: int, topic: str = OFFSETS, index: int = 0) -> list[Read]:
    told = part(await fetch(client, {topic: {index: offset}}))
    assert told.error_code == 0
    return found_in(told.records)


async def commit(client: Client, group: str, offset: int, topic: str = "t", metadata: str = "") -> int:
    request = messages.OffsetCommitRequest
    place = request.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=metadata
    )
    body = request(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[request.OffsetCommitRequestTopic(name=topic, partitions=[place])],
    )
    answer = await client.ask(ApiKey.OFFSET_COMMIT, 8, body)
    return int(part(answer).error_code)


async def forget(client: Client, group: str, topic: str) -> int:
    """Delete an offset."""
    request = messages.OffsetDeleteRequest
    places = [request.OffsetDeleteRequestPartition(partition_index=0)]
    body = request(group_id=group, topics=[request.OffsetDeleteRequestTopic(name=topic, partitions=places)])
    return int((await client.ask(ApiKey.OFFSET_DELETE, 0, body)).error_code)


async def look_for(client: Client, kind: int) -> None:
    request = messages.FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"])
    await client.ask(ApiKey.FIND_COORDINATOR, 4, request)


async def listed(client: Client) -> dict[str, tuple[bool, int]]:
    """Name to whether it is internal, and its partitions."""
    answer = await client.ask(ApiKey.METADATA, 12, messages.MetadataRequest(topics=None))
    return {each.name: (each.is_internal, len(each.partitions)) for each in answer.topics}


async def bounds(client: Client) -> tuple[int, int]:
    """Where the offsets begin and end."""
    (start,) = await list_offsets(client, OFFSETS, (0, EARLIEST))
    (end,) = await list_offsets(client, OFFSETS, (0, LATEST))
    return int(start.offset), int(end.offset)


def committed_offset(value: bytes | None) -> int:
    """Of a record of version 4."""
    assert value is not None
    version, offset = struct.unpack_from(">hq", value)
    assert version == 4
    return int(offset)


# -- what there is -----------------------------------------------------------------------------------------------------


def test_they_are_listed_as_internal_once_somebody_has_looked_for_a_coordinator() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        assert await listed(client) == {"t": (False, 2)}
        await look_for(client, 0)
        assert await listed(client) == {"t": (False, 2), OFFSETS: (True, 50)}
        await look_for(client, 1)
        assert await listed(client) == {"t": (False, 2), OFFSETS: (True, 50), TRANSACTIONS: (True, 7)}
        described = messages.DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2_000)
        answer = await client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, described)
        told = [(each.name, each.is_internal, len(each.partitions)) for each in answer.topics]
        assert told == [(OFFSETS, True, 50), (TRANSACTIONS, True, 7), ("t", False, 2)]

    run(test, "transaction.state.log.num.partitions=7")


def test_a_group_that_is_there_is_enough_after_a_restart() -> None:
    store = memory.open()

    async def before(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        assert await commit(client, "g", 5) == 0
        await Tx(client).init()

    async def after(gateway: Gateway, client: Client) -> None:
        assert set(await listed(client)) == {"t", OFFSETS, TRANSACTIONS}

    run(before, store=store)
    run(after, store=store)


def test_by_name_and_by_id_they_are_always_there() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        request = messages.MetadataRequest
        for name in (OFFSETS, TRANSACTIONS):
            by_name = request(topics=[request.MetadataRequestTopic(name=name)])
            (topic,) = (await client.ask(ApiKey.METADATA, 12, by_name)).topics
            assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 50)
            by_id = request(topics=[request.MetadataRequestTopic(name=None, topic_id=topic.topic_id)])
            (again,) = (await client.ask(ApiKey.METADATA, 12, by_id)).topics
            assert (again.error_code, again.name) == (0, name)
            told = part(await fetch(client, {topic.topic_id: {0: 0}}, version=13))
            assert told.error_code == 0
        configs = await describe(client, 2, OFFSETS, ["cleanup.policy"])
        assert [each.value for each in configs.configs] == ["compact"]

    run(test)


def test_nobody_writes_to_them_or_changes_them() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        wrong = Error.INVALID_TOPIC_EXCEPTION
        for name in (OFFSETS, TRANSACTIONS):
            produced = await client.ask(ApiKey.PRODUCE, 9, produce_body(name, batch(b"v")))
            assert part(produced).error_code == wrong
            trim = messages.DeleteRecordsRequest
            places = [trim.DeleteRecordsPartition(partition_index=0, offset=0)]
            body: Any = trim(topics=[trim.DeleteRecordsTopic(name=name, partitions=places)], timeout_ms=1000)
            assert part(await client.ask(ApiKey.DELETE_RECORDS, 2, body)).error_code == wrong
            grow = messages.CreatePartitionsRequest
            asked = grow.CreatePartitionsTopic(name=name, count=60, assignments=None)
            body = grow(topics=[asked], timeout_ms=1000, validate_only=False)
            (grown,) = (await client.ask(ApiKey.CREATE_PARTITIONS, 3, body)).results
            assert (grown.error_code, bool(grown.error_message)) == (wrong, True)
            gone = messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)
            (deleted,) = (await client.ask(ApiKey.DELETE_TOPICS, 5, gone)).responses
            assert (deleted.error_code, bool(deleted.error_message)) == (wrong, True)
            assert (await alter(client, 2, name, ("retention.ms", 0, "1000"))).error_code == wrong
            tx = Tx(client, f"of {name}")
            assert await tx.init() == 0
            assert await tx.add(name) == Error.TOPIC_AUTHORIZATION_FAILED
            with pytest.raises(AssertionError, match="already exists"):
                await create(client, name)
        with pytest.raises(AssertionError, match="collides"):
            await create(client, "__consumer.offsets")

    run(test)


# -- what is read ------------------------------------------------------------------------------------------------------


def test_offsets_of_before_are_there_and_new_ones_come_at_the_end() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await create(client, "t")
        for group, offset in (("a", 1), ("b", 2)):
            assert await commit(client, group, offset, metadata="m") == 0
        first = await read(client, 0)
        assert [each.key for each in first] == [wire.offset_key(group, "t", 0) for group in "ab"]
        assert [committed_offset(each.value) for each in first] == [1, 2]
        value = first[0].value
        assert value is not None
        assert value.endswith(b"\x01\x00\x10" + topic_id)
        assert await commit(client, "a", 7) == 0
        (again,) = await read(client, first[-1].offset + 1)
        assert again.key == wire.offset_key("a", "t", 0)
        assert (again.offset, committed_offset(again.value)) == (first[-1].offset + 1, 7)
        # who begins now has each once
        assert [committed_offset(each.value) for each in await read(client, 0)] == [2, 7]
        assert await bounds(client) == (0, 3)

    run(test, *ONE)


def test_a_fetch_that_waits_is_answered_by_the_next_commit() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        other = await Client.connect(gateway)
        await create(client, "t")
        (end,) = await list_offsets(client, OFFSETS, (0, LATEST))
        other.send(ApiKey.FETCH, 11, fetch_body(OFFSETS, end.offset, max_wait=60_000))
        await until(lambda: gateway.broker.metrics.fetches_parked.value)
        assert await commit(client, "g", 5) == 0
        _, answer = await other.receive()
        assert [committed_offset(each.value) for each in found_in(part(answer).records)] == [5]
        other.close()

    run(test, *ONE)


def test_what_is_deleted_comes_as_a_record_without_a_value() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await create(client, "u")
        for topic in "tu":
            assert await commit(client, "g", 5, topic) == 0
        assert await commit(client, "other", 5) == 0
        assert len(await read(client, 0)) == 3
        assert await forget(client, "g", "t") == 0
        assert await read(client, 3) == [Read(3, wire.offset_key("g", "t", 0), None)]
        gone = messages.DeleteGroupsRequest(groups_names=["g"])
        (deleted,) = (await client.ask(ApiKey.DELETE_GROUPS, 2, gone)).results
        assert deleted.error_code == 0
        assert await read(client, 4) == [Read(4, wire.offset_key("g", "u", 0), None)]

    run(test, *ONE)


async def join(client: Client, group: str) -> str:
    """A member that is alone, with an assignment; its id."""
    request = messages.JoinGroupRequest
    protocol = request.JoinGroupRequestProtocol(name="range", metadata=b"\0\1MD")
    member = ""
    for _ in range(2):
        body = request(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[protocol],
        )
        joined = await client.ask(ApiKey.JOIN_GROUP, 4, body)
        member = joined.member_id
    sync = messages.SyncGroupRequest
    told = sync.SyncGroupRequestAssignment(member_id=member, assignment=b"ASSIGN")
    synced = await client.ask(
        ApiKey.SYNC_GROUP,
        3,
        sync(group_id=group, generation_id=joined.generation_id, member_id=member, assignments=[told]),
    )
    assert synced.error_code == 0
    return str(member)


def test_members_of_groups_are_there() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        assert await read(client, 0) == []
        member = await join(client, "g")
        told = (await read(client, 0))[-1]
        row = wire.Member(member, None, "test", "/127.0.0.1", 20_000, 10_000, b"\0\1MD", b"ASSIGN")
        assert told.key == wire.group_key("g")
        assert told.value == wire.group_value("consumer", 1, "range", member, clock.now, [row])
        leave = messages.LeaveGroupRequest(group_id="g", member_id=member)
        assert (await client.ask(ApiKey.LEAVE_GROUP, 1, leave)).error_code == 0
        (left,) = await read(client, told.offset + 1)
        assert left.value == wire.group_value("consumer", 2, None, None, clock.now, [])

    run(test, *ONE, "group.initial.rebalance.delay.ms=0", clock=clock)


def test_a_group_is_in_the_partition_that_its_name_says() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        groups = [f"group-{number}" for number in range(20)]
        for group in groups:
            assert await commit(client, group, 1) == 0
        seen = {}
        for index in range(50):
            for each in await read(client, 0, index=index):
                seen[each.key] = index
        assert seen == {wire.offset_key(group, "t", 0): wire.partition_of(group, 50) for group in groups}
        assert len(set(seen.values())) > 5

    run(test)


def test_offsets_of_a_transaction_come_when_it_commits() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        (end,) = await list_offsets(client, OFFSETS, (0, LATEST))
        tx = Tx(client)
        await tx.init()
        for verdict, found in ((False, []), (True, [9])):
            assert await tx.offsets("g", {("t", 0): 9}) == 0
            assert await read(client, end.offset) == []
            assert await tx.end(verdict) == 0
            assert [committed_offset(each.value) for each in await read(client, end.offset)] == found

    run(test, *ONE)


def test_a_transaction_that_grows_is_told_whole_now_and_then() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 300)
        tx = Tx(client)
        assert await tx.init() == 0
        assert len(await read(client, 0, TRANSACTIONS)) == 1
        for index in range(300):
            assert await tx.add("t", index) == 0
        (last,) = await read(client, 0, TRANSACTIONS)
        assert 100 < last.offset < 115, "so many records there were"
        assert last.value is not None
        assert len(last.value) > 4 * 250
        assert await tx.end() == 0
        (over,) = await read(client, last.offset + 1, TRANSACTIONS)
        assert over.value is not None
        # the next is told from its first partition on
        for index in (7, 8, 9):
            assert await tx.add("t", index) == 0
        (one,) = await read(client, over.offset + 1, TRANSACTIONS)
        assert one.offset == over.offset + 3
        assert one.value is not None
        assert len(one.value) > len(over.value)

    run(test, *ONE)


def test_what_becomes_of_transactions() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 3)
        tx = Tx(client, "tx", timeout=7_000)
        assert await tx.init() == 0
        expected = wire.transaction_value(tx.id, tx.epoch, 7_000, 0, None, clock.now, -1)
        assert await read(client, 0, TRANSACTIONS) == [Read(0, wire.transaction_key("tx"), expected)]
        began = clock.now
        assert await tx.put(b"v", index=2) == 0
        assert await tx.put(b"v", index=1) == 0
        (last,) = await read(client, 0, TRANSACTIONS)
        assert last.offset >= 2
        assert last.value == wire.transaction_value(
            tx.id, tx.epoch, 7_000, 1, {"t": [1, 2]}, clock.now, began
        )
        clock.now += 10
        assert await tx.end() == 0
        (over,) = await read(client, last.offset + 1, TRANSACTIONS)
        assert over.value == wire.transaction_value(tx.id, tx.epoch, 7_000, 4, {}, clock.now, began)

    run(test, *ONE, clock=clock)


def test_names_of_any_length_and_any_partition_are_told() -> None:
    """31 is the number of the character that marks what other namespaces have."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic = "t" * 31
        await create(client, topic, 32)
        seen = await read(client, 0)
        assert seen == []
        request = messages.OffsetCommitRequest
        places = [
            request.OffsetCommitRequestPartition(
                partition_index=index, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
            )
            for index in range(32)
        ]
        for group in ("g" * 31, "h"):
            body = request(
                group_id=group,
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=[request.OffsetCommitRequestTopic(name=topic, partitions=places)],
            )
            await client.ask(ApiKey.OFFSET_COMMIT, 8, body)
            keys = {each.key for each in await read(client, 0)}
            assert keys >= {wire.offset_key(group, topic, index) for index in range(32)}
        tx = Tx(client, "x" * 31)
        assert await tx.init() == 0
        for index in (30, 31):
            assert await tx.put(b"v", topic=topic, index=index) == 0
        (told,) = await read(client, 0, TRANSACTIONS)
        assert told.value is not None
        assert struct.pack(">ii", 30, 31) in told.value

    run(test, *ONE)


def test_a_group_may_read_them_and_commit() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        assert await commit(client, "lag-tool", 3, OFFSETS) == 0
        request = messages.OffsetFetchRequest
        asked = request.OffsetFetchRequestTopic(name=OFFSETS, partition_indexes=[0])
        answer = await client.ask(ApiKey.OFFSET_FETCH, 5, request(group_id="lag-tool", topics=[asked]))
        assert part(answer).committed_offset == 3
        assert [each.key for each in await read(client, 0)] == [wire.offset_key("lag-tool", OFFSETS, 0)]

    run(test, *ONE)


def test_by_time_and_by_epoch() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        began = clock.now
        for group in "ab":
            assert await commit(client, group, 1) == 0
            clock.now += 1_000
        asked = [(0, began), (0, began + 1), (0, clock.now), (0, MAX_TIMESTAMP), (60, LATEST)]
        told = [each for one in asked for each in await list_offsets(client, OFFSETS, one)]
        assert [(each.error_code, each.offset) for each in told] == [
            (0, 0),
            (0, 1),
            (0, -1),
            (0, 1),
            (Error.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ]
        epoch = messages.OffsetForLeaderEpochRequest
        place = epoch.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=told[0].leader_epoch, leader_epoch=told[0].leader_epoch
        )
        body = epoch(replica_id=-1, topics=[epoch.OffsetForLeaderTopic(topic=OFFSETS, partitions=[place])])
        ended = part(await client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, body))
        assert (ended.error_code, ended.end_offset) == (0, 2)

    run(test, *ONE, clock=clock)


def test_they_have_no_subscriptions() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        body = messages.ShareGroupHeartbeatRequest(
            group_id="shared",
            member_id="m" * 22,
            member_epoch=0,
            rack_id=None,
            subscribed_topic_names=[OFFSETS],
        )
        answer = await client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, body)
        assert (answer.error_code, bool(answer.error_message)) == (Error.POLICY_VIOLATION, True)

    run(test)


# -- in memory and out -------------------------------------------------------------------------------------------------


def test_nothing_is_done_while_nobody_reads() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        watch = gateway.broker.commit_watch
        await create(client, "t")
        assert await commit(client, "g", 1) == 0
        assert watch.tap is None
        assert len(await read(client, 0)) == 1
        assert watch.tap is not None
        clock.now += IDLE_MS - 1
        gateway.broker.internal_topics.close_idle()
        assert watch.tap is not None
        clock.now += 1
        gateway.broker.internal_topics.close_idle()
        assert watch.tap is None
        assert await commit(client, "g", 2) == 0
        # whoever comes back begins anew
        assert part(await fetch(client, {OFFSETS: {0: 1}})).error_code in (0, Error.OFFSET_OUT_OF_RANGE)
        start, end = await bounds(client)
        assert start > 1
        assert [committed_offset(each.value) for each in await read(client, start)] == [2]
        assert end == start + 1

    run(test, *ONE, clock=clock)


def test_who_waits_for_more_keeps_it_open() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        other = await Client.connect(gateway)
        await create(client, "t")
        (end,) = await list_offsets(client, OFFSETS, (0, LATEST))
        other.send(ApiKey.FETCH, 11, fetch_body(OFFSETS, end.offset, max_wait=60_000))
        await until(lambda: gateway.broker.metrics.fetches_parked.value)
        clock.now += 2 * IDLE_MS
        gateway.broker.internal_topics.close_idle()
        assert await commit(client, "g", 5) == 0
        _, answer = await other.receive()
        assert part(answer).error_code == 0
        assert len(found_in(part(answer).records)) == 1
        other.close()

    run(test, *ONE, clock=clock)


def test_offsets_go_on_over_a_restart() -> None:
    store = memory.open()
    ends: list[int] = []

    async def test(gateway: Gateway, client: Client) -> None:
        if not ends:
            await create(client, "t")
            assert await commit(client, "g", 5) == 0
        start, end = await bounds(client)
        assert end == start + 1
        assert [each.offset for each in await read(client, start)] == [start]
        if ends:
            told = part(await fetch(client, {OFFSETS: {0: ends[-1]}}))
            assert told.error_code == Error.OFFSET_OUT_OF_RANGE
            assert start > ends[-1]
        ends.append(end)

    for _ in range(3):
        run(test, *ONE, store=store)


def test_beyond_a_bound_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal_topics, "MOST_BYTES", 50_000)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        (start,) = await list_offsets(client, OFFSETS, (0, EARLIEST))
        for number in range(200):
            assert await commit(client, f"group-{number}", number) == 0
        (moved,) = await list_offsets(client, OFFSETS, (0, EARLIEST))
        assert moved.offset > start.offset
        left = [committed_offset(each.value) for each in await read(client, moved.offset)]
        assert left == list(range(200 - len(left), 200))
        assert 50 < len(left) < 150
        told = part(await fetch(client, {OFFSETS: {0: start.offset}}))
        assert told.error_code == Error.OFFSET_OUT_OF_RANGE

    run(test, *ONE)


def test_what_is_committed_while_it_is_opened_is_in_it_once() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        groups = [f"group-{number}" for number in range(1_200)]
        for group in groups:
            assert await commit(client, group, 1) == 0
        other = await Client.connect(gateway)
        other.send(ApiKey.FETCH, 11, fetch_body(OFFSETS, 0))
        for group in (groups[0], groups[-1]):
            assert await commit(client, group, 2) == 0
        _, answer = await other.receive()
        assert part(answer).error_code == 0
        found: dict[bytes, int] = {}
        position = 0
        while more := await read(client, position):
            found.update({each.key: committed_offset(each.value) for each in more})
            position = more[-1].offset + 1
        assert len(found) == 1_200
        twice = {wire.offset_key(group, "t", 0) for group in (groups[0], groups[-1])}
        assert {key for key, offset in found.items() if offset == 2} == twice
        other.close()

    run(test, *ONE)


class SlowPages:
    """A store that answers with rows of before, once it is let."""

    def __init__(self) -> None:
        self.inner = memory.open()
        self.slow = False
        self.asked = 0
        self.let = asyncio.Event()

    def page(self, *asked: Any, **options: Any) -> Any:
        rows = self.inner.page(*asked, **options)
        if not self.slow:
            return rows
        self.asked += 1

        async def later() -> Any:
            await self.let.wait()
            return rows

        return later()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_rows_of_before_do_not_come_over_those_that_were_committed_meanwhile() -> None:
    store = SlowPages()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        for group in ("changed", "deleted", "forgets", "same"):
            assert await commit(client, group, 1) == 0
        store.slow = True
        other = await Client.connect(gateway)
        other.send(ApiKey.FETCH, 11, fetch_body(OFFSETS, 0))
        await until(lambda: store.asked)
        store.let.set()
        # the groups are read; their offsets are asked for
        store.let = asyncio.Event()
        await until(lambda: store.asked == 2)
        assert await commit(client, "changed", 2) == 0
        gone = messages.DeleteGroupsRequest(groups_names=["deleted"])
        (deleted,) = (await client.ask(ApiKey.DELETE_GROUPS, 2, gone)).results
        assert deleted.error_code == 0
        assert await forget(client, "forgets", "t") == 0
        store.let.set()
        _, answer = await other.receive()
        found = {each.key: each.value for each in found_in(part(answer).records)}
        assert {key: committed_offset(value) for key, value in found.items() if value is not None} == {
            wire.offset_key("changed", "t", 0): 2,
            wire.offset_key("same", "t", 0): 1,
        }
        other.close()

    run(test, *ONE, store=store)


def test_other_namespaces_have_none_of_it() -> None:
    async def test(gateway: Gateway, public: Client, eu: Client, us: Client) -> None:
        for client in (public, eu):
            await create(client, "t")
            assert await commit(client, "g", 5) == 0
        await look_for(eu, 0)
        assert set(await listed(eu)) == {"t"}
        request = messages.MetadataRequest
        by_name = request(
            topics=[request.MetadataRequestTopic(name=OFFSETS)], allow_auto_topic_creation=False
        )
        (topic,) = (await eu.ask(ApiKey.METADATA, 12, by_name)).topics
        assert topic.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        (topic,) = (await public.ask(ApiKey.METADATA, 12, by_name)).topics
        assert (
            part(await fetch(eu, {topic.topic_id: {0: 0}}, version=13)).error_code == Error.UNKNOWN_TOPIC_ID
        )
        seen = [each.key for index in range(50) for each in await read(public, 0, index=index)]
        assert seen == [wire.offset_key("g", "t", 0)]
        # nor what changes while somebody reads
        assert await commit(eu, "g", 6) == 0
        assert await commit(public, "other", 1) == 0
        assert len([each for index in range(50) for each in await read(public, 0, index=index)]) == 2
        # a topic of another namespace has the name that its readers call it by
        assert await commit(public, "g", 7, "shop.eu.t") == 0
        seen = [each.key for index in range(50) for each in await read(public, 0, index=index)]
        assert wire.offset_key("g", "shop.eu.t", 0) in seen

    homes_asking.run(test)
