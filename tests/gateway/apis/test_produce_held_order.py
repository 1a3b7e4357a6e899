"""Produce that waits for a backlog: what may not be lost, overtaken, or left behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.broker.quota_gate import REFUSED_MS
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.backlog_quota import Usage
from store.api import Refused
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
from tests.gateway.broker import held as held_gateway
from tests.gateway.broker.held import HeldStore
from tests.gateway.serving import Client, batch, create, produce_body


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


def test_the_answer_waits_for_all_commits_that_it_was_in(monkeypatch: pytest.MonkeyPatch) -> None:
    store = HeldStore()

    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        await create(client, "u")
        both = body("t")
        both.topic_data += body("u").topic_data
        store.holding = True
        client.send(ApiKey.PRODUCE, 9, both)
        await store.has(1)
        await held(gateway)

        async def nothing(*arguments: Any, **options: Any) -> Usage:
            return Usage(0, -1)

        # there is room, though no acknowledgement can be stored now
        monkeypatch.setattr(gateway.broker.backlog_quotas, "usage", nothing)
        await store.has(2)
        store.land()
        answer = asyncio.ensure_future(client.receive())
        # u is stored, t is not
        while stored(gateway, "u") != 1:
            await asyncio.sleep(0.001)
        other = await Client.connect(gateway)
        await other.ask(ApiKey.METADATA, 9, messages.MetadataRequest(topics=None))
        assert not answer.done()
        store.release()
        _, found = await answer
        assert [each.partition_responses[0].error_code for each in found.responses] == [0, 0]
        other.close()

    held_gateway.run(test, store=store)


def test_what_a_client_sent_behind_one_whose_time_is_over_goes_with_it() -> None:
    """It has no sequence numbers that would keep the order."""

    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client, partitions=2)
        client.send(ApiKey.PRODUCE, 9, body(timeout=300))
        client.send(ApiKey.PRODUCE, 9, body())
        # of another partition, and of another client
        client.send(ApiKey.PRODUCE, 9, body(partition=1))
        other = await Client.connect(gateway)
        other.send(ApiKey.PRODUCE, 9, body())
        await held(gateway, 4)
        for _ in range(2):
            assert only((await client.receive())[1]).error_code == Error.NOT_ENOUGH_REPLICAS
        assert gateway.broker.held_back.count == 2
        other.close()

    run(test)


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

        topic = gateway.broker.topic(b"t")
        assert topic is not None
        partition = gateway.broker.partition_of(topic, 0)
        assert partition.gate is not None
        partition.gate.forget()
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
    clock = held_gateway.Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        await gateway.broker.topics.configure("t", lambda old: named(configs))
        quotas = gateway.broker.backlog_quotas
        usage = quotas.usage

        async def slow(*arguments: Any, **options: Any) -> Any:
            found = await usage(*arguments, **options)
            clock.now += 2 * REFUSED_MS
            return found

        monkeypatch.setattr(quotas, "usage", slow)
        assert (await produced(client, timeout=300)).error_code == code

    held_gateway.run(test, clock=clock)


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
