"""What is said of single messages inside of a transaction is done when that commits, or counts as a failed delivery."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import uvloop

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import rocksdb
from store.api import Refused
from tests.gateway.apis.test_queue_topics import NAME, commit, committed, produce, queue, read
from tests.gateway.apis.transacting import Tx, stable_offset
from tests.gateway.broker.held import Clock, HeldStore, run, run_held, serving_on
from tests.gateway.broker.share_asking import (
    ACCEPT,
    REJECT,
    acquired,
    alter_group,
    errors,
    serving,
    share_acknowledge,
    share_fetch,
    topic,
)
from tests.gateway.serving import Client, create

BOTH = pytest.mark.parametrize("new", [False, True], ids=["V1", "V2"])


def states(gateway: Gateway, *offsets: int, partition: int = 0) -> list[str]:
    """Of records of the group's subscription."""
    cursor = serving(gateway, partition).ready()
    return [cursor.look(offset).state for offset in offsets]


def counts(gateway: Gateway, *offsets: int) -> list[int]:
    return [serving(gateway).ready().look(offset).count for offset in offsets]


async def begun(client: Client, *, new: bool = True, name: str = "tx") -> Tx:
    tx = Tx(client, name, new=new)
    assert await tx.init() == 0
    return tx


async def member(client: Client, topic_id: bytes) -> None:
    """A member of the share group that has read all there is."""
    await share_fetch(client, "m", 0, topic_id, [0])


async def again(client: Client, topic_id: bytes, epoch: int) -> dict[int, int]:
    """What it is given now, with the number of the delivery."""
    return acquired(await share_fetch(client, "m", epoch, topic_id, [0], max_wait=5_000)).get(0, {})


# -- share groups ------------------------------------------------------------------------------------------------------


@BOTH
def test_what_is_said_of_shared_records_is_done_with_the_commit(new: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 6)
        await create(client, "out")
        await alter_group(client, **{"pulsar.nack.delay.ms": "60000"})
        assert await again(client, topic_id, 0) == dict.fromkeys(range(6), 1)
        tx = await begun(client, new=new)
        assert await tx.put(b"a", topic="out") == 0
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1,4;n=2;d=3")}) == 0
        assert states(gateway, *range(6)) == ["ACQUIRED"] * 6, "nothing is done before"
        assert await stable_offset(client, "out") == 0
        assert await tx.end() == 0
        assert await stable_offset(client, "out") == 2
        assert states(gateway, 0, 1, 2, 4, 5) == ["DONE", "DONE", "BACKOFF", "DONE", "ACQUIRED"]
        assert states(gateway, 3)[0] in ("DYING", "DONE")

    run(test)


@BOTH
def test_an_abort_gives_them_back_at_once_and_counts(new: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 3)
        await alter_group(client, **{"pulsar.max.redeliver.count": "2"})
        await member(client, topic_id)
        tx = await begun(client, new=new)
        for failed in (1, 2):
            assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0;n=1")}) == 0
            assert await tx.end(committed=False) == 0
            assert await again(client, topic_id, failed) == {0: failed + 1, 1: failed + 1}
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0")}) == 0
        assert await tx.end(committed=False) == 0
        assert states(gateway, 0)[0] in ("DYING", "DONE"), "what always aborts is a dead letter"
        assert states(gateway, 1, 2) == ["ACQUIRED", "ACQUIRED"]

    run(test)


