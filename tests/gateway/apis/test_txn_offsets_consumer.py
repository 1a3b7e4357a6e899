"""Offsets of consumer groups (KIP-848) that are committed in transactions."""

from __future__ import annotations

import asyncio

import pytest

from gateway.server import Gateway
from gateway.wire.errors import Error
from tests.gateway.apis.transacting import Tx, committed
from tests.gateway.broker.consumer_members import assigned, beat, commit, listed
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.broker.share_members import delete
from tests.gateway.serving import Client, create

BOTH = pytest.mark.parametrize("new", [False, True], ids=["V1", "V2"])
UNSTABLE = (Error.UNSTABLE_OFFSET_COMMIT, -1)
WHERE = {("t", 0): 3}


@BOTH
def test_who_may_commit(new: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await beat(client, "a", 0, "t")
        tx = Tx(client, new=new)
        await tx.init()
        # a producer knows no member epochs: the code is that of classic groups
        assert await tx.offsets("g", WHERE, member="a", generation=3) == Error.ILLEGAL_GENERATION
        assert await tx.offsets("g", WHERE, member="a") == Error.ILLEGAL_GENERATION
        assert await tx.offsets("g", WHERE, member="x", generation=2) == Error.UNKNOWN_MEMBER_ID
        assert await committed(client, "g", stable=True) == (0, -1)
        assert await tx.offsets("g", WHERE, member="a", generation=2) == 0
        assert await committed(client, "g", stable=True) == UNSTABLE
        assert await tx.end() == 0
        assert await committed(client, "g", stable=True) == (0, 3)
        # whoever has the transaction may do that without being a member
        assert await tx.offsets("g", {("t", 0): 4}) == 0
        assert await tx.end() == 0
        assert await committed(client, "g", stable=True) == (0, 4)

    run(test)


def test_an_epoch_before_is_good_for_partitions_that_were_the_members_since_then() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        t = await create(client, "t", 2)
        await beat(client, "a", 0, "t")
        await beat(client, "b", 0, "t")
        kept = assigned(await beat(client, "a", 2))
        assert kept is not None
        assert (await beat(client, "a", 2, owned=kept)).member_epoch == 3
        assert assigned(await beat(client, "b", 3)) is not None
        tx = Tx(client, new=True)
        await tx.init()
        its, others = kept[t][0], 1 - kept[t][0]
        assert await tx.offsets("g", {("t", its): 5}, member="a", generation=2) == 0
        assert await tx.offsets("g", {("t", others): 5}, member="a", generation=2) == Error.ILLEGAL_GENERATION
        assert await tx.end() == 0
        assert [await committed(client, "g", index=index) for index in (its, others)] == [(0, 5), (0, -1)]

    run(test)


def test_a_commit_of_a_member_that_comes_later_beats_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await beat(client, "a", 0, "t")
        tx = Tx(client)
        await tx.init()
        assert await tx.offsets("g", WHERE, member="a", generation=2) == 0
        assert await commit(client, "a", 2, offset=9) == 0
        assert await committed(client, "g", stable=True) == (0, 9)
        assert await tx.end() == 0
        assert await committed(client, "g", stable=True) == (0, 9)

    run(test)


@BOTH
def test_a_group_that_is_deleted_is_not_brought_back(new: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await beat(client, "a", 0, "t")
        tx = Tx(client, new=new)
        await tx.init()
        assert await tx.offsets("g", WHERE, member="a", generation=2) == 0
        await beat(client, "a", -1)
        assert await delete(client, "g") == {"g": 0}
        assert await committed(client, "g", stable=True) == (0, -1)
        assert await tx.end() == 0
        assert (await listed(client), await committed(client, "g")) == ([], (0, -1))

    run(test)


@BOTH
def test_a_transaction_that_commits_beside_the_deletion_of_its_group_leaves_nothing_of_it(new: bool) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        await beat(client, "a", 0, "t")
        await beat(client, "a", -1)
        tx = Tx(client, new=new)
        await tx.init()
        assert await tx.offsets("g", WHERE) == 0
        store.holding = True
        deleting = asyncio.create_task(delete(await Client.connect(gateway), "g"))
        await store.has(1)
        ending = asyncio.create_task(tx.end())
        await store.has(2)
        store.release()
        assert (await deleting, await ending) == ({"g": 0}, 0)
        assert (await listed(client), await committed(client, "g", stable=True)) == ([], (0, -1))

    run_held(test)


def test_what_is_staged_stays_when_the_group_becomes_one_of_the_other_protocol() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        tx = Tx(client)
        await tx.init()
        # nobody's: it makes a classic group
        assert await tx.offsets("g", WHERE) == 0
        assert (await beat(client, "a", 0, "t")).error_code == 0
        assert await committed(client, "g", stable=True) == UNSTABLE
        assert await tx.end() == 0
        assert await committed(client, "g", stable=True) == (0, 3)
        assert [(group, kind) for group, kind, _ in await listed(client)] == [("g", "consumer")]

    run(test)
