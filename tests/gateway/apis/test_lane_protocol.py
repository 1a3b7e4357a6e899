"""Queue topics in groups of the new protocol (KIP-848): members have lanes, give them up, leave, are lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gateway.broker.errors import KafkaError
from gateway.broker.group_sweep import Sweep
from gateway.broker.queues.queue import Queue
from gateway.server import Gateway
from gateway.wire.errors import Error
from store import rocksdb
from store.api import Delete, Family, Refused
from tests.gateway.apis.old_members import Old
from tests.gateway.apis.test_queue_topics import NAME, commit, committed, produce, queue, read
from tests.gateway.apis.transacting import Tx
from tests.gateway.broker.asking import errors, fetch
from tests.gateway.broker.consumer_members import assigned, beat, describe, listed
from tests.gateway.broker.held import Clock, HeldStore, run, run_held, serving_on, until
from tests.gateway.broker.share_members import beat as share_beat
from tests.gateway.serving import Client, create

AT_ONCE = "group.initial.rebalance.delay.ms=0"
SESSION = 45_000


def at_work(gateway: Gateway) -> Queue:
    return gateway.broker.queues.of(gateway.broker.topics.get(NAME))


def owners(gateway: Gateway) -> list[str | None]:
    return at_work(gateway).lanes.owners


def failures(gateway: Gateway, count: int) -> list[int]:
    """Deliveries that have failed, of the first records."""
    (source,) = at_work(gateway).sources.values()
    return [source.failures(offset) for offset in range(count)]


async def shared(client: Client, topic_id: bytes) -> tuple[int, int]:
    """Members a and b have a lane each of two: the lanes of a and of b."""
    await beat(client, "a", 0, NAME)
    await beat(client, "b", 0, NAME)
    kept = assigned(await beat(client, "a", 2))
    assert kept is not None
    await beat(client, "a", 2, owned=kept)
    got = assigned(await beat(client, "b", 3))
    assert got is not None
    return kept[topic_id][0], got[topic_id][0]


def test_a_member_has_lanes_and_acknowledges() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 5, lanes=2)
        joined = await beat(client, "a", 0, NAME)
        assert assigned(joined) == {topic_id: [0, 1]}
        assert owners(gateway) == ["a", "a"]
        assert await read(client) == [0, 1, 2, 3, 4]
        assert await commit(client, {0: (3, "ack1;n:60000=1;a=4")}, member=("a", 2)) == {0: 0}
        subscription = gateway.broker.subscriptions.get("g", "t")
        assert subscription is not None
        cursor = subscription.partition(0).ready()
        assert [cursor.look(offset).state for offset in range(5)] == [
            "DONE",
            "BACKOFF",
            "DONE",
            "ACQUIRED",
            "DONE",
        ]
        assert (await beat(client, "a", 2)).member_epoch == 2
        assert owners(gateway) == ["a", "a"]
        assert [one[1:] for one in await listed(client)] == [("consumer", "Stable")]

    run(test)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_only_a_member_of_this_epoch_acknowledges(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 5)
        topic: str | bytes = topic_id if version >= 10 else NAME
        await beat(client, "a", 0, NAME)
        await read(client)

        async def said(member: str, epoch: int) -> int:
            return (await commit(client, {0: (3, "")}, version=version, topic=topic, member=(member, epoch)))[
                0
            ]

        stale = Error.STALE_MEMBER_EPOCH if version >= 9 else Error.UNSUPPORTED_VERSION
        assert await said("a", 9) == stale
        assert await said("a", 1) == stale
        assert await said("z", 2) == Error.UNKNOWN_MEMBER_ID
        assert await said("", -1) == Error.UNKNOWN_MEMBER_ID
        assert at_work(gateway).at[0].lane.open == 0
        if version >= 9:
            assert await said("a", 2) == 0
            assert at_work(gateway).at[0].lane.open == 3
        await beat(client, "a", -1)
        # Spark, and tools
        assert await commit(client, {0: (4, "")}, version=version, topic=topic) == {0: 0}
        assert at_work(gateway).at[0].lane.open == 4

    run(test)


def test_what_the_old_owner_has_not_committed_comes_to_the_new_one_and_its_late_commit_says_nothing() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 0, lanes=2)
        await beat(client, "a", 0, NAME)
        await produce(client, 0, 1, 2, 3, 4)
        assert await read(client, 1) == [0, 1, 2, 3, 4]
        await beat(client, "b", 0, NAME)
        told = assigned(await beat(client, "a", 2))
        assert told == {topic_id: [0]}
        assert owners(gateway) == ["a", "a"], "it may have it in work"
        # what it had in work is done, and it says so before it gives up the lane
        assert await commit(client, {1: (2, "")}, member=("a", 2)) == {1: 0}
        assert assigned(await beat(client, "b", 3)) is None
        assert (await beat(client, "a", 2, owned=told)).member_epoch == 3
        assert owners(gateway) == ["a", None]
        assert assigned(await beat(client, "b", 3)) == {topic_id: [1]}
        assert owners(gateway) == ["a", "b"]
        assert await committed(client, [1]) == [(2, "", 0)]
        assert (await read(client, 1, 2))[-3:] == [2, 3, 4]
        assert await commit(client, {1: (5, "")}, member=("a", 2)) == {1: Error.STALE_MEMBER_EPOCH}
        assert await commit(client, {0: (0, "")}, member=("a", 2)) == {0: 0}, "its own since then"
        assert at_work(gateway).at[1].lane.open == 2
        assert await commit(client, {1: (5, "")}, member=("b", 3)) == {1: 0}
        assert failures(gateway, 5) == [0] * 5

    run(test)


def test_what_a_lost_member_had_is_delivered_anew_and_counts() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 0, lanes=2)
        configs = gateway.broker.subscriptions.configs
        await configs.alter_properties("g", "t", {"pulsar.nack.delay.ms": "0"})
        _, its = await shared(client, topic_id)
        await produce(client, 0, 1)
        assert await read(client, its) == [0, 1]
        clock.now += SESSION - 1
        await beat(client, "a", 3)
        clock.now += 1
        gateway.broker.consumer_groups._wake()
        await until(lambda: owners(gateway)[its] is None)
        assert failures(gateway, 2) == [1, 1]
        assert (await beat(client, "b", 3)).error_code == Error.UNKNOWN_MEMBER_ID
        assert await commit(client, {its: (2, "")}, member=("b", 3)) == {its: Error.UNKNOWN_MEMBER_ID}
        assert assigned(await beat(client, "a", 3)) == {topic_id: [0, 1]}
        assert owners(gateway) == ["a", "a"]
        assert await committed(client, [its]) == [(2, "", 0)], "an offset is one delivery"

    run(test, clock=clock)


def test_a_lost_member_is_not_passed_over_when_something_else_is_stored_just_before() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await queue(gateway, client, 0, lanes=3)
        configs = gateway.broker.subscriptions.configs
        await configs.alter_properties("g", "t", {"pulsar.nack.delay.ms": "0"})
        _, its = await shared(client, topic_id)
        await produce(client, 0, 1)
        assert await read(client, its) == [0, 1]
        other = await Client.connect(gateway)
        store.holding = True
        # it gives up what it has, and begins anew
        anew = asyncio.create_task(beat(other, "a", 0, NAME))
        await store.has(1)
        gateway.broker.consumer_groups.expel("g", "b", "it is told so")
        await store.has(2)
        store.land()
        assert (await anew).error_code == 0
        assert owners(gateway)[its] == "b", "it is not stored yet that it is gone"
        store.release()
        await until(lambda: owners(gateway)[its] is None)
        assert failures(gateway, 2) == [1, 1]
        other.close()

    run_held(test)


def test_lanes_are_whose_the_store_says_when_nobody_knew_whether_that_was_stored() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await queue(gateway, client, 0, lanes=2)
        await beat(client, "a", 0, NAME)
        await beat(client, "b", 0, NAME)
        kept = assigned(await beat(client, "a", 2))
        assert kept == {topic_id: [0]}
        lanes = at_work(gateway).lanes
        await gateway.broker.write([])
        store.holding = True
        giving_up = asyncio.create_task(beat(client, "a", 2, owned=kept))
        await store.has(1)
        writes, durability, _ = store.queued[0]
        store.inner.commit(writes, durability, lambda outcome: None)
        store.fail(Refused("it does not answer"))
        assert (await giving_up).error_code == Error.COORDINATOR_NOT_AVAILABLE
        store.release()
        assert lanes.owners == ["a", "a"]
        assert (await beat(client, "a", 2, owned=kept)).member_epoch == 3
        assert lanes.owners == ["a", None]

    run_held(test)


def test_who_leaves_leaves_its_deliveries_where_they_are() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 0, lanes=2)
        _, its = await shared(client, topic_id)
        await produce(client, 0, 1, 2)
        assert await read(client, its) == [0, 1, 2]
        assert await commit(client, {its: (1, "")}, member=("b", 3)) == {its: 0}
        await beat(client, "b", -1)
        assert owners(gateway)[its] is None
        assert failures(gateway, 3) == [0, 1, 0], "the first that was open"
        assert assigned(await beat(client, "a", 3)) == {topic_id: [0, 1]}
        assert await committed(client, [its]) == [(1, "", 0)]

    run(test)


def test_a_static_member_that_is_away_keeps_its_lanes_and_what_it_had_in_work_counts_once() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 0, lanes=2)
        await beat(client, "a", 0, NAME, instance_id="i")
        await produce(client, 0, 1)
        assert await read(client) == [0, 1]
        await beat(client, "a", -2, instance_id="i")
        assert owners(gateway) == [None, None]
        assert failures(gateway, 2) == [1, 0]
        back = await beat(client, "b", 0, NAME, instance_id="i")
        assert assigned(back) == {topic_id: [0, 1]}
        assert owners(gateway) == ["b", "b"]
        assert failures(gateway, 2) == [1, 0]
        assert await commit(client, {0: (2, "")}, member=("a", 2)) == {0: Error.UNKNOWN_MEMBER_ID}
        assert await committed(client, [0]) == [(0, "", 0)]
        assert await commit(client, {0: (2, "")}, member=("b", back.member_epoch)) == {0: 0}

    run(test)


def test_a_member_that_settles_nothing_is_lost_to_its_group() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 2)
        configs = gateway.broker.subscriptions.configs
        await configs.alter_properties(
            "g", "t", {"pulsar.ack.timeout.ms": "5000", "pulsar.nack.delay.ms": "0"}
        )
        await beat(client, "a", 0, NAME)
        assert await read(client) == [0, 1]
        gateway.broker.queues.expel_stuck()
        assert (await beat(client, "a", 2)).error_code == 0
        at_work(gateway).at[0].moved_at -= 5_000
        gateway.broker.queues.expel_stuck()
        assert (await beat(client, "a", 2)).error_code == Error.UNKNOWN_MEMBER_ID
        assert owners(gateway) == [None]
        assert failures(gateway, 2) == [1, 1]
        assert (await beat(client, "a", 0, NAME)).error_code == 0
        assert await read(client, offset=2) == [2]

    run(test)


def test_a_pattern_means_the_queue_topics_of_its_own_group() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 3)
        u = await create(client, "u")
        await gateway.broker.queues.make("u", "other", 2, {})
        joined = await beat(client, "a", 0, subscribed_topic_regex="^.*-.*QUEUE$")
        assert assigned(joined) == {topic_id: [0]}
        assert owners(gateway) == ["a"]
        assert await read(client) == [0, 1, 2]
        assert await commit(client, {0: (3, "")}, member=("a", 2)) == {0: 0}
        # and what comes later
        made = await gateway.broker.queues.make("u", "g", 1, {})
        assert assigned(await beat(client, "a", 2)) == {topic_id: [0], made.topic_id: [0]}
        # to others they are internal
        other = await beat(client, "b", 0, group="audit", subscribed_topic_regex="(t|u).*")
        assert assigned(other) == {gateway.broker.topics.get("t").topic_id: [0], u: [0]}
        named = await beat(client, "c", 0, NAME, group="audit2")
        assert assigned(named) == {topic_id: [0]}

    run(test)


def test_lanes_beside_partitions_of_other_topics() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 3, lanes=2)
        u = await create(client, "u", 2)
        assert assigned(await beat(client, "a", 0, NAME, "u")) == {topic_id: [0, 1], u: [0, 1]}
        assert owners(gateway) == ["a", "a"]
        assert await read(client) == [0, 1, 2]
        # what is committed of both is one request of the client
        assert await commit(client, {0: (3, "")}, member=("a", 2)) == {0: 0}
        assert await commit(client, {1: (7, "m")}, member=("a", 2), topic="u") == {1: 0}
        assert await committed(client, [1], topic="u") == [(7, "m", 0)]
        # it reads lanes no more
        told = assigned(await beat(client, "a", 2, "u", owned={topic_id: [0, 1], u: [0, 1]}))
        assert told == {u: [0, 1]}
        assert owners(gateway) == ["a", "a"]
        await beat(client, "a", 2, owned={u: [0, 1]})
        assert owners(gateway) == [None, None]

    run(test)


def test_more_lanes_are_given_at_the_next_heartbeat() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 3)
        await beat(client, "a", 0, NAME)
        await gateway.broker.topics.grow(NAME, 3)
        assert errors(await fetch(client, {NAME: {0: 3}})) == {0: Error.NOT_LEADER_OR_FOLLOWER}
        gateway.broker.queues.tell_again()
        answer = await beat(client, "a", 2)
        assert (answer.error_code, assigned(answer)) == (0, {topic_id: [0, 1, 2]})
        assert owners(gateway) == ["a", "a", "a"]

    run(test)


def test_a_classic_group_goes_over_while_it_reads_lanes_and_back() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 0, lanes=2)
        old = Old(client)
        await old.alone(topic=NAME)
        assert owners(gateway) == [old.member_id] * 2
        await produce(client, 0, 1, 2)
        assert await read(client, 1) == [0, 1, 2]
        came = await beat(client, "a", 0, NAME)
        assert (came.error_code, assigned(came)) == (0, {})
        assert owners(gateway) == [old.member_id] * 2
        # it goes on until it is told
        assert await commit(client, {1: (1, "")}, version=8, member=(old.member_id, old.generation)) == {1: 0}
        assert await old.beat() == Error.REBALANCE_IN_PROGRESS
        # an eager one has given up all
        assert (await old.join(NAME)).error_code == 0
        assert await old.sync() == {NAME: [0]}
        assert assigned(await beat(client, "a", came.member_epoch)) == {topic_id: [1]}
        assert owners(gateway) == [old.member_id, "a"]
        assert await committed(client, [1]) == [(1, "", 0)]
        assert (await read(client, 1, 1))[-2:] == [1, 2]
        assert failures(gateway, 3) == [0, 0, 0]
        who = {each.member_id: each.member_type for each in (await describe(client)).members}
        assert who == {old.member_id: 0, "a": 1}
        await beat(client, "a", -1)
        assert [one[1] for one in await listed(client)] == ["classic"]
        assert owners(gateway) == [old.member_id, None]
        assert failures(gateway, 3) == [0, 1, 0], "what it had in work when it left"
        assert await old.beat() == Error.REBALANCE_IN_PROGRESS
        await old.alone(topic=NAME)
        assert owners(gateway) == [old.member_id] * 2
        assert await committed(client, [1]) == [(1, "", 0)]

    run(test, AT_ONCE)


def test_a_classic_member_of_a_consumer_group_reads_lanes() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 3, lanes=2)
        await create(client, "u")
        await beat(client, "a", 0, "u")
        old = Old(client)
        assert (await old.join(NAME)).error_code == 0
        assert await old.sync() == {NAME: [0, 1]}
        assert owners(gateway) == [old.member_id] * 2
        assert await read(client) == [0, 1, 2]
        said = {0: (2, "")}
        for generation in (old.generation - 1, old.generation + 1):
            refused = await commit(client, said, version=8, member=(old.member_id, generation))
            assert refused == {0: Error.ILLEGAL_GENERATION}
        assert await commit(client, said, version=8, member=(old.member_id, old.generation)) == {0: 0}
        # cooperative: it keeps what it has said that it has
        came = await beat(client, "b", 0, NAME)
        assert assigned(came) == {}
        assert (await old.join(NAME, owned=[(NAME, 0), (NAME, 1)])).error_code == 0
        assert await old.sync() == {NAME: [0]}
        assert owners(gateway) == [old.member_id] * 2, "it may have both in work"
        assert (await old.join(NAME, owned=[(NAME, 0)])).error_code == 0
        assert await old.sync() == {NAME: [0]}
        assert assigned(await beat(client, "b", came.member_epoch)) == {topic_id: [1]}
        assert owners(gateway) == [old.member_id, "b"]
        await old.leave()
        assert owners(gateway) == [None, "b"]
        assert failures(gateway, 3) == [0, 0, 1]

    run(test, AT_ONCE)


def test_a_classic_member_does_not_join_a_consumer_group_whose_type_is_changing() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "u")
        await beat(client, "a", 0, "u")
        old = Old(client)
        with gateway.broker.subscriptions.configs._keep_out("g", needed=True):
            assert (await old.join("u")).error_code == Error.COORDINATOR_LOAD_IN_PROGRESS
        assert (await old.join("u")).error_code == 0

    run(test, AT_ONCE)


def test_a_group_without_members_changes_its_protocol_and_goes_on_where_it_stands() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3, lanes=2)
        old = Old(client)
        await old.alone(topic=NAME)
        assert await read(client) == [0, 1, 2]
        assert await commit(client, {0: (2, "m")}, version=8, member=(old.member_id, old.generation)) == {
            0: 0
        }
        await old.leave()
        await beat(client, "a", 0, NAME)
        assert await committed(client, [0]) == [(2, "m", 0)]
        await beat(client, "a", -1)
        await Old(client).alone(topic=NAME)
        assert await committed(client, [0]) == [(2, "m", 0)]

    run(test, AT_ONCE)


def test_members_go_on_over_a_restart(tmp_path: Path) -> None:
    async def first(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 0, lanes=2)
        _, its = await shared(client, topic_id)
        await produce(client, 0, 1)
        assert await read(client, its) == [0, 1]
        kept.append(its)

    async def second(gateway: Gateway, client: Client) -> None:
        (its,) = kept
        # somebody reads before any member has said something
        assert (await read(client, its)) == [0, 1]
        assert sorted(map(str, owners(gateway))) == ["a", "b"]
        assert await commit(client, {its: (1, "")}, member=("b", 3)) == {its: 0}
        await beat(client, "b", -1)
        assert await committed(client, [its]) == [(1, "", 0)]
        assert failures(gateway, 2) == [0, 1]

    async def main() -> None:
        for body in (first, second):
            async with serving_on(await rocksdb.open(tmp_path / "data")) as gateway:
                client = await Client.connect(gateway)
                await body(gateway, client)
                client.close()

    kept: list[int] = []
    uvloop.run(main())


def test_what_is_said_in_a_transaction_is_a_members() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 0, lanes=2)
        await create(client, "out")
        _, its = await shared(client, topic_id)
        await produce(client, 0, 1, 2)
        assert await read(client, its) == [0, 1, 2]
        tx = Tx(client, new=True)
        assert await tx.init() == 0
        assert await tx.put(b"a", topic="out") == 0
        said: dict[tuple[str, int], int | tuple[int, str]] = {(NAME, its): (2, "ack1;n:60000=1")}
        for member, epoch, code in (
            ("b", 9, Error.ILLEGAL_GENERATION),
            # it has never had this lane
            ("a", 2, Error.ILLEGAL_GENERATION),
            ("z", 3, Error.UNKNOWN_MEMBER_ID),
        ):
            assert await tx.offsets("g", said, member=member, generation=epoch) == code
        assert at_work(gateway).at[its].lane.open == 0
        assert await tx.offsets("g", said, member="b", generation=3) == 0
        assert await tx.end() == 0
        assert await committed(client, [its]) == [(2, "ack1;n:60000=1", 0)]
        assert failures(gateway, 3) == [0, 1, 0]

    run(test)


@pytest.mark.parametrize("member", [False, True], ids=["nobody", "member"])
def test_a_group_that_commits_only_in_transactions_stays_listed(member: bool) -> None:
    """Until its queue topic is deleted, however long nobody reads it: also one of which no offset is left."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 0)
        await create(client, "out")
        who: dict[str, Any] = {}
        if member:
            epoch = await beat(client, "a", 0, NAME)
            assert assigned(epoch) == {topic_id: [0]}
            who = {"member": "a", "generation": epoch.member_epoch}
        await produce(client, 0)
        assert await read(client) == [0]
        tx = Tx(client, new=True)
        assert await tx.init() == 0
        assert await tx.put(b"a", topic="out") == 0
        assert await tx.offsets("g", {(NAME, 0): 1}, **who) == 0
        assert await tx.end() == 0
        if member:
            await beat(client, "a", -1)
        broker = gateway.broker
        # as if it had expired
        offset = [Delete(Family.OFFSET, key) for key, _ in broker.store.scan(Family.OFFSET, b"")]
        assert offset
        await broker.write(offset)
        await Sweep(broker, broker.group_kinds).run()
        assert [(group, state) for group, _, state in await listed(client)] == [("g", "Empty")]
        assert (await committed(client, [0]))[0][0] == 1
        await broker.topics.delete(NAME)
        await until(lambda: broker.group_kinds.owner("g") is None)
        assert await listed(client) == []

    run(test)


