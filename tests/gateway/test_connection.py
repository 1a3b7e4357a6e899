"""What a client sees of one connection: order, the parked fetch that gives way, and bytes that make no sense."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from gateway import connection
from gateway.apis.registry import APIS
from gateway.connection import Connection
from gateway.connection_state import UNREAD
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker import held
from tests.gateway.broker.held import HeldStore
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body, serving

Test = Callable[[Gateway, Client], Coroutine[Any, Any, None]]


def run(test: Test, *flags: str) -> None:
    async def body() -> None:
        async with serving(*flags) as gateway:
            client = await Client.connect(gateway)
            try:
                await test(gateway, client)
            finally:
                client.close()

    uvloop.run(body())


def part(answer: Any) -> Any:
    """The only partition of a Produce or Fetch answer."""
    (topic,) = answer.responses
    (partition,) = topic.partition_responses if hasattr(topic, "partition_responses") else topic.partitions
    return partition


def test_pipelined_requests_are_answered_in_order_with_their_own_offsets() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        asked = [client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v"))) for _ in range(50)]
        got = [await client.receive() for _ in asked]
        assert [correlation for correlation, _ in got] == asked
        assert [part(answer).base_offset for _, answer in got] == list(range(50))

    run(test)


def test_a_refused_batch_between_others_keeps_its_place() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        good, bad = batch(b"v"), bytearray(batch(b"v"))
        bad[-1] ^= 1
        asked = [client.send(ApiKey.PRODUCE, 9, produce_body("t", each)) for each in (good, bytes(bad), good)]
        got = [await client.receive() for _ in asked]
        assert [correlation for correlation, _ in got] == asked
        assert [part(answer).error_code for _, answer in got] == [0, Error.CORRUPT_MESSAGE, 0]
        assert [part(answer).base_offset for _, answer in got] == [0, -1, 1]

    run(test)


def test_an_answer_does_not_wait_for_those_behind_it() -> None:
    store = HeldStore()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        store.holding = True
        asked = []
        for count in (1, 2, 3):
            asked.append(client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v"))))
            await store.has(count)
        for each in asked:
            store.land()
            assert (await client.receive())[0] == each

    held.run(test, store=store)


def test_a_request_behind_produce_sees_what_it_wrote() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1", b"2")))
        asked = messages.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = messages.ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[asked])
        client.send(ApiKey.LIST_OFFSETS, 7, messages.ListOffsetsRequest(replica_id=-1, topics=[topic]))
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"3")))
        await client.receive()
        _, offsets = await client.receive()
        assert offsets.topics[0].partitions[0].offset == 2
        _, third = await client.receive()
        assert part(third).base_offset == 2

    run(test)


def test_a_parked_fetch_is_woken_by_a_batch_from_elsewhere() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        other = await Client.connect(gateway)
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=60_000))
        stored = batch(b"late")
        await other.ask(ApiKey.PRODUCE, 9, produce_body("t", stored))
        _, answer = await client.receive()
        assert part(answer).high_watermark == 1
        assert bytes(part(answer).records)[16:] == stored[16:]
        other.close()

    run(test)


def test_a_parked_fetch_gives_way_to_the_request_behind_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        fetch = client.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=60_000, session=(0, 0)))
        versions = client.send(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        first, answer = await client.receive()
        assert first == fetch
        assert bytes(part(answer).records) == b""
        assert answer.session_id > 0, "the session outlives the early answer"
        second, _ = await client.receive()
        assert second == versions
        again = await client.ask(ApiKey.FETCH, 11, fetch_body("t", -1, session=(answer.session_id, 1)))
        assert again.error_code == 0

    run(test)


def test_min_bytes_waits_for_enough() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        other = await Client.connect(gateway)
        one = batch(b"x" * 100)
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=60_000, min_bytes=2 * len(one)))
        await other.ask(ApiKey.PRODUCE, 9, produce_body("t", one))
        waiting = asyncio.ensure_future(client.receive())
        await other.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert not waiting.done()
        await other.ask(ApiKey.PRODUCE, 9, produce_body("t", one))
        _, answer = await waiting
        assert len(part(answer).records) == 2 * len(one)
        other.close()

    run(test)


def test_acks_zero_is_not_answered() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"quiet"), acks=0))
        asked = client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"loud")))
        correlation, answer = await client.receive()
        assert correlation == asked
        assert part(answer).base_offset == 1

    run(test)


def test_a_refused_batch_with_acks_zero_closes_the_connection() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        client.send(ApiKey.PRODUCE, 9, produce_body("missing", batch(b"quiet"), acks=0))
        assert await client.at_end()

    run(test)


@pytest.mark.parametrize(
    "junk",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack(">i", -1) + b"x" * 20,
        struct.pack(">i", 2**31 - 1) + b"x" * 20,
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, 3, 99, 1, -1),
        struct.pack(">ihhih", 12, 3, 1, 1, -1) + b"\xff\xff",
        struct.pack(">ihhih", 40, 0, 9, 1, -1) + b"\xff" * 30,
        struct.pack(">ihhih", 40, 1, 12, 1, -1) + b"\xff" * 30,
    ],
    ids=["http", "negative size", "2 GB", "no such API", "no such version", "short", "produce", "fetch"],
)
def test_nonsense_closes_only_its_own_connection(junk: bytes) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        bad = await Client.connect(gateway)
        bad.writer.write(junk)
        assert await bad.at_end()
        await client.ask(
            ApiKey.API_VERSIONS,
            3,
            messages.ApiVersionsRequest(client_software_name="test", client_software_version="1"),
        )

    run(test)


def test_an_unknown_version_of_api_versions_is_answered_in_the_first_form() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        client.writer.write(struct.pack(">ihhih", 11, 18, 99, 7, -1) + b"\x00")
        size, correlation, error, count = struct.unpack(">iihi", await client.reader.readexactly(14))
        assert (correlation, error) == (7, Error.UNSUPPORTED_VERSION)
        assert size == 4 + 2 + 4 + 6 * count
        await client.reader.readexactly(6 * count)

    run(test)


def test_frames_in_any_pieces() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        whole = bytearray()

        class Collect:
            def write(self, data: bytes) -> None:
                whole.extend(data)

        writer, client.writer = client.writer, Collect()  # type: ignore[assignment]
        for _ in range(3):
            client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"piece" * 10)))
        client.writer = writer
        for size in (1, 7, 64):
            del size
        for position in range(0, len(whole), 5):
            writer.write(bytes(whole[position : position + 5]))
            await writer.drain()
            await asyncio.sleep(0)
        assert [part((await client.receive())[1]).base_offset for _ in range(3)] == [0, 1, 2]

    run(test)


def test_a_client_that_does_not_read_is_not_read_either() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", max__message__bytes="2000000")
        big = batch(b"x" * 500_000)
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", big))
        greedy = await Client.connect(gateway)
        for _ in range(200):
            greedy.send(ApiKey.FETCH, 11, fetch_body("t", 0))
        writing = [
            each for each in gateway.listeners[0].connections if each.transport.get_write_buffer_size() > 0
        ]
        assert len(writing) <= 1
        connection = writing[0] if writing else None
        while connection is None or not connection._paused & UNREAD:
            await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
            for each in gateway.listeners[0].connections:
                if each._paused & UNREAD:
                    connection = each
        assert gateway.broker.unsent_bytes < 65536 * 2 + 2 * len(big)
        for _ in range(200):
            _, answer = await greedy.receive()
            assert len(part(answer).records) == len(big)
        async with asyncio.timeout(10):
            # the loop hears of the last one a little later
            while gateway.broker.unsent_bytes:
                await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        greedy.close()

    run(test, "memory.connection.max.bytes=65536")


@pytest.mark.parametrize("key", [ApiKey.API_VERSIONS, ApiKey.PRODUCE])
def test_a_client_that_pipelines_without_end_leaves_others_their_turn(key: int) -> None:
    """The flood stays ahead of its answers all the time; a question beside it is answered long before its end."""

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        flood = await Client.connect(gateway)
        body = produce_body("t", batch(b"v"), acks=0)
        count = 20_000
        if key == ApiKey.PRODUCE:
            for _ in range(count):
                flood.send(key, 9, body)
            flood.send(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
            count = 1
        else:
            for _ in range(count):
                flood.send(key, 0, messages.ApiVersionsRequest())
        answered = 0

        async def drain() -> None:
            nonlocal answered
            for _ in range(count):
                await flood.receive()
                answered += 1

        draining = asyncio.ensure_future(drain())
        for _ in range(20):
            await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert answered < count, "the question waited for the flood to end"
        await draining
        flood.close()

    run(test)


@pytest.mark.parametrize(("counts", "at_once"), [(1, 32), (16, 2), (32, 1), (100, 1), (0, 64)])
def test_how_many_requests_are_answered_in_a_turn_goes_by_what_they_count(
    counts: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LONG_TURN", 3600)

    async def test(gateway: Gateway, client: Client) -> None:
        await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        monkeypatch.setitem(APIS, ApiKey.API_VERSIONS, replace(APIS[ApiKey.API_VERSIONS], counts=counts))
        (served,) = gateway.listeners[0].connections
        # since its last turn
        served._served = 0
        sent = gateway.listeners[0].sent
        before = sent.value
        served.data_received(struct.pack(">ihhihxx", 12, ApiKey.API_VERSIONS, 0, 1, 2) * 64)
        first = sent.value - before
        for _ in range(64):
            await client.reader.readexactly(struct.unpack(">i", await client.reader.readexactly(4))[0])
        assert first * 64 == (sent.value - before) * at_once

    run(test)


def test_a_fetch_of_many_partitions_of_a_missing_topic_asks_for_it_once() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        asked: list[bytes] = []
        look_up = gateway.broker.in_use.topic

        def topic(name: bytes) -> Any:
            asked.append(name)
            return look_up(name)

        gateway.broker.in_use.topic = topic  # type: ignore[method-assign]
        request = fetch_body("missing", 0)
        part_of = messages.FetchRequest.FetchPartition
        request.topics[0].partitions = [
            part_of(partition=index, fetch_offset=0, partition_max_bytes=1) for index in range(5000)
        ]
        answer = await client.ask(ApiKey.FETCH, 11, request)
        (found,) = answer.responses
        assert {each.error_code for each in found.partitions} == {Error.UNKNOWN_TOPIC_OR_PARTITION}
        assert asked == [b"missing"]

    run(test)


@pytest.mark.parametrize(
    ("key", "version", "largest"),
    [(ApiKey.METADATA, 9, 1 << 20), (ApiKey.SHARE_FETCH, 2, 2 << 20), (ApiKey.SYNC_GROUP, 5, 8 << 20)],
    ids=["small", "share fetch", "large"],
)
def test_what_may_not_come_is_refused_when_its_head_is_there(key: int, version: int, largest: int) -> None:
    """Not before its first 14 bytes are there, and without waiting for the rest."""

    async def test(gateway: Gateway, client: Client) -> None:
        for cut in (4, 7, 14):
            other = await Client.connect(gateway)
            head = struct.pack(">ihhih", largest + 1, key, version, 1, -1)
            other.writer.write(head[:cut])
            await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
            other.writer.write(head[cut:])
            assert await other.at_end()
        allowed = await Client.connect(gateway)
        allowed.writer.write(struct.pack(">ihhih", largest, key, version, 1, -1))
        await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert len(gateway.listeners[0].connections) == 2, "its rest is waited for"
        allowed.close()

    run(test)


def test_a_stranger_may_not_begin_with_a_frame_of_a_hundred_megabytes() -> None:
    """Whoever has asked something whole may send as much as socket.request.max.bytes."""

    async def test(gateway: Gateway, client: Client) -> None:
        head = struct.pack(">ihhih", 100_000_000, ApiKey.PRODUCE, 9, 1, -1)
        for cut in (4, 14):
            stranger = await Client.connect(gateway)
            stranger.writer.write(head[:cut])
            assert await stranger.at_end()
        await create(client, "t")
        first = await Client.connect(gateway)
        answer = await first.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(bytes(4_000_000))))
        assert part(answer).error_code == 0, "an ordinary Produce may be the first"
        known = await Client.connect(gateway)
        await known.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        known.writer.write(head)
        await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert len(gateway.listeners[0].connections) == 3, "its rest is waited for"
        known.close()

    run(test)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
            "a TLS client on a listener without TLS",
        ),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP client on a Kafka listener"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "an HTTP client on a Kafka listener"),
        (b"\x7f\x00\x00\x00" + bytes(20), "a frame of 2130706432 bytes for API 0: not a Kafka request"),
    ],
    ids=["tls", "http", "http2", "nonsense"],
)
def test_what_a_stranger_speaks_is_named_in_the_log(
    said: bytes, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        stranger = await Client.connect(gateway)
        stranger.writer.write(said)
        assert await stranger.at_end()

    with caplog.at_level("INFO", "magnetar.listener"):
        run(test)
    (reason,) = [each.__dict__["reason"] for each in caplog.records if "reason" in each.__dict__]
    assert reason.startswith(named)


def test_crumbs_of_a_frame_count_by_their_bytes() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        (connection,) = gateway.listeners[0].connections
        connection.data_received(struct.pack(">ihhih", 1_000_000, ApiKey.PRODUCE, 9, 1, -1))
        for _ in range(50_000):
            connection.data_received(b"xy")
        assert gateway.broker.receiving.total == 14 + 100_000

    run(test)


@pytest.mark.parametrize("loop", [uvloop.run, asyncio.run])
def test_a_transport_sends_at_once_or_counts_what_it_has(
    loop: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    """So a thread may write to a socket whose transport has nothing, in the same turn of the loop."""

    async def test() -> None:
        here, there = socket.socketpair()
        here.setblocking(False)
        there.setblocking(False)
        with there:
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=here)
            written = arrived = 0
            for size in (1, 10, 100_000, 1_000_000, 10):
                transport.write(bytes(size))
                transport.writelines([bytes(size), bytes(3)])
                written += 2 * size + 3
                with contextlib.suppress(BlockingIOError):
                    while found := there.recv(1 << 20):
                        arrived += len(found)
                assert arrived + transport.get_write_buffer_size() == written
            assert arrived < written
            transport.abort()

    loop(test())


def test_a_fault_behind_an_answer_that_was_waited_for_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its client would wait for ever, and so would what it asks next."""

    async def test(gateway: Gateway, client: Client) -> None:
        other = await Client.connect(gateway)
        (listener,) = gateway.listeners
        with monkeypatch.context() as patch:
            patch.setattr(Connection, "_handled", broken)
            other.send(
                ApiKey.CREATE_TOPICS,
                7,
                messages.CreateTopicsRequest(
                    topics=[
                        messages.CreateTopicsRequest.CreatableTopic(
                            name="t", num_partitions=1, replication_factor=1
                        )
                    ],
                    timeout_ms=1000,
                ),
            )
            assert await other.at_end()
        while len(listener.connections) > 1:
            await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert "on purpose" in caplog.text

    def broken(self: Connection, frame: bytes) -> None:
        raise RuntimeError("on purpose")

    run(test)
