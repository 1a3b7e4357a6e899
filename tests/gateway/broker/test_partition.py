"""Idempotent producers and the topic configs that change what is taken and how it is stored."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.producers import MAX_SEQUENCE
from gateway.server import Gateway
from gateway.wire import records
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import memory
from tests.gateway.broker.asking import fetch, told
from tests.gateway.broker.held import Clock, part, run, serving_on
from tests.gateway.serving import Client, batch, create, produce_body
from tests.proofs.fuzz import batches

DAY = 86_400_000


def numbered(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7, **options: Any) -> bytes:
    values = [b"%d" % (sequence + i) for i in range(count)]
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **options)


async def put(client: Client, each: bytes, topic: str = "t", version: int = 9) -> tuple[int, int]:
    """(error, base offset)."""
    answer = part(await client.ask(ApiKey.PRODUCE, version, produce_body(topic, each)))
    return answer.error_code, answer.base_offset


async def stored(client: Client, topic: str = "t") -> list[records.Header]:
    data = bytes(told(await fetch(client, {topic: {0: 0}}))[0].records)
    return [header for _, header in records.batches(data)]


async def read(client: Client, topic: str = "t") -> list[records.Record]:
    data = bytes(told(await fetch(client, {topic: {0: 0}}))[0].records)
    return [
        record
        for start, header in records.batches(data)
        for record in records.records(data[start : start + header.size])
    ]


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


def test_a_transactional_batch_is_refused() -> None:
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


def stamped(*timestamps: int, codec: int = 0) -> bytes:
    return records.build_batch(
        [records.Record(i, timestamp, None, b"v", []) for i, timestamp in enumerate(timestamps)], codec=codec
    )


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_bounds_of_timestamps(codec: int) -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        before, after = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
        await create(client, "t", 1, **{before: "1000", after: "500"})
        now = clock.now
        assert await put(client, stamped(now - 1000, now + 500, codec=codec)) == (0, 0)
        assert await put(client, stamped(now, now - 1001, codec=codec)) == (Error.INVALID_TIMESTAMP, -1)
        assert await put(client, stamped(now, now + 501, codec=codec)) == (Error.INVALID_TIMESTAMP, -1)
        assert await put(client, stamped(-1, codec=codec)) == (0, 2), "without a timestamp"

    run(test, clock=clock)


def test_an_hour_ahead_is_the_default_bound_and_any_past_is_fine() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        assert await put(client, stamped(clock.now + 3_600_001)) == (Error.INVALID_TIMESTAMP, -1)
        assert await put(client, stamped(clock.now + 3_600_000)) == (0, 0)
        assert await put(client, stamped(0)) == (0, 1)

    run(test, clock=clock)


@pytest.mark.parametrize(
    ("name", "codec"), [("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)]
)
def test_compression_type_compresses_again(name: str, codec: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", compression__type=name)
        for sent in range(5):
            assert (await put(client, numbered(sent, codec=sent)))[0] == 0
        assert [header.codec for header in await stored(client)] == [codec] * 5
        assert [record.value for record in await read(client)] == [b"%d" % sent for sent in range(5)]
        assert await put(client, numbered(0)) == (0, 0), "still a duplicate"

    run(test)


def test_compression_type_producer_leaves_batches_as_they_came() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        sent = [batch(b"v" * 50, codec=codec) for codec in range(5)]
        for each in sent:
            await put(client, each)
        data = bytes(told(await fetch(client, {"t": {0: 0}}))[0].records)
        starts = [start for start, _ in records.batches(data)]
        assert [data[start + 16 : start + len(each)] for start, each in zip(starts, sent, strict=True)] == [
            each[16:] for each in sent
        ]

    run(test)


def test_a_batch_that_cannot_be_opened_is_refused_where_it_must_be() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "plain")
        await create(client, "again", compression__type="lz4")
        whole = bytearray(batch(b"v" * 100, codec=4))
        whole[70:80] = b"\xff" * 10
        header = records.header(bytes(whole))
        broken = records.assemble(header, bytes(whole[61:]))
        assert await put(client, broken, "again") == (Error.CORRUPT_MESSAGE, -1)
        assert await put(client, batch(b"v"), "again") == (0, 0)
        assert (await put(client, broken, "plain"))[0] == 0, "nobody looked inside"

    run(test)


def test_min_insync_replicas() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", min__insync__replicas="2")
        for version in (3, 9):
            answer = await client.ask(ApiKey.PRODUCE, version, produce_body("t", batch(b"v")))
            assert part(answer).error_code == 0, "Kafka counts up to the replicas there are"
            answer = await client.ask(ApiKey.PRODUCE, version, produce_body("t", batch(b"v"), acks=1))
            assert part(answer).error_code == 0

    run(test)


@pytest.mark.parametrize("codec", [0, 2])
def test_compacted_topics_take_no_records_without_a_key(codec: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", cleanup__policy="compact")
        assert await put(client, batch(b"v", codec=codec)) == (Error.INVALID_RECORD, -1)
        assert await put(client, batch(b"v", key=b"k", codec=codec)) == (0, 0)
        assert await put(client, batch(b"v", key=b"", codec=codec)) == (0, 1), "an empty key is a key"
        mixed = records.build_batch(
            [records.Record(0, 5, b"k", b"v", []), records.Record(1, 5, None, b"v", [])], codec=codec
        )
        assert await put(client, mixed) == (Error.INVALID_RECORD, -1)

    run(test)


@pytest.mark.parametrize("content", [batches.ZEROS, batches.RECORDS, batches.HEADERS])
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_what_unfolds_to_too_much_is_refused_where_it_would_be_unfolded(codec: int, content: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        gateway.broker.decompression_limit = 1 << 20
        for number, config in enumerate(
            (
                {"compression__type": "lz4" if codec != 3 else "zstd"},
                {"cleanup__policy": "compact"},
                {"message__timestamp__before__max__ms": "1000000000000000"},
            )
        ):
            topic = f"t{number}"
            await create(client, topic, 1, **config)
            bomb = batches.bomb(codec, 2 << 20, content)
            answer = await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, bomb))
            assert part(answer).error_code == Error.MESSAGE_TOO_LARGE
            answer = await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, batch(b"v", key=b"k")))
            assert (part(answer).error_code, part(answer).base_offset) == (0, 0)

    run(test)
