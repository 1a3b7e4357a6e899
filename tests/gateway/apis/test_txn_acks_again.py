"""What is said of messages in a transaction is said once more, since its answer was lost: that says nothing new."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import uvloop

from gateway.server import Gateway
from gateway.wire.errors import Error
from store import rocksdb
from store.api import Refused
from tests.gateway.apis.test_queue_topics import NAME, commit, queue, read
from tests.gateway.apis.test_txn_acks import BOTH, begun, member, states
from tests.gateway.apis.transacting import Tx
from tests.gateway.broker.held import HeldStore, run, run_held, serving_on
from tests.gateway.broker.share_asking import alter_group, serving, topic
from tests.gateway.serving import Client


def elsewhere(tx: Tx, client: Client) -> Tx:
    """The same producer on another connection."""
    other = Tx(client, tx.name, new=tx.new)
    other.id, other.epoch = tx.id, tx.epoch
    return other


@BOTH
def test_the_same_of_shared_records_is_taken_again_and_done_once(new: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 6)
        await alter_group(client, **{"pulsar.nack.delay.ms": "60000"})
        await member(client, topic_id)
        tx = await begun(client, new=new)
        for _ in range(2):
            assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1,4@1;n:90000=2;d=3")}) == 0
        assert states(gateway, *range(6)) == ["ACQUIRED"] * 6
        assert await tx.end() == 0
        assert states(gateway, 0, 1, 2, 4, 5) == ["DONE", "DONE", "BACKOFF", "DONE", "ACQUIRED"]
        totals = serving(gateway).ready().totals
        assert [totals[each] for each in ("acknowledged", "nacked", "rejected")] == [3, 1, 1]

    run(test)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("ack1;a=0-1", Error.NONE),
        ("ack1;a=1", Error.NONE),
        ("ack1;a=0-2", Error.NONE),
        ("ack1;a=0-1;n:5000=3", Error.NONE),
        ("ack1;a=0@1", Error.NONE),
        ("ack1;a=0@2", Error.INVALID_RECORD_STATE),
        ("ack1;d=0", Error.INVALID_RECORD_STATE),
        ("ack1;a=0;n=1", Error.INVALID_RECORD_STATE),
        ("ack1;n=3", Error.INVALID_RECORD_STATE),
        ("ack1;n:6000=3", Error.INVALID_RECORD_STATE),
        ("ack1;a=0-3", Error.INVALID_RECORD_STATE),
        ("ack1;a=0-4", Error.INVALID_RECORD_STATE),
    ],
)
def test_each_record_is_to_be_said_the_same_of(said: str, code: Error) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 5)
        await member(client, topic_id)
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1;n:5000=3")}) == 0
        assert await tx.offsets("g", {("t", 0): (0, said)}) == code
        assert await tx.end() == 0
        taken = "DONE" if said == "ack1;a=0-2" else "ACQUIRED"
        assert states(gateway, *range(5)) == ["DONE", "DONE", taken, "BACKOFF", "ACQUIRED"]

    run(test)


def test_nobody_else_says_the_same() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        await member(client, topic_id)
        one, other = await begun(client, name="one"), await begun(client, name="other")
        assert await one.offsets("g", {("t", 0): (0, "ack1;a=0")}, member="m") == 0
        assert await other.offsets("g", {("t", 0): (0, "ack1;a=0")}) == Error.INVALID_RECORD_STATE
        assert await one.offsets("g", {("t", 0): (0, "ack1;a=0")}, member="m") == 0

    run(test)


def test_the_same_is_taken_again_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving_on(await rocksdb.open(tmp_path / "data")) as gateway:
            client = await Client.connect(gateway)
            await member(client, await topic(gateway, client, 3))
            tx = await begun(client)
            assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1")}) == 0
            client.close()
        async with serving_on(await rocksdb.open(tmp_path / "data")) as gateway:
            tx.client = client = await Client.connect(gateway)
            assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1")}) == 0
            assert await tx.offsets("g", {("t", 0): (0, "ack1;n=0")}) == Error.INVALID_RECORD_STATE
            assert await tx.end() == 0
            assert states(gateway, 0, 1) == ["DONE", "DONE"]
            client.close()

    uvloop.run(main())


@BOTH
@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_the_same_commit_of_a_lane_is_taken_again_and_done_once(new: bool, kind: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 5, kind=kind)
        assert await read(client) == [0, 1, 2, 3, 4]
        tx = await begun(client, new=new)
        for _ in range(2):
            assert await tx.offsets("g", {(NAME, 0): (3, "ack1;n:60000=1;a=4")}) == 0
        assert states(gateway, *range(5)) == ["ACQUIRED"] * 5
        assert await tx.end() == 0
        assert states(gateway, *range(5)) == ["DONE", "BACKOFF", "DONE", "ACQUIRED", "DONE"]
        assert serving(gateway).ready().totals["nacked"] == 1

    run(test)


@pytest.mark.parametrize("lanes", [False, True], ids=["shared", "lanes"])
@BOTH
def test_it_is_not_answered_before_what_was_said_first_is_stored(new: bool, lanes: bool) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        if lanes:
            await queue(gateway, client, 3)
            assert await read(client) == [0, 1, 2]
            # the group is stored before
            assert await commit(client, {0: (1, "")}) == {0: 0}
            those = {(NAME, 0): (2, "")}
        else:
            await member(client, await topic(gateway, client, 2))
            those = {("t", 0): (0, "ack1;a=0")}
        tx = await begun(client, new=new)
        if not new:
            # the group is added
            assert await tx.offsets("g", {(NAME, 0): (1, "")} if lanes else {("t", 0): (0, "ack1;a=1")}) == 0
        later = await Client.connect(gateway)
        store.holding = True
        first = asyncio.ensure_future(tx.offsets("g", those, added=True))
        await store.has(1)
        second = asyncio.ensure_future(elsewhere(tx, later).offsets("g", those, added=True))
        await store.has(2)
        assert not second.done()
        store.fail(Refused("the disk is full"))
        store.release()
        assert await first != 0
        assert await second != 0, "neither is said"
        later.close()

    run_held(test)


# -- what a lane has done with -----------------------------------------------------------------------------------------

KINDS = pytest.mark.parametrize("kind", ["shared", "key_shared"])


@KINDS
@pytest.mark.parametrize("verb", ["a", "n", "d", "r"])
def test_a_delivery_that_another_transaction_has_is_refused(kind: str, verb: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 5, kind=kind)
        assert await read(client) == [0, 1, 2, 3, 4]
        one, other = await begun(client, name="one"), await begun(client, name="other")
        assert await one.offsets("g", {(NAME, 0): (1, "ack1;a=2")}) == 0
        # nothing of that is taken
        named = (1, "ack1;a=2-3") if verb == "a" else (4, f"ack1;{verb}=2")
        assert await other.offsets("g", {(NAME, 0): named}) == Error.INVALID_RECORD_STATE
        assert states(gateway, 3) == ["ACQUIRED"]
        # an offset alone says nothing of what is done with below it, in a transaction and outside of them
        assert await other.offsets("g", {(NAME, 0): (4, "")}) == 0
        assert await commit(client, {0: (4, "ack1;a=4")}) == {0: 0}
        assert [await one.end(), await other.end()] == [0, 0]
        assert serving(gateway).ready().totals["acknowledged"] == 5

    run(test)


@KINDS
@pytest.mark.parametrize(
    ("said", "code"),
    [
        ((2, "ack1;n:5000=1;a=3"), Error.NONE),
        ((2, "ack1;a=3"), Error.NONE),
        ((2, "ack1;n:5000=1;d=0"), Error.INVALID_RECORD_STATE),
        ((2, "ack1;n:6000=1"), Error.INVALID_RECORD_STATE),
        ((2, "ack1;d=1"), Error.INVALID_RECORD_STATE),
    ],
)
def test_of_what_a_lane_has_done_with_a_transaction_says_the_same_or_nothing(
    kind: str, said: tuple[int, str], code: Error, tmp_path: Path
) -> None:
    """As of shared records, and after a restart as well."""

    async def main() -> None:
        async with serving_on(await rocksdb.open(tmp_path / "data")) as gateway:
            client = await Client.connect(gateway)
            await queue(gateway, client, 5, kind=kind)
            assert await read(client) == [0, 1, 2, 3, 4]
            tx = await begun(client)
            assert await tx.offsets("g", {(NAME, 0): (2, "ack1;n:5000=1;a=3")}) == 0
            client.close()
        async with serving_on(await rocksdb.open(tmp_path / "data")) as gateway:
            tx.client = client = await Client.connect(gateway)
            assert await tx.offsets("g", {(NAME, 0): said}) == code
            assert await tx.end() == 0
            assert states(gateway, *range(4)) == ["DONE", "BACKOFF", "ACQUIRED", "DONE"]
            client.close()

    uvloop.run(main())
