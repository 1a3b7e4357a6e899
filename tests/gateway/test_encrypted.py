"""A connection over TLS, by the transport of the real loop: what waits, what counts, and what its client gets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gateway.auth.context import NONE, load
from gateway.encrypted import AT_ONCE, PIECE, Encrypted
from tests.gateway.pki import NOW, Pki, settings

MB = 1_000_000


class Recorder(asyncio.Protocol):
    """What a protocol is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.data = b""
        self.lost = asyncio.Event()
        self.resumed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        self.data += data

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")
        self.resumed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")
        self.lost.set()


class Ends:
    """Both ends of a connection: ours, and a client that reads when the test says so."""

    def __init__(self, transport: Encrypted, protocol: Recorder, client: ssl.SSLSocket) -> None:
        self.transport = transport
        self.protocol = protocol
        self.client = client

    async def read(self, size: int) -> bytes:
        """So many bytes, or fewer at the end."""

        def run() -> bytes:
            found = bytearray()
            while len(found) < size and (more := self.client.recv(size - len(found))):
                found += more
            return bytes(found)

        async with asyncio.timeout(20):
            return await asyncio.to_thread(run)


@contextlib.asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[Ends]:
    pki = Pki(folder)
    context = load(settings(*pki.flags), int(NOW.timestamp() * 1000)).contexts[NONE]
    here, there = socket.socketpair()
    here.setblocking(False)
    there.settimeout(20)
    loop = asyncio.get_running_loop()
    protocol = Recorder()
    encrypted = Encrypted(loop, protocol)
    shaking = asyncio.create_task(
        asyncio.to_thread(pki.client().wrap_socket, there, server_hostname="localhost")
    )
    await loop.connect_accepted_socket(lambda: encrypted, here, ssl=context)
    client = await shaking
    try:
        yield Ends(encrypted, protocol, client)
    finally:
        encrypted.abort()
        client.close()


def run(
    folder: Path,
    test: Callable[[Ends], Coroutine[Any, Any, None]],
    loop: Callable[[Coroutine[Any, Any, None]], None] = uvloop.run,
) -> None:
    async def body() -> None:
        async with connected(folder) as ends:
            await test(ends)

    loop(body())


