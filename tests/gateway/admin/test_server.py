"""The admin server as such: everything that is not a verb of topics."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from gateway.admin import routes
from gateway.admin.exchange import Call
from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from store.api import DiskFull, Outcome, Write

Admin = Any
Serve = Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/admin/v2/clusters", ["standalone"]),
        ("/admin/v2/tenants", ["public"]),
        ("/admin/v2/tenants/public", {"adminRoles": [], "allowedClusters": ["standalone"]}),
        ("/admin/v2/namespaces/public", ["public/default"]),
        (
            "/admin/v2/namespaces/public/default/bundles",
            {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1},
        ),
    ],
)
def test_what_stock_clients_ask_first(serve: Serve, path: str, expected: object) -> None:
    async def test(admin: Admin) -> None:
        answer = await admin.ask("GET", path)
        assert (answer.status, answer.content_type, answer.json) == (200, "application/json", expected)

    serve(test)


def test_brokers(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        address = admin.server.address
        assert (await admin.ask("GET", "/admin/v2/brokers/standalone")).json == [address]
        leader = (await admin.ask("GET", "/admin/v2/brokers/leaderBroker")).json
        assert leader == {"serviceUrl": f"http://{address}", "brokerId": address}
        # the server may listen on every address: what the client used is what reaches it
        named = (await admin.ask("GET", "/admin/v2/brokers/leaderBroker", Host="192.0.2.7:80")).json
        assert named == {"serviceUrl": "http://192.0.2.7:80", "brokerId": "192.0.2.7:80"}
        config = (await admin.ask("GET", "/admin/v2/brokers/configuration/runtime")).json
        assert config["clusterName"] == "standalone"
        assert config["num.partitions"] == "1"
        assert all(isinstance(value, str) for value in config.values())
        for path, word in (("version", b"0.1.0"), ("health", b"ok"), ("health?topicVersion=V2", b"ok")):
            answer = await admin.ask("GET", f"/admin/v2/brokers/{path}")
            assert (answer.status, answer.body) == (200, word)
            assert answer.content_type.startswith("text/plain")

    serve(test)


def test_health_fails_when_the_store_takes_no_writes(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        def refuse(writes: Sequence[Write], durability: object, done: Callable[[Outcome], None]) -> None:
            done(DiskFull("no space left on the device"))

        monkeypatch.setattr(admin.broker.store, "commit", refuse)
        answer = await admin.ask("GET", "/admin/v2/brokers/health")
        assert answer.status == 503
        assert "no space left" in answer.json["reason"]
        # alive all the same: a restart would not help
        assert (await admin.ask("GET", "/health/live")).status == 200

    serve(test)


def test_live_and_ready(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        for path in ("/health/live", "/health/ready"):
            answer = await admin.ask("GET", path)
            assert (answer.status, answer.body) == (200, b"ok")
        admin.reasons.append("The gateway is stopping.")
        assert (await admin.ask("GET", "/health/live")).status == 200
        answer = await admin.ask("GET", "/health/ready")
        assert (answer.status, answer.json) == (503, {"reason": "The gateway is stopping."})
        assert (await admin.ask("GET", "/admin/v2/brokers/health")).status == 503

    serve(test)


@pytest.mark.parametrize(
    ("method", "path", "status", "word"),
    [
        ("GET", "/", 404, "/metrics"),
        ("GET", "/admin/v2", 404, "nothing"),
        ("GET", "/admin/v2/", 404, "nothing"),
        ("GET", "/admin/v2/nonsense", 404, "nothing"),
        ("GET", "/admin/v2/tenant", 404, "nothing"),
        ("GET", "/admin/v2/topic/stats", 404, "nothing"),
        ("GET", "/admin/v2/persistent/public", 404, "nothing"),
        ("GET", "/admin/v2/persistent/public/default/orders/retention", 501, "`topics get-retention`"),
        (
            "POST",
            "/admin/v2/persistent/public/default/o/subscription/s/expireMessages/3",
            501,
            "`topics expire-messages`",
        ),
        ("DELETE", "/admin/v2/persistent/public/default/o/retention", 501, "`topics remove-retention`"),
        ("PUT", "/admin/v2/namespaces/public/new", 501, "`namespaces create`"),
        ("PUT", "/admin/v2/tenants/shop", 501, "`tenants create`"),
        ("PUT", "/admin/v2/clusters/mars", 501, "`clusters create`"),
        ("GET", "/admin/v2/clusters/mars", 404, "no cluster 'mars'"),
        ("GET", "/admin/v2/brokers/internal-configuration", 501, "`brokers get-internal-config`"),
        ("GET", "/admin/v2/brokers/backlog-quota-check", 501, "`brokers backlog-quota-check`"),
        ("POST", "/admin/v2/brokers/shutdown", 501, "`brokers shutdown`"),
        ("GET", "/admin/v2/brokers/standalone/a:1/ownedNamespaces", 501, "`brokers namespaces`"),
        ("POST", "/admin/v2/namespaces/public/default/messageTTL", 501, "`namespaces set-message-ttl`"),
        ("GET", "/admin/v2/namespaces/public/default", 501, "`namespaces policies`"),
        ("POST", "/admin/v2/bookies/racks-info/x", 501, "this call of bookies"),
        ("GET", "/admin/v2/schemas/public/default/x/schema", 501, "schemas"),
        ("GET", "/admin/v3/functions/public/default", 501, "functions"),
        ("GET", "/lookup/v2/topic/persistent/public/default/x", 501, "lookup"),
        ("GET", "/admin/v2/tenants/shop", 404, "no tenant 'shop'"),
        ("GET", "/admin/v2/namespaces/shop", 404, "no tenant 'shop'"),
        ("GET", "/admin/v2/brokers/mars", 404, "no cluster 'mars'"),
        ("POST", "/metrics", 405, "GET"),
        ("DELETE", "/health/live", 405, "GET"),
    ],
)
def test_what_is_not_served_says_so(serve: Serve, method: str, path: str, status: int, word: str) -> None:
    async def test(admin: Admin) -> None:
        answer = await admin.ask(method, path)
        assert answer.status == status
        assert word in answer.json["reason"]

    serve(test)


def test_the_cluster_and_its_broker_are_described(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        address = admin.server.url.removeprefix("http://")
        admin.broker.endpoints["INSIDE"] = ("gateway", 29092)
        admin.broker.endpoints["HOST"] = ("127.0.0.1", 9092)
        for path, expected in (
            ("clusters/standalone", {"serviceUrl": f"http://{address}"}),
            ("brokers", [address]),
            ("brokers/configuration", []),
            ("brokers/configuration/values", {}),
            # of two listeners the one with the host that the caller knows the gateway by
            ("magnetar/kafka", {"bootstrap": "127.0.0.1:9092"}),
        ):
            assert (await admin.ask("GET", f"/admin/v2/{path}")).json == expected
        assert (await admin.ask("GET", "/admin/v2/brokers/ready")).body == b"ok"
        admin.reasons.append("It is stopping.")
        assert (await admin.ask("GET", "/admin/v2/brokers/ready")).status == 503

    serve(test)


def test_every_route_of_the_table_can_be_reached() -> None:
    """A key that no path leads to would be a verb that is never served."""
    examples = {
        "clusters": ("clusters",), "brokers": ("brokers",), "tenants": ("tenants",), "tenant": ("namespaces", "t"),
        "namespace": ("namespaces", "t", "n"), "domain": ("persistent", "t", "n"),
        "topic": ("persistent", "t", "n", "x"), "magnetar": ("magnetar",),
        "subscription": ("persistent", "t", "n", "x", "subscription", "s"),
        "entry": ("persistent", "t", "n", "x", "ledger", "1", "entry", "2"),
    }  # fmt: skip
    for method, kind, tail in routes.VERBS:
        rest = tuple(part for part in tail.replace("*", "anything").split("/") if part)
        call = Call(method, examples[kind] + rest)
        assert routes.verb_of(call) is routes.VERBS[method, kind, tail]


def test_a_topic_may_be_called_partitioned(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("partitioned")
        assert (await admin.ask("GET", "P/partitioned/stats")).status == 200
        assert (await admin.ask("DELETE", "P/partitioned")).status == 204

    serve(test)


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
