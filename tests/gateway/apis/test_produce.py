"""Produce over the wire: several partitions, by id, acks, and what is refused how."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import google_crc32c
import pytest

from gateway.broker import partition
from gateway.server import Gateway
from gateway.wire import compression, messages, records
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.api import Refused
from tests.gateway.broker.asking import fetch, offsets, told
from tests.gateway.broker.held import Clock, HeldStore, part, run, run_held
from tests.gateway.serving import Client, batch, create, produce_body

Request = messages.ProduceRequest
MISSING = Error.UNKNOWN_TOPIC_OR_PARTITION


def body(
    *topics: tuple[str | bytes, list[tuple[int, bytes | None]]], acks: int = -1, tx: str | None = None
) -> Any:
    """Topics by name or id, each with (partition, records)."""
    return Request(
        transactional_id=tx,
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            Request.TopicProduceData(
                **({"name": topic} if isinstance(topic, str) else {"topic_id": topic}),
                partition_data=[
                    Request.PartitionProduceData(index=index, records=each) for index, each in parts
                ],
            )
            for topic, parts in topics
        ],
    )


async def put(client: Client, version: int, request: Any) -> list[tuple[int, int, int]]:
    """(partition, error, base offset) of every partition, in the order of the answer."""
    answer = await client.ask(ApiKey.PRODUCE, version, request)
    return [
        (each.index, each.error_code, each.base_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    ]


@pytest.mark.parametrize("version", range(3, 13))
def test_several_topics_and_partitions(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a", 2)
        await create(client, "b")
        broken = bytearray(batch(b"v"))
        broken[-1] ^= 1
        request = body(
            ("a", [(1, batch(b"v", b"w")), (0, bytes(broken)), (7, batch(b"v"))]),
            ("missing", [(0, batch(b"v"))]),
            ("b", [(0, batch(b"v"))]),
        )
        expected = [(1, 0, 0), (0, Error.CORRUPT_MESSAGE, -1), (7, MISSING, -1), (0, MISSING, -1), (0, 0, 0)]
        assert await put(client, version, request) == expected
        assert offsets(told(await fetch(client, {"a": {1: 0}}))[1].records) == [0, 1]

    run(test)


def test_by_id() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await create(client, "a", 2)
        one = (0, batch(b"v"))
        assert await put(client, 13, body((topic_id, [one]))) == [(0, 0, 0)]
        assert await put(client, 13, body((b"?" * 16, [one]))) == [(0, Error.UNKNOWN_TOPIC_ID, -1)]
        both = body((topic_id, [one, (1, batch(b"w"))]), (b"?" * 16, [one]))
        assert await put(client, 13, both) == [(0, 0, 1), (1, 0, 0), (0, Error.UNKNOWN_TOPIC_ID, -1)]
        answer = await client.ask(ApiKey.PRODUCE, 13, body((topic_id, [one])))
        assert answer.responses[0].topic_id == topic_id

    run(test)


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_acks(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a")
        one = ("a", [(0, batch(b"v"))])
        assert await put(client, version, body(one, acks=1)) == [(0, 0, 0)]
        for wrong in (2, -2, 100):
            refused = await put(client, version, body(one, acks=wrong))
            assert refused == [(0, Error.INVALID_REQUIRED_ACKS, -1)]
        client.send(ApiKey.PRODUCE, version, body(one, acks=0))
        assert await put(client, version, body(one)) == [(0, 0, 2)], (
            "the one before is stored and not answered"
        )

    run(test)


@pytest.mark.parametrize("version", [3, 9, 12])
@pytest.mark.parametrize("records", [None, b"", b"junk", b"\0" * 61])
def test_what_is_no_batch(version: int, records: bytes | None) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a")
        ((_, error, offset),) = await put(client, version, body(("a", [(0, records)])))
        assert error in (Error.CORRUPT_MESSAGE, Error.INVALID_RECORD)
        assert offset == -1
        assert await put(client, version, body(("a", [(0, batch(b"v"))]))) == [(0, 0, 0)]

    run(test)


def test_one_batch_a_partition() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a")
        two = batch(b"v") + batch(b"w")
        assert await put(client, 9, body(("a", [(0, two)]))) == [(0, Error.INVALID_RECORD, -1)]
        twice = [(0, batch(b"v")), (0, batch(b"w"))]
        assert await put(client, 9, body(("a", twice))) == [(0, 0, 0), (0, Error.INVALID_REQUEST, -1)]
        assert await put(client, 9, body()) == []

    run(test)


def test_transactions_are_refused_for_good() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a")
        for each in (
            batch(b"v"),
            batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
        ):
            refused = await put(client, 9, body(("a", [(0, each)]), tx="tx"))
            assert refused == [(0, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)]
        answer = await client.ask(ApiKey.PRODUCE, 9, body(("a", [(0, batch(b"v"))]), tx="tx"))
        assert "transactions" in part(answer).error_message

    run(test)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_failed_commit_fails_only_what_was_taken(version: int) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await create(client, "a", 2)
        name: str | bytes = topic_id if version >= 13 else "a"
        store.holding = True
        client.send(ApiKey.PRODUCE, version, body((name, [(0, batch(b"v")), (1, b"junk")])))
        await store.has(1)
        store.fail(Refused("the disk said no"))
        _, answer = await client.receive()
        first, second = answer.responses[0].partition_responses
        assert (first.error_code, first.base_offset) == (Error.KAFKA_STORAGE_ERROR, -1)
        assert second.error_code == Error.INVALID_RECORD
        if version >= 8:
            assert "the disk said no" in first.error_message
        client.send(ApiKey.PRODUCE, version, body((name, [(0, batch(b"v"))])))
        await store.has(1)
        store.fail(Refused("again"))
        _, answer = await client.receive()
        assert part(answer).error_code == Error.KAFKA_STORAGE_ERROR

    run_held(test)


def test_acks_zero_and_a_failed_commit_close_the_connection() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "a")
        store.holding = True
        client.send(ApiKey.PRODUCE, 9, produce_body("a", batch(b"v"), acks=0))
        await store.has(1)
        store.fail(Refused("no"))
        assert await client.at_end()

    run_held(test)


def test_the_log_start_is_told() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a")
        await client.ask(ApiKey.PRODUCE, 9, produce_body("a", batch(b"v", b"w")))
        runtime = gateway.broker.topic(b"a")
        assert runtime is not None
        await gateway.broker.topics.delete_records(gateway.broker.partition_of(runtime, 0), 1)
        answer = part(await client.ask(ApiKey.PRODUCE, 9, produce_body("a", batch(b"x"))))
        assert (answer.base_offset, answer.log_start_offset) == (2, 1)

    run(test)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_oldest_versions_close_the_connection(version: int, caplog: pytest.LogCaptureFixture) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a")
        records = batch(b"v")
        payload = (
            struct.pack(">hiih", -1, 1000, 1, 1) + b"a" + struct.pack(">iii", 1, 0, len(records)) + records
        )
        client.writer.write(struct.pack(">ihhih", 10 + len(payload), 0, version, 77, -1) + payload)
        assert await client.at_end()
        assert not [record for record in caplog.records if record.exc_info], "no bug of ours"

    run(test)


@pytest.mark.parametrize(("version", "error"), [(3, 76), (6, 76), (7, 0), (9, 0), (12, 0)])
def test_zstd_came_with_version_7(version: int, error: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a")
        packed = batch(b"v" * 100, codec=compression.ZSTD)
        assert await put(client, version, body(("a", [(0, packed)]))) == [(0, error, -1 if error else 0)]

    run(test)


@pytest.mark.parametrize("version", [3, 9, 12])
def test_what_follows_a_produce_with_acks_zero_sees_it(version: int) -> None:
    """The commit is held back: the question behind the batch must wait for it."""

    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "a")
        store.holding = True
        client.send(ApiKey.PRODUCE, version, body(("a", [(0, batch(b"v"))]), acks=0))
        asked = asyncio.ensure_future(fetch(client, {"a": {0: 0}}))
        await store.has(1)
        store.release()
        assert offsets(told(await asked)[0].records) == [0]

    run_held(test)


def test_a_commit_that_fails_with_acks_zero_closes_the_connection() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "a")
        store.holding = True
        client.send(ApiKey.PRODUCE, 9, body(("a", [(0, batch(b"v"))]), acks=0))
        await store.has(1)
        store.fail(Refused("the disk is full"))
        assert await client.at_end()

    run_held(test)


def refused(answer: Any) -> tuple[int, list[int], set[str | None]]:
    (topic,) = answer.responses
    (partition,) = topic.partition_responses
    named = partition.record_errors
    return (
        partition.error_code,
        [each.batch_index for each in named],
        {each.batch_index_error_message for each in named},
    )


@pytest.mark.parametrize("codec", [0, 4])
def test_a_batch_that_is_refused_for_some_of_its_records_says_which(codec: int) -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        hour = 3_600_000
        await create(client, "kept", cleanup__policy="compact")
        await create(client, "now", message__timestamp__before__max__ms="1000")
        keys = [b"a", None, b"b", None]
        half = [records.Record(at, clock.now, key, b"v", []) for at, key in enumerate(keys)]
        stamps = [clock.now, clock.now - 1001, -1, clock.now + hour + 1]
        old = [records.Record(at, stamp, b"k", b"v", []) for at, stamp in enumerate(stamps[:3])]
        new = [records.Record(at, stamp, b"k", b"v", []) for at, stamp in enumerate(stamps)]
        for topic, sent, code, named, word in (
            ("kept", half, Error.INVALID_RECORD, [1, 3], "without a key"),
            ("now", old, Error.INVALID_TIMESTAMP, [1], "message.timestamp.before.max.ms"),
            ("now", new, Error.INVALID_TIMESTAMP, [3], "message.timestamp.after.max.ms"),
        ):
            body = produce_body(topic, records.build_batch(sent, codec=codec))
            for version in (8, 9, 12):
                found = refused(await client.ask(ApiKey.PRODUCE, version, body))
                assert found[:2] == (code, named), topic
                (why,) = found[2]
                assert why is not None
                assert word in why
            assert (await client.ask(ApiKey.PRODUCE, 7, body)).responses[0].partition_responses[
                0
            ].error_code == code

    run(test, clock=clock)


def test_of_very_many_refused_records_the_first_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are told by their client that they were in one batch with such: looking for all takes long."""
    monkeypatch.setattr(partition, "NAMED_AT_MOST", 3)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "kept", cleanup__policy="compact")
        sent = [records.Record(at, 1000, None, b"v", []) for at in range(10)]
        answer = await client.ask(ApiKey.PRODUCE, 9, produce_body("kept", records.build_batch(sent)))
        found = refused(answer)
        assert found[:2] == (Error.INVALID_RECORD, [0, 1, 2])
        assert None not in found[2]

    run(test)


def test_a_header_that_says_what_no_record_does_names_none() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        lied = bytearray(batch(b"v"))
        lied[35:43] = (clock.now + 10**9).to_bytes(8, "big")
        lied[17:21] = google_crc32c.value(bytes(lied[21:])).to_bytes(4, "big")
        found = refused(await client.ask(ApiKey.PRODUCE, 9, produce_body("t", bytes(lied))))
        assert found == (Error.INVALID_TIMESTAMP, [], set())

    run(test, clock=clock)
