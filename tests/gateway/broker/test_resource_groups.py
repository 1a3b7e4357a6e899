"""Resource groups: what namespaces publish and read together, and for how long who is too fast waits."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import msgspec
import pytest

from gateway.broker import resource_groups
from gateway.broker.errors import KafkaError
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.broker.resource_groups import GroupRow
from gateway.connection_state import THROTTLED
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.batch import batches
from gateway.wire.errors import Error
from semantics.names import DEFAULT, Namespace
from store import memory
from tests.gateway.broker.held import part, run, until
from tests.gateway.broker.share_asking import acquired, share_fetch, topic
from tests.gateway.rings import Rings
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body

EU, US = Namespace("shop", "eu"), Namespace("shop", "us")


async def made(gateway: Gateway, client: Client, *topics: str, **rates: int) -> None:
    """Group `small` with these rates, with shop/eu and shop/us in it; and topics."""
    broker = gateway.broker
    await broker.resource_groups.change("small", lambda _: GroupRow(**rates))
    await broker.tenancy.create_tenant("shop", TenantRow())
    for namespace in (EU, US):
        await broker.tenancy.create(namespace, NamespaceRow(resource_group="small"))
    for each in topics:
        await create(client, each)


async def put_into(gateway: Gateway, namespace: Namespace, group: str) -> None:
    await gateway.broker.tenancy.change(
        namespace, lambda row: msgspec.structs.replace(row, resource_group=group)
    )


async def publish(client: Client, name: str, *values: bytes) -> int:
    """For how many ms its client is to wait."""
    body = produce_body(name, batch(*values or (b"v",)), timeout_ms=30_000)
    answer = await client.ask(ApiKey.PRODUCE, 9, body)
    assert part(answer).error_code == 0
    wait: int = answer.throttle_time_ms
    return wait


async def fetch(client: Client, name: str, offset: int, **options: Any) -> list[int]:
    """The base offsets of the batches that come."""
    answer = await client.ask(ApiKey.FETCH, 12, fetch_body(name, offset, **options))
    assert part(answer).error_code == 0
    return [header.base_offset for _, header in batches(bytes(part(answer).records or b""))]


def test_namespaces_of_a_group_have_one_publish_rate_and_others_do_not() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await made(gateway, client, "shop.eu.a", "shop.us.b", "c", publish_messages=4)
        rings = Rings(gateway)
        await gateway.broker.resource_groups.change("small", lambda _: GroupRow(publish_messages=2))
        assert await publish(client, "shop.eu.a", b"1") == 0
        # two more in one batch: one is owed, and one is needed before the next
        assert await publish(client, "shop.us.b", b"2", b"3") == 1000
        other = await Client.connect(gateway)
        assert await publish(other, "c", *[b"x"] * 20) == 0
        rings.ring(1000)
        # one is there again
        assert await publish(client, "shop.us.b") == 500
        assert gateway.broker.metrics._throttled.labels("publish").value == 2
        other.close()

    run(test)


def test_who_comes_back_with_a_new_connection_waits_for_what_its_home_owes() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await made(gateway, client, "c", publish_messages=4)
        await put_into(gateway, DEFAULT, "small")
        rings = Rings(gateway)
        await gateway.broker.resource_groups.change("small", lambda _: GroupRow(publish_messages=2))
        assert await publish(client, "c", *[b"x"] * 5) == 2000
        back = await Client.connect(gateway)
        coming = asyncio.ensure_future(publish(back, "c"))
        (listener,) = gateway.listeners
        await until(lambda: sum(bool(each._paused & THROTTLED) for each in listener.connections) == 2)
        rings.ring(1999)
        assert not coming.done()
        rings.ring(1)
        assert await coming == 500
        back.close()

    run(test)


@pytest.mark.parametrize("names", [["shop.us.b"], ["shop.us.b", "c"]])
def test_who_comes_from_another_home_waits_for_what_the_group_of_a_topic_owes(names: list[str]) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await made(gateway, client, "shop.eu.a", "shop.us.b", "c", publish_messages=4)
        rings = Rings(gateway)
        await gateway.broker.resource_groups.change("small", lambda _: GroupRow(publish_messages=2))
        assert await publish(client, "shop.eu.a", *[b"x"] * 5) == 2000
        back = await Client.connect(gateway)
        assert await publish(back, "c") == 0
        # nothing of it is taken
        body = produce_body(names[0], batch(b"1"), timeout_ms=30_000)
        for name in names[1:]:
            body.topic_data += produce_body(name, batch(b"1")).topic_data
        coming = asyncio.ensure_future(back.ask(ApiKey.PRODUCE, 9, body))
        (listener,) = gateway.listeners
        await until(lambda: sum(bool(each._paused & THROTTLED) for each in listener.connections) == 2)
        last = gateway.broker.partition_of(gateway.broker.at_home(b"c"), 0)  # type: ignore[arg-type]
        rings.ring(1999)
        assert (coming.done(), last.next_offset) == (False, 1)
        rings.ring(1)
        answer = await coming
        assert [each.partition_responses[0].error_code for each in answer.responses] == [0] * len(names)
        assert answer.throttle_time_ms == 500
        # from then on its answers say for how long to wait
        rings.ring(500)
        assert await publish(client, "shop.eu.a", *[b"x"] * 5) > 0
        assert await publish(back, "shop.us.b") > 2000
        back.close()

    run(test)


def test_bytes_count_as_well_and_the_longest_wait_counts() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await made(gateway, client, "shop.us.b", publish_bytes=1000)
        await create(client, "shop.eu.a", pulsar__publish__rate__bytes="500")
        rings = Rings(gateway)
        await gateway.broker.resource_groups.change("small", lambda _: GroupRow(publish_bytes=999))
        await gateway.broker.topics.configure("shop/eu/a", lambda _: {"pulsar.publish.rate.bytes": "501"})
        wait = await publish(client, "shop.eu.a", b"x" * 1500)
        assert 2000 < wait < 3000, "of the topic"
        rings.ring(wait)
        wait = await publish(client, "shop.us.b", b"x" * 2500)
        assert 1500 < wait < 2500, "of the group"

    run(test)


def test_who_reads_waits_until_the_group_may_have_more() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await made(gateway, client, "shop.eu.a", "shop.us.b", "c", dispatch_messages=4)
        for name in ("shop.eu.a", "shop.us.b", "c"):
            for _ in range(3):
                await publish(client, name, b"1", b"2")
        rings = Rings(gateway)
        await gateway.broker.resource_groups.change("small", lambda _: GroupRow(dispatch_messages=3))
        assert await fetch(client, "shop.eu.a", 0) == [0, 2]
        assert await fetch(client, "shop.us.b", 0) == []
        assert await fetch(client, "c", 0) == [0, 2, 4]
        coming = asyncio.ensure_future(fetch(client, "shop.us.b", 0, max_wait=90_000))
        await until(lambda: gateway.broker.metrics.fetches_parked.value)
        rings.ring(666)
        assert not coming.done()
        rings.ring(1)
        assert await coming == [0]
        group = gateway.broker.resource_groups.get("small")
        assert group is not None
        assert (group.published.messages, group.dispatched.messages) == (12, 6)
        assert group.published.bytes > group.dispatched.bytes > 0

    run(test)


def test_of_the_topics_rate_and_the_groups_the_scarcer_decides() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await made(gateway, client, "shop.eu.a")
        for _ in range(4):
            await publish(client, "shop.eu.a")
        rings = Rings(gateway)
        await gateway.broker.topics.configure("shop/eu/a", lambda _: {"pulsar.dispatch.rate.messages": "1"})
        await gateway.broker.resource_groups.change("small", lambda _: GroupRow(dispatch_messages=2))
        assert await fetch(client, "shop.eu.a", 0) == [0]
        assert await fetch(client, "shop.eu.a", 1) == []
        rings.ring(1000)
        await gateway.broker.resource_groups.change("small", lambda _: GroupRow(dispatch_bytes=1))
        # the first batch comes whole, whatever is left
        assert await fetch(client, "shop.eu.a", 1) == [1]
        rings.ring(1000)
        assert await fetch(client, "shop.eu.a", 2) == [], "the topic may, the group may not"
        coming = asyncio.ensure_future(fetch(client, "shop.eu.a", 2, max_wait=90_000))
        await until(lambda: gateway.broker.metrics.fetches_parked.value)
        rings.ring(90_000)
        assert await coming == [2]

    run(test)


def test_share_groups_acquire_no_more_than_it_allows() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        for _ in range(3):
            await publish(client, "t")
        rings = Rings(gateway)
        await gateway.broker.resource_groups.change("small", lambda _: GroupRow(dispatch_messages=2))
        await put_into(gateway, DEFAULT, "small")
        first = await share_fetch(client, "m", 0, topic_id, [0])
        assert acquired(first) == {0: {0: 1, 1: 1}}
        assert acquired(await share_fetch(client, "m", 1)) == {}
        rings.ring(500)
        assert acquired(await share_fetch(client, "m", 2)) == {0: {2: 1}}

    run(test)


def test_a_namespace_that_leaves_is_bound_no_more_and_who_waited_goes_on() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await made(gateway, client, "shop.eu.a")
        for _ in range(2):
            await publish(client, "shop.eu.a")
        Rings(gateway)
        await gateway.broker.resource_groups.change(
            "small", lambda _: GroupRow(dispatch_messages=1, publish_messages=1)
        )
        assert await fetch(client, "shop.eu.a", 0) == [0]
        coming = asyncio.ensure_future(fetch(client, "shop.eu.a", 1, max_wait=90_000))
        await until(lambda: gateway.broker.metrics.fetches_parked.value)
        await put_into(gateway, EU, "")
        assert await coming == [1]
        assert await publish(client, "shop.eu.a", *[b"v"] * 9) == 0
        partition = gateway.broker.topic(b"shop/eu/a").partitions[0]  # type: ignore[union-attr]
        assert partition is not None
        assert (partition.publish_throttle, partition.dispatching) == (None, None)
        assert partition.plain

    run(test)


def test_rates_that_are_taken_back_free_who_waits() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await made(gateway, client, "shop.eu.a")
        for _ in range(2):
            await publish(client, "shop.eu.a")
        Rings(gateway)
        await gateway.broker.resource_groups.change("small", lambda _: GroupRow(dispatch_messages=1))
        assert await fetch(client, "shop.eu.a", 0) == [0]
        coming = asyncio.ensure_future(fetch(client, "shop.eu.a", 1, max_wait=90_000))
        await until(lambda: gateway.broker.metrics.fetches_parked.value)
        await gateway.broker.resource_groups.change("small", lambda _: GroupRow())
        assert await coming == [1]

    run(test)


def test_a_topic_of_its_own_rate_keeps_what_it_counted_when_its_group_changes() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await made(gateway, client)
        await create(client, "shop.eu.a")
        Rings(gateway)
        await gateway.broker.topics.configure("shop/eu/a", lambda _: {"pulsar.publish.rate.messages": "1"})
        assert await publish(client, "shop.eu.a", b"1", b"2") == 2000
        await put_into(gateway, EU, "")
        other = await Client.connect(gateway)
        assert await publish(other, "shop.eu.a") == 3000
        other.close()

    run(test)


def test_groups_are_there_after_a_restart() -> None:
    store = memory.open()

    async def before(gateway: Gateway, client: Client) -> None:
        await made(gateway, client, publish_messages=2, dispatch_bytes=-1)
        await gateway.broker.resource_groups.change("gone", lambda row: row)

        async def free() -> None:
            """Nobody is in it."""

        await gateway.broker.resource_groups.delete("gone", free)

    async def after(gateway: Gateway, client: Client) -> None:
        assert gateway.broker.resource_groups.names() == ["small"]
        await create(client, "shop.eu.a")
        Rings(gateway)
        group = gateway.broker.resource_groups.get("small")
        assert group is not None
        assert group.row == GroupRow(publish_messages=2, dispatch_bytes=-1)
        await publish(client, "shop.eu.a")
        assert group.published.messages == 1

    run(before, store=store)
    run(after, store=store)


def test_there_are_only_so_many() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        groups = gateway.broker.resource_groups
        with mock.patch.object(resource_groups, "MOST", 1):
            await groups.change("one", lambda row: row)
            with pytest.raises(KafkaError) as refused:
                await groups.change("two", lambda row: row)
            assert refused.value.code == Error.POLICY_VIOLATION
            await groups.change("one", lambda row: msgspec.structs.replace(row, publish_bytes=5))
        assert groups.names() == ["one"]

    run(test)