def test_a_subscription_has_no_more_consumers_than_it_may() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3, lanes=4)
        assert (await beat(client, "a", 0, NAME)).error_code == 0
        answer = await beat(client, "b", 0, NAME)
        assert answer.error_code == Error.GROUP_MAX_SIZE_REACHED
        assert "set-max-consumers-per-subscription" in answer.error_message
        assert (await Old(client).join(NAME)).error_code == Error.GROUP_MAX_SIZE_REACHED
        assert (await beat(client, "a", 0, NAME)).error_code == 0, "it begins anew"

    run(test, "maxConsumersPerSubscription=1")


def test_a_group_that_reads_the_base_topic_is_served_by_lanes_when_it_has_stopped() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await produce(client, 0, 1, 2)
        await beat(client, "a", 0, "t")
        assert await commit(client, {0: (2, "")}, topic="t", member=("a", 2)) == {0: 0}
        with pytest.raises(KafkaError) as refused:
            await gateway.broker.queues.make("t", "g", 2, {})
        assert refused.value.code == Error.NON_EMPTY_GROUP
        await beat(client, "a", -1)
        await gateway.broker.queues.make("t", "g", 2, {})
        await beat(client, "a", 0, NAME)
        assert await read(client) == [0]
        assert await committed(client, [0], topic="t") == [(2, "", 0)]

    run(test)


