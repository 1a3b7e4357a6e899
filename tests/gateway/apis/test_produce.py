"""Produce over the wire: several partitions, by id, acks, and what is refused how."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Sequence
from typing import Any

import google_crc32c
import pytest

from gateway.apis import produce
from gateway.broker import preparing
from gateway.server import Gateway
from gateway.wire import compression, crc, messages, records
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.api import Refused
from tests.gateway.broker.asking import fetch, offsets, told
from tests.gateway.broker.held import Clock, HeldStore, part, run, run_held, until
from tests.gateway.serving import Client, batch, create, produce_body

Request = messages.ProduceRequest
MISSING = Error.UNKNOWN_TOPIC_OR_PARTITION


def body(
    *topics: tuple[str | bytes, Sequence[tuple[int, bytes | None]]], acks: int = -1, tx: str | None = None
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
    return answered((0, await client.ask(ApiKey.PRODUCE, version, request)))


def answered(received: tuple[int, Any]) -> list[tuple[int, int, int]]:
    """The same of an answer that was waited for."""
    return [
        (each.index, each.error_code, each.base_offset)
        for topic in received[1].responses
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


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("version", [8, 9])
def test_a_large_batch_is_stored_as_it_came_or_refused(version: int, kind: str) -> None:
    """Where it stands in what was read, between others, or cut out of it."""

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a", message__timestamp__type=kind)
        large = batch(bytes(range(256)) * 2400)
        assert len(large) > crc.WORTH
        broken = bytearray(large)
        broken[-1] ^= 1
        for each in (large, bytes(broken), batch(b"v"), large):
            client.send(ApiKey.PRODUCE, version, body(("a", [(0, each)])))
        found = [answered(await client.receive()) for _ in range(4)]
        assert found == [[(0, 0, 0)], [(0, Error.CORRUPT_MESSAGE, -1)], [(0, 0, 1)], [(0, 0, 2)]]
        for offset in (0, 2):
            records = told(await fetch(client, {"a": {0: offset}}))[0].records
            # behind what a log may change: offset, epoch, times
            assert bytes(records[43 : len(large)]) == large[43:]

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


def test_batches_of_a_transactional_id_that_nobody_has_initialized_are_refused() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a")
        late = batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        refused = await put(client, 9, body(("a", [(0, late)]), tx="tx"))
        assert refused == [(0, Error.INVALID_PRODUCER_ID_MAPPING, -1)]
        # a batch of no transaction is what it is, whoever sends it
        assert await put(client, 9, body(("a", [(0, batch(b"v"))]), tx="tx")) == [(0, 0, 0)]

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
@pytest.mark.parametrize("by", ["loop", "thread"])
def test_a_batch_that_is_refused_for_some_of_its_records_says_which(
    codec: int, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    if by == "thread":
        monkeypatch.setattr(produce, "AT_ONCE_US", -1)

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


class Gate:
    """Batches are prepared in threads that wait until the test lets them go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting = 0
        self._open = threading.Semaphore(0)
        prepare = preparing.Rules.prepare

        def gated(rules: preparing.Rules, batch: bytes, now: int, limit: int) -> bytes:
            if threading.current_thread() is not threading.main_thread():
                self.waiting += 1
                assert self._open.acquire(timeout=10)
            return prepare(rules, batch, now, limit)

        monkeypatch.setattr(preparing.Rules, "prepare", gated)
        monkeypatch.setattr(produce, "AT_ONCE_US", -1)

    def let_go(self, count: int) -> None:
        self._open.release(count)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("acks", [0, 1])
