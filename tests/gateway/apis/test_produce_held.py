"""Produce to a partition whose backlog quota is used up, with `producer_request_hold`: what a client sees."""

from __future__ import annotations

import asyncio
import gc

import pytest
import uvloop

from gateway import connection
from gateway.apis.produce_held import HeldSlot
from gateway.broker.held_back import POLL_MS
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.apis.holding import (
    HOLD,
    LONG,
    REFUSE,
    acknowledge,
    body,
    full,
    held,
    named,
    nothing_is_left,
    only,
    produced,
    run,
    stored,
)
from tests.gateway.rings import Rings
from tests.gateway.serving import Client, batch, create, produce_body, serving


def test_the_answer_comes_when_there_is_room_and_in_order() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        asked = client.send(ApiKey.PRODUCE, 9, body(value=b"1"))
        await held(gateway)
        assert stored(gateway) == 1
        await acknowledge(gateway)
        correlation, answer = await client.receive()
        assert (correlation, only(answer).error_code, only(answer).base_offset) == (asked, 0, 1)
        assert stored(gateway) == 2
        await nothing_is_left(gateway)

    run(test)


def test_an_idempotent_producer_waits_with_several_batches_and_they_keep_their_order() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        asked = [
            client.send(
                ApiKey.PRODUCE, 9, body(value=b"%d" % n, producer_id=7, producer_epoch=0, base_sequence=n)
            )
            for n in range(4)
        ]
        other = await Client.connect(gateway)
        await held(gateway, 4)
        # one that comes while there may be room already goes behind them
        other.send(ApiKey.PRODUCE, 9, body(value=b"5"))
        await held(gateway, 5)
        got = []
        for n, each in enumerate(asked):
            await acknowledge(gateway)
            correlation, answer = await client.receive()
            assert correlation == each
            got.append((only(answer).error_code, only(answer).base_offset))
            assert stored(gateway) == n + 2, "each fills the quota by itself"
        assert got == [(0, n) for n in range(1, 5)]
        await acknowledge(gateway)
        _, answer = await other.receive()
        assert only(answer).base_offset == 5
        await nothing_is_left(gateway)
        other.close()

    run(test)


def test_who_comes_when_there_is_room_again_goes_behind_those_who_waited() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        await gateway.broker.topics.configure(
            "t", lambda old: {**old, "pulsar.backlog.quota.bytes": str(len(batch(b"v")))}
        )
        client.send(ApiKey.PRODUCE, 9, body())
        await held(gateway)
        other = await Client.connect(gateway)
        # there is room for many, and nobody has looked yet
        await gateway.broker.topics.configure("t", lambda old: {})
        other.send(ApiKey.PRODUCE, 9, body())
        assert only((await client.receive())[1]).base_offset == 1
        assert only((await other.receive())[1]).base_offset == 2
        other.close()

    run(test)


def test_others_of_the_same_request_are_stored_at_once() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        await create(client, "u")
        both = body("t")
        both.topic_data += body("u").topic_data
        client.send(ApiKey.PRODUCE, 9, both)
        await held(gateway)
        while stored(gateway, "u") != 1:
            await asyncio.sleep(0.001)
        await acknowledge(gateway)
        _, answer = await client.receive()
        assert [
            (each.name, each.partition_responses[0].error_code, each.partition_responses[0].base_offset)
            for each in answer.responses
        ] == [("t", 0, 1), ("u", 0, 0)]

    run(test)


def test_a_request_with_several_full_partitions_goes_on_where_there_is_room() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client, partitions=2)
        made = produce_body("t", batch(b"a"), batch(b"b"))
        made.timeout_ms = LONG
        client.send(ApiKey.PRODUCE, 9, made)
        await held(gateway)
        await acknowledge(gateway, index=1)
        while stored(gateway, index=1) != 2:
            await asyncio.sleep(0.001)
        assert stored(gateway) == 1
        await acknowledge(gateway, index=0)
        _, answer = await client.receive()
        (topic,) = answer.responses
        assert [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses] == [
            (0, 0, 1),
            (1, 0, 1),
        ]

    run(test)


