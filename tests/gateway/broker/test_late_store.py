"""A gateway on a store that lets it wait for everything: what clients see is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from gateway.broker.internal_topics import OFFSETS, TRANSACTIONS
from gateway.server import Gateway
from gateway.wire import internal_records as wire
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import memory
from store.api import Family
from tests.gateway.apis.test_internal_topics import committed_offset
from tests.gateway.apis.test_internal_topics import read as read_view
from tests.gateway.apis.transacting import Tx
from tests.gateway.broker.asking import errors, fetch, list_offsets
from tests.gateway.broker.held import run, until
from tests.gateway.broker.produced import numbered, put, read
from tests.gateway.broker.share_asking import (
    ACCEPT,
    FOR_LONG,
    REJECT,
    ack_errors,
    acquired,
    parked,
    share_acknowledge,
    share_fetch,
    share_fetch_body,
    topic,
)
from tests.gateway.broker.share_asking import errors as shared_errors
from tests.gateway.broker.share_members import delete
from tests.gateway.serving import Client, batch, create, fetch_body

CONSUMER = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff"
"""The metadata of a consumer that subscribes to t."""

Test = Callable[[Gateway, Client, memory.LateStore], Coroutine[Any, Any, None]]


@pytest.fixture(params=[1, 2, 3])
def late(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    """Runs a test on a gateway whose store answers late; nothing may have been read that was not loaded."""

    def run_late(test: Test) -> None:
        store = memory.open_late(seed=request.param)

        async def body(gateway: Gateway, client: Client) -> None:
            await test(gateway, client, store)
            assert store.faults == []

        run(body, "group.initial.rebalance.delay.ms=0", store=store)

    return run_late


async def values(client: Client, name: str) -> list[bytes | None]:
    return [record.value for record in await read(client, name)]


def test_what_was_produced_is_fetched_in_order(late: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        await create(client, "t")
        for count in range(5):
            assert await put(client, numbered(count)) == (0, count)
        assert await put(client, numbered(4)) == (0, 4), "it came before"
        assert await values(client, "t") == [b"%d" % count for count in range(5)]

    late(test)


def test_who_asks_first_waits_until_a_partition_is_loaded(late: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        for name in ("fetched", "listed"):
            await create(client, name)
        assert errors(await fetch(client, {"fetched": {0: 0}})) == {0: 0}
        (listed,) = await list_offsets(client, "listed", (0, -1))
        assert (listed.error_code, listed.offset) == (0, 0)
        assert await put(client, batch(b"v"), "fetched") == (0, 0)

    late(test)


def test_a_partition_that_comes_back_is_loaded_again(late: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        await create(client, "t")
        assert await put(client, numbered(0)) == (0, 0)
        log = gateway.broker.topics.get("t").partitions[0]
        store.fence(log)
        assert await put(client, numbered(1)) == (Error.NOT_LEADER_OR_FOLLOWER, -1)
        store.take(log)
        assert await put(client, numbered(1)) == (0, 1)
        assert await values(client, "t") == [b"0", b"1"]

    late(test)


def test_many_partitions_take_records_at_the_same_time(late: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        names = [f"t{number}" for number in range(8)]
        for name in names:
            await create(client, name)

        async def fill(name: str) -> None:
            mine = await Client.connect(gateway)
            for count in range(10):
                assert await put(mine, numbered(count), name) == (0, count)
            mine.close()

        await asyncio.gather(*map(fill, names))
        for name in names:
            assert await values(client, name) == [b"%d" % count for count in range(10)]

    late(test)


async def join(client: Client, group: str) -> Any:
    """The first generation of a group of one, synced."""
    request = messages.JoinGroupRequest
    body = request(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type="consumer",
        protocols=[request.JoinGroupRequestProtocol(name="range", metadata=CONSUMER)],
    )
    joined = await client.ask(ApiKey.JOIN_GROUP, 3, body)
    assert joined.error_code == 0
    sync = messages.SyncGroupRequest
    following = sync(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[sync.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all of it")],
    )
    synced = await client.ask(ApiKey.SYNC_GROUP, 2, following)
    assert (synced.error_code, synced.assignment) == (0, b"all of it")
    return joined


async def commit(client: Client, group: str, offset: int, generation: int = -1, member: str = "") -> int:
    request = messages.OffsetCommitRequest
    one = request.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    body = request(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[request.OffsetCommitRequestTopic(name="t", partitions=[one])],
    )
    answer = await client.ask(ApiKey.OFFSET_COMMIT, 8, body)
    return int(answer.topics[0].partitions[0].error_code)


async def committed(client: Client, group: str) -> int:
    request = messages.OffsetFetchRequest
    one = request.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    body = request(groups=[request.OffsetFetchRequestGroup(group_id=group, topics=[one])])
    (found,) = (await client.ask(ApiKey.OFFSET_FETCH, 8, body)).groups
    assert found.error_code == 0
    return int(found.topics[0].partitions[0].committed_offset)


async def listed(client: Client) -> list[str]:
    answer = await client.ask(ApiKey.LIST_GROUPS, 5, messages.ListGroupsRequest())
    return sorted(each.group_id for each in answer.groups)


def test_a_group_joins_commits_and_is_there_after_a_restart(late: Callable[[Test], None]) -> None:
    stores: list[memory.LateStore] = []

    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        stores.append(store)
        await create(client, "t")
        member = await join(client, "g")
        for offset in range(5):
            assert await commit(client, "g", offset, member.generation_id, member.member_id) == 0
            assert await committed(client, "g") == offset
        assert await commit(client, "simple", 7) == 0
        assert await listed(client) == ["g", "simple"]

    async def after(gateway: Gateway, client: Client) -> None:
        assert (await committed(client, "g"), await committed(client, "simple")) == (4, 7)
        assert await commit(client, "simple", 8) == 0
        assert await committed(client, "simple") == 8
        assert await delete(client, "simple", "nobody's") == {
            "simple": 0,
            "nobody's": Error.GROUP_ID_NOT_FOUND,
        }
        assert await listed(client) == ["g"]

    late(test)
    (store,) = stores
    store.restart()
    run(after, store=store)
    assert store.faults == []


def test_members_that_join_at_the_same_time_wait_until_their_group_is_loaded(
    late: Callable[[Test], None],
) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        await create(client, "t")
        groups = [f"g{number}" for number in range(6)]

        async def use(group: str) -> None:
            mine = await Client.connect(gateway)
            assert await commit(mine, group, 1) == 0
            assert await committed(mine, group) == 1
            mine.close()

        await asyncio.gather(*map(use, groups + groups))
        assert await listed(client) == groups

    late(test)


def test_what_is_shared_is_acknowledged_comes_back_and_dies_once(late: Callable[[Test], None]) -> None:
    stores: list[memory.LateStore] = []
    ids: list[bytes] = []

    async def filled(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        stores.append(store)
        ids.append(await topic(gateway, client, records=6, partitions=2))

    async def letters(client: Client, *expected: bytes) -> None:
        async with asyncio.timeout(10):
            while await values(client, "t-g-DLQ") != list(expected):
                await asyncio.sleep(0.01)

    async def first(gateway: Gateway, client: Client) -> None:
        (topic_id,) = ids
        got = acquired(await share_fetch(client, "m", 0, topic_id, [0, 1]))
        assert got == {index: dict.fromkeys(range(6), 1) for index in (0, 1)}
        acks = {0: [(0, 0, ACCEPT), (1, 1, REJECT)], 1: [(0, 5, ACCEPT)]}
        answer = await share_acknowledge(client, "m", 1, topic_id, acks)
        assert shared_errors(answer) == {0: 0, 1: 0}
        await until(lambda: gateway.broker.catalog.get("t-g-DLQ") is not None)
        await letters(client, b"1")
        answer = await share_acknowledge(client, "m", -1, topic_id, {})
        assert answer.error_code == 0

    async def second(gateway: Gateway, client: Client) -> None:
        # the topic of the letters is there, and nobody has loaded it
        (topic_id,) = ids
        got = acquired(await share_fetch(client, "m", 0, topic_id, [0, 1]))
        assert got == {0: dict.fromkeys(range(2, 6), 2)}, "they were given back, not acknowledged"
        answer = await share_fetch(client, "m", 1, topic_id, acks={0: [(2, 3, REJECT), (4, 5, ACCEPT)]})
        assert ack_errors(answer) == {0: 0}
        await letters(client, b"1", b"2", b"3")
        assert acquired(await share_fetch(client, "m", 2, topic_id)) == {}

    late(filled)
    (store,) = stores
    for body in (first, second):
        store.restart()
        run(body, store=store)
    assert store.faults == []


def test_a_share_fetch_that_waits_to_be_loaded_waits_for_records_then(late: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        topic_id = await topic(gateway, client)
        other = await Client.connect(gateway)
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, [0], max_wait=FOR_LONG))
        await parked(gateway)
        assert await put(other, batch(b"v")) == (0, 0)
        assert acquired((await client.receive())[1]) == {0: {0: 1}}
        other.close()

    late(test)


def test_a_fetch_that_waits_to_be_loaded_waits_for_records_then(late: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        await create(client, "t")
        other = await Client.connect(gateway)
        client.send(ApiKey.FETCH, 12, fetch_body("t", 0, max_wait=FOR_LONG))
        await parked(gateway)
        assert await put(other, batch(b"v")) == (0, 0)
        assert errors((await client.receive())[1]) == {0: 0}
        other.close()

    late(test)


def test_a_fetch_that_waits_to_be_loaded_gives_way_to_the_next_request(late: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        await create(client, "t")
        client.send(ApiKey.FETCH, 12, fetch_body("t", 0, max_wait=FOR_LONG))
        client.send(ApiKey.LIST_GROUPS, 5, messages.ListGroupsRequest())
        async with asyncio.timeout(10):
            assert errors((await client.receive())[1]) == {0: 0}
            assert (await client.receive())[1].groups == []

    late(test)


def test_what_is_in_memory_only_goes_with_its_topic_beside_a_late_store(
    late: Callable[[Test], None],
) -> None:
    """Facts of both stores: the subscription and its cursor, the topic and its log."""

    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        broker = gateway.broker
        topic = await broker.create_topic("m", 1, {"pulsar.persistence": "non-persistent"})
        error, first = await put(client, numbered(0), "m")
        assert (error, first) == (0, broker.transients.first_offset)
        assert await put(client, numbered(1), "m") == (0, first + 1)
        await broker.subscriptions.make("g", "m", [first + 1], {}, {})
        at = broker.subscriptions.get("g", "m")
        assert at is not None
        assert at.partition(0).ready().start == first + 1
        assert await put(client, numbered(2), "m") == (0, first + 2)
        await broker.delete_topic("m")
        assert broker.transients.size == 0
        for family in (Family.SUBSCRIPTION, Family.CURSOR, Family.DEDUP):
            found = broker.store.page(family)
            assert (await found if isinstance(found, Awaitable) else found) == []
        again = await broker.create_topic("m", 1, {"pulsar.persistence": "non-persistent"})
        assert again.partitions == [topic.partitions[0] + 1]
        assert await put(client, numbered(0), "m") == (0, first)

    late(test)


def test_internal_topics_are_opened_while_rows_come_late(late: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        await create(client, "t")
        groups = [f"g{number}" for number in range(6)]
        for group in groups[:3]:
            assert await commit(client, group, 1) == 0
        assert await Tx(client).init() == 0
        other = await Client.connect(gateway)
        for name in (OFFSETS, TRANSACTIONS):
            other.send(ApiKey.FETCH, 11, fetch_body(name, 0))
        for group in groups[2:]:
            assert await commit(client, group, 2) == 0
        assert await Tx(client, "later").init() == 0
        for _ in range(2):
            await other.receive()
        other.close()
        found: dict[str, dict[bytes, bytes | None]] = {OFFSETS: {}, TRANSACTIONS: {}}
        for name, its in found.items():
            for index in range(50):
                its.update({each.key: each.value for each in await read_view(client, 0, name, index)})
        assert {key: committed_offset(value) for key, value in found[OFFSETS].items()} == {
            wire.offset_key(group, "t", 0): 1 if group in groups[:2] else 2 for group in groups
        }
        assert set(found[TRANSACTIONS]) == {wire.transaction_key(name) for name in ("tx", "later")}
        listed = await client.ask(ApiKey.METADATA, 12, messages.MetadataRequest(topics=None))
        assert {each.name for each in listed.topics} == {"t", OFFSETS, TRANSACTIONS}

    late(test)
