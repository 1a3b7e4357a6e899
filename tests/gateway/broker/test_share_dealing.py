"""Records are dealt fairly: how many each of several members gets, and how many one may hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import records
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.held import Clock, run
from tests.gateway.broker.share_asking import (
    ACCEPT,
    FOR_LONG,
    acquired,
    alter_group,
    errors,
    parked,
    put,
    serving,
    share_acknowledge,
    share_fetch,
    share_fetch_body,
    topic,
)
from tests.gateway.broker.share_members import beat
from tests.gateway.serving import Client, batch

MEMBERS = 8


async def wait_all(gateway: Gateway, topic_id: bytes, count: int = MEMBERS) -> list[Client]:
    """So many members, each with a connection of its own, that wait for records."""
    clients = [await Client.connect(gateway) for _ in range(count)]
    for number, each in enumerate(clients):
        each.send(ApiKey.SHARE_FETCH, 2, share_fetch_body(f"m{number}", 0, topic_id, [0], max_wait=FOR_LONG))
    await parked(gateway, count)
    return clients


async def all_got(clients: list[Client]) -> list[list[int]]:
    """The offsets that each of them was given."""
    return [sorted(acquired((await each.receive())[1]).get(0, {})) for each in clients]


@pytest.mark.parametrize("batches", [800, 1])
def test_a_burst_is_dealt_to_all_who_wait(batches: int) -> None:
    """800 records that come in one turn: as so many batches, or as one."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        clients = await wait_all(gateway, topic_id)
        values = [b"%d" % number for number in range(800)]
        pieces = [batch(each) for each in values] if batches > 1 else [batch(*values)]
        partition = serving(gateway).partition
        for piece in pieces:
            partition.append(piece, records.header(piece), 1)
        await gateway.broker.write([])
        got = await all_got(clients)
        assert [len(each) for each in got] == [100] * MEMBERS
        assert sorted(offset for each in got for offset in each) == list(range(800))
        for each in clients:
            each.close()

    run(test)


def test_a_backlog_is_dealt_though_the_others_are_at_work() -> None:
    """Each has a record in hand when the rest comes: who asks first does not take it all."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        clients = await wait_all(gateway, topic_id)
        await put(client, *[b"first"] * MEMBERS)
        assert [len(each) for each in await all_got(clients)] == [1] * MEMBERS
        await put(client, *[b"rest"] * 400)
        sizes = []
        for number, each in enumerate(clients):
            answer = await share_fetch(each, f"m{number}", 1, topic_id, acks={0: [(number, number, ACCEPT)]})
            sizes.append(len(acquired(answer)[0]))
        assert sum(sizes) == 400
        assert max(sizes) <= 55
        assert min(sizes) >= 40
        for each in clients:
            each.close()

    run(test)


def test_two_members_that_poll_by_turns_share() -> None:
    """Neither waits while the other asks."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        got: Counter[str] = Counter()
        epochs = dict.fromkeys("ab", 0)

        async def ask(member: str, **more: Any) -> dict[int, int]:
            first = (topic_id, [0]) if not epochs[member] else ()
            answer = await share_fetch(client, member, epochs[member], *first, **more)
            epochs[member] += 1
            return acquired(answer).get(0, {})

        for member in "ab":
            assert not await ask(member)
        for _ in range(5):
            await put(client, *[b"value"] * 20)
            for member in "ab":
                found = await ask(member)
                got[member] += len(found)
                acks = {0: [(min(found), max(found), ACCEPT)]}
                answer = await share_acknowledge(client, member, epochs[member], topic_id, acks)
                assert errors(answer) == {0: 0}
                epochs[member] += 1
            # the rest of this round
            while found := await ask("b"):
                got["b"] += len(found)
                acks = {0: [(min(found), max(found), ACCEPT)]}
                await share_acknowledge(client, "b", epochs["b"], topic_id, acks)
                epochs["b"] += 1
        assert got == {"a": 50, "b": 50}

    run(test)


