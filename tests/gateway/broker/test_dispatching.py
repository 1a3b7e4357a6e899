"""The dispatch rate of a partition, as those see it who read its log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.broker.dispatching import Pace
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.batch import batches
from tests.gateway.apis.holding import produced, run
from tests.gateway.rings import Rings
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body


async def filled(client: Client) -> None:
    """Ten batches of three records each."""
    await create(client, "t")
    for _ in range(10):
        answer = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"a", b"b", b"c")))
        assert answer.responses[0].partition_responses[0].error_code == 0


async def fetch(client: Client, offset: int, **options: Any) -> list[int]:
    """The base offsets of the batches that come."""
    answer = await client.ask(ApiKey.FETCH, 12, fetch_body("t", offset, **options))
    found = answer.responses[0].partitions[0]
    assert found.error_code == 0
    return [header.base_offset for _, header in batches(bytes(found.records or b""))]


def test_no_more_records_come_than_the_rate_allows_to_the_end_of_a_batch() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        rings = Rings(gateway)
        said = {"pulsar.dispatch.rate.messages": "5", "pulsar.dispatch.rate.seconds": "2"}
        await gateway.broker.topics.configure("t", lambda old: said)
        assert await fetch(client, 0) == [0, 3]
        assert await fetch(client, 6) == []
        other = await Client.connect(gateway)
        assert await fetch(other, 0) == [], "all readers together"
        # 6 of 5 in 2 s: one is owed, and another one is needed
        rings.ring(799)
        assert await fetch(client, 6) == []
        rings.ring(1)
        assert await fetch(client, 6) == [6]
        other.close()

    run(test)


def test_a_fetch_that_waits_goes_on_when_something_may_come() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        rings = Rings(gateway)
        await gateway.broker.topics.configure("t", lambda old: {"pulsar.dispatch.rate.messages": "3"})
        assert await fetch(client, 0) == [0]
        coming = asyncio.ensure_future(fetch(client, 3, max_wait=9_000))
        other = await Client.connect(gateway)
        await produced(other)
        assert not coming.done()
        rings.ring(334)
        assert await coming == [3]
        other.close()

    run(test)


@pytest.mark.parametrize("change", [{}, {"pulsar.dispatch.rate.messages": "1000"}])
def test_another_rate_counts_at_once_for_who_waits(change: dict[str, str]) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        Rings(gateway)
        await gateway.broker.topics.configure("t", lambda old: {"pulsar.dispatch.rate.messages": "3"})
        assert await fetch(client, 0) == [0]
        coming = asyncio.ensure_future(fetch(client, 3, max_wait=9_000))
        other = await Client.connect(gateway)
        await produced(other)
        assert not coming.done()
        await gateway.broker.topics.configure("t", lambda old: change)
        assert len(await coming) == 10
        other.close()

    run(test)


def test_bytes_count_too() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        rings = Rings(gateway)
        size = len(batch(b"a", b"b", b"c"))
        await gateway.broker.topics.configure("t", lambda old: {"pulsar.dispatch.rate.bytes": str(2 * size)})
        assert await fetch(client, 0) == [0, 3]
        assert await fetch(client, 6) == []
        rings.ring(500)
        assert await fetch(client, 6) == [6]

    run(test)


def test_a_partition_without_a_rate_goes_on_beside() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        await create(client, "u")
        Rings(gateway)
        await gateway.broker.topics.configure("t", lambda old: {"pulsar.dispatch.rate.messages": "3"})
        assert await fetch(client, 0) == [0]
        assert await fetch(client, 3) == []
        await produced(client, "u")
        answer = await client.ask(ApiKey.FETCH, 12, fetch_body("u", 0))
        assert answer.responses[0].partitions[0].records

    run(test)


def test_readers_that_wait_have_their_turns_and_are_told_nothing_before() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        rings = Rings(gateway)
        await gateway.broker.topics.configure("t", lambda old: {"pulsar.dispatch.rate.messages": "3"})
        assert await fetch(client, 0) == [0]
        second = await Client.connect(gateway)
        positions = {client: 3, second: 0}
        waiting = {
            each: asyncio.ensure_future(fetch(each, position, max_wait=90_000))
            for each, position in positions.items()
        }
        pace = gateway.broker.topic(b"t").partitions[0].dispatching  # type: ignore[union-attr]
        assert isinstance(pace, Pace)
        for _ in range(8):
            # both wait before the next may come
            while len(pace.waiting) < 2:
                await asyncio.sleep(0.001)
            rings.ring(1_000)
            done, _ = await asyncio.wait(waiting.values(), return_when=asyncio.FIRST_COMPLETED)
            (one,) = done
            who = next(each for each, task in waiting.items() if task is one)
            assert one.result() == [positions[who]], "no answer is empty"
            positions[who] += 3
            waiting[who] = asyncio.ensure_future(fetch(who, positions[who], max_wait=90_000))
        assert sorted(positions.values()) == [12, 15]
        for task in waiting.values():
            task.cancel()
        await asyncio.gather(*waiting.values(), return_exceptions=True)
        second.close()

    run(test)


def test_who_goes_away_waits_no_longer() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        Rings(gateway)
        rate = {"pulsar.dispatch.rate.messages": "3", "pulsar.dispatch.rate.seconds": "86400"}
        await gateway.broker.topics.configure("t", lambda old: rate)
        assert await fetch(client, 0) == [0]
        partition = gateway.broker.topic(b"t").partitions[0]  # type: ignore[union-attr]
        assert partition is not None
        assert isinstance(partition.dispatching, Pace)
        for _ in range(5):
            gone = await Client.connect(gateway)
            gone.send(ApiKey.FETCH, 12, fetch_body("t", 3, max_wait=90_000))
            while not partition.dispatching.waiting:
                await asyncio.sleep(0.001)
            gone.close()
            while partition.dispatching.waiting:
                await asyncio.sleep(0.001)

    run(test)
