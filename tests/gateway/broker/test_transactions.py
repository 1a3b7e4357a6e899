"""Transactional ids at work: commits that fail, what goes meanwhile, what the disk must have before an end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire.errors import Error
from semantics.transactions.events import EndTxn
from semantics.transactions.states import Producer
from store import memory
from store.api import Append, DiskFull, Family, Put
from tests.gateway.apis.transacting import Tx, committed, stable_offset
from tests.gateway.broker.held import Clock, HeldStore, run, run_held
from tests.gateway.serving import Client, create

BOTH = pytest.mark.parametrize("new", [False, True], ids=["V1", "V2"])


@BOTH
def test_an_end_whose_commit_fails_has_not_happened_and_may_be_asked_for_again(new: bool) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        tx = Tx(client, new=new)
        await tx.init()
        await tx.put(b"a")
        await tx.put(b"b", index=1)
        await tx.offsets("g", {("t", 0): 7})
        store.holding = True
        ending = asyncio.ensure_future(tx.end())
        await store.has(1)
        store.fail(DiskFull("no"))
        assert await ending == Error.COORDINATOR_NOT_AVAILABLE
        store.release()
        assert [await stable_offset(client, index=index) for index in (0, 1)] == [0, 0]
        assert await committed(client, "g") == (0, -1)
        assert await tx.end() == 0
        assert [await stable_offset(client, index=index) for index in (0, 1)] == [2, 2]
        assert await committed(client, "g") == (0, 7)

    run_held(test)


def test_the_end_is_one_commit() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 3)
        tx = Tx(client)
        await tx.init()
        for index in range(3):
            await tx.put(b"a", index=index)
        await tx.offsets("g", {("t", 0): 7})
        store.commits.clear()
        assert await tx.end() == 0
        (writes,) = [each for each in store.commits if each]
        assert sum(isinstance(write, Append) for write in writes) == 3
        assert [write.family for write in writes if isinstance(write, Put)].count(Family.OFFSET) == 1

    run_held(test)


def test_nobody_is_answered_or_reads_before_the_end_is_stored() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        other = await Client.connect(gateway)
        tx = Tx(client)
        await tx.init()
        await tx.put(b"a")
        store.holding = True
        ending = asyncio.ensure_future(tx.end())
        await store.has(1)
        assert await stable_offset(other) == 0
        assert not ending.done()
        store.release()
        assert await ending == 0
        assert await stable_offset(other) == 2
        other.close()

    run_held(test)


@BOTH
def test_a_partition_whose_batch_was_not_stored_is_not_in_the_transaction(new: bool) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        tx = Tx(client, new=new)
        await tx.init()
        await tx.put(b"a")
        store.holding = True
        putting = asyncio.ensure_future(tx.put(b"b", index=1))
        await store.has(1)
        store.fail(DiskFull("no"))
        assert await putting != 0
        store.release()
        described = gateway.broker.transactions.describe("tx")
        assert described is not None
        assert [each.number for each in described.partitions] == [0]
        assert [await tx.put(b"b", index=1), await tx.end()] == [0, 0]
        assert [await stable_offset(client, index=index) for index in (0, 1)] == [2, 2]

    run_held(test)


@BOTH
def test_a_topic_that_is_deleted_is_passed_over(new: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await create(client, "u")
        tx = Tx(client, new=new)
        await tx.init()
        await tx.put(b"a")
        await tx.put(b"b", topic="u")
        await gateway.broker.topics.delete("u")
        await create(client, "u")
        assert await tx.end() == 0
        assert [await stable_offset(client), await stable_offset(client, "u")] == [2, 0]

    run(test)


@pytest.mark.parametrize(("committed_", "synced"), [(True, 1), (False, 0)])
def test_what_a_power_cut_could_take_is_on_the_disk_before_a_commit(committed_: bool, synced: int) -> None:
    class Seen(memory.MemoryStore):
        asked: list[Any] = []

        def sync(self, logs: Any) -> Any:
            self.asked.append(list(logs))
            return super().sync(logs)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        tx = Tx(client)
        await tx.init()
        await tx.put(b"x" * 200_000)
        await tx.put(b"small", index=1)
        assert await tx.end(committed_) == 0
        assert len(store.asked) == synced
        if synced:
            ((partition, first),) = store.asked[0]
            assert (partition, first) == (gateway.broker.topics.get("t").partitions[0], 0)

    opened = memory.open()
    opened.__class__ = Seen
    store: Any = opened
    store.asked = []
    run(test, store=store)


def test_an_id_that_nobody_uses_is_forgotten_and_may_begin_anew() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        transactions = gateway.broker.transactions
        idle, busy = Tx(client, "idle"), Tx(client, "busy", timeout=900_000)
        await idle.init()
        clock.now += 500
        await busy.init()
        await busy.put(b"a")
        clock.now += 501
        await transactions.expire()
        assert transactions.describe("idle") is None
        assert transactions.describe("busy") is not None
        assert await idle.put(b"b", added=True) == Error.INVALID_PRODUCER_ID_MAPPING
        before = idle.id
        assert await idle.init() == 0
        assert (idle.id == before, idle.epoch) == (False, 0)

    run(test, "transactional.id.expiration.ms=1000", clock=clock)


def test_what_leaves_memory_comes_back() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        tx = Tx(client)
        await tx.init()
        await tx.put(b"a")
        for _ in range(2):
            gateway.broker.transactions.release_idle()
        assert await tx.end() == 0
        for _ in range(2):
            gateway.broker.transactions.release_idle()
        assert not gateway.broker.transactions._live
        assert [await tx.end(), await tx.put(b"b"), await tx.end()] == [0, 0, 0]
        assert await stable_offset(client) == 4

    run(test)


def test_requests_of_one_id_are_taken_one_after_another() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        other = await Client.connect(gateway)
        tx, next_ = Tx(client), Tx(other)
        await tx.init()
        await tx.put(b"a")
        store.holding = True
        ending = asyncio.ensure_future(tx.end())
        await store.has(1)
        taking = asyncio.ensure_future(next_.init())
        store.land()
        assert await ending == 0
        await store.has(1)
        store.release()
        assert await taking == 0
        assert await stable_offset(other) == 2
        assert next_.epoch == tx.epoch + 1
        other.close()

    run_held(test)


def test_an_end_whose_client_is_gone_and_whose_commit_fails_has_not_happened() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        tx = Tx(client)
        await tx.init()
        await tx.put(b"a")
        store.holding = True
        event = EndTxn(None, Producer(tx.id, tx.epoch), committed=True, bumps=False)
        ending = asyncio.ensure_future(gateway.broker.transactions.run("tx", event))
        await store.has(1)
        ending.cancel()
        store.fail(DiskFull("no"))
        store.release()
        with pytest.raises(asyncio.CancelledError):
            await ending
        described = gateway.broker.transactions.describe("tx")
        assert described is not None
        assert described.state == "Ongoing"
        assert [await stable_offset(client), await tx.end(), await stable_offset(client)] == [0, 0, 2]

    run_held(test)


def test_what_nobody_has_initialized_leaves_nothing_in_memory() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        transactions = gateway.broker.transactions
        for n in range(5):
            tx = Tx(client, f"tx{n}", timeout=0)
            assert await tx.init() == Error.INVALID_TRANSACTION_TIMEOUT
            tx.id, tx.epoch = 1000 + n, 0
            assert await tx.end() == Error.INVALID_PRODUCER_ID_MAPPING
        store.holding = True
        asking = asyncio.ensure_future(Tx(client, "other").init())
        await store.has(1)
        store.fail(DiskFull("no"))
        assert await asking == Error.COORDINATOR_NOT_AVAILABLE
        store.release()
        assert not transactions._live
        assert len(transactions.newest) == 0

    run_held(test)
