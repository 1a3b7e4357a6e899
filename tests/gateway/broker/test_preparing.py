"""Batches that a topic wants looked at or changed before they are stored: refused by record, compressed again."""

from __future__ import annotations

import pytest

from gateway.server import Gateway
from gateway.wire import records
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.asking import fetch, told
from tests.gateway.broker.held import Clock, part, run
from tests.gateway.broker.produced import numbered, put, read, stamped, stored
from tests.gateway.serving import Client, batch, create, produce_body
from tests.proofs.fuzz import batches

DAY = 86_400_000


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
