"""A Produce by a new connection while its client owes something: kept for so long, told to come again, or lost."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.connection_state import THROTTLED
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.apis.quota_asking import Parts, alter, entry
from tests.gateway.broker.held import part, run, until
from tests.gateway.rings import Rings
from tests.gateway.serving import Client, batch, create, produce_body

EVERYBODY: Parts = [("user", "ANONYMOUS")]
WINDOWS = ("quota.window.num=2", "quota.window.size.seconds=1")


def body(size: int = 100, *, timeout_ms: int = 30_000, acks: int = -1, **options: Any) -> Any:
    return produce_body("t", batch(b"x" * size, **options), acks=acks, timeout_ms=timeout_ms)


async def publish(client: Client, size: int = 100, **options: Any) -> Any:
    return await client.ask(ApiKey.PRODUCE, 9, body(size, **options))


async def begun(gateway: Gateway, client: Client, rate: float = 1000.0) -> tuple[Rings, Any]:
    """A topic, and a quota of one second's worth; the partition."""
    await create(client, "t")
    rings = Rings(gateway)
    await alter(client, entry(EVERYBODY, producer_byte_rate=rate))
    return rings, gateway.broker.partition_of(gateway.broker.at_home(b"t"), 0)  # type: ignore[arg-type]


def waiting(gateway: Gateway) -> int:
    """Connections that are not read because of a rate."""
    (listener,) = gateway.listeners
    return sum(bool(each._paused & THROTTLED) for each in listener.connections)


def test_who_comes_is_not_kept_out_by_others_that_share_its_quota_and_never_pause() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        rings, _ = await begun(gateway, client)
        others = [await Client.connect(gateway), await Client.connect(gateway)]
        for each in others:
            assert (await publish(each, 10)).throttle_time_ms == 0
        waits = [(await publish(each, 3000)).throttle_time_ms for each in others]
        # each of them goes on as soon as it may, and there is never nothing owed
        back = await Client.connect(gateway)
        coming = asyncio.ensure_future(publish(back))
        await until(lambda: waiting(gateway) == 3)
        for _ in range(10):
            rings.ring(passed := min(waits))
            waits = [each - passed for each in waits]
            ready = waits.index(0)
            waits[ready] = (await publish(others[ready], 3000)).throttle_time_ms
        assert coming.done()
        assert part(await coming).error_code == 0
        for each in (back, *others):
            each.close()

    run(test, *WINDOWS)


def test_what_is_more_than_anybody_waits_for_at_a_time_is_owed_all_the_same() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        rings, partition = await begun(gateway, client)
        assert (await publish(client, 200_000)).throttle_time_ms == 25_000
        again = client.send(ApiKey.PRODUCE, 9, body(200_000))
        rings.ring(25_000)
        # more than a client waits for an answer, and this one may have come just behind that: it is told to come again
        await until(lambda: gateway.broker.owing_bytes > 0)
        for _ in range(2):
            rings.ring(1_000)
        correlation, answer = await client.receive()
        assert (correlation, part(answer).error_code) == (again, Error.NOT_ENOUGH_REPLICAS)
        assert answer.throttle_time_ms == 25_000
        assert partition.high_watermark == 1
        # a grace, then it is kept again
        rings.ring(1_000)
        client.send(ApiKey.PRODUCE, 9, body(100, timeout_ms=10**9))
        await until(lambda: waiting(gateway) == 1)
        rings.ring(200_000)
        assert part((await client.receive())[1]).error_code in (0, Error.NOT_ENOUGH_REPLICAS)
        rings.ring(1_000)
        assert part(await publish(client)).error_code == 0

    run(test, *WINDOWS)


def test_what_was_sent_behind_one_that_has_to_come_again_is_not_taken_before_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        rings, partition = await begun(gateway, client)
        first = await Client.connect(gateway)
        assert (await publish(first, 3000)).throttle_time_ms > 2000
        back = await Client.connect(gateway)
        for number in range(3):
            options: Any = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
            back.send(ApiKey.PRODUCE, 9, body(timeout_ms=1000, **options))
        await until(lambda: waiting(gateway) == 2)
        rings.ring(900)
        told = [(await back.receive())[1] for _ in range(3)]
        assert [part(each).error_code for each in told] == [Error.NOT_ENOUGH_REPLICAS] * 3
        assert [1000 < each.throttle_time_ms < 2200 for each in told] == [True] * 3
        # nothing is owed any more, but what comes now may be of before
        rings.ring(900)
        await alter(client, entry(EVERYBODY, producer_byte_rate=None))
        assert part(await publish(back)).error_code == Error.NOT_ENOUGH_REPLICAS
        assert partition.high_watermark == 1
        rings.ring(100)
        assert part(await publish(back)).error_code == 0
        first.close()
        back.close()

    run(test, *WINDOWS)