@pytest.mark.parametrize("loop", [uvloop.run, asyncio.run])
def test_what_a_client_does_not_read_waits_as_it_is_and_counts(
    tmp_path: Path, loop: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    async def test(ends: Ends) -> None:
        data = os.urandom(10 * MB)
        ends.transport.set_write_buffer_limits(high=MB, low=MB // 4)
        ends.transport.writelines([b"first", data, b"", b"last"])
        # two pieces may be encrypted, and a socket takes some
        assert 10 * MB - 2 * PIECE - MB < ends.transport.get_write_buffer_size() <= 10 * MB + 9
        assert ends.protocol.told == ["made", "pause"]
        ends.transport.write(b"behind")
        assert await ends.read(10 * MB + 15) == b"first" + data + b"lastbehind"
        await asyncio.wait_for(ends.protocol.resumed.wait(), 10)
        assert ends.protocol.told == ["made", "pause", "resume"]
        assert ends.transport.get_write_buffer_size() == 0

    run(tmp_path / "pki", test, loop)


class Taking(asyncio.Transport):
    """A transport whose socket takes everything at once, as no real one does for certain."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[int] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def writelines(self, list_of_data: Any) -> None:
        self.pieces.append(sum(map(len, list_of_data)))


def test_one_connection_does_not_keep_the_loop_though_its_client_takes_everything() -> None:
    async def test() -> None:
        below, protocol, size = Taking(), Recorder(), 12 * MB
        encrypted = Encrypted(asyncio.get_running_loop(), protocol)
        encrypted.connection_made(below)
        encrypted.write(bytes(size))
        turns = 0
        while (left := encrypted.get_write_buffer_size()) and turns < 100:
            assert left == size - (turns + 1) * AT_ONCE, "others have their turn after each of these"
            turns += 1
            await asyncio.sleep(0)
        assert turns == size // AT_ONCE
        assert sum(below.pieces) == size
        assert set(below.pieces[:-1]) == {PIECE}
        assert protocol.told == ["made", "pause", "resume"]

    uvloop.run(test())


def test_small_answers_are_not_told_of_and_keep_their_order(tmp_path: Path) -> None:
    async def test(ends: Ends) -> None:
        expected = b""
        for number in range(500):
            ends.transport.write(b"%d;" % number)
            ends.transport.writelines([b"%d" % number, b",", memoryview(b";")])
            expected += b"%d;%d,;" % (number, number)
        ends.transport.writelines([b"x" * 100_000, b"y" * 50_000])
        expected += b"x" * 100_000 + b"y" * 50_000
        assert await ends.read(len(expected)) == expected
        assert "pause" not in ends.protocol.told

    run(tmp_path / "pki", test)


def test_whoever_closes_ends_it_when_all_has_left(tmp_path: Path) -> None:
    async def test(ends: Ends) -> None:
        data = os.urandom(3 * MB)
        ends.transport.write(data)
        ends.transport.close()
        assert ends.transport.is_closing()
        ends.transport.write(b"too late")
        ends.client.send(b"nobody reads this")
        assert await ends.read(4 * MB) == data
        await asyncio.to_thread(ends.client.close)
        await asyncio.wait_for(ends.protocol.lost.wait(), 10)
        assert ends.protocol.data == b""
        assert ends.protocol.told[-1] == "lost"

    run(tmp_path / "pki", test)


def test_whoever_aborts_ends_it_with_what_waits(tmp_path: Path) -> None:
    async def test(ends: Ends) -> None:
        ends.transport.write(bytes(3 * MB))
        ends.transport.abort()
        await asyncio.wait_for(ends.protocol.lost.wait(), 10)
        assert ends.transport.get_write_buffer_size() == 0
        ends.transport.write(b"nothing becomes of it")

    run(tmp_path / "pki", test)


def test_a_client_that_goes_away_takes_what_waits_with_it(tmp_path: Path) -> None:
    async def test(ends: Ends) -> None:
        ends.transport.write(bytes(3 * MB))
        ends.client.close()
        await asyncio.wait_for(ends.protocol.lost.wait(), 10)
        assert ends.transport.get_write_buffer_size() == 0

    run(tmp_path / "pki", test)


def test_another_protocol_takes_over_with_all_that_comes_from_then_on(tmp_path: Path) -> None:
    async def test(ends: Ends) -> None:
        ends.client.send(b"one")
        while not ends.protocol.data:
            await asyncio.sleep(0)
        other = Recorder()
        ends.transport.set_protocol(other)
        ends.client.send(b"two")
        while not other.data:
            await asyncio.sleep(0)
        assert (ends.protocol.data, other.data) == (b"one", b"two")
        ends.transport.set_write_buffer_limits(high=0)
        ends.transport.write(bytes(3 * MB))
        assert other.told == ["pause"]
        ends.transport.abort()
        await asyncio.wait_for(other.lost.wait(), 10)
        assert "lost" not in ends.protocol.told

    run(tmp_path / "pki", test)


def test_nobody_gets_the_socket(tmp_path: Path) -> None:
    async def test(ends: Ends) -> None:
        assert ends.transport.get_extra_info("socket") is None
        assert ends.transport.get_extra_info("ssl_object").version() == "TLSv1.3"

    run(tmp_path / "pki", test)


def test_a_protocol_that_pauses_gets_nothing_until_it_goes_on(tmp_path: Path) -> None:
    async def test(ends: Ends) -> None:
        ends.transport.pause_reading()
        assert not ends.transport.is_reading()
        ends.client.send(b"x" * 1000)
        ends.transport.write(b"pong")
        assert await ends.read(4) == b"pong"
        assert ends.protocol.data == b""
        ends.transport.resume_reading()
        while len(ends.protocol.data) < 1000:
            await asyncio.sleep(0)

    run(tmp_path / "pki", test)
