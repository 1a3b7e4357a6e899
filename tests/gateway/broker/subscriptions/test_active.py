"""Failover in a share group: one consumer of a partition is given its records, the others wait for their turn."""

from __future__ import annotations

import pytest

from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.held import Clock, run
from tests.gateway.broker.share_asking import (
    ACCEPT,
    FOR_LONG,
    acquired,
    alter_group,
    parked,
    put,
    serving,
    share_acknowledge,
    share_fetch,
    share_fetch_body,
    topic,
)
from tests.gateway.broker.share_members import beat
from tests.gateway.serving import Client, create

TYPE, PRIORITIES = "pulsar.subscription.type", "pulsar.failover.priorities"


async def member(gateway: Gateway, name: str, *topics: str) -> Client:
    """A member of this client id and member id."""
    client = await Client.connect(gateway, client_id=name)
    assert (await beat(client, "g", name, 0, *(topics or ("t",)))).error_code == 0
    return client


async def look(client: Client, epoch: int, topic_id: bytes, *partitions: int) -> list[int]:
    """The partitions of which a member is given records: all that there are."""
    answer = await share_fetch(client, client.client_id, epoch, topic_id, partitions)
    return sorted(acquired(answer))


def test_partition_mod_consumers_and_the_others_stand_by() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await alter_group(client, **{TYPE: "failover", PRIORITIES: "c=1"})
        topic_id = await topic(gateway, client, partitions=2)
        members = [await member(gateway, name) for name in "cba"]
        for each in members:
            await look(each, 0, topic_id, 0, 1)
        for index in (0, 1):
            await put(client, b"1", partition=index)
        assert [await look(each, 1, topic_id) for each in members] == [[], [1], [0]]

    run(test)


def test_the_next_begins_when_the_one_before_has_nothing_in_hand() -> None:
    """In order, and no record in two hands: also where who comes is before who has records."""

    async def test(gateway: Gateway, client: Client) -> None:
        await alter_group(client, **{TYPE: "failover"})
        topic_id = await topic(gateway, client, records=3)
        b, a = await member(gateway, "b"), None
        first = await share_fetch(b, "b", 0, topic_id, [0], max_records=2, mode=1)
        assert acquired(first) == {0: {0: 1, 1: 1}}
        a = await member(gateway, "a")
        a.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("a", 0, topic_id, [0], max_wait=FOR_LONG))
        await parked(gateway)
        assert await look(b, 1, topic_id) == []
        await share_acknowledge(b, "b", 2, topic_id, {0: [(0, 0, ACCEPT)]})
        assert gateway.broker.metrics.fetches_parked.value == 1
        await share_acknowledge(b, "b", 3, topic_id, {0: [(1, 1, ACCEPT)]})
        assert acquired((await a.receive())[1]) == {0: {2: 1}}

    run(test)


def test_nothing_is_kept_for_those_who_stand_by() -> None:
    """Where many are given records, each gets a part of what there is."""

    async def test(gateway: Gateway, client: Client) -> None:
        await alter_group(client, **{TYPE: "failover"})
        topic_id = await topic(gateway, client)
        a, b = await member(gateway, "a"), await member(gateway, "b")
        await look(a, 0, topic_id, 0)
        b.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("b", 0, topic_id, [0], max_wait=FOR_LONG))
        await parked(gateway)
        await put(client, *[b"%d" % number for number in range(100)])
        assert len(acquired(await share_fetch(a, "a", 1, topic_id))[0]) == 100

    run(test)


@pytest.mark.parametrize("leaves", [True, False])
def test_who_is_gone_leaves_what_it_had_to_the_next(leaves: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await alter_group(client, **{TYPE: "failover"})
        topic_id = await topic(gateway, client, records=2)
        a, b = await member(gateway, "a"), await member(gateway, "b")
        first = await share_fetch(a, "a", 0, topic_id, [0], max_records=1, mode=1)
        assert acquired(first) == {0: {0: 1}}
        b.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("b", 0, topic_id, [0], max_wait=FOR_LONG))
        await parked(gateway)
        if leaves:
            await share_fetch(a, "a", -1)
        else:
            a.close()
        assert acquired((await b.receive())[1]) == {0: {0: 2, 1: 1}}

    run(test)


def test_one_topic_without_partitions_by_who_came_first_and_several_on_the_ring() -> None:
    """The vector of `tests/semantics/subscriptions/test_failover.py`."""
    names = [f"topic-{number}" for number in range(4)]

    async def test(gateway: Gateway, client: Client) -> None:
        broker = gateway.broker
        await alter_group(client, **{TYPE: "failover"})
        ids = []
        for name in names:
            made = await broker.topics.create(name, 1, {}, partitioned=False)
            ids.append(made.topic_id)
        a, b = await member(gateway, "A", names[0]), await member(gateway, "B", names[0])
        epoch = 0
        for each in (a, b):
            await look(each, epoch, ids[0], 0)

        def active() -> list[str | None]:
            found = []
            for name in names:
                subscription = broker.subscriptions.get("g", name)
                at = subscription.partition(0) if subscription is not None else None
                found.append(at.active.consumer(at.partition.topic.topic) if at is not None else None)
            return found

        assert active() == ["A", None, None, None]
        for each in (a, b):
            group = broker.share_groups.get("g")
            assert group is not None
            its = group.members[each.client_id].epoch
            assert (await beat(each, "g", each.client_id, its, *names)).error_code == 0
        for each in (a, b):
            for number, topic_id in enumerate(ids[1:], 1):
                await look(each, number, topic_id, 0)
        assert active() == ["B", "B", "B", "A"]

    run(test)


def test_delays_are_not_waited_for() -> None:
    """4-pulsar-messaging-concepts-2.6, "Delayed message delivery": only in Shared, else at once."""

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 1)
        for kind, longest in (("exclusive", 0), ("failover", 0), ("shared", 10 * 86_400_000)):
            await alter_group(client, **{TYPE: kind})
            await gateway.broker.subscriptions.ensure("g", "t")
            config = serving(gateway).subscription.config.subscription
            assert (config.type, config.max_sent_delay_ms) == (kind, longest)

    run(test, clock=Clock())


def test_other_priorities_count_at_once() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await alter_group(client, **{TYPE: "failover"})
        topic_id = await topic(gateway, client, records=1)
        a, b = await member(gateway, "a"), await member(gateway, "b")
        await look(a, 0, topic_id, 0)
        await share_acknowledge(a, "a", 1, topic_id, {0: [(0, 0, ACCEPT)]})
        b.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("b", 0, topic_id, [0], max_wait=FOR_LONG))
        await parked(gateway)
        await alter_group(client, **{PRIORITIES: "a=1"})
        await put(client, b"2")
        assert acquired((await b.receive())[1]) == {0: {1: 1}}
        assert await look(a, 2, topic_id) == []

    run(test)