def test_others_have_their_turn_while_much_is_prepared_and_the_order_holds(
    several: bool, acks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    async def test(gateway: Gateway, client: Client) -> None:
        other = await Client.connect(gateway)
        await create(client, "kept", 2, cleanup__policy="compact")
        await create(client, "plain")
        first = [(0, batch(b"a", b"b", key=b"k"))]
        if several:
            first.append((1, batch(b"c", key=b"k")))
        client.send(ApiKey.PRODUCE, 9, body(("plain", [(0, batch(b"before"))])))
        client.send(ApiKey.PRODUCE, 9, body(("kept", first), acks=acks))
        # it does not overtake what is prepared
        client.send(ApiKey.PRODUCE, 9, body(("plain", [(0, batch(b"behind"))])))
        assert [each[1] for each in answered(await client.receive())] == [0]
        await until(lambda: gate.waiting)
        assert await put(other, 9, body(("plain", [(0, batch(b"other"))]))) == [(0, 0, 1)]
        gate.let_go(len(first))
        if acks:
            assert answered(await client.receive()) == [(index, 0, 0) for index, _ in first]
        else:
            client._asked.pop(client._correlation - 1)
        assert answered(await client.receive()) == [(0, 0, 2)]
        assert len(offsets(part(await fetch(other, {"kept": {0: 0}})).records)) == 2
        other.close()

    run(test)


def test_what_comes_behind_a_batch_that_was_prepared_and_refused_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate(monkeypatch)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "kept", cleanup__policy="compact")
        client.send(ApiKey.PRODUCE, 9, body(("kept", [(0, batch(b"no key"))])))
        client.send(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        await until(lambda: gate.waiting)
        gate.let_go(1)
        assert answered(await client.receive()) == [(0, Error.INVALID_RECORD, -1)]
        assert (await client.receive())[1].error_code == 0

    run(test)


def test_what_a_topic_asks_for_when_the_batch_is_stored_is_what_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate(monkeypatch)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", compression__type="gzip")
        asked = asyncio.create_task(put(client, 9, body(("t", [(0, batch(b"no key"))]))))
        await until(lambda: gate.waiting)
        await gateway.broker.topics.configure("t", lambda old: {**old, "cleanup.policy": "compact"})
        gate.let_go(1)
        assert await asked == [(0, Error.INVALID_RECORD, -1)]

    run(test)


def test_what_waits_to_be_prepared_takes_no_more_than_a_part_of_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One batch is prepared at a time, and clients are many: what there is no room for is prepared at once."""
    gate = Gate(monkeypatch)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "kept", 2, cleanup__policy="compact")
        large = batch(bytes(100_000), key=b"k")
        others = [await Client.connect(gateway) for _ in range(4)]
        for other in others:
            other.send(ApiKey.PRODUCE, 9, body(("kept", [(0, large)])))
        runtime = gateway.broker.topic(b"kept")
        assert runtime is not None
        # for two there is no room
        await until(lambda: (at := runtime.partitions[0]) is not None and at.high_watermark == 2)
        assert 200_000 < gateway.broker.preparing_bytes <= 1_048_576 // 4
        assert await put(client, 9, body(("kept", [(0, large), (1, large)]))) == [(0, 0, 2), (1, 0, 0)]
        gate.let_go(2)
        given = [answered(await other.receive())[0] for other in others]
        assert sorted(given) == [(0, 0, at) for at in (0, 1, 3, 4)]
        assert gateway.broker.preparing_bytes == 0
        for other in others:
            other.close()

    run(test, "memory.max.bytes=1048576")


def test_a_client_that_goes_away_meanwhile_has_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "kept", cleanup__policy="compact")
        other = await Client.connect(gateway)
        other.send(ApiKey.PRODUCE, 9, body(("kept", [(0, batch(b"a", key=b"k"))])))
        await until(lambda: gate.waiting)
        other.close()
        at = gateway.broker.topic(b"kept").partitions[0]  # type: ignore[union-attr]
        assert at is not None
        gate.let_go(1)
        await until(lambda: at.high_watermark == 1)

    run(test)


def test_of_very_many_refused_records_the_first_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are told by their client that they were in one batch with such: looking for all takes long."""
    monkeypatch.setattr(preparing, "NAMED_AT_MOST", 3)

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
