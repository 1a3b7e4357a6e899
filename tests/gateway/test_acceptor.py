"""Connections taken from a listening socket: no more than there are files for."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any
from unittest import mock

import pytest

from gateway import open_files
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.held import run
from tests.gateway.serving import Client


class NoFiles:
    """A listening socket that finds no file for a connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.asked = 0

    def accept(self) -> Any:
        self.asked += 1
        raise OSError(errno.EMFILE, "Too many open files")

    def fileno(self) -> int:
        return self.sock.fileno()


def test_a_listener_takes_no_more_than_there_are_files_for(caplog: pytest.LogCaptureFixture) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        room = open_files.shares().connections
        others = [await Client.connect(gateway) for _ in range(room + 4)]
        for other in others[room - 1 :]:
            assert await other.at_end()
        for other in others[: room - 1]:
            await other.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert caplog.text.count("too many files are open") == 1
        for other in others:
            other.close()
        (listener,) = gateway.listeners
        while len(listener.connections) > 1:
            await asyncio.sleep(0)
        again = await Client.connect(gateway)
        await again.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        again.close()

    with mock.patch("resource.getrlimit", return_value=(128, 128)):
        run(test)


def test_without_a_file_for_a_connection_it_waits_and_nobody_asks_in_between(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.acceptor.PAUSE_SECONDS", 3600)

    async def test(gateway: Gateway, client: Client) -> None:
        (listener,) = gateway.listeners
        acceptor = listener._acceptor
        assert acceptor is not None
        sock = acceptor._sock
        none: Any = NoFiles(sock)
        acceptor._sock = none
        waiting = await Client.connect(gateway)
        for seconds in range(1, 4):
            while none.asked < seconds:
                await asyncio.sleep(0)
            # each is a turn of the loop, in which a socket that is ready would be told
            for _ in range(20):
                await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
            assert none.asked == seconds
            acceptor.resume()
        while none.asked < 4:
            await asyncio.sleep(0)
        assert caplog.text.count("too many files are open") == 1
        acceptor._sock = sock
        acceptor.resume()
        await waiting.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        waiting.close()

    run(test)
