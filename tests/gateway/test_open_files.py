"""The limit of open files: raised at the start, and what it leaves to connections."""

from __future__ import annotations

import asyncio
import builtins
import errno
import resource
import socket
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from gateway import apis, open_files
from gateway.apis.registry import APIS
from gateway.server import Gateway
from gateway.wire import codec, messages, schema
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.held import run
from tests.gateway.serving import Client

NO_END = resource.RLIM_INFINITY


def limits(soft: int, hard: int) -> Any:
    return mock.patch("resource.getrlimit", return_value=(soft, hard))


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"),
    [
        (1024, 4096, 4096),
        (1024, 1 << 30, open_files.MOST),
        (1024, NO_END, open_files.MOST),
        (4096, 4096, None),
        (2_000_000, NO_END, None),
        (NO_END, NO_END, None),
    ],
)
def test_raised_to_the_hard_one_within_reason(soft: int, hard: int, wanted: int | None) -> None:
    with limits(soft, hard), mock.patch("resource.setrlimit") as setting:
        open_files.raise_limit()
    asked = [each.args[1] for each in setting.call_args_list]
    assert asked == ([] if wanted is None else [(wanted, hard)])


def test_a_system_that_does_not_allow_it_is_left_as_it_is() -> None:
    with limits(10, 20), mock.patch("resource.setrlimit", side_effect=ValueError("no")):
        open_files.raise_limit()


def test_a_system_without_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    open_files.raise_limit()
    assert open_files.shares().connections == sys.maxsize
    assert open_files.too_few() == ""


@pytest.mark.parametrize("soft", [128, 129, 200, 256, 1000, 1024, 4096, 65536, 1 << 20])
def test_the_shares_are_the_limit(soft: int) -> None:
    with limits(soft, soft):
        assert open_files.too_few() == ""
        shares = open_files.shares()
    segments = 2 * shares.segments + shares.segments // 2
    assert shares.connections + shares.http + segments + shares.tables + open_files.FIXED == soft
    assert min(shares) >= 4
    assert shares.tables >= 20, "RocksDB takes no fewer"
    assert shares.connections >= soft * 0.2


def test_what_each_has_at_most() -> None:
    with limits(NO_END, NO_END):
        assert open_files.shares() == (sys.maxsize, 256, 1024, 256)
    with limits(1 << 20, 1 << 20):
        assert open_files.shares()[1:] == (256, 1024, 256)


def test_a_limit_that_is_too_low_for_anything() -> None:
    with limits(100, 100):
        assert "may have 100 files open" in open_files.too_few()


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

    with limits(128, 128):
        run(test)


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


def test_no_file_is_opened_for_an_api_that_is_first_used_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """When connections have taken all there are, answers must still be made."""
    monkeypatch.setattr(schema, "_loaded", {})

    def refuse(*arguments: Any, **more: Any) -> Any:
        raise AssertionError("a file is opened")

    async def test(gateway: Gateway, client: Client) -> None:
        with (
            mock.patch.object(Path, "read_text", refuse),
            mock.patch.object(builtins, "open", refuse),
        ):
            for api in APIS.values():
                assert schema.load(api.name + "Request").key == api.key
                assert schema.load(api.name + "Response").key == api.key
            await client.ask(ApiKey.DESCRIBE_CLUSTER, 0, messages.DescribeClusterRequest())

    run(test)


def test_every_served_api_has_its_schemas() -> None:
    apis.load_all()
    codec.load_schemas(APIS)
