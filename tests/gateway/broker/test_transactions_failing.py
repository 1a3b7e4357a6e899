"""Transactions whose commits fail, by what else is under way: nothing half-done is stored, seen, or stays."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import uvloop

from gateway.broker.groups import Groups
from gateway.coordinators import group_rows
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import memory
from store.api import Family, Put, Refused, StoreError
from tests.gateway.apis.transacting import Tx, committed, stable_offset
from tests.gateway.broker.asking import fetch, told
from tests.gateway.broker.held import Clock, HeldStore, part, run, run_held, serving_on
from tests.gateway.serving import Client, batch, create, produce_body


def test_who_reads_while_an_abort_is_on_its_way_is_told_of_it_afterwards() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        other = await Client.connect(gateway)
        await client.ask(ApiKey.PRODUCE, 10, produce_body("t", batch(b"plain")))
        tx = Tx(client)
        await tx.init()
        await tx.put(b"never to be seen")
        store.holding = True
        ending = asyncio.ensure_future(tx.end(committed=False))
        await store.has(1)
        await fetch(other, {"t": {0: 0}}, isolation=1)
        store.release()
        assert await ending == 0
        found = told(await fetch(other, {"t": {0: 1}}, isolation=1))[0]
        assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions] == [(tx.id, 1)]
        other.close()

    run_held(test)


def test_what_comes_right_behind_a_failure_meets_what_is_stored() -> None:
    """Offsets join a transaction, which fails; a batch comes behind them on the same connection."""
    inner = memory.open()

    async def first(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        tx = Tx(client, new=True)
        assert [await tx.init(), await tx.put(b"x"), await tx.end()] == [0, 0, 0]
        request = messages.TxnOffsetCommitRequest
        place = request.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_leader_epoch=-1, committed_metadata=""
        )
        offsets = request(
            **tx.who,
            group_id="g",
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[request.TxnOffsetCommitRequestTopic(name="t", partitions=[place])],
        )
        data = batch(b"v", producer_id=tx.id, producer_epoch=tx.epoch, base_sequence=0, transactional=True)
        body = produce_body("t", data, partition=1)
        body.transactional_id = "tx"
        store.holding = True
        client.send(ApiKey.TXN_OFFSET_COMMIT, 5, offsets)
        client.send(ApiKey.PRODUCE, 12, body)
        await store.has(1)
        store.holding = False
        store.fail(Refused("no space left"))
        refused = (await client.receive())[1].topics[0].partitions[0].error_code
        taken = part((await client.receive())[1]).error_code
        assert (refused, taken) == (Error.COORDINATOR_NOT_AVAILABLE, 0)
        assert [await tx.offsets("g", {("t", 0): 5}), await tx.end()] == [0, 0]
        assert await stable_offset(client, index=1) == 2
        assert await committed(client, "g") == (0, 5)

    async def main() -> None:
        store = HeldStore(inner)
        async with serving_on(store) as gateway:
            client = await Client.connect(gateway)
            await first(gateway, client, store)
            client.close()
        async with serving_on(inner) as gateway:
            client = await Client.connect(gateway)
            assert await Tx(client, new=True).init() == 0
            client.close()

    uvloop.run(main())


def test_a_fault_in_the_middle_of_an_end_stores_nothing_of_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        tx = Tx(client)
        await tx.init()
        for index in range(2):
            await tx.put(b"a", index=index)
        await tx.offsets("g", {("t", 0): 5})
        with mock.patch.object(Groups, "take_offsets", side_effect=RuntimeError("a fault of ours")):
            assert await tx.end() != 0
        assert [await stable_offset(client, index=index) for index in (0, 1)] == [0, 0]
        assert await committed(client, "g") == (0, -1)
        assert await tx.end() == 0
        assert [await stable_offset(client, index=index) for index in (0, 1)] == [2, 2]
        assert await committed(client, "g") == (0, 5)

    run(test)


def test_a_group_that_cannot_be_read_keeps_its_offsets_from_being_dropped() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        tx = Tx(client)
        await tx.init()
        await tx.put(b"a")
        await tx.offsets("g", {("t", 0): 5})
        for _ in range(2):
            gateway.broker.groups.release_idle()
        row = gateway.broker.store.get(Family.GROUP, group_rows.key("g"))
        assert row is not None
        await gateway.broker.write([Put(Family.GROUP, group_rows.key("g"), b"\xff\xff\xff")])
        assert await tx.end() == Error.COORDINATOR_NOT_AVAILABLE
        assert await stable_offset(client) == 0
        await gateway.broker.write([Put(Family.GROUP, group_rows.key("g"), row)])
        assert [await tx.end(), await stable_offset(client)] == [0, 2]
        assert await committed(client, "g") == (0, 5)

    run(test)


def unreadable(gateway: Gateway) -> Any:
    """Nothing stored can be read while the block lasts."""

    def read(*_: Any, **__: Any) -> Any:
        raise StoreError("input/output error")

    return mock.patch.multiple(type(gateway.broker.store), get=read, scan=read)


def test_an_end_that_fails_while_nothing_can_be_read_has_not_happened() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        tx = Tx(client, timeout=10_000)
        await tx.init()
        await tx.put(b"a")
        await tx.offsets("g", {("t", 0): 5})
        for _ in range(2):
            store.holding = True
            ending = asyncio.ensure_future(tx.end())
            await store.has(1)
            with unreadable(gateway):
                store.fail(Refused("no space"))
                store.holding = False
                assert await ending == Error.COORDINATOR_NOT_AVAILABLE
        assert await tx.put(b"b") == 0, "it is the producer still"
        assert [await tx.end(), await committed(client, "g")] == [0, (0, 5)]
        await tx.put(b"c")
        store.holding = True
        ending = asyncio.ensure_future(tx.end())
        await store.has(1)
        with unreadable(gateway):
            store.fail(Refused("no space"))
            store.holding = False
            await ending
        clock.now += 10_001
        await gateway.broker.transactions.time_out()
        assert await stable_offset(client) == 5

    run_held(test, clock=clock)
