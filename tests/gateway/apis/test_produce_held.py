"""Produce to a partition whose backlog quota is used up, with `producer_request_hold`: what a client sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from gateway import connection
from gateway.broker.quota_gate import REFUSED_MS
from gateway.broker.subscriptions import positions
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.api import Refused
from tests.gateway.broker import held as held_gateway
from tests.gateway.broker.held import HeldStore
from tests.gateway.serving import Client, batch, create, produce_body, serving

Test = Callable[[Gateway, Client], Coroutine[Any, Any, None]]

HOLD = {
    "pulsar__backlog__quota__bytes": "1",
    "pulsar__backlog__quota__bytes__policy": "producer_request_hold",
}
REFUSE = {**HOLD, "pulsar__backlog__quota__bytes__policy": "producer_exception"}
LONG = 60_000


def run(test: Test) -> None:
    async def body() -> None:
        async with asyncio.timeout(60), serving() as gateway:
            client = await Client.connect(gateway)
            try:
                await test(gateway, client)
            finally:
                client.close()

    uvloop.run(body())


async def full(gateway: Gateway, client: Client, topic: str = "t", partitions: int = 1) -> None:
    """A topic with a subscription and a backlog of one message in each partition, which is all that it takes."""
    await create(client, topic, partitions, **HOLD)
    subscription = await gateway.broker.subscriptions.ensure("g", topic)
    for index in range(partitions):
        await produced(client, topic, partition=index)
    assert subscription is not None


async def produced(client: Client, topic: str = "t", **options: Any) -> Any:
    return only(await client.ask(ApiKey.PRODUCE, 9, body(topic, **options)))


def body(
    topic: str = "t", value: bytes = b"v", timeout: int = LONG, partition: int = 0, **options: Any
) -> Any:
    made = produce_body(topic, batch(value, **options), partition=partition)
    made.timeout_ms = timeout
    return made


def only(answer: Any) -> Any:
    (topic,) = answer.responses
    (found,) = topic.partition_responses
    return found


async def acknowledge(gateway: Gateway, topic: str = "t", index: int = 0) -> None:
    """All that there is."""
    found = gateway.broker.subscriptions.get("g", topic)
    assert found is not None
    at = found.partition(index)
    at.ready()
    positions.move([(at, at.partition.high_watermark)], lambda cursor, end: cursor.clear(end))
    await gateway.broker.write(())


async def held(gateway: Gateway, count: int = 1) -> None:
    """So many requests wait."""
    while gateway.broker.held_back.count != count:
        await asyncio.sleep(0.001)


def stored(gateway: Gateway, topic: str = "t", index: int = 0) -> int:
    found = gateway.broker.catalog.get(topic)
    assert found is not None
    return gateway.broker.partition(found, index).high_watermark


async def nothing_is_left(gateway: Gateway) -> None:
    while gateway.broker.preparing_bytes:
        await asyncio.sleep(0.001)
    await held(gateway, 0)
    assert not gateway.broker.waited_for(gateway.broker.catalog.get("t").topic_id, 0)  # type: ignore[union-attr]


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
        sent = [client.send(ApiKey.PRODUCE, 9, body()) for _ in range(connection.HELD_AT_MOST)]
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


def named(configs: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in configs.items()}


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


# -- what may not be answered so -------------------------------------------------------------------------------------


def test_what_was_stored_of_it_in_vain_is_told_though_the_rest_is_stored_later() -> None:
    store = HeldStore()

    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client, partitions=2)
        await create(client, "u")
        three = body("t")
        three.topic_data += body("u").topic_data
        three.topic_data[0].partition_data.append(body("t", partition=1).topic_data[0].partition_data[0])
        store.holding = True
        client.send(ApiKey.PRODUCE, 9, three)
        # u is on its way, and lost
        await store.has(1)
        await held(gateway)
        store.fail(Refused("no space"))
        store.holding = False
        await acknowledge(gateway, index=1)
        while stored(gateway, index=1) != 2:
            await asyncio.sleep(0.001)
        await acknowledge(gateway)
        _, answer = await client.receive()
        found = {
            (each.name, one.index): (one.error_code, one.base_offset)
            for each in answer.responses
            for one in each.partition_responses
        }
        lost = (Error.KAFKA_STORAGE_ERROR, -1)
        assert found == {("t", 0): (0, 1), ("t", 1): (0, 1), ("u", 0): lost}
        assert stored(gateway, "u") == 0

    held_gateway.run(test, store=store)


def test_one_that_was_released_in_vain_is_told_though_the_other_is_stored() -> None:
    store = HeldStore()

    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client, partitions=2)
        made = produce_body("t", batch(b"a"), batch(b"b"))
        made.timeout_ms = LONG
        client.send(ApiKey.PRODUCE, 9, made)
        await held(gateway)
        await acknowledge(gateway, index=1)
        store.holding = True
        await store.has(1)
        store.fail(Refused("no space"))
        store.holding = False
        await acknowledge(gateway, index=0)
        _, answer = await client.receive()
        (topic,) = answer.responses
        assert [(each.index, each.error_code) for each in topic.partition_responses] == [
            (0, 0),
            (1, Error.KAFKA_STORAGE_ERROR),
        ]

    held_gateway.run(test, store=store)


def test_a_later_batch_of_a_new_producer_does_not_overtake_one_that_is_to_come_again() -> None:
    """Any sequence number is good for the first batch of a producer: the one that comes again would be a duplicate."""

    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)

        def numbered(sequence: int, timeout: int = LONG, epoch: int = 0) -> Any:
            return body(timeout=timeout, producer_id=7, producer_epoch=epoch, base_sequence=sequence)

        client.send(ApiKey.PRODUCE, 9, numbered(0, timeout=300))
        client.send(ApiKey.PRODUCE, 9, numbered(1))
        # the time of the first is over, and the second goes with it
        for _ in range(2):
            assert only((await client.receive())[1]).error_code == Error.NOT_ENOUGH_REPLICAS
        await gateway.broker.topics.configure("t", lambda old: {})
        early = only(await client.ask(ApiKey.PRODUCE, 9, numbered(1)))
        assert early.error_code == Error.NOT_ENOUGH_REPLICAS
        assert "has to come again first" in early.error_message
        # others are not concerned
        assert (await produced(client)).base_offset == 1
        for sequence, offset in ((0, 2), (1, 3), (2, 4)):
            found = only(await client.ask(ApiKey.PRODUCE, 9, numbered(sequence)))
            assert (found.error_code, found.base_offset) == (0, offset)

    run(test)


def test_a_later_batch_does_not_overtake_one_whose_commit_failed() -> None:
    store = HeldStore()

    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)

        def numbered(sequence: int) -> Any:
            return body(producer_id=7, producer_epoch=0, base_sequence=sequence)

        for sequence in range(2):
            client.send(ApiKey.PRODUCE, 9, numbered(sequence))
        await held(gateway, 2)
        await acknowledge(gateway)
        store.holding = True
        # there is room for the first
        await store.has(1)
        store.fail(Refused("no space"))
        store.holding = False
        await gateway.broker.topics.configure("t", lambda old: {})
        codes = [only((await client.receive())[1]).error_code for _ in range(2)]
        assert codes[0] == Error.KAFKA_STORAGE_ERROR
        assert codes[1] != 0
        for sequence in range(2):
            found = only(await client.ask(ApiKey.PRODUCE, 9, numbered(sequence)))
            assert (found.error_code, found.base_offset) == (0, sequence + 1)

    held_gateway.run(test, store=store)


def test_a_batch_that_is_stored_already_is_told_so_while_others_wait() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 1, **HOLD)
        await gateway.broker.subscriptions.ensure("g", "t")
        sent = body(producer_id=7, producer_epoch=0, base_sequence=0)
        assert only(await client.ask(ApiKey.PRODUCE, 9, sent)).base_offset == 0
        other = await Client.connect(gateway)
        other.send(ApiKey.PRODUCE, 9, body())
        await held(gateway)
        again = only(await client.ask(ApiKey.PRODUCE, 9, sent))
        assert (again.error_code, again.base_offset) == (0, 0)
        other.close()

    run(test)


def test_what_has_no_memory_to_wait_in_is_not_overtaken_either() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        gateway.broker.memory_limit = 4_000
        first = await Client.connect(gateway)
        first.send(ApiKey.PRODUCE, 9, body())
        await held(gateway)
        sent = [
            body(value=bytes(size), producer_id=7, producer_epoch=0, base_sequence=sequence)
            for sequence, size in ((0, 900), (1, 1))
        ]
        codes = [only(await client.ask(ApiKey.PRODUCE, 9, each)).error_code for each in sent]
        assert codes == [Error.NOT_ENOUGH_REPLICAS] * 2
        await held(gateway)
        first.close()

    run(test)


def test_nothing_waits_for_a_client_that_goes_while_the_backlog_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        quotas = gateway.broker.backlog_quotas
        usage = quotas.usage
        begun, over = asyncio.Event(), asyncio.Event()

        async def slow(*arguments: Any, **options: Any) -> Any:
            begun.set()
            await over.wait()
            return await usage(*arguments, **options)

        # a measurement that keeps publishers out is soon out of date
        await asyncio.sleep(REFUSED_MS / 1000)
        monkeypatch.setattr(quotas, "usage", slow)
        other = await Client.connect(gateway)
        other.send(ApiKey.PRODUCE, 9, body())
        await begun.wait()
        other.close()
        while len(gateway.listeners[0].connections) > 1:
            await asyncio.sleep(0.001)
        over.set()
        await nothing_is_left(gateway)
        await acknowledge(gateway)
        assert (await produced(client)).base_offset == 1

    run(test)


@pytest.mark.parametrize(
    ("configs", "code"), [(HOLD, Error.NOT_ENOUGH_REPLICAS), (REFUSE, Error.POLICY_VIOLATION)]
)
def test_a_measurement_that_takes_long_is_good_for_those_who_waited_for_it(
    monkeypatch: pytest.MonkeyPatch, configs: dict[str, str], code: Error
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        await gateway.broker.topics.configure("t", lambda old: named(configs))
        quotas = gateway.broker.backlog_quotas
        usage = quotas.usage

        async def slow(*arguments: Any, **options: Any) -> Any:
            found = await usage(*arguments, **options)
            await asyncio.sleep(2 * REFUSED_MS / 1000)
            return found

        monkeypatch.setattr(quotas, "usage", slow)
        assert (await produced(client, timeout=300)).error_code == code

    run(test)


@pytest.mark.parametrize("acks", [-1, 0])
def test_eviction_keeps_nobody_out_however_many_come_at_once(acks: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        evict = {**HOLD, "pulsar__backlog__quota__bytes__policy": "consumer_backlog_eviction"}
        await create(client, "t", 1, **{**evict, "pulsar__backlog__quota__bytes": "100"})
        await gateway.broker.subscriptions.ensure("g", "t")
        clients = [await Client.connect(gateway) for _ in range(20)]
        for _ in range(10):
            for each in clients:
                one = body()
                one.acks = acks
                each.send(ApiKey.PRODUCE, 9, one)
        if acks:
            codes = [only((await each.receive())[1]).error_code for each in clients for _ in range(10)]
            assert set(codes) == {0}
        while stored(gateway) != 200:
            await asyncio.sleep(0.001)
        for each in clients:
            each.close()

    run(test)


def test_all_that_come_at_once_to_a_small_quota_wait_for_their_turn() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        clients = [await Client.connect(gateway) for _ in range(20)]
        for each in clients:
            each.send(ApiKey.PRODUCE, 9, body())
        await held(gateway, 20)
        await gateway.broker.topics.configure("t", lambda old: {})
        codes = [only((await each.receive())[1]).error_code for each in clients]
        assert set(codes) == {0}
        for each in clients:
            each.close()

    run(test)
