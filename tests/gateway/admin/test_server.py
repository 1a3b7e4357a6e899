"""The admin server as such: everything that is not a verb of topics."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.admin import server
from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from store.api import DiskFull
from tests.gateway.admin.billing import made

Admin = Any
Serve = Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]


def test_a_body_that_is_too_large_is_refused(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        answer = await admin.ask("PUT", "P/x", b" " * 2_000_000)
        assert answer.status == 413
        assert "1048576" in answer.json["reason"]

    serve(test)


def test_errors_of_the_broker_and_of_ours_become_reasons(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        for error, status, word in (
            (KafkaError(Error.KAFKA_STORAGE_ERROR, "The disk is full."), 503, "The disk is full."),
            (KafkaError(Error.FENCED_LEADER_EPOCH), 500, "FENCED_LEADER_EPOCH"),
            (DiskFull("no space"), 503, "no space"),
            (ZeroDivisionError("a mistake of ours"), 500, "log"),
        ):

            async def fail(*_: object, error: Exception = error, **__: object) -> None:
                raise error

            monkeypatch.setattr(admin.broker, "create_topic", fail)
            answer = await admin.ask("PUT", "P/x", "{}")
            assert answer.status == status
            assert word in answer.json["reason"]
            assert "ZeroDivision" not in answer.json["reason"]

    serve(test)


def test_a_page_of_another_site_may_not_write(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        refused = await admin.ask("PUT", "P/x", "{}", Origin="https://evil.example")
        assert refused.status == 403
        assert (await admin.ask("PUT", "P/x", "{}", Origin="null")).status == 403
        assert (await admin.ask("PUT", "P/x", "{}", Origin=admin.server.url)).status == 204
        assert (await admin.ask("GET", "P", Origin="https://evil.example")).status == 200

    serve(test)


def test_a_page_whose_name_was_made_to_lead_here_gets_nothing(serve: Serve) -> None:
    """DNS rebinding: its Origin and its Host agree, and neither is a name of this gateway."""

    async def test(admin: Admin) -> None:
        there = {"Host": "evil.example:8080", "Origin": "http://evil.example:8080"}
        await admin.plain("orders")
        for method, path in (("PUT", "P/x"), ("DELETE", "P/orders"), ("GET", "P"), ("GET", "/metrics")):
            refused = await admin.ask(method, path, "{}" if method == "PUT" else None, **there)
            assert refused.status == 403, (method, path)
            assert "admin.allowed.hosts" in refused.json["reason"]
        assert (await admin.ask("GET", "P")).json == ["persistent://public/default/orders"]

    serve(test)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "10.1.2.3", "[::1]:8080", "localhost:8080", "LOCALHOST.", "a.localhost"]
)
def test_addresses_and_localhost_reach_it(serve: Serve, host: str) -> None:
    async def test(admin: Admin) -> None:
        assert (await admin.ask("GET", "P", Host=host)).status == 200

    serve(test)


def test_bytes_that_are_no_http_do_not_harm_others(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    async def test(admin: Admin) -> None:
        host, port = admin.server.address.split(":")
        for junk in (b"\0\0\0\x1c\0\x12\0\0\0\0\0\1", b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
                     b"GET /%ZZ HTTP/1.1\r\n\r\n", b"\xff" * 100_000, b"GET " + b"a" * 100_000):  # fmt: skip
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(junk)
            writer.write_eof()
            try:
                await reader.read()
            except ConnectionError:
                pass
            writer.close()
        # one that goes away before its body came
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"PUT /admin/v2/persistent/public/default/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
        )
        await writer.drain()
        writer.close()
        assert (await admin.ask("GET", "/admin/v2/clusters")).status == 200

    serve(test)
    assert not [record for record in caplog.records if record.exc_info], "tracebacks about what clients send"


def test_the_oldest_of_too_many_connections_makes_room(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.admin.server.CONNECTIONS", 3)

    async def test(admin: Admin) -> None:
        host, port = admin.server.address.split(":")
        streams = []
        for _ in range(5):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            streams.append((reader, writer))
        await streams[0][0].read()
        assert streams[0][0].at_eof()
        streams[4][1].write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await streams[4][0].readuntil(b"HTTP/1.1 200")
        for _, writer in streams:
            writer.close()

    serve(test)


def test_paths_are_taken_with_a_slash_at_the_end_and_percent_signs(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        assert (await admin.ask("GET", "/admin/v2/clusters/")).json == ["standalone"]
        assert (await admin.ask("PUT", "P/%6Frders", "{}")).status == 204
        assert admin.broker.catalog.names() == ["orders"]

    serve(test)


def test_head_answers_like_get_without_the_body(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        answer = await admin.ask("HEAD", "/health/live")
        assert (answer.status, answer.body) == (200, b"")

    serve(test)


def test_the_package_does_not_import_the_http_server() -> None:
    """The import of aiohttp would double the time that a gateway takes to start."""
    code = "import gateway.admin, gateway.metrics_catalog, sys; print('aiohttp' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=os.getcwd()
    )
    assert done.stdout.strip() == "False"


def test_a_port_in_use_is_an_oserror(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        from gateway.admin.server import start

        host, port = admin.server.address.split(":")
        with pytest.raises(OSError):
            await start(admin.broker, (host, int(port)))

    serve(test)


def test_ipv6_addresses_have_brackets(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        from gateway.admin.server import start

        try:
            sock = socket.create_server(("::1", 0), family=socket.AF_INET6)
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
        server = await start(admin.broker, sock)
        try:
            assert server.url.startswith("http://[::1]:")
        finally:
            await server.stop()
            sock.close()

    serve(test)


def test_json_bodies_are_json(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        answer = await admin.ask("GET", "/admin/v2/persistent/public/default/nope/stats")
        assert json.loads(answer.body) == {"reason": "There is no topic persistent://public/default/nope."}

    serve(test)


def test_a_large_answer_comes_whole(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        monkeypatch.setattr(server, "PIECE", 100)
        answer = await admin.ask("GET", "P/orders/stats")
        assert len(answer.body) > 1000
        assert answer.json["subscriptions"]["billing"]["msgBacklog"] == 5
        head = await admin.ask("HEAD", "P/orders/stats")
        assert (head.status, head.body) == (200, b"")

    serve(test)