def test_the_type_of_the_subscription_stays_while_there_are_members() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        await beat(client, "a", 0, NAME)
        configs = gateway.broker.subscriptions.configs
        with pytest.raises(KafkaError, match="consumers"):
            await configs.alter_properties("g", "t", {"pulsar.subscription.type": "key_shared"})
        await beat(client, "a", -1)
        await configs.alter_properties("g", "t", {"pulsar.subscription.type": "key_shared"})

    run(test)


def test_when_its_queue_topic_is_gone_the_id_of_an_empty_group_is_free_for_a_share_group() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        await beat(client, "a", 0, NAME)
        await beat(client, "a", -1)
        await gateway.broker.topics.delete(NAME)
        await until(lambda: gateway.broker.group_kinds.owner("g") is None)
        assert (await share_beat(client, "g", "m", 0, "t")).error_code == Error.NONE

    run(test)


def test_a_queue_topic_that_is_deleted_under_its_members_is_nobodys() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await queue(gateway, client, 3)
        assert assigned(await beat(client, "a", 0, NAME)) == {topic_id: [0]}
        await gateway.broker.topics.delete(NAME)
        assert assigned(await beat(client, "a", 2)) == {}
        made = await gateway.broker.queues.make("t", "g", 2, {})
        assert assigned(await beat(client, "a", 2, owned={})) == {made.topic_id: [0, 1]}
        assert owners(gateway) == ["a", "a"]

    run(test)
