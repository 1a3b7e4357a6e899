"""While a share fetch waits for a disk a commit fails: what it had acquired then comes again, and is not sent twice."""

from __future__ import annotations

import asyncio

import pytest

from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from store.api import StoreError
from tests.gateway.broker.held import HeldStore, run_held, until
from tests.gateway.broker.share_asking import (
    ACCEPT,
    FOR_LONG,
    acquired,
    alter_group,
    serving,
    share_acknowledge_body,
    share_fetch,
    share_fetch_body,
    topic,
)
from tests.gateway.broker.subscriptions.disk import Disk
from tests.gateway.serving import Client, batch, produce_body


@pytest.mark.parametrize("by", ["the same fetch", "another connection"])
@pytest.mark.parametrize("first", ["the disk", "the commit"])
def test_a_later_record_of_a_key_does_not_leave_when_the_end_of_the_one_before_was_not_stored(
    by: str, first: str
) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await alter_group(client, **{"pulsar.subscription.type": "key_shared"})
        topic_id = await topic(gateway, client, partitions=2)
        for value in (b"first", b"second"):
            await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(value, key=b"k")))
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"x", key=b"k"), partition=1))
        await share_fetch(client, "m", 0, topic_id, [0])
        assert acquired(await share_fetch(client, "m", 1, max_wait=FOR_LONG)) == {0: {0: 1}}
        # a partition whose records must be read from a disk
        await share_fetch(client, "m", 2, topic_id, [1], max_records=0, max_bytes=0)
        at = serving(gateway, 1)
        at.partition.log = disk = Disk(at.partition.log)
        other = await Client.connect(gateway)
        await until(lambda: not serving(gateway).unsaved)
        store.holding = True
        epoch = 4
        if by == "the same fetch":
            acks = {0: [(0, 0, ACCEPT)]}
            client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 3, topic_id, acks=acks))
        else:
            body = share_acknowledge_body("m", 3, topic_id, {0: [(0, 0, ACCEPT)]})
            other.send(ApiKey.SHARE_ACKNOWLEDGE, 2, body)
            await store.has(1)
            client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", epoch))
            epoch += 1
        answered = asyncio.ensure_future(client.receive())
        await until(lambda: disk.waiting)
        await store.has(1)
        if first == "the disk":
            disk.cold = False
            await disk.go()
        store.holding = False
        store.fail(StoreError("the disk is full"))
        if first == "the commit":
            await until(lambda: not serving(gateway).unsaved)
            disk.cold = False
            await disk.go()
        _, answer = await answered
        assert 1 not in acquired(answer).get(0, {}), "the record before it comes again"
        other.close()

    run_held(test)
