"""What is said in a transaction of records that an administrator moves, or that are gone: also after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from gateway.broker.staged_acks import PREFIX
from gateway.broker.subscriptions import positions
from gateway.server import Gateway
from semantics.subscriptions.states import Ending
from store import rocksdb
from store.api import Delete, DeleteRange, Family, Put, Refused
from tests.gateway.apis.test_queue_topics import NAME, queue, read
from tests.gateway.apis.test_txn_acks import again, begun, member, states
from tests.gateway.apis.transacting import Tx
from tests.gateway.broker.held import Clock, HeldStore, run, run_held, serving_on
from tests.gateway.broker.share_asking import acquired, alter_group, serving, share_fetch, topic
from tests.gateway.serving import Client

Body = Callable[[Gateway, Client], Awaitable[None]]

KINDS = pytest.mark.parametrize("kind", ["shared", "key_shared"])


def restarts(folder: Path, *bodies: Body, clock: Clock | None = None) -> None:
    """Each of these against a gateway of its own, all on one store."""

    async def main() -> None:
        for body in bodies:
            store = await rocksdb.open(folder / "data")
            async with serving_on(store, clock=clock) as gateway:
                client = await Client.connect(gateway)
                await body(gateway, client)
                client.close()

    uvloop.run(main())


async def reset(gateway: Gateway, offset: int = 0, partition: int = 0) -> None:
    subscription = gateway.broker.subscriptions.get("g", "t")
    assert subscription is not None
    await positions.seek(subscription, {partition: offset})


def rows(gateway: Gateway) -> int:
    """How many rows say something of messages."""
    return len(list(gateway.broker.store.scan(Family.TXN, PREFIX)))


class Kept:
    """What a test knows from one gateway to the next."""

    def __init__(self) -> None:
        self.topic_id = b""
        self.those: list[Tx] = []

    async def begin(self, client: Client, name: str = "tx") -> Tx:
        self.those.append(await begun(client, name=name))
        return self.those[-1]

    def go_on(self, client: Client) -> list[Tx]:
        for tx in self.those:
            tx.client = client
        return self.those


# -- share groups ------------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("given", [False, True], ids=["unread", "given again"])
def test_a_reset_takes_records_from_a_transaction_for_good(kind: str, given: bool, tmp_path: Path) -> None:
    kept = Kept()

    async def first(gateway: Gateway, client: Client) -> None:
        kept.topic_id = await topic(gateway, client, 3)
        await alter_group(client, **{"pulsar.subscription.type": kind})
        assert await again(client, kept.topic_id, 0) == {0: 1, 1: 1, 2: 1}
        tx = await kept.begin(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1")}) == 0
        await reset(gateway)
        if given:
            assert await again(client, kept.topic_id, 1) == {0: 1, 1: 1, 2: 1}
            # they came back, and so the cursor's rows say that they were read
            serving(gateway).detach("m", Ending.CRASHED)
            await gateway.broker.write([])

    async def second(gateway: Gateway, client: Client) -> None:
        (tx,) = kept.go_on(client)
        serving(gateway).ready()
        assert await tx.end() == 0
        found = await again(client, kept.topic_id, 0)
        assert sorted(found) == [0, 1, 2], "the reset wins"

    restarts(tmp_path, first, second)


@KINDS
def test_what_another_transaction_commits_after_a_reset_stays_done(kind: str, tmp_path: Path) -> None:
    kept = Kept()

    async def first(gateway: Gateway, client: Client) -> None:
        kept.topic_id = await topic(gateway, client, 3)
        await alter_group(client, **{"pulsar.subscription.type": kind})
        assert await again(client, kept.topic_id, 0) == {0: 1, 1: 1, 2: 1}
        one = await kept.begin(client, "one")
        assert await one.offsets("g", {("t", 0): (0, "ack1;a=0-2")}) == 0
        await reset(gateway)
        assert await again(client, kept.topic_id, 1) == {0: 1, 1: 1, 2: 1}
        other = await kept.begin(client, "two")
        assert await other.offsets("g", {("t", 0): (0, "ack1;a=0-2")}) == 0

    async def second(gateway: Gateway, client: Client) -> None:
        one, other = kept.go_on(client)
        assert await other.end() == 0
        assert await one.end(committed=False) == 0
        assert serving(gateway).ready().start == 3
        assert rows(gateway) == 0

    restarts(tmp_path, first, second)


def test_a_reset_takes_back_what_a_transaction_said_and_not_what_it_says_later() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2)
        await member(client, topic_id)
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;d=0;n=1")}) == 0
        await reset(gateway)
        assert await again(client, topic_id, 1) == {0: 1, 1: 1}
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1")}) == 0
        assert await tx.end() == 0
        cursor = serving(gateway).ready()
        assert (cursor.start, cursor.totals["rejected"]) == (2, 0)

    run(test)


def test_a_reset_of_one_partition_leaves_the_others_in_the_transaction() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2, partitions=2)
        await member(client, topic_id)
        other = await Client.connect(gateway)
        await share_fetch(other, "n", 0, topic_id, [1])
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1"), ("t", 1): (0, "ack1;a=0-1")}) == 0
        await reset(gateway, 0, 1)
        assert await tx.end() == 0
        assert [serving(gateway, index).ready().start for index in (0, 1)] == [2, 0]
        other.close()

    run(test)


def test_a_reset_that_is_not_stored_takes_nothing() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, 2)
        await member(client, topic_id)
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0")}) == 0
        store.holding = True
        resetting = asyncio.ensure_future(reset(gateway))
        await store.has(1)
        store.fail(Refused("the disk is full"))
        store.release()
        with pytest.raises(Refused):
            await resetting
        assert states(gateway, 0, 1) == ["ACQUIRED", "AVAILABLE"]
        assert await tx.end() == 0
        assert states(gateway, 0, 1) == ["DONE", "AVAILABLE"]

    run_held(test)


def test_a_reset_and_what_it_takes_from_transactions_are_one_commit() -> None:
    """A power cut takes both or neither."""

    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, 2)
        await member(client, topic_id)
        tx = await begun(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0")}) == 0
        before = len(store.commits)
        await reset(gateway)
        commits = [
            [each for each in commit if isinstance(each, Put | Delete | DeleteRange)]
            for commit in store.commits[before:]
        ]
        (taking,) = [
            commit
            for commit in commits
            if any(isinstance(each, Delete) and each.family is Family.TXN for each in commit)
        ]
        assert any(isinstance(each, Put) and each.family is Family.CURSOR for each in taking)
        assert rows(gateway) == 0

    run_held(test)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("restart", [True, False])
def test_a_subscription_of_another_type_leaves_a_transaction_what_it_has(
    restart: bool, committed: bool, tmp_path: Path
) -> None:
    kept = Kept()

    async def first(gateway: Gateway, client: Client) -> None:
        kept.topic_id = await topic(gateway, client, 4)
        await member(client, kept.topic_id)
        tx = await kept.begin(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=1-2")}) == 0
        serving(gateway).detach("m", Ending.STOPPED)
        await alter_group(client, **{"pulsar.subscription.type": "key_shared"})
        assert states(gateway, 1, 2) == ["ACQUIRED", "ACQUIRED"]

    async def second(gateway: Gateway, client: Client) -> None:
        (tx,) = kept.go_on(client)
        assert await given(client, 0) == {0: 1, 3: 1}
        assert await tx.end(committed=committed) == 0
        if committed:
            assert states(gateway, 1, 2) == ["DONE", "DONE"]
        else:
            assert await given(client, 1) == {1: 2, 2: 2}

    async def given(client: Client, epoch: int) -> dict[int, int]:
        return acquired(await share_fetch(client, "n", epoch, kept.topic_id, [0], max_wait=5_000)).get(0, {})

    async def both(gateway: Gateway, client: Client) -> None:
        await first(gateway, client)
        await second(gateway, client)

    restarts(tmp_path, *((first, second) if restart else (both,)))


def test_the_end_of_a_terminated_topic_is_done_as_of_any(tmp_path: Path) -> None:
    kept = Kept()

    async def first(gateway: Gateway, client: Client) -> None:
        kept.topic_id = await topic(gateway, client, 3)
        await member(client, kept.topic_id)
        tx = await kept.begin(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0,2")}) == 0
        await gateway.broker.topics.terminate("t", [0])

    async def second(gateway: Gateway, client: Client) -> None:
        (tx,) = kept.go_on(client)
        assert await again(client, kept.topic_id, 0) == {1: 1}
        assert await tx.end() == 0
        assert states(gateway, 0, 1, 2) == ["DONE", "ACQUIRED", "DONE"]

    restarts(tmp_path, first, second)


def test_what_is_skipped_of_a_transaction_is_not_given_when_it_aborts(tmp_path: Path) -> None:
    kept = Kept()

    async def first(gateway: Gateway, client: Client) -> None:
        kept.topic_id = await topic(gateway, client, 4)
        await member(client, kept.topic_id)
        tx = await kept.begin(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-2")}) == 0
        positions.move([(serving(gateway), 2)], lambda cursor, count: cursor.skip(count, 4))
        await gateway.broker.write([])
        # what is left of it is in the transaction still
        assert states(gateway, 0, 1, 2, 3) == ["DONE", "DONE", "ACQUIRED", "ACQUIRED"]

    async def second(gateway: Gateway, client: Client) -> None:
        (tx,) = kept.go_on(client)
        assert await again(client, kept.topic_id, 0) == {3: 1}
        assert await tx.end(committed=False) == 0
        assert await again(client, kept.topic_id, 1) == {2: 2}

    restarts(tmp_path, first, second)


def test_a_cleared_backlog_is_no_part_of_a_transaction_when_it_is_sought_back(tmp_path: Path) -> None:
    kept = Kept()

    async def first(gateway: Gateway, client: Client) -> None:
        kept.topic_id = await topic(gateway, client, 2)
        await member(client, kept.topic_id)
        tx = await kept.begin(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1")}) == 0
        positions.move([(serving(gateway), 2)], lambda cursor, end: cursor.clear(end))
        await gateway.broker.write([])
        assert rows(gateway) == 0
        await reset(gateway)

    async def second(gateway: Gateway, client: Client) -> None:
        (tx,) = kept.go_on(client)
        assert await again(client, kept.topic_id, 0) == {0: 1, 1: 1}
        assert await tx.end() == 0
        assert states(gateway, 0, 1) == ["ACQUIRED", "ACQUIRED"]

    restarts(tmp_path, first, second)


def test_of_two_transactions_that_rows_name_for_one_record_the_later_has_it(tmp_path: Path) -> None:
    """As versions left them behind that took no rows away at a reset."""
    kept, clock = Kept(), Clock()

    async def first(gateway: Gateway, client: Client) -> None:
        kept.topic_id = await topic(gateway, client, 3)
        await member(client, kept.topic_id)
        one = await kept.begin(client, "a")
        assert await one.offsets("g", {("t", 0): (0, "ack1;a=0-2")}) == 0
        at = serving(gateway)
        at.ready().seek(0)
        at.touch()
        await gateway.broker.write([])
        assert await again(client, kept.topic_id, 1) == {0: 1, 1: 1, 2: 1}
        clock.now += 1
        other = await kept.begin(client, "b")
        assert await other.offsets("g", {("t", 0): (0, "ack1;d=0")}) == 0
        at.ready().seek(0)
        at.touch()
        await gateway.broker.write([])
        assert await again(client, kept.topic_id, 2) == {0: 1, 1: 1, 2: 1}
        assert await other.offsets("g", {("t", 0): (0, "ack1;a=0-2")}) == 0
        assert rows(gateway) == 3

    async def second(gateway: Gateway, client: Client) -> None:
        one, other = kept.go_on(client)
        assert await other.end() == 0
        assert await one.end(committed=False) == 0
        cursor = serving(gateway).ready()
        assert (cursor.start, cursor.totals["rejected"]) == (3, 0)

    restarts(tmp_path, first, second, clock=clock)


def test_what_is_said_after_a_restart_takes_the_place_of_nothing(tmp_path: Path) -> None:
    kept = Kept()

    async def first(gateway: Gateway, client: Client) -> None:
        kept.topic_id = await topic(gateway, client, 3, partitions=2)
        await share_fetch(client, "m", 0, kept.topic_id, [0, 1])
        tx = await kept.begin(client)
        for index, said in ((1, "ack1;a=0"), (0, "ack1;a=0"), (0, "ack1;a=1")):
            assert await tx.offsets("g", {("t", index): (0, said)}) == 0

    async def second(gateway: Gateway, client: Client) -> None:
        (tx,) = kept.go_on(client)
        assert await again(client, kept.topic_id, 0) == {2: 1}
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=2")}) == 0
        assert rows(gateway) == 4
        assert await tx.end() == 0
        assert serving(gateway).ready().start == 3

    restarts(tmp_path, first, second)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("whole", [True, False], ids=["topic", "subscription"])
def test_what_was_said_of_what_is_deleted_ends_with_the_transaction(
    committed: bool, whole: bool, tmp_path: Path
) -> None:
    kept = Kept()

    async def first(gateway: Gateway, client: Client) -> None:
        kept.topic_id = await topic(gateway, client, 2)
        await member(client, kept.topic_id)
        tx = await kept.begin(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1")}) == 0
        if whole:
            await gateway.broker.topics.delete("t")
            kept.topic_id = await topic(gateway, client, 2)
        else:
            await gateway.broker.subscriptions.delete("g")
            await gateway.broker.subscriptions.ensure("g", "t", [0])

    async def second(gateway: Gateway, client: Client) -> None:
        (tx,) = kept.go_on(client)
        assert await again(client, kept.topic_id, 0) == {0: 1, 1: 1}, "it is another one"
        assert await tx.end(committed=committed) == 0
        assert states(gateway, 0, 1) == ["ACQUIRED", "ACQUIRED"]
        assert rows(gateway) == 0

    restarts(tmp_path, first, second)


def test_a_time_to_live_leaves_what_a_transaction_has(tmp_path: Path) -> None:
    clock, kept = Clock(), Kept()

    async def first(gateway: Gateway, client: Client) -> None:
        kept.topic_id = await topic(gateway, client, 3)
        await member(client, kept.topic_id)
        tx = await kept.begin(client)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=1")}) == 0

    async def second(gateway: Gateway, client: Client) -> None:
        (tx,) = kept.go_on(client)
        serving(gateway).ready()
        clock.now += 10_000
        found = gateway.broker.catalog.get("t")
        assert found is not None
        await gateway.broker.message_ttl_job.expire(found, 1_000, index=0, group="g")
        assert states(gateway, 0, 1, 2) == ["DONE", "ACQUIRED", "DONE"]
        assert await tx.end(committed=False) == 0
        assert await again(client, kept.topic_id, 0) == {1: 2}

    restarts(tmp_path, first, second, clock=clock)


# -- queue topics ------------------------------------------------------------------------------------------------------


@KINDS
def test_a_reset_takes_what_a_lane_had_done_with_from_a_transaction(kind: str, tmp_path: Path) -> None:
    kept = Kept()

    async def first(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3, kind=kind)
        assert await read(client) == [0, 1, 2]
        one = await kept.begin(client, "one")
        assert await one.offsets("g", {(NAME, 0): (3, "")}) == 0
        await reset(gateway)
        assert await read(client, offset=3) == [3, 4, 5]
        other = await kept.begin(client, "two")
        assert await other.offsets("g", {(NAME, 0): (5, "")}) == 0

    async def second(gateway: Gateway, client: Client) -> None:
        one, other = kept.go_on(client)
        assert await other.end() == 0
        assert await one.end(committed=False) == 0
        assert states(gateway, 0, 1) == ["DONE", "DONE"]
        assert (await read(client, offset=5))[-1] == 5, "the one that nobody said anything of is where it was"
        cursor = serving(gateway).ready()
        assert (cursor.acquired, cursor.failures(2)) == (1, 0)
        assert rows(gateway) == 0

    restarts(tmp_path, first, second)


@pytest.mark.parametrize("committed", [True, False])
@KINDS
def test_lanes_that_grow_or_go_leave_a_transaction_what_it_has(
    kind: str, committed: bool, tmp_path: Path
) -> None:
    kept = Kept()

    async def first(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3, kind=kind)
        assert await read(client) == [0, 1, 2]
        tx = await kept.begin(client)
        assert await tx.offsets("g", {(NAME, 0): (2, "")}) == 0
        await gateway.broker.topics.grow(NAME, 2)

    async def second(gateway: Gateway, client: Client) -> None:
        assert states(gateway, 0, 1) == ["ACQUIRED", "ACQUIRED"]
        await gateway.broker.topics.delete(NAME)

    async def third(gateway: Gateway, client: Client) -> None:
        (tx,) = kept.go_on(client)
        assert states(gateway, 0, 1) == ["ACQUIRED", "ACQUIRED"]
        assert await tx.end(committed=committed) == 0
        found = [serving(gateway).ready().look(offset) for offset in (0, 1)]
        assert [each.state == "DONE" for each in found] == [committed] * 2
        assert [each.count for each in found] == [0 if committed else 1] * 2
        assert rows(gateway) == 0

    restarts(tmp_path, first, second, third)