def test_who_has_waited_for_most_of_its_time_is_told_to_try_again() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        answer = await produced(client, timeout=200)
        assert answer.error_code == Error.NOT_ENOUGH_REPLICAS
        assert (
            "and its quota is 1. Publishers wait until consumers have acknowledged more."
            in answer.error_message
        )
        assert stored(gateway) == 1
        await nothing_is_left(gateway)
        # without time it is told so at once
        assert (await produced(client, timeout=0)).error_code == Error.NOT_ENOUGH_REPLICAS
        await acknowledge(gateway)
        assert (await produced(client)).base_offset == 1

    run(test)


def test_nobody_waits_for_more_than_two_minutes_whatever_time_a_request_gives() -> None:
    """Clients that are gone without a word would keep their batches in memory for 24 days."""

    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        rings = Rings(gateway)
        client.send(ApiKey.PRODUCE, 9, body(timeout=2**31 - 1))
        await held(gateway)
        answer = asyncio.ensure_future(client.receive())
        other = await Client.connect(gateway)
        for ms in (119_999, POLL_MS):
            await other.ask(ApiKey.METADATA, 9, messages.MetadataRequest(topics=None))
            assert (gateway.broker.held_back.count, answer.done()) == (1, False)
            rings.ring(ms)
            while gateway.broker.held_back._task is not None:
                await asyncio.sleep(0)
        assert only((await answer)[1]).error_code == Error.NOT_ENOUGH_REPLICAS
        await nothing_is_left(gateway)
        other.close()

    run(test)


def test_of_what_is_answered_nothing_stays_in_memory_while_others_wait() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client, partitions=2)
        other = await Client.connect(gateway)
        other.send(ApiKey.PRODUCE, 9, body(partition=1))
        await held(gateway)
        for offset in (1, 2):
            client.send(ApiKey.PRODUCE, 9, body())
            await held(gateway, 2)
            await acknowledge(gateway)
            assert only((await client.receive())[1]).base_offset == offset
        (waits,) = slots(gateway)
        assert len(waits.places) == 1
        other.close()

    run(test)


def test_what_waits_does_not_keep_what_was_done_when_it_was_refused() -> None:
    """The frames of a traceback have the bytes that were read with it, and whoever was looked at before it."""

    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        rings = Rings(gateway)
        client.send(ApiKey.PRODUCE, 9, body())
        await held(gateway)
        for _ in range(2):
            (waits,) = slots(gateway)
            assert [each.error.__traceback__ for each in waits._held] == [None]
            rings.ring(POLL_MS)
            while gateway.broker.held_back._task is not None:
                await asyncio.sleep(0)

    run(test)


def slots(gateway: Gateway) -> list[HeldSlot]:
    """All that are in memory."""
    gc.collect()
    found = [each for each in gc.get_objects() if type(each) is HeldSlot]
    return [each for each in found if each._broker is gateway.broker]


def test_what_comes_behind_it_on_the_connection_does_not_wait() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        await create(client, "u")
        for _ in range(2):
            client.send(ApiKey.PRODUCE, 9, body("t"))
        await held(gateway, 2)
        client.send(ApiKey.PRODUCE, 9, body("u"))
        codes = [only((await client.receive())[1]).error_code for _ in range(3)]
        assert codes == [Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS, 0]
        assert (stored(gateway), stored(gateway, "u")) == (1, 1)
        # and neither does a request of another kind
        client.send(ApiKey.PRODUCE, 9, body("t"))
        await held(gateway)
        client.send(ApiKey.METADATA, 9, messages.MetadataRequest(topics=None))
        assert only((await client.receive())[1]).error_code == Error.NOT_ENOUGH_REPLICAS
        _, metadata = await client.receive()
        assert {topic.name for topic in metadata.topics} == {"t", "u"}
        await nothing_is_left(gateway)

    run(test)


def test_as_many_as_clients_leave_unanswered_do_not_wait() -> None:
    """Else nothing of their other topics would come before the time is over."""

    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        sent = [client.send(ApiKey.PRODUCE, 9, body()) for _ in range(5)]
        for each in sent:
            correlation, answer = await client.receive()
            assert (correlation, only(answer).error_code) == (each, Error.NOT_ENOUGH_REPLICAS)
        await nothing_is_left(gateway)

    run(test)


