"""share.isolation.level=read_committed, and queue topics: nobody is given what is not committed."""

from __future__ import annotations

import asyncio

import pytest

from gateway.server import Gateway
from tests.gateway.apis.test_queue_topics import NAME, queue, read
from tests.gateway.apis.transacting import Tx
from tests.gateway.broker.asking import errors, fetch, offsets, told
from tests.gateway.broker.held import Clock, run
from tests.gateway.broker.share_asking import acquired, alter_group, parked, put, serving, share_fetch, topic
from tests.gateway.serving import Client

KINDS = pytest.mark.parametrize("kind", ["shared", "key_shared"])


async def given(client: Client, topic_id: bytes, epoch: int, wait: int = 0) -> list[int]:
    answer = await share_fetch(client, "m", epoch, topic_id, [0], max_wait=wait)
    return list(acquired(answer).get(0, {}))


async def reading(gateway: Gateway, client: Client, kind: str, level: str = "read_committed") -> bytes:
    topic_id = await topic(gateway, client)
    await alter_group(client, **{"share.isolation.level": level, "pulsar.subscription.type": kind})
    return topic_id


@KINDS
def test_what_is_open_hides_what_lies_behind_it_and_what_is_aborted_is_passed_over(kind: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await reading(gateway, client, kind)
        tx = Tx(client, new=True)
        await tx.init()
        await put(client, b"plain")
        assert await tx.put(b"a", b"b") == 0
        await put(client, b"behind")
        assert await given(client, topic_id, 0, 60_000) == [0]
        assert await tx.end() == 0
        assert await given(client, topic_id, 1) == [1, 2, 3]
        assert await tx.put(b"never") == 0
        await put(client, b"plain")
        assert await tx.end(committed=False) == 0
        assert await given(client, topic_id, 2) == [6]
        cursor = serving(gateway).ready()
        assert [cursor.look(offset).state for offset in (4, 5, 7)] == ["DONE", "DONE", "DONE"]

    run(test)


@KINDS
def test_who_waits_is_given_what_is_committed_when_it_is(kind: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await reading(gateway, client, kind)
        tx = Tx(await Client.connect(gateway), new=True)
        await tx.init()
        assert await tx.put(b"a") == 0
        waiting = asyncio.ensure_future(given(client, topic_id, 0, 60_000))
        await parked(gateway)
        assert await tx.put(b"b") == 0
        assert await tx.end() == 0
        assert await waiting == [0, 1]
        tx.client.close()

    run(test)


def test_others_are_given_everything_at_once() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await reading(gateway, client, "shared", "read_uncommitted")
        tx = Tx(client, new=True)
        await tx.init()
        assert await tx.put(b"a") == 0
        assert await given(client, topic_id, 0, 60_000) == [0]

    run(test)


@KINDS
def test_two_transactions_of_one_producer_are_told_apart(kind: str) -> None:
    """An earlier one that is committed lies beside a later one that is not, in the same epoch (V1) and in the next."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await reading(gateway, client, kind)
        for new in (False, True):
            tx = Tx(client, f"tx {new}", new=new)
            await tx.init()
            for committed in (True, False, True):
                assert await tx.put(b"of it") == 0
                assert await tx.end(committed=committed) == 0
        assert await given(client, topic_id, 0, 60_000) == [0, 4, 6, 10]

    run(test)


@KINDS
def test_a_queue_topic_delivers_what_is_committed(kind: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 0, kind=kind)
        tx = Tx(client, new=True)
        await tx.init()
        assert await tx.put(b"never") == 0
        assert await tx.end(committed=False) == 0
        assert await tx.put(b"a") == 0
        await put(client, b"behind")
        lane = gateway.broker.queues.of(gateway.broker.topics.get(NAME)).at[0]
        lane.at_end()
        assert lane.lane.end == 0
        assert await tx.end() == 0
        assert await read(client) == [0, 1]
        answer = await fetch(client, {NAME: {0: 0}}, max_wait=5_000)
        assert errors(answer) == {0: 0}
        assert offsets(told(answer)[0].records) == [0, 1]

    run(test)


def test_what_a_transaction_delays_is_waited_for_from_its_commit_on() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await reading(gateway, client, "shared")
        tx = Tx(client, new=True)
        await tx.init()
        due = [("pulsar-deliver-at", b"%d" % (clock.now + 5_000))]
        assert await tx.put(b"later", headers=due, at=clock.now) == 0
        assert await given(client, topic_id, 0) == []
        cursor = serving(gateway).ready()
        assert cursor.stats()["delayed"] == 0
        assert await tx.end() == 0
        assert await given(client, topic_id, 1) == []
        assert cursor.stats()["delayed"] == 1
        clock.now += 5_001
        cursor.tick(clock.now, clock.now)
        assert await given(client, topic_id, 2) == [0]

    run(test, clock=clock)
