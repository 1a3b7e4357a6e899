"""Large answers of a Fetch through a gateway: whole and in order, whoever sends them and whatever comes between."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gateway import sending
from gateway.broker.fetching import LARGE
from gateway.sending import Senders, Sending
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.rocksdb.files import Files
from tests.gateway.large import BIG, filled, nothing_unsent, records_of, run, same
from tests.gateway.serving import Client, batch, fetch_body, produce_body
from tests.store.rocksdb.regions import open_segments


def test_large_answers_among_small_ones_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # who has asked more is not kept waiting until the loop looks
    monkeypatch.setattr(sending, "_UNHEARD", 1000)

    async def test(gateway: Gateway, client: Client) -> None:
        batches = await filled(client)
        asked, expected = [], []
        for nth in range(40):
            asked.append(client.send(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest()))
            expected.append(b"")
            asked.append(client.send(ApiKey.FETCH, 11, fetch_body("t", nth % 4, partition_max_bytes=300_000)))
            expected.append(batches[nth % 4])
            if nth % 3:
                asked.append(client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v"))))
                expected.append(b"")
        got = [await client.receive() for _ in asked]
        assert [correlation for correlation, _ in got] == asked
        for (_, answer), produced in zip(got, expected, strict=True):
            assert not produced or same(records_of(answer), produced)

    run(tmp_path, test)


@pytest.mark.parametrize("size", [*range(100_000, 300_000, 10_000), LARGE - 200, LARGE - 100, LARGE])
def test_answers_of_any_size_leave_whole(tmp_path: Path, size: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        stored = batch(os.urandom(size))
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", stored))
        for most in (1, size, 1 << 20):
            answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", 0, partition_max_bytes=most))
            assert same(records_of(answer), stored)

    run(tmp_path, test)


def test_many_connections_get_each_its_own(tmp_path: Path) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        batches = await filled(client)

        async def reader(first: int) -> None:
            mine = await Client.connect(gateway)
            for nth in range(first, first + 12):
                answer = await mine.ask(
                    ApiKey.FETCH, 11, fetch_body("t", nth % 4, partition_max_bytes=300_000)
                )
                assert same(records_of(answer), batches[nth % 4])
            mine.close()

        await asyncio.gather(*(reader(nth) for nth in range(8)))
        assert gateway.broker.metrics.network_out_bytes.labels("PLAINTEXT").value > 8 * 12 * BIG, (
            "what threads send is counted"
        )

    run(tmp_path, test)


def test_what_the_page_cache_has_lost_comes_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[str] = []
    waited: list[str] = []
    read_whole_into = Files.read_whole_into

    def miss(self: Files, descriptor: int, buffer: memoryview, position: int) -> int:
        lost.append(threading.current_thread().name)
        return 0

    def wait(self: Files, descriptor: int, buffer: memoryview, position: int) -> bool:
        waited.append(threading.current_thread().name)
        return read_whole_into(self, descriptor, buffer, position)

    async def test(gateway: Gateway, client: Client) -> None:
        batches = await filled(client)
        monkeypatch.setattr(Files, "read_cached_into", miss)
        monkeypatch.setattr(Files, "read_whole_into", wait)
        for nth in range(4):
            answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", nth, partition_max_bytes=300_000))
            assert same(records_of(answer), batches[nth])
            assert answer.responses[0].partitions[0].high_watermark == 4
        # and in a session, whose next answer tells what is new
        answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", 3, session=(0, 0)))
        assert same(records_of(answer), batches[3])
        assert len(lost) == len(waited) == 5
        assert all(name.startswith("send-disk-") for name in waited), "nobody else waits for a disk"
        assert not any(name.startswith("send-disk-") for name in lost)

    run(tmp_path, test)


def test_what_comes_damaged_from_the_disk_is_told_and_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        batches = await filled(client)
        (path,) = tmp_path.rglob("*.seg")
        with path.open("r+b") as file:
            file.seek(2 * len(batches[0]) + BIG // 2)
            file.write(b"something else")
        monkeypatch.setattr(Files, "read_cached_into", lambda *_: 0)
        answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", 0))
        assert answer.responses[0].partitions[0].error_code == Error.NONE
        stored = records_of(answer)
        assert len(stored) == 2 * len(batches[0])
        assert same(stored, batches[0] + stored[len(batches[0]) :][:21] + batches[1][21:])
        answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", 2))
        assert answer.responses[0].partitions[0].error_code == Error.CORRUPT_MESSAGE
        answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", 3))
        assert same(records_of(answer), batches[3])

    run(tmp_path, test)


def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        batches = await filled(client)
        await client.ask(ApiKey.FETCH, 11, fetch_body("t", 0))
        segments = open_segments()
        for _ in range(20):
            leaver = await Client.connect(gateway)
            for _ in range(5):
                leaver.send(ApiKey.FETCH, 11, fetch_body("t", 0))
            await leaver.writer.drain()
            leaver.writer.transport.abort()
        async with asyncio.timeout(10):
            while len(gateway.listeners[0].connections) > 1 or open_segments() > segments:
                await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", 3))
        assert same(records_of(answer), batches[3])

    run(tmp_path, test)


def test_a_slow_client_holds_up_no_other_and_is_bounded(tmp_path: Path) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        batches = await filled(client)
        slow = []
        for _ in range(4):
            each = await Client.connect(gateway)
            for _ in range(30):
                each.send(ApiKey.FETCH, 11, fetch_body("t", 0))
            slow.append(each)
        for _ in range(20):
            answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", 2, partition_max_bytes=300_000))
            assert same(records_of(answer), batches[2])
        assert gateway.broker.unsent_bytes < 4 * (65536 + 4 * BIG)
        for each in slow:
            for _ in range(30):
                _, answer = await each.receive()
                assert same(records_of(answer)[: len(batches[0])], batches[0])
            each.close()

    run(tmp_path, test, "memory.connection.max.bytes=65536")


def test_an_answer_on_its_way_leaves_whole_before_its_connection_is_closed(tmp_path: Path) -> None:
    """What comes behind the fetch makes no sense; the socket takes little at once."""

    async def test(gateway: Gateway, client: Client) -> None:
        batches = await filled(client)
        (connection,) = gateway.listeners[0].connections
        small = connection.transport.get_extra_info("socket")
        small.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0))
        client.writer.write(b"\x7f" * 20)
        async with asyncio.timeout(10):
            while not connection.closed:
                await asyncio.sleep(0)
        _, answer = await client.receive()
        assert same(records_of(answer)[: len(batches[0])], batches[0])
        assert await client.at_end()

    run(tmp_path, test)


def test_a_disk_that_fails_is_told_and_costs_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Files, descriptor: int, buffer: memoryview, position: int) -> int:
        raise OSError(5, "Input/output error")

    async def test(gateway: Gateway, client: Client) -> None:
        batches = await filled(client)
        monkeypatch.setattr(Files, "read_cached_into", broken)
        answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", 1, partition_max_bytes=300_000))
        assert same(records_of(answer), batches[1])

    run(tmp_path, test)


def test_a_listener_without_room_for_a_file_sends_without_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_threads: list[int] = []
    plain = Senders.send

    def send(self: Senders, *more: Any) -> Sending | None:
        by_threads.append(1)
        return plain(self, *more)

    monkeypatch.setattr(Senders, "send", send)

    async def test(gateway: Gateway, client: Client) -> None:
        batches = await filled(client)
        (listener,) = gateway.listeners
        body = fetch_body("t", 1, partition_max_bytes=250_000)
        with monkeypatch.context() as patch:
            patch.setattr(listener, "_room", 2)
            for _ in range(4):
                await client.ask(ApiKey.FETCH, 11, body)
            assert len(by_threads) == 4, "each returns what it took"
            patch.setattr(listener, "_room", 1)
            assert same(records_of(await client.ask(ApiKey.FETCH, 11, body)), batches[1])
            assert len(by_threads) == 4

    run(tmp_path, test)


def test_what_comes_behind_an_answer_that_failed_has_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, told = threading.Event(), threading.Event()
    plain = sending.Sending.run

    def failing(self: Sending, scratch: memoryview, wait: bool) -> bool:
        assert plain(self, scratch, wait)
        self.failed = True
        ended.set()
        told.wait(10)
        return True

    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        monkeypatch.setattr(Sending, "run", failing)
        other = await Client.connect(gateway)
        other.send(ApiKey.FETCH, 11, fetch_body("t", 0))
        async with asyncio.timeout(10):
            while not ended.is_set():
                await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        other.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"too late")))
        async with asyncio.timeout(10):
            while len(gateway.listeners[0].connections) > 1:
                await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        told.set()
        answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", 4))
        assert answer.responses[0].partitions[0].high_watermark == 4

    run(tmp_path, test)


@pytest.mark.parametrize("loop", [uvloop.run, asyncio.run])
def test_a_client_that_sends_no_more_gets_its_answer_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    going = threading.Event()
    plain = sending.Sending.run

    def held(self: Sending, scratch: memoryview, wait: bool) -> bool:
        going.wait(10)
        return plain(self, scratch, wait)

    async def test(gateway: Gateway, client: Client) -> None:
        batches = await filled(client, 40)
        whole = sum(map(len, batches))
        monkeypatch.setattr(Sending, "run", held)
        body = fetch_body("t", 0, max_bytes=2 * whole, partition_max_bytes=2 * whole)
        for _ in range(2):
            going.clear()
            other = await Client.connect(gateway)
            other.send(ApiKey.FETCH, 11, body)
            other.writer.write_eof()
            for _ in range(3):
                await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
            going.set()
            _, answer = await other.receive()
            assert len(records_of(answer)) == whole
            assert await other.at_end()
            other.close()

    run(tmp_path, test, loop=loop)


def test_the_loop_hears_of_an_answer_that_left_though_its_client_asks_no_more(tmp_path: Path) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        other = await Client.connect(gateway)
        await other.ask(ApiKey.FETCH, 11, fetch_body("t", 0))
        await nothing_unsent(gateway, client)
        assert all(each.idle for each in gateway.listeners[0].connections)
        other.close()

    run(tmp_path, test)


@pytest.mark.parametrize("what", ["a request that came while the disk was asked", "a half-close"])
def test_who_waits_for_the_end_of_a_large_answer_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(sending, "_UNHEARD", 1000)

    async def test(gateway: Gateway, client: Client) -> None:
        batches = await filled(client)
        if what == "a half-close":
            client.send(ApiKey.FETCH, 11, fetch_body("t", 0))
            client.writer.write_eof()
            _, answer = await client.receive()
            assert same(records_of(answer)[: len(batches[0])], batches[0])
            assert await client.at_end()
            return
        monkeypatch.setattr(Files, "read_cached", lambda *_: None)
        asked = [
            client.send(ApiKey.FETCH, 11, fetch_body("t", 0)),
            client.send(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest()),
        ]
        assert [(await client.receive())[0] for _ in asked] == asked

    run(tmp_path, test)
