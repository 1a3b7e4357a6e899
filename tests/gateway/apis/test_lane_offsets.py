"""What tools that know nothing of lanes are told of a subscription that lanes serve, and how they move it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions import positions
from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.subscriptions.cursor import Cursor
from store.api import Family, Refused
from tests.gateway.apis.test_queue_topics import NAME, commit, committed, join, produce, queue, read
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.serving import Client, create


async def everything(client: Client, version: int = 9, group: str = "g") -> dict[str, dict[int, int]]:
    """Topic -> partition -> offset, of an OffsetFetch that names none. No partition has an error."""
    request = messages.OffsetFetchRequest
    if version < 8:
        answer = await client.ask(ApiKey.OFFSET_FETCH, version, request(group_id=group, topics=None))
    else:
        groups = [request.OffsetFetchRequestGroup(group_id=group, topics=None)]
        (answer,) = (await client.ask(ApiKey.OFFSET_FETCH, version, request(groups=groups))).groups
    assert answer.error_code == 0
    found: dict[str, dict[int, int]] = {}
    for topic in answer.topics:
        assert all(each.error_code == 0 for each in topic.partitions)
        name = topic.name or topic.topic_id
        assert name not in found, "a topic is told once"
        found[name] = {each.partition_index: each.committed_offset for each in topic.partitions}
    return found


def start(gateway: Gateway, topic: str = "t") -> int:
    """Mark-delete + 1."""
    subscription = gateway.broker.subscriptions.get("g", topic)
    assert subscription is not None
    return subscription.partition(0).ready().start


# -- told --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 11))
def test_the_base_topic_is_told_by_mark_delete(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 10)
        base = gateway.broker.topics.get("t")
        topic: Any = base.topic_id if version >= 10 else "t"
        assert await committed(client, [0], version=version, topic=topic) == [(0, "", 0)]
        await read(client)
        await commit(client, {0: (7, "ack1;n:60000=3")})
        assert await committed(client, [0, 1], version=version, topic=topic) == [(3, "", 0), (-1, "", 0)]
        # of another group it is what that has committed
        assert await committed(client, [0], version=version, topic=topic, group="audit") == [(-1, "", 0)]
        if 2 <= version < 10:
            assert await everything(client, version) == {NAME: {0: 7}, "t": {0: 3}}

    run(test)


def test_who_names_no_topic_is_told_of_all_lanes_and_of_all_else() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "plain", partitions=2)
        await queue(gateway, client, 10, lanes=2)
        await read(client, 1)
        await commit(client, {1: (4, "")}, topic="plain")
        await commit(client, {1: (3, "mine")})
        # what was committed is not what is open
        await commit(client, {1: (3, "ack1;a=3")})
        assert await everything(client) == {NAME: {0: 0, 1: 4}, "t": {0: 4}, "plain": {1: 4}}
        assert await everything(client, group="audit") == {}

    run(test)


def test_retries_are_told_too() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 2)
        await gateway.broker.subscriptions.make_retries("g", "t", "t-g-RETRY")
        assert await committed(client, [0], topic="t-g-RETRY") == [(0, "", 0)]
        assert await everything(client) == {NAME: {0: 0}, "t": {0: 0}, "t-g-RETRY": {0: 0}}

    run(test)


def test_a_place_that_cannot_be_told_at_present_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 2)

        def ready(self: SubscriptionPartition) -> Cursor:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)

        with monkeypatch.context() as patched:
            patched.setattr(SubscriptionPartition, "ready", ready)
            assert await committed(client, [0], topic="t") == [(-1, "", Error.UNSTABLE_OFFSET_COMMIT)]
            assert await commit(client, {0: (1, None)}, topic="t") == {0: Error.COORDINATOR_LOAD_IN_PROGRESS}
        assert await committed(client, [0], topic="t") == [(0, "", 0)]

    run(test)


@pytest.mark.parametrize(("fails", "told"), [(False, 5), (True, 0)])
def test_what_is_told_is_stored(fails: bool, told: int) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await queue(gateway, client, 5)
        await read(client)
        subscription = gateway.broker.subscriptions.get("g", "t")
        assert subscription is not None
        store.holding = True
        positions.move([(subscription.partition(0), 5)], Cursor.clear)
        asked = asyncio.ensure_future(committed(client, [0], topic="t"))
        await store.has(1)
        other = await Client.connect(gateway)
        for _ in range(3):
            # by then the gateway has come to what was asked before
            assert await committed(other, [0], topic=NAME, group="audit") == [(-1, "", 0)]
        other.close()
        assert not asked.done()
        store.holding = False
        if fails:
            store.fail(Refused("no"))
        else:
            store.land(len(store.queued))
        assert await asked == [(told, "", 0)]

    run_held(test)


def test_what_is_committed_while_that_is_being_stored_is_not_told() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await queue(gateway, client, 5)
        await read(client)
        others = [await Client.connect(gateway) for _ in range(3)]
        asker, second, third = others
        store.holding = True
        commits = [asyncio.ensure_future(commit(client, {0: (1, "")}))]
        await store.has(1)
        asked = asyncio.ensure_future(everything(asker))
        commits.append(asyncio.ensure_future(commit(second, {0: (2, "")})))
        await store.has(2)
        # it was under way when somebody asked; the second is read then, and waited for
        store.land()
        await store.has(2)
        commits.append(asyncio.ensure_future(commit(third, {0: (4, "")})))
        await store.has(3)
        store.land(2)
        assert await asked == {NAME: {0: 2}, "t": {0: 2}}
        store.release()
        assert await asyncio.gather(*commits) == [{0: 0}] * 3
        assert await everything(asker) == {NAME: {0: 4}, "t": {0: 4}}
        for each in others:
            each.close()

    run_held(test)


def test_the_last_commit_that_was_refused_is_remembered() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 5, lanes=2)
        await read(client)
        one, other = gateway.broker.topics.get(NAME).partitions
        for said in ("ack9;", "ack1;n:soon=3"):
            assert await commit(client, {0: (5, said)}) == {0: Error.INVALID_REQUEST}
        found = gateway.broker.queues.refusals.of(one)
        assert found is not None
        assert (found.offset, found.metadata, "'n:soon=3' is no item" in found.why) == (
            5,
            "ack1;n:soon=3",
            True,
        )
        assert gateway.broker.queues.refusals.of(other) is None

    run(test)


# -- moved -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_by_nobody_of_the_base_topic_begins_anew_there(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 10)
        base = gateway.broker.topics.get("t")
        topic: Any = base.topic_id if version >= 10 else "t"
        assert await read(client) == list(range(10))
        await commit(client, {0: (10, "")})
        assert start(gateway) == 10
        assert await commit(client, {0: (4, "")}, version=version, topic=topic) == {0: 0}
        assert await committed(client, [0], topic="t") == [(4, "", 0)]
        # under new offsets
        assert await read(client, offset=10) == list(range(10, 16))
        assert await commit(client, {0: (10**6, ""), 1: (0, "")}, version=version, topic=topic) == {
            0: 0,
            1: Error.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await everything(client) == {NAME: {0: 16}, "t": {0: 10}}

    run(test)


def test_nothing_is_moved_under_members() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 10)
        member, generation = await join(client, NAME, 0)
        assert await read(client) == list(range(10))
        assert await commit(client, {0: (4, "")}, topic="t") == {0: Error.UNKNOWN_MEMBER_ID}
        assert start(gateway) == 0
        # nor by one of them: that is a plain commit, and lanes know better where the group stands
        assert await commit(client, {0: (4, "")}, topic="t", member=(member, generation)) == {0: 0}
        assert start(gateway) == 0
        assert await committed(client, [0], topic="t") == [(0, "", 0)]

    run(test)


def test_other_groups_and_topics_without_lanes_commit_as_ever() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "other")
        await queue(gateway, client, 10)
        assert await commit(client, {0: (4, "a")}, topic="t", group="audit") == {0: 0}
        assert await committed(client, [0], topic="t", group="audit") == [(4, "a", 0)]
        assert await commit(client, {0: (4, "a")}, topic="other") == {0: 0}
        assert await committed(client, [0], topic="other") == [(4, "a", 0)]
        assert start(gateway) == 0

    run(test)


def test_what_a_plain_group_had_committed_is_forgotten_with_the_first_move() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await produce(client, *range(3))
        assert await commit(client, {0: (1, "")}, topic="t") == {0: 0}
        await gateway.broker.queues.make("t", "g", 1, {"pulsar.subscription.type": "shared"})
        assert await committed(client, [0], topic="t") == [(1, "", 0)]
        assert await commit(client, {0: (2, "")}, topic="t") == {0: 0}
        assert start(gateway) == 2
        assert list(gateway.broker.store.scan(Family.OFFSET)) == []
        await gateway.broker.topics.delete(NAME)
        # share groups may serve it now
        assert await committed(client, [0], topic="t") == [(-1, "", 0)]

    run(test)


def test_a_lane_and_the_base_topic_in_one_commit() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 5)
        await read(client)
        request = messages.OffsetCommitRequest
        topics = [
            request.OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    request.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
            for name, offset in ((NAME, 3), ("t", 1))
        ]
        await client.ask(ApiKey.OFFSET_COMMIT, 9, request(group_id="g", topics=topics))
        assert start(gateway) == 1
        await produce(client, 5)
        assert await read(client, offset=5) == list(range(5, 10))

    run(test)


def test_tools_for_share_groups_make_no_share_group_in_the_place_of_its_consumers() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 5)
        asked = messages.AlterShareGroupOffsetsRequest
        topic = asked.AlterShareGroupOffsetsRequestTopic(
            topic_name="t",
            partitions=[
                asked.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=3),
            ],
        )
        answer = await client.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, asked(group_id="g", topics=[topic]))
        assert answer.error_code == Error.INVALID_REQUEST
        assert "served by the lanes of t-g-QUEUE" in answer.error_message
        assert start(gateway) == 0
        # its consumers come as ever
        await join(client, NAME, 0)

    run(test)