def test_a_member_that_never_asks_again_keeps_nothing_from_the_others() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        await share_fetch(client, "gone", 0, topic_id, [0])
        await share_fetch(client, "m", 0, topic_id, [0])
        await put(client, *[b"value"] * 64)
        epoch = 1
        sizes: list[int] = []
        while sum(sizes) < 64:
            found = acquired(await share_fetch(client, "m", epoch))[0]
            sizes.append(len(found))
            acks = {0: [(min(found), max(found), ACCEPT)]}
            await share_acknowledge(client, "m", epoch + 1, topic_id, acks)
            epoch += 2
        assert sizes[:3] == [32, 16, 8]
        await put(client, *[b"value"] * 64)
        clock.now += 6_001
        assert len(acquired(await share_fetch(client, "m", epoch))[0]) == 64, "it has not asked for seconds"

    run(test, clock=clock)


TYPES = pytest.mark.parametrize("kind", ["shared", "key_shared"])


@TYPES
def test_members_that_settle_nothing_leave_the_others_their_share_of_what_may_be_in_hand(kind: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        await alter_group(
            client, **{"pulsar.subscription.type": kind, "share.partition.max.record.locks": "100"}
        )
        for member in "abcd":
            assert acquired(await share_fetch(client, member, 0, topic_id, [0])) == {}
        await put(client, *[b"value"] * 400)
        for epoch in (1, 2, 3):
            for member in "ab":
                await share_fetch(client, member, epoch)
        # half of the 100 is for the four; what each fetch gives at least is in it
        for member in "cd":
            assert len(acquired(await share_fetch(client, member, 1))[0]) >= 8
        assert sum(serving(gateway).ready().holding().values()) <= 100

    run(test)


@TYPES
def test_who_comes_first_leaves_its_share_to_members_that_are_about_to_come(kind: str) -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 400)
        await alter_group(
            client, **{"pulsar.subscription.type": kind, "share.partition.max.record.locks": "100"}
        )
        for member in "abcd":
            await beat(client, "g", member, 0, "t")
        got = {}
        for member in "abcd":
            # of Key_Shared it is served when it is stored which slots it has
            answer = await share_fetch(client, member, 0, topic_id, [0], max_wait=FOR_LONG)
            got[member] = sorted(acquired(answer)[0])
        assert [len(each) for each in got.values()] == [64, 12, 12, 12]
        # one that says it is there and does not fetch is not waited for
        await beat(client, "g", "e", 0, "t")
        clock.now += 6_001
        acks = {0: [(each, each, ACCEPT) for each in got["a"]]}
        assert len(acquired(await share_fetch(client, "a", 1, topic_id, acks=acks))[0]) == 64

    run(test, clock=clock)


@pytest.mark.parametrize(("asked", "given"), [(1, 1), (7, 7), (99, 99), (100, 200), (500, 600)])
def test_who_asks_for_few_gets_no_more_for_the_sake_of_a_whole_batch(asked: int, given: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        await put(client, *[b"value"] * 600)
        answer = await share_fetch(client, "m", 0, topic_id, [0], max_records=asked)
        assert len(acquired(answer)[0]) == given

    run(test)


def test_a_fetch_of_no_bytes_gets_none_and_does_not_wait() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        answer = await share_fetch(client, "m", 0, topic_id, [0], max_bytes=0, max_wait=FOR_LONG)
        assert acquired(answer) == {}
        assert acquired(await share_fetch(client, "m", 1, max_bytes=0, max_wait=FOR_LONG)) == {}
        assert acquired(await share_fetch(client, "m", 2)) == {0: {0: 1}}

    run(test)


def test_a_member_holds_no_more_than_its_queue() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        await alter_group(client, **{"pulsar.receiver.queue.size": "10"})
        await put(client, *[b"value"] * 25)
        answer = await share_fetch(client, "m", 0, topic_id, [0])
        assert list(acquired(answer)[0]) == list(range(10))
        other = await Client.connect(gateway)
        other.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 1, max_wait=FOR_LONG))
        await parked(gateway)
        # what it says elsewhere makes room
        assert errors(await share_acknowledge(client, "m", 2, topic_id, {0: [(0, 3, ACCEPT)]})) == {0: 0}
        assert list(acquired((await other.receive())[1])[0]) == [10, 11, 12, 13]
        other.close()

    run(test)
