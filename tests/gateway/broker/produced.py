"""Batches put into a partition over the wire, and what is stored of them."""

from __future__ import annotations

from typing import Any

from gateway.wire import records
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.asking import fetch, told
from tests.gateway.broker.held import part
from tests.gateway.serving import Client, batch, produce_body


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


def stamped(*timestamps: int, codec: int = 0) -> bytes:
    return records.build_batch(
        [records.Record(i, timestamp, None, b"v", []) for i, timestamp in enumerate(timestamps)], codec=codec
    )
