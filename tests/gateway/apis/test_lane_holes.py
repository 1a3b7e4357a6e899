"""Deliveries at the end of a lane that cannot be read any more: an empty batch leads behind them, once a wait is over.

kafka-go and KafkaJS ask again at the same offset when they are given an empty batch, 2,100 times a second.
"""

from __future__ import annotations

from typing import Any

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.batch import header
from tests.gateway.apis.test_queue_topics import NAME, produce, queue, read
from tests.gateway.broker.asking import delete_records, errors, fetch, offsets, told
from tests.gateway.broker.held import run, until
from tests.gateway.serving import Client


async def trimmed(gateway: Gateway, client: Client) -> None:
    """A lane with three deliveries whose records are gone."""
    await queue(gateway, client, 3)
    assert await read(client) == [0, 1, 2]
    assert await delete_records(client, "t", {0: 3}) == {0: (0, 3)}


def spanned(answer: Any) -> tuple[int, int, int] | None:
    """(first, last, records) of the only batch of an answer; None where it has none."""
    assert errors(answer) == {0: 0}
    data = bytes(told(answer)[0].records or b"")
    if not data:
        return None
    found = header(data)
    assert found.size == len(data)
    return found.base_offset, found.last_offset, found.count


def waiting(client: Client, max_wait: int) -> None:
    """Send a fetch from the beginning of the lane."""
    asked = messages.FetchRequest
    partition = asked.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = asked.FetchTopic(topic=NAME, partitions=[partition])
    client.send(
        ApiKey.FETCH,
        11,
        asked(
            max_wait_ms=max_wait,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=0,
            session_epoch=-1,
            topics=[topic],
        ),
    )


def test_who_does_not_wait_is_led_behind_it_at_once() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await trimmed(gateway, client)
        assert spanned(await fetch(client, {NAME: {0: 0}})) == (0, 2, 0)
        assert spanned(await fetch(client, {NAME: {0: 3}})) is None

    run(test)


def test_who_waits_is_led_behind_it_when_that_is_over() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await trimmed(gateway, client)
        assert spanned(await fetch(client, {NAME: {0: 0}}, max_wait=20)) == (0, 2, 0)

    run(test)


def test_who_waits_and_is_given_records_meanwhile_gets_those_and_nothing_else() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await trimmed(gateway, client)
        other = await Client.connect(gateway)
        lane = gateway.broker.queues.of(gateway.broker.topics.get(NAME)).at[0]
        waiting(client, 10_000)
        await until(lambda: lane.watchers)
        await produce(other, 3)
        _, answer = await client.receive()
        assert spanned(answer) == (3, 3, 1)
        assert offsets(told(answer)[0].records) == [3]
        other.close()

    run(test)


def test_the_next_request_of_who_waits_ends_the_wait() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await trimmed(gateway, client)
        lane = gateway.broker.queues.of(gateway.broker.topics.get(NAME)).at[0]
        waiting(client, 10_000)
        await until(lambda: lane.watchers)
        client.send(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        _, answer = await client.receive()
        assert spanned(answer) == (0, 2, 0)

    run(test)
