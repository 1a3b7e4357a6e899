"""Idempotent producers and the topic configs that change what is taken and how it is stored."""

from __future__ import annotations

import pytest

from gateway.broker.producers import MAX_SEQUENCE
from gateway.server import Gateway
from gateway.wire import records
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import memory
from tests.gateway.broker.held import Clock, part, run, serving_on
from tests.gateway.broker.produced import numbered, put, read, stamped
from tests.gateway.serving import Client, batch, create, produce_body

DAY = 86_400_000

# -- idempotent producers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 7, 9, 12])
def test_duplicates_gaps_and_epochs(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        for each, expected in [
            (numbered(0, 2), (0, 0)),
            (numbered(2), (0, 2)),
            (numbered(0, 2), (0, 0)),
            (numbered(4), (Error.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)),
            (numbered(1), (Error.DUPLICATE_SEQUENCE_NUMBER, -1)),
            (numbered(3, epoch=1), (Error.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)),
            (numbered(0, epoch=1), (0, 3)),
            (numbered(3), (Error.INVALID_PRODUCER_EPOCH, -1)),
            (numbered(50, producer_id=8), (0, 4)),
        ]:
            assert await put(client, each, version=version) == expected
        assert gateway.broker.metrics.produced_duplicates.value == 1

    run(test)


def test_the_last_five_batches_are_known_and_older_ones_are_error_46() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        for sequence in range(7):
            assert await put(client, numbered(sequence)) == (0, sequence)
        known = [await put(client, numbered(sequence)) for sequence in range(7)]
        assert known == [(46, -1), (46, -1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6)]
        assert len(await read(client)) == 7

    run(test)


def test_sequences_wrap() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        assert await put(client, numbered(MAX_SEQUENCE - 1, 4)) == (0, 0)
        assert await put(client, numbered(2)) == (0, 4)
        assert await put(client, numbered(MAX_SEQUENCE - 1, 4)) == (0, 0)
        assert await put(client, numbered(MAX_SEQUENCE)) == (46, -1)
        assert await put(client, numbered(3)) == (0, 5)

    run(test)


def test_a_restart_forgets_nothing_of_a_producer() -> None:
    async def main() -> None:
        store = memory.open()
        async with serving_on(store) as gateway:
            client = await Client.connect(gateway)
            await create(client, "t")
            for sequence in range(3):
                await put(client, numbered(sequence))
            client.close()
            kept = {name: getattr(store, name) for name in ("_logs", "_rows", "_keys")}
            store._logs = dict(kept["_logs"])
        again = memory.open(epoch=2)
        for name, value in kept.items():
            setattr(again, name, value)
        async with serving_on(again) as gateway:
            client = await Client.connect(gateway)
            assert await put(client, numbered(1)) == (0, 1)
            assert await put(client, numbered(4)) == (Error.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
            assert await put(client, numbered(3)) == (0, 3)
            client.close()

    import asyncio

    asyncio.run(main())


def test_several_batches_of_a_producer_in_one_turn() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        for sequence in (0, 1, 1, 3, 2):
            client.send(ApiKey.PRODUCE, 9, produce_body("t", numbered(sequence)))
        got = [part((await client.receive())[1]) for _ in range(5)]
        assert [each.base_offset for each in got] == [0, 1, 1, -1, 2]
        assert got[3].error_code == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [record.value for record in await read(client)] == [b"0", b"1", b"2"]

    run(test)


def test_a_transactional_batch_without_a_transactional_id_is_refused() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        assert await put(client, numbered(0, transactional=True)) == (
            Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            -1,
        )

    run(test)


# -- configs with an effect ----------------------------------------------------------------------------------------


def test_max_message_bytes() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", max__message__bytes="200")
        fits = next(each for n in range(200) if len(each := batch(b"x" * n)) == 200)
        assert await put(client, fits) == (0, 0)
        larger = next(each for n in range(200) if len(each := batch(b"x" * n)) == 201)
        assert await put(client, larger) == (Error.MESSAGE_TOO_LARGE, -1)

    run(test)


def test_log_append_time() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", message__timestamp__type="LogAppendTime")
        one = part(await client.ask(ApiKey.PRODUCE, 9, produce_body("t", numbered(0, 2))))
        assert (one.base_offset, one.log_append_time_ms) == (0, clock.now)
        stamped = clock.now
        clock.now += 5000
        two = part(await client.ask(ApiKey.PRODUCE, 9, produce_body("t", numbered(2))))
        assert two.log_append_time_ms == clock.now
        again = part(await client.ask(ApiKey.PRODUCE, 9, produce_body("t", numbered(0, 2))))
        assert (again.base_offset, again.log_append_time_ms) == (0, stamped), "a duplicate has its own time"
        future = records.build_batch([records.Record(0, clock.now + DAY, None, b"future", [])])
        assert await put(client, future) == (0, 3)
        assert [record.timestamp for record in await read(client)] == [stamped, stamped, clock.now, clock.now]

    run(test, clock=clock)


def test_an_hour_ahead_is_the_default_bound_and_any_past_is_fine() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        assert await put(client, stamped(clock.now + 3_600_001)) == (Error.INVALID_TIMESTAMP, -1)
        assert await put(client, stamped(clock.now + 3_600_000)) == (0, 0)
        assert await put(client, stamped(0)) == (0, 1)

    run(test, clock=clock)


def test_min_insync_replicas() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", min__insync__replicas="2")
        for version in (3, 9):
            answer = await client.ask(ApiKey.PRODUCE, version, produce_body("t", batch(b"v")))
            assert part(answer).error_code == 0, "Kafka counts up to the replicas there are"
            answer = await client.ask(ApiKey.PRODUCE, version, produce_body("t", batch(b"v"), acks=1))
            assert part(answer).error_code == 0

    run(test)


# -- what is counted -----------------------------------------------------------------------------------------------


def test_bytes_of_writes_that_failed_are_not_counted() -> None:
    store = memory.open()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        broker = gateway.broker
        (log,) = broker.topics.get("t").partitions

        def counted() -> int:
            runtime = broker.topic(b"t")
            assert runtime is not None
            at = runtime.partitions[0]
            return broker.traffic.of(log)[0] + (at.bytes_in if at is not None else 0)

        first = batch(b"v")
        assert await put(client, first) == (0, 0)
        assert counted() == len(first)
        store.fence(log)
        assert await put(client, batch(b"v" * 1000)) == (Error.NOT_LEADER_OR_FOLLOWER, -1)
        assert counted() == len(first)
        store.take(log)
        assert await put(client, first) == (0, 1)
        assert counted() == 2 * len(first)

    run(test, store=store)