def test_who_waits_is_asked_again_each_second_and_goes_on_when_the_quota_is_taken_away() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        rings, _ = await begun(gateway, client)
        first = await Client.connect(gateway)
        assert (await publish(first, 20_000)).throttle_time_ms > 19_000
        back = await Client.connect(gateway)
        coming = asyncio.ensure_future(publish(back))
        await until(lambda: waiting(gateway) == 2)
        await alter(client, entry(EVERYBODY, producer_byte_rate=None))
        rings.ring(1000)
        assert part(await coming).error_code == 0
        first.close()
        back.close()

    run(test, *WINDOWS)


def test_what_waits_has_a_bound_in_memory_and_what_has_no_room_is_told_to_come_again() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        rings, partition = await begun(gateway, client)
        first = await Client.connect(gateway)
        assert (await publish(first, 5000)).throttle_time_ms > 3000
        # the eighth part of a megabyte has room for one of these
        kept, told, silent = [await Client.connect(gateway) for _ in range(3)]
        coming = asyncio.ensure_future(publish(kept, 100_000))
        await until(lambda: gateway.broker.owing_bytes > 100_000)
        answer = await publish(told, 100_000)
        assert (part(answer).error_code, answer.throttle_time_ms > 3000) == (Error.NOT_ENOUGH_REPLICAS, True)
        silent.send(ApiKey.PRODUCE, 9, body(100_000, acks=0))
        assert await silent.at_end()
        assert gateway.broker.owing_bytes < 110_000
        rings.ring(6000)
        assert part(await coming).error_code == 0
        assert (partition.high_watermark, gateway.broker.owing_bytes) == (2, 0)
        for each in (first, kept, told, silent):
            each.close()

    run(test, *WINDOWS, "memory.max.bytes=1048576")


def test_the_work_on_what_is_told_to_come_again_counts() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        rings, partition = await begun(gateway, client)
        first = await Client.connect(gateway)
        await publish(first, 20_000)
        back = await Client.connect(gateway)
        await alter(client, entry(EVERYBODY, request_percentage=0.001))
        assert part(await publish(back, timeout_ms=0)).error_code == Error.NOT_ENOUGH_REPLICAS
        # it is not read for a window, and what it had sent before it knew is told the same
        await until(lambda: waiting(gateway) == 2)
        back.send(ApiKey.PRODUCE, 9, body(timeout_ms=10**9))
        rings.ring(1000)
        assert part((await back.receive())[1]).error_code == Error.NOT_ENOUGH_REPLICAS
        assert partition.high_watermark == 1
        first.close()
        back.close()

    run(test, *WINDOWS)


def test_without_answers_it_waits_for_as_long_as_it_takes() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        rings, partition = await begun(gateway, client)
        first = await Client.connect(gateway)
        await publish(first, 40_000)
        back = await Client.connect(gateway)
        back.send(ApiKey.PRODUCE, 9, body(acks=0, timeout_ms=0))
        await until(lambda: gateway.broker.owing_bytes > 0)
        for _ in range(38):
            rings.ring(1000)
        assert (partition.high_watermark, gateway.broker.owing_bytes > 0) == (1, True)
        rings.ring(5000)
        await until(lambda: partition.high_watermark == 2)
        assert gateway.broker.owing_bytes == 0
        first.close()
        back.close()

    run(test, *WINDOWS)


def test_nothing_of_a_connection_that_ends_is_kept() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await begun(gateway, client)
        first = await Client.connect(gateway)
        await publish(first, 40_000)
        back = await Client.connect(gateway)
        back.send(ApiKey.PRODUCE, 9, body())
        await until(lambda: gateway.broker.owing_bytes > 0)
        for each in list(gateway.listeners[0].connections):
            each.shutdown()
        await until(lambda: not gateway.listeners[0].connections)
        assert gateway.broker.owing_bytes == 0
        first.close()
        back.close()

    run(test, *WINDOWS)
