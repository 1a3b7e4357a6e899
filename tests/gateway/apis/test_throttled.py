"""Who publishes faster than a topic's rate allows: is told to wait, is not read meanwhile, and harms nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.broker.bounding import MOST_DEBT_MS
from gateway.broker.held_back import POLL_MS
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from tests.gateway.apis.holding import acknowledge, body, full, held, only, run
from tests.gateway.rings import Rings
from tests.gateway.serving import Client, create


async def ask(client: Client, topic: str = "t", **options: Any) -> Any:
    return await client.ask(ApiKey.PRODUCE, 9, body(topic, **options))


def test_who_is_too_fast_is_told_so_and_not_read_until_then() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", pulsar__publish__rate__messages="2")
        await create(client, "u")
        rings = Rings(gateway)
        for throttled in (0, 500):
            answer = await ask(client)
            assert (only(answer).error_code, answer.throttle_time_ms) == (0, throttled)
        # what is sent meanwhile waits, for whatever topic; others are served
        coming = asyncio.ensure_future(ask(client, "u"))
        other = await Client.connect(gateway)
        for offset, ms in enumerate((499, 0)):
            assert only(await ask(other, "u")).base_offset == offset
            assert not coming.done()
            rings.ring(ms)
        rings.ring(1)
        assert only(await coming).base_offset == 2
        assert gateway.broker.metrics.produced_throttled.value == 1
        other.close()

    run(test)


def test_who_waited_for_a_backlog_is_throttled_as_all_are() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        rings = Rings(gateway)
        await gateway.broker.topics.configure("t", lambda old: {**old, "pulsar.publish.rate.messages": "1"})
        client.send(ApiKey.PRODUCE, 9, body())
        await held(gateway)
        await acknowledge(gateway)
        await released(gateway, rings)
        _, answer = await client.receive()
        assert (only(answer).error_code, answer.throttle_time_ms) == (0, 1_000)
        await not_read_for(1_000, gateway, client, rings)
        assert gateway.broker.metrics.produced_throttled.value == 1

    run(test)


async def held_beside_a_rate(gateway: Gateway, client: Client) -> Rings:
    """A request waits for the backlog of one topic, and has used up the rate of another."""
    await full(gateway, client)
    await create(client, "u", pulsar__publish__rate__messages="1")
    rings = Rings(gateway)
    both = body("t")
    both.topic_data += body("u").topic_data
    client.send(ApiKey.PRODUCE, 9, both)
    await held(gateway)
    return rings


def test_of_a_rate_that_the_rest_of_a_request_has_used_up_its_answer_says_what_is_left_to_wait() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        rings = await held_beside_a_rate(gateway, client)
        begun = rings.now
        rings.ring(400)
        await acknowledge(gateway)
        await released(gateway, rings)
        _, answer = await client.receive()
        left = begun + 1_000 - rings.now
        assert 0 < left <= 600
        assert answer.throttle_time_ms == left
        await not_read_for(left, gateway, client, rings)
        assert gateway.broker.metrics.produced_throttled.value == 1

    run(test)


def test_a_rate_that_was_used_up_long_before_the_answer_is_nothing_to_wait_for() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        rings = await held_beside_a_rate(gateway, client)
        rings.ring(1_000)
        await acknowledge(gateway)
        await released(gateway, rings)
        assert (await client.receive())[1].throttle_time_ms == 0
        assert gateway.broker.metrics.produced_throttled.value == 0
        assert only(await ask(client, "u")).error_code == 0

    run(test)


def test_of_several_that_were_throttled_the_longest_wait_counts() -> None:
    """One after the other they are taken, at once, when the quota goes."""

    async def test(gateway: Gateway, client: Client) -> None:
        await full(gateway, client)
        rings = Rings(gateway)
        for count in (1, 2):
            client.send(ApiKey.PRODUCE, 9, body())
            await held(gateway, count)
        await gateway.broker.topics.configure("t", lambda old: {"pulsar.publish.rate.messages": "1"})
        await released(gateway, rings)
        told = [(await client.receive())[1].throttle_time_ms for _ in range(2)]
        assert told == [1_000, 2_000]
        await not_read_for(2_000, gateway, client, rings, 1_000)

    run(test)


async def released(gateway: Gateway, rings: Rings) -> None:
    """Nothing waits any more."""
    while gateway.broker.held_back.count:
        rings.ring(POLL_MS)
        while gateway.broker.held_back._task is not None:
            await asyncio.sleep(0)


async def not_read_for(ms: int, gateway: Gateway, client: Client, rings: Rings, *stops: int) -> None:
    """What is sent meanwhile waits until then, also where timers ring at these times; others are served."""
    other = await Client.connect(gateway)
    await create(other, "free")
    coming = asyncio.ensure_future(ask(client, "free"))
    at = 0
    for stop in (*stops, ms - 1, ms):
        assert only(await ask(other, "free")).error_code == 0
        assert not coming.done()
        rings.ring(stop - at)
        at = stop
    assert only(await coming).error_code == 0
    other.close()


def test_bytes_count_by_themselves_and_for_each_partition() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2, pulsar__publish__rate__bytes="1000")
        rings = Rings(gateway)
        big = await ask(client, value=b"x" * 1_500)
        assert 500 < big.throttle_time_ms < 700
        rings.ring(big.throttle_time_ms)
        assert (await ask(client, partition=1)).throttle_time_ms == 0

    run(test)


def test_who_waits_for_no_answer_is_not_read_either() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", pulsar__publish__rate__messages="1")
        rings = Rings(gateway)
        quiet = body()
        quiet.acks = 0
        client.send(ApiKey.PRODUCE, 9, quiet)
        coming = asyncio.ensure_future(ask(client))
        while not gateway.broker.metrics.produced_throttled.value:
            await asyncio.sleep(0)
        other = await Client.connect(gateway)
        assert only(await ask(other)).base_offset == 1
        assert not coming.done()
        rings.ring(2_000)
        assert only(await coming).base_offset == 2
        other.close()

    run(test)


def test_nobody_waits_for_longer_than_clients_do_and_what_is_beyond_that_is_forgiven() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", pulsar__publish__rate__bytes="100")
        rings = Rings(gateway)
        big = await ask(client, value=b"x" * 50_000)
        assert MOST_DEBT_MS <= big.throttle_time_ms <= MOST_DEBT_MS + 1_000
        rings.ring(big.throttle_time_ms)
        # and not for minutes
        assert (await ask(client)).throttle_time_ms <= 1_000

    run(test)


def test_a_rate_that_is_taken_back_counts_no_longer() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", pulsar__publish__rate__messages="1")
        rings = Rings(gateway)
        assert (await ask(client)).throttle_time_ms == 1_000
        rings.ring(1_000)
        await gateway.broker.topics.configure("t", lambda old: {})
        for _ in range(5):
            assert (await ask(client)).throttle_time_ms == 0

    run(test)


def test_who_goes_away_meanwhile_is_no_producer_any_more() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", pulsar__publish__rate__messages="1")
        rings = Rings(gateway)
        other = await Client.connect(gateway)
        assert (await ask(other)).throttle_time_ms == 1_000
        other.close()
        partition = gateway.broker.topic(b"t").partitions[0]  # type: ignore[union-attr]
        assert partition is not None
        assert len(partition.publishers) == 1
        rings.ring(1_000)
        while partition.publishers:
            await asyncio.sleep(0.001)

    run(test)