def test_nobody_else_says_anything_of_them_meanwhile() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 3)
        await member(client, topic_id)
        one, other = await begun(client, name="one"), await begun(client, name="other")
        assert await one.offsets("g", {("t", 0): (0, "ack1;a=0-1")}) == 0
        assert await other.offsets("g", {("t", 0): (0, "ack1;a=1-2")}) == Error.INVALID_RECORD_STATE
        assert await one.offsets("g", {("t", 0): (0, "ack1;d=1")}) == Error.INVALID_RECORD_STATE
        # all of what one says is taken, or nothing
        assert await other.offsets("g", {("t", 0): (0, "ack1;a=2")}) == 0
        assert [await other.end(), await one.end()] == [0, 0]
        assert states(gateway, 0, 1, 2) == ["DONE"] * 3

    run(test)


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_a_client_that_must_acknowledge_all_that_it_was_given_may_do_so(kind: str) -> None:
    """Of what it has said in a transaction that says nothing, before the end of that and behind it."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 6)
        await alter_group(client, **{"pulsar.subscription.type": kind})
        assert await again(client, topic_id, 0) == dict.fromkeys(range(6), 1)
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=1-2;d=4")}) == 0
        said = await share_acknowledge(client, "m", 1, topic_id, {0: [(0, 1, ACCEPT)]})
        assert errors(said) == {0: 0}
        assert states(gateway, 0, 1, 2, 4) == ["DONE", "ACQUIRED", "ACQUIRED", "ACQUIRED"]
        assert await tx.end(committed=False) == 0
        said = await share_acknowledge(
            client, "m", 2, topic_id, {0: [(2, 5, [ACCEPT, REJECT, ACCEPT, ACCEPT])]}
        )
        assert errors(said) == {0: 0}
        assert states(gateway, 1, 2, 4, 5) == ["AVAILABLE", "AVAILABLE", "AVAILABLE", "DONE"]
        # what it is given once more counts
        assert await again(client, topic_id, 3) == {1: 2, 2: 2, 4: 2}
        said = await share_acknowledge(client, "m", 4, topic_id, {0: [(1, 1, ACCEPT), (2, 2, ACCEPT)]})
        assert errors(said) == {0: 0}
        assert states(gateway, 1, 2, 4) == ["DONE", "DONE", "ACQUIRED"]
        # and another says nothing of it
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=4")}) == 0
        await share_fetch(client, "n", 0, topic_id, [0])
        said = await share_acknowledge(client, "n", 1, topic_id, {0: [(4, 4, ACCEPT)]})
        assert errors(said) == {0: Error.INVALID_RECORD_STATE}

    run(test)


def test_a_consumer_that_dies_and_a_lock_that_runs_out_change_nothing() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 3)
        dying = await Client.connect(gateway)
        await member(dying, topic_id)
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1")}) == 0
        dying.close()
        clock.now += 31_000
        serving(gateway).ready().tick(clock.now, clock.now)
        assert states(gateway, 0, 1, 2) == ["ACQUIRED", "ACQUIRED", "AVAILABLE"]
        assert await tx.end() == 0
        assert states(gateway, 0, 1) == ["DONE", "DONE"]

    run(test, clock=clock)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("ack1;a=0@1", Error.NONE),
        ("ack1;a=0@2", Error.INVALID_RECORD_STATE),
        ("ack1;a=3", Error.INVALID_RECORD_STATE),
        ("ack1;a=0-9223372036854775806", Error.INVALID_RECORD_STATE),
        ("ack1;a=9223372036854775807", Error.INVALID_REQUEST),
        ("ack1;s;a=0", Error.INVALID_REQUEST),
        ("ack1;a=nonsense", Error.INVALID_REQUEST),
        ("ack2;a=0", Error.INVALID_REQUEST),
        ("ack1;n=0;n:100=0", Error.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_said_is_refused_and_nothing_of_it_is_done(said: str, code: Error) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 3)
        await member(client, topic_id)
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, said)}) == code
        assert await tx.end() == 0
        assert states(gateway, 0, 1, 2) == [
            "DONE" if code is Error.NONE else "ACQUIRED",
            "ACQUIRED",
            "ACQUIRED",
        ]

    run(test)


def test_a_member_says_nothing_of_what_another_has() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 3)
        await member(client, topic_id)
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0")}, member="n") == Error.INVALID_RECORD_STATE
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0")}, member="m") == 0

    run(test)


def test_a_share_group_has_no_offsets() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 3, partitions=2)
        await member(client, topic_id)
        tx = await begun(client)
        request = messages.TxnOffsetCommitRequest
        parts = [
            request.TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=1, committed_leader_epoch=-1, committed_metadata=said
            )
            for index, said in ((0, "ack1;a=0"), (1, "plain"))
        ]
        answer = await client.ask(
            ApiKey.TXN_OFFSET_COMMIT,
            5,
            request(
                **tx.who,
                group_id="g",
                generation_id=-1,
                member_id="",
                group_instance_id=None,
                topics=[request.TxnOffsetCommitRequestTopic(name="t", partitions=parts)],
            ),
        )
        assert [each.error_code for each in answer.topics[0].partitions] == [0, Error.GROUP_ID_NOT_FOUND]

    run(test)


# -- what happens meanwhile --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_they_are_out_of_reach_after_a_restart_until_it_ends(committed: bool, tmp_path: Path) -> None:
    async def first(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        await member(client, topic_id)
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=1-2")}) == 0
        kept.append((tx, topic_id))

    async def second(gateway: Gateway, client: Client) -> None:
        ((tx, topic_id),) = kept
        tx.client = client
        assert await again(client, topic_id, 0) == {0: 1, 3: 1}
        assert await tx.end(committed=committed) == 0
        if committed:
            assert states(gateway, 1, 2) == ["DONE", "DONE"]
        else:
            assert await again(client, topic_id, 1) == {1: 2, 2: 2}

    async def main() -> None:
        for body in (first, second):
            async with serving_on(await rocksdb.open(tmp_path / "data")) as gateway:
                client = await Client.connect(gateway)
                await body(gateway, client)
                client.close()

    kept: list[tuple[Tx, bytes]] = []
    uvloop.run(main())


def test_who_begins_anew_gives_them_back() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2)
        await member(client, topic_id)
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0")}) == 0
        assert await (other := Tx(client, new=True)).init() == 0
        assert await again(client, topic_id, 1) == {0: 2}
        assert await tx.end() == Error.PRODUCER_FENCED
        assert await other.offsets("g", {("t", 0): (0, "ack1;a=0")}) == 0
        assert await other.end() == 0
        assert states(gateway, 0, 1) == ["DONE", "ACQUIRED"]

    run(test)


def test_what_was_not_stored_was_not_said() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, 2)
        await member(client, topic_id)
        tx = await begun(client)
        store.holding = True
        saying = asyncio.ensure_future(tx.offsets("g", {("t", 0): (0, "ack1;a=0")}))
        await store.has(1)
        store.fail(Refused("the disk is full"))
        store.release()
        assert await saying != 0
        # as after a crash: in nobody's hands, and of no transaction
        assert states(gateway, 0, 1) == ["AVAILABLE", "AVAILABLE"]
        assert await again(client, topic_id, 1) == {0: 1, 1: 1}
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0")}) == 0
        assert await tx.end() == 0
        assert states(gateway, 0, 1) == ["DONE", "ACQUIRED"]

    run_held(test)


def test_an_end_that_is_not_stored_has_done_nothing() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, 2)
        await member(client, topic_id)
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0")}) == 0
        store.holding = True
        ending = asyncio.ensure_future(tx.end())
        await store.has(1)
        store.fail(Refused("the disk is full"))
        store.release()
        assert await ending != 0
        assert states(gateway, 0, 1) == ["ACQUIRED", "AVAILABLE"]
        assert serving(gateway).ready().look(0).consumer == "transaction tx"
        assert await tx.end() == 0
        assert states(gateway, 0) == ["DONE"]

    run_held(test)


def test_a_subscription_that_is_deleted_takes_what_was_said_with_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2)
        await member(client, topic_id)
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1")}) == 0
        await gateway.broker.subscriptions.delete("g")
        await gateway.broker.subscriptions.ensure("g", "t", [0])
        assert await tx.end() == 0
        assert states(gateway, 0, 1) == ["UNREAD", "UNREAD"], "it is another subscription"

    run(test)


# -- queue topics ------------------------------------------------------------------------------------------------------

KINDS = pytest.mark.parametrize("kind", ["shared", "key_shared"])


@BOTH
@KINDS
def test_a_commit_of_a_queue_topic_is_done_with_the_transaction(new: bool, kind: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 5, kind=kind)
        assert await read(client) == [0, 1, 2, 3, 4]
        tx = await begun(client, new=new)
        assert await tx.offsets("g", {(NAME, 0): (4, "ack1;n:60000=1")}) == 0
        assert states(gateway, *range(5)) == ["ACQUIRED"] * 5
        assert await tx.end() == 0
        assert states(gateway, *range(5)) == ["DONE", "BACKOFF", "DONE", "DONE", "ACQUIRED"]

    run(test)


@BOTH
@KINDS
def test_an_abort_delivers_what_a_lane_had_done_with_anew(new: bool, kind: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3, kind=kind)
        assert await read(client) == [0, 1, 2]
        tx = await begun(client, new=new)
        assert await tx.offsets("g", {(NAME, 0): (2, "")}) == 0
        # who dies meanwhile has not got these
        assert await commit(client, {0: (3, "")}) == {0: 0}
        assert states(gateway, *range(3)) == ["ACQUIRED", "ACQUIRED", "DONE"]
        assert await tx.end(committed=False) == 0
        assert counts(gateway, 0, 1) == [1, 1]
        assert await read(client, offset=3) == [3, 4], "as new deliveries"
        assert await commit(client, {0: (5, "")}) == {0: 0}
        assert serving(gateway).ready().start == 3

    run(test)


@BOTH
@pytest.mark.parametrize("ended", [True, False], ids=["committed", "aborted"])
def test_the_group_of_lanes_is_known_for_what_it_commits_in_transactions_alone(
    new: bool, ended: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        async with serving_on(await rocksdb.open(tmp_path / "data")) as gateway:
            client = await Client.connect(gateway)
            await queue(gateway, client, 3)
            assert await read(client) == [0, 1, 2]
            tx = await begun(client, new=new)
            assert await tx.offsets("g", {(NAME, 0): (2, "mine")}) == 0
            # nobody who joins waits for the end of it: the lane has done with these
            assert await committed(client, [0], stable=True) == [(2, "", 0)]
            assert await tx.end(committed=ended) == 0
            client.close()
        async with serving_on(await rocksdb.open(tmp_path / "data")) as gateway:
            client = await Client.connect(gateway)
            answer = await client.ask(ApiKey.LIST_GROUPS, 5, messages.ListGroupsRequest())
            found = [(each.group_id, each.group_state) for each in answer.groups]
            assert found == [("g", "Empty")]
            assert await committed(client, [0], stable=True) == [(2, "mine" if ended else "", 0)]
            client.close()

    uvloop.run(main())


@KINDS
def test_a_lane_says_in_a_transaction_what_it_has_when_there_is_nothing_left_to_give(kind: str) -> None:
    """After a commit outside of one: an idle cursor knows nothing of slots."""

    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 4, kind=kind)
        assert await read(client) == [0, 1, 2, 3]
        assert await commit(client, {0: (2, None)}) == {0: 0}
        tx = await begun(client)
        assert await tx.offsets("g", {(NAME, 0): (4, "")}) == 0
        assert await tx.end(committed=False) == 0
        assert await read(client, 0, 4) == [4, 5], "they come again"

    run(test)


def test_nothing_of_a_key_overtakes_what_a_transaction_has() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 1, kind="key_shared")
        assert await read(client) == [0]
        tx = await begun(client)
        assert await tx.offsets("g", {(NAME, 0): (1, "")}) == 0
        await produce(client, 1)
        lane = gateway.broker.queues.of(gateway.broker.topics.get(NAME)).at[0]
        lane.at_end()
        assert lane.lane.end == 1, "the second record of the key waits"
        assert await tx.end(committed=False) == 0
        assert await read(client, offset=1) == [1, 2]
        cursor = serving(gateway).ready()
        assert [cursor.look(offset).count for offset in (0, 1)] == [1, 0]

    run(test)


@pytest.mark.parametrize("said", [(9, ""), (2, "ack1;a=0"), (1, "ack9;"), (1, "ack1;n=0@1")])
def test_what_no_lane_can_be_told_is_refused(said: tuple[int, str]) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        assert await read(client) == [0, 1, 2]
        tx = await begun(client)
        assert await tx.offsets("g", {(NAME, 0): said}) == Error.INVALID_REQUEST
        assert await tx.end() == 0
        assert states(gateway, 0, 1, 2) == ["ACQUIRED"] * 3

    run(test)


def test_the_base_topic_of_a_queue_is_acknowledged_by_its_lanes_alone() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        assert await read(client) == [0, 1, 2]
        tx = await begun(client)
        for said in ("", "ack1;a=0"):
            assert await tx.offsets("g", {("t", 0): (1, said)}) == Error.INVALID_REQUEST
        # another group has offsets there, and in the queue topic
        assert await tx.offsets("audit", {("t", 0): (1, ""), (NAME, 0): (1, "ack1;n=0")}) == 0
        assert await tx.end() == 0
        assert states(gateway, 0, 1, 2) == ["ACQUIRED"] * 3

    run(test)
