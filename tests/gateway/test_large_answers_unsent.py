"""What of large answers has not been taken: it counts as unsent, is bounded, and holds up neither others nor a stop."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway import listener, sending
from gateway.broker.fetching import Fetch
from gateway.broker.requests import Answer
from gateway.sending import Sending
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from store.rocksdb.files import Files
from tests.gateway.large import BIG, SMALL_BUFFER, filled, nothing_unsent, records_of, run, same, unread
from tests.gateway.serving import Client, batch, fetch_body, produce_body


def test_what_a_client_leaves_counts_and_it_is_served_no_more_until_it_reads(tmp_path: Path) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        batches = await filled(client)
        slow, theirs = await unread(gateway, client)
        assert gateway.broker.unsent_bytes >= theirs.transport.get_write_buffer_size() > BIG
        produced = slow.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"more")))
        for _ in range(20):
            answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", 4))
            assert records_of(answer) == b""
        _, answer = await slow.receive()
        assert same(records_of(answer)[: len(batches[0])], batches[0])
        assert (await slow.receive())[0] == produced
        assert records_of(await client.ask(ApiKey.FETCH, 11, fetch_body("t", 4)))
        # and then as much may be on its way as before
        assert theirs.transport.get_write_buffer_limits()[1] == gateway.listeners[0].max_unsent
        assert gateway.broker.unsent_bytes == 0
        slow.close()

    run(tmp_path, test, SMALL_BUFFER)


def test_who_reads_nothing_does_not_hold_up_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STOPPING_SECONDS", 0)

    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        there.append(await unread(gateway, client))

    there: list[Any] = []
    run(tmp_path, test, SMALL_BUFFER, "shutdown.timeout.ms=600000", seconds=100)


def test_who_sends_no_more_and_reads_nothing_is_cut_off(tmp_path: Path) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"x" * 100_000)))
        slow = await Client.connect(gateway)
        for _ in range(30):
            slow.send(ApiKey.FETCH, 11, fetch_body("t", 0))
        slow.writer.write_eof()
        (its,) = gateway.listeners
        async with asyncio.timeout(10):
            while len(its.connections) < 2:
                await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
            while len(its.connections) > 1:
                its.second()
                await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        slow.close()

    run(tmp_path, test, SMALL_BUFFER)


@pytest.mark.parametrize("size", [20_000, 150_000, -1])
def test_connections_have_the_send_buffer_that_is_set(tmp_path: Path, size: int) -> None:
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        wanted = plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    async def test(gateway: Gateway, client: Client) -> None:
        connections = [each for listener in gateway.listeners for each in listener.connections]
        found = {
            each.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            for each in connections
        }
        assert len(found) == 1
        assert (wanted in found) == (size >= 0)

    run(tmp_path, test, f"socket.send.buffer.bytes={size}")


def test_answers_on_their_way_count_as_unsent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many clients that ask at once must not be given together what none of them may have after the other."""
    going = threading.Event()
    plain = sending.Sending.run

    def held(self: Sending, scratch: memoryview, wait: bool) -> bool:
        going.wait(10)
        return plain(self, scratch, wait)

    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        monkeypatch.setattr(Sending, "run", held)
        many = [await Client.connect(gateway) for _ in range(8)]
        for each in many:
            each.send(ApiKey.FETCH, 11, fetch_body("t", 0, partition_max_bytes=900_000))
            # the gateway has seen it, for it answers this one later
            await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert gateway.broker.unsent_bytes > 1_048_576
        going.set()
        sizes = [len(records_of((await each.receive())[1])) for each in many]
        assert sorted(sizes) == [BIG + 72] * 6 + [900_000] * 2, "beyond memory.max.bytes one batch each"
        await nothing_unsent(gateway, client)
        for each in many:
            each.send(ApiKey.FETCH, 11, fetch_body("t", 0, partition_max_bytes=900_000))
            each.close()
        async with asyncio.timeout(10):
            while len(gateway.listeners[0].connections) > 1:
                await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        await nothing_unsent(gateway, client)

    run(tmp_path, test, "memory.max.bytes=1048576")


def test_what_a_disk_is_asked_for_counts_as_unsent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is all in memory when it comes, and nobody could be given less any more."""
    going = threading.Event()
    plain = Files.read

    def held(self: Files, descriptor: int, size: int, position: int) -> bytes:
        going.wait(10)
        return plain(self, descriptor, size, position)

    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        monkeypatch.setattr(Files, "read_cached", lambda *_: None)
        monkeypatch.setattr(Files, "read", held)
        many = [await Client.connect(gateway) for _ in range(8)]
        for each in many:
            each.send(ApiKey.FETCH, 11, fetch_body("t", 0, partition_max_bytes=900_000))
            # the gateway has seen it, for it answers this one later
            await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert gateway.broker.unsent_bytes > 1_048_576
        going.set()
        sizes = [len(records_of((await each.receive())[1])) for each in many]
        assert sorted(sizes) == [BIG + 72] * 6 + [900_000] * 2, "beyond memory.max.bytes one batch each"
        await nothing_unsent(gateway, client)
        for each in many:
            each.close()

    run(tmp_path, test, "memory.max.bytes=1048576")


@pytest.mark.parametrize("how", ["its client leaves", "it fails"])
def test_of_an_answer_that_is_not_made_again_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()
    plain = Fetch.again

    async def again(self: Fetch) -> Answer:
        asked.set()
        await go_on.wait()
        if how == "it fails":
            raise RuntimeError("on purpose")
        return await plain(self)

    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        monkeypatch.setattr(Fetch, "again", again)
        monkeypatch.setattr(Files, "read_cached_into", lambda *_: 0)
        monkeypatch.setattr(Files, "read_whole_into", lambda *_: False)
        (listener,) = gateway.listeners
        before = set(listener.connections)
        other = await Client.connect(gateway)
        other.send(ApiKey.FETCH, 11, fetch_body("t", 0))
        await asked.wait()
        (connection,) = listener.connections - before
        assert not connection.idle
        if how == "its client leaves":
            # without a farewell: it could mean that the client only sends no more
            end = other.writer.get_extra_info("socket")
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            other.writer.transport.abort()
            async with asyncio.timeout(10):
                while connection in listener.connections:
                    await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        go_on.set()
        async with asyncio.timeout(10):
            while not connection.idle or connection in listener.connections:
                await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert ("on purpose" in caplog.text) == (how == "it fails")
        await nothing_unsent(gateway, client)

    run(tmp_path, test)


def test_answers_that_have_left_take_nothing_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the loop has not heard of them they count; where memory or files are short it hears at once."""
    monkeypatch.setattr(sending, "_UNHEARD", 1000)

    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        (listener,) = gateway.listeners
        body = fetch_body("t", 0, partition_max_bytes=900_000)
        many = [await Client.connect(gateway) for _ in range(12)]
        assert [len(records_of(await each.ask(ApiKey.FETCH, 11, body))) for each in many] == [900_000] * 12
        async with asyncio.timeout(10):
            while gateway.broker.unsent_bytes >= 2_000_000:
                await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        before = listener._files
        monkeypatch.setattr(listener, "_room", before + 1)
        for each in many:
            await each.ask(ApiKey.FETCH, 11, body)
        async with asyncio.timeout(10):
            while listener._files > before:
                await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        for each in many:
            each.close()

    run(tmp_path, test, "memory.max.bytes=4194304")