def test_as_many_as_a_connection_may_have_in_flight_do_not_block_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        monkeypatch.setattr(connection, "MAX_IN_FLIGHT", 500)
        sent = [client.send(ApiKey.PRODUCE, 9, body()) for _ in range(6)]
        client.send(ApiKey.METADATA, 9, messages.MetadataRequest(topics=None))
        for each in sent:
            correlation, answer = await client.receive()
            assert (correlation, only(answer).error_code) == (each, Error.NOT_ENOUGH_REPLICAS)
        await client.receive()
        await nothing_is_left(gateway)

    run(test)


def test_nothing_is_stored_for_a_client_that_has_gone() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        other = await Client.connect(gateway)
        other.send(ApiKey.PRODUCE, 9, body())
        await held(gateway)
        other.close()
        await nothing_is_left(gateway)
        await acknowledge(gateway)
        assert (await produced(client)).base_offset == 1

    run(test)


def test_a_policy_that_changes_releases_who_waits_or_refuses_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topics = gateway.broker.topics
        await full(gateway, client)
        client.send(ApiKey.PRODUCE, 9, body())
        await held(gateway)
        await topics.configure("t", lambda old: {})
        assert only((await client.receive())[1]).base_offset == 1
        await topics.configure("t", lambda old: named(HOLD))
        client.send(ApiKey.PRODUCE, 9, body())
        await held(gateway)
        await topics.configure("t", lambda old: named(REFUSE))
        answer = only((await client.receive())[1])
        assert answer.error_code == Error.POLICY_VIOLATION
        await nothing_is_left(gateway)
        # acks=0 has nobody that could be told
        one = body()
        one.acks = 0
        client.send(ApiKey.PRODUCE, 9, one)
        assert await client.at_end()

    run(test)


def test_a_subscription_or_a_topic_that_is_deleted_ends_the_wait() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        client.send(ApiKey.PRODUCE, 9, body())
        await held(gateway)
        await gateway.broker.subscriptions.delete("g")
        assert only((await client.receive())[1]).base_offset == 1
        await gateway.broker.subscriptions.ensure("h", "t", [0])
        client.send(ApiKey.PRODUCE, 9, body())
        await held(gateway)
        await gateway.broker.topics.delete("t")
        assert only((await client.receive())[1]).error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        await held(gateway, 0)
        assert gateway.broker.preparing_bytes == 0

    run(test)


def test_a_gateway_that_stops_does_not_wait_for_them() -> None:
    async def test() -> None:
        async with asyncio.timeout(60):
            async with serving() as gateway:
                client = await Client.connect(gateway)
                await full(gateway, client)
                client.send(ApiKey.PRODUCE, 9, body())
                await held(gateway)
            assert only((await client.receive())[1]).error_code == Error.NOT_ENOUGH_REPLICAS
            client.close()

    uvloop.run(test())


def test_there_is_memory_for_so_many_that_wait() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        gateway.broker.memory_limit = 1000
        client.send(ApiKey.PRODUCE, 9, body())
        await held(gateway)
        other = await Client.connect(gateway)
        answer = only(await other.ask(ApiKey.PRODUCE, 9, body(value=bytes(200))))
        assert answer.error_code == Error.NOT_ENOUGH_REPLICAS
        await held(gateway)
        other.close()

    run(test)


def test_two_topics_are_told_apart_by_their_ids() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        topic = gateway.broker.catalog.get("t")
        assert topic is not None
        wanted = messages.ProduceRequest
        made = wanted(
            transactional_id=None,
            acks=-1,
            timeout_ms=LONG,
            topic_data=[
                wanted.TopicProduceData(
                    topic_id=topic.topic_id,
                    partition_data=[wanted.PartitionProduceData(index=0, records=batch(b"v"))],
                )
            ],
        )
        client.send(ApiKey.PRODUCE, 13, made)
        await held(gateway)
        await acknowledge(gateway)
        assert only((await client.receive())[1]).base_offset == 1

    run(test)
