"""What a share fetch acquires: within which limits, of which partitions, and what comes of it when a disk is asked."""

from __future__ import annotations

import asyncio

import pytest

from gateway.broker import acquiring, share_sessions
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.api import StoreError
from tests.gateway.broker.held import HeldStore, run, run_held, until
from tests.gateway.broker.share_asking import (
    ACCEPT,
    FOR_LONG,
    GROUP,
    ack_errors,
    acquired,
    alter_group,
    errors,
    put,
    share_fetch,
    share_fetch_body,
    told,
    topic,
)
from tests.gateway.broker.subscriptions.disk import Disk
from tests.gateway.serving import Client

# -- limits ----------------------------------------------------------------------------------------------------------


def test_key_shared_takes_a_share_of_every_partition_that_has_something() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await alter_group(client, **{"pulsar.subscription.type": "key_shared"})
        topic_id = await topic(gateway, client, partitions=4)
        await share_fetch(client, "m", 0, topic_id, [0, 1, 2, 3])
        for index in range(3):
            await put(client, *[b"%d" % number for number in range(400)], partition=index)
        answer = await share_fetch(client, "m", 1, max_records=300)
        assert {index: len(offsets) for index, offsets in acquired(answer).items()} == {
            0: 100,
            1: 100,
            2: 100,
        }
        # what one cannot give the next ones do
        answer = await share_fetch(client, "m", 2, max_records=1_000)
        got = {index: len(offsets) for index, offsets in acquired(answer).items()}
        assert got == {0: 300, 1: 300, 2: 300}

    run(test)


def test_limits_hold_over_all_partitions_and_all_get_their_turn() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4, partitions=3)
        answer = await share_fetch(client, "m", 0, topic_id, [0, 1, 2], max_records=3)
        assert acquired(answer) == {0: {0: 1, 1: 1, 2: 1}}
        served = []
        for epoch in range(1, 4):
            answer = await share_fetch(client, "m", epoch, max_records=1)
            served += list(acquired(answer))
        assert served == [1, 2, 0]
        answer = await share_fetch(client, "m", 4, max_records=5)
        assert acquired(answer) == {1: {1: 1, 2: 1, 3: 1}, 2: {1: 1, 2: 1}}

    run(test)


def test_max_records_of_nothing_asks_for_nothing() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        answer = await share_fetch(client, "m", 0, topic_id, [0], max_records=0, max_wait=FOR_LONG)
        assert acquired(answer) == {}

    run(test)


def test_max_bytes_hold_over_all_partitions() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1, partitions=3)
        answer = await share_fetch(client, "m", 0, topic_id, [0, 1, 2], max_bytes=1)
        assert acquired(answer) == {0: {0: 1}}, "the first batch comes whole"
        size = len(told(answer)[0].records)
        assert set(acquired(await share_fetch(client, "m", 1, max_bytes=size + 1))) == {1, 2}

    run(test)


@pytest.mark.parametrize("limit", ["fetch.max.bytes", "scarce"])
def test_the_broker_has_limits_too(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, partitions=3)
        for index in range(3):
            await put(client, bytes(800), partition=index)
        if limit == "scarce":
            monkeypatch.setattr(acquiring, "_SCARCE_BYTES", 1024)
            gateway.broker.unsent_bytes = gateway.broker.memory_limit + 1
        answer = await share_fetch(client, "m", 0, topic_id, [0, 1, 2])
        assert set(acquired(answer)) == {0, 1}
        gateway.broker.unsent_bytes = 0

    run(test, *(["fetch.max.bytes=1024"] if limit == "fetch.max.bytes" else []))


# -- reads that wait for a disk --------------------------------------------------------------------------------------


def slow(gateway: Gateway, *partitions: int) -> list[Disk]:
    """Reads of these partitions wait until the test lets them go on."""
    subscription = gateway.broker.subscriptions.get(GROUP, "t")
    assert subscription is not None
    disks = []
    for index in partitions:
        partition = subscription.partition(index).partition
        disk = Disk(partition.log)
        partition.log = disk
        disks.append(disk)
    return disks


def test_a_disk_is_waited_for_in_every_partition() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2, partitions=3)
        first, last = slow(gateway, 0, 2)
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, range(3), max_wait=FOR_LONG))
        await until(lambda: first.waiting)
        await first.go()
        await until(lambda: last.waiting)
        await last.go()
        _, answer = await client.receive()
        assert acquired(answer) == {index: {0: 1, 1: 1} for index in range(3)}

    run(test)


@pytest.mark.parametrize("sooner", ["disk", "commit"])
def test_a_disk_and_acknowledgements_are_both_waited_for(sooner: str) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, 2)
        await share_fetch(client, "m", 0, topic_id, [0], max_records=1)
        (disk,) = slow(gateway, 0)
        store.holding = True
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 1, topic_id, acks={0: [(0, 0, ACCEPT)]}))
        answered = asyncio.ensure_future(client.receive())
        await until(lambda: disk.waiting)
        await store.has(1)
        if sooner == "disk":
            await disk.go()
        else:
            store.release()
        other = await Client.connect(gateway)
        await other.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert not answered.done()
        if sooner == "disk":
            store.release()
        else:
            await disk.go()
        _, answer = await answered
        assert (ack_errors(answer), acquired(answer)) == ({0: 0}, {0: {1: 1}})
        other.close()

    run_held(test)


def test_what_a_disk_finds_for_a_client_that_went_away_is_for_others() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2)
        (disk,) = slow(gateway, 0)
        other = await Client.connect(gateway)
        other.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, [0]))
        await until(lambda: disk.waiting)
        other.close()
        await until(lambda: not len(gateway.broker.share_sessions))
        await disk.go()
        disk.cold = False
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == {0: {0: 1, 1: 1}}

    run(test)


@pytest.mark.parametrize("how", ["left", "fenced", "opened again"])
def test_a_session_that_ends_while_a_disk_is_asked_leaves_no_consumer_behind(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_sessions, "LAST_WORDS", 0.0)

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2, partitions=3)
        subscription = gateway.broker.subscriptions.get(GROUP, "t")
        assert subscription is not None
        (disk,) = slow(gateway, 1)
        other = await Client.connect(gateway)
        other.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, range(3)))
        await until(lambda: disk.waiting)
        sessions = gateway.broker.share_sessions
        if how == "opened again":
            assert acquired(await share_fetch(client, "m", 0, topic_id, [0])) == {0: {0: 1, 1: 1}}
            await share_fetch(client, "m", -1)
        else:
            gateway.broker.subscriptions.member_gone(GROUP, "m", graceful=how == "left")
        await until(lambda: not len(sessions))
        await disk.go()
        _, answer = await other.receive()
        assert acquired(answer) == {}, "others have it"
        assert not subscription.consumers
        disk.cold = False
        # what the first fetch acquired was never sent
        count = 2 if how == "opened again" else 1
        assert acquired(await share_fetch(client, "n", 0, topic_id, range(3))) == {
            0: {0: count, 1: count},
            1: {0: 1, 1: 1},
            2: {0: 1, 1: 1},
        }
        other.close()

    run(test)


def test_a_disk_that_fails_is_told_of() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1, partitions=2)
        (disk,) = slow(gateway, 0)
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, [0, 1], max_wait=FOR_LONG))
        await until(lambda: disk.waiting)
        await disk.go(StoreError("no"))
        _, answer = await client.receive()
        assert (errors(answer), acquired(answer)) == ({0: Error.KAFKA_STORAGE_ERROR, 1: 0}, {1: {0: 1}})

    run(test)
