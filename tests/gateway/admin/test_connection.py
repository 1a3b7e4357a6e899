"""Reads that are repeated over a connection: answered as aiohttp answers them, and never out of turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.gateway.admin.raw_http import RawClient, request

Admin = Any
Serve = Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]

TOPIC = "/admin/v2/persistent/public/default/orders"
STATS = request("GET", f"{TOPIC}/stats")
POLICIES = request("GET", "/admin/v2/namespaces/public/default")
TTL = request("GET", "/admin/v2/namespaces/public/default/messageTTL")
OLDER = request("GET", f"{TOPIC}/stats", b"", "Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0")


def ttl(seconds: int) -> bytes:
    return request("POST", "/admin/v2/namespaces/public/default/messageTTL", str(seconds).encode())


@pytest.mark.parametrize("asked", [STATS, POLICIES, TTL, request("GET", f"{TOPIC}/partitions")])
def test_a_repeated_read_is_answered_alike_and_not_parsed_again(serve: Serve, asked: bytes) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        client = await RawClient.to(admin.server.address)
        first = await client.ask(asked)
        assert first.status == 200
        parsed = admin.server.parsed
        assert [await client.ask(asked) for _ in range(3)] == [first] * 3
        assert admin.server.parsed == parsed
        client.close()

    serve(test)


def test_it_is_known_on_other_connections_once_these_have_begun(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        one, other = [await RawClient.to(admin.server.address) for _ in range(2)]
        found = await one.ask(POLICIES)
        await other.ask(request("GET", "/health/live"))
        parsed = admin.server.parsed
        assert await other.ask(POLICIES) == found
        assert admin.server.parsed == parsed
        one.close()
        other.close()

    serve(test)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (request("HEAD", "/admin/v2/namespaces/public/default"), 200),
        (request("GET", "/health/live"), 200),
        (request("GET", "/admin/v2/namespaces/public/nowhere"), 404),
        (request("GET", f"{TOPIC}/stats", b"{}"), 200),
        (request("GET", f"{TOPIC}/lastMessageId"), 200),
        (OLDER, 200),
        (request("GET", f"{TOPIC}/stats", b"", "Upgrade: websocket", "Connection: Upgrade"), 200),
    ],
)
def test_all_else_goes_through_aiohttp_each_time(serve: Serve, asked: bytes, status: int) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        client = await RawClient.to(admin.server.address)
        for count in range(1, 4):
            await client.send(asked)
            assert (await client.answer(body=not asked.startswith(b"HEAD"))).status == status
            assert admin.server.parsed == count + 1
        client.close()

    serve(test)


def test_a_head_is_not_answered_with_what_a_get_was(serve: Serve) -> None:
    """Bytes that differ in anything are another request."""

    async def test(admin: Admin) -> None:
        client = await RawClient.to(admin.server.address)
        found = [await client.ask(POLICIES) for _ in range(2)][1]
        await client.send(POLICIES.replace(b"GET", b"HEAD"))
        head = await client.answer(body=False)
        assert (head.head, found.body[:1]) == (found.head, b"{")
        assert (await client.ask(request("GET", "/health/live"))).body == b"ok"
        client.close()

    serve(test)


def test_requests_sent_at_once_are_answered_in_their_order(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        client = await RawClient.to(admin.server.address)
        policies, seconds = await client.ask(POLICIES), await client.ask(TTL)
        await client.send(TTL + POLICIES + TTL, POLICIES, TTL)
        found = [await client.answer() for _ in range(5)]
        assert [each.body for each in found] == [
            each.body for each in (seconds, policies, seconds, policies, seconds)
        ]
        client.close()

    serve(test)


def test_a_known_request_behind_one_under_way_waits_for_it(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        client = await RawClient.to(admin.server.address)
        await client.ask(TTL)
        write = ttl(77)
        # its body comes last, and a read behind it
        await client.send(write[:-2])
        await client.send(write[-2:] + TTL)
        assert (await client.answer()).status == 204
        assert (await client.answer()).body == b"77"
        client.close()

    serve(test)


def test_bytes_of_a_body_are_no_request(serve: Serve) -> None:
    """A body that looks like a known read belongs to the request that it came with."""

    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        client = await RawClient.to(admin.server.address)
        await client.ask(TTL)
        parsed = admin.server.parsed
        write = request("POST", "/admin/v2/namespaces/public/default/messageTTL", TTL)
        await client.send(write[: -len(TTL)], TTL)
        assert (await client.answer()).status == 400
        assert admin.server.parsed == parsed + 1
        client.close()

    serve(test)


def test_a_head_in_pieces_is_one_request(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        client = await RawClient.to(admin.server.address)
        found = await client.ask(TTL)
        assert await client.ask(TTL[:10], TTL[10:40], TTL[40:]) == found
        # what stands before the known bytes belongs to them
        assert (await client.ask(b"GET /health/live HTTP/1.1\r\nX-More: ", TTL)).body == b"ok"
        client.close()

    serve(test)


def test_a_refused_body_that_comes_late_is_no_request(serve: Serve) -> None:
    """The answer leaves before the body has come: what follows is still the body."""

    async def test(admin: Admin) -> None:
        client = await RawClient.to(admin.server.address)
        await client.ask(TTL)
        parsed = admin.server.parsed
        write = request(
            "POST", "/admin/v2/namespaces/public/default/messageTTL", TTL, "Origin: http://evil.example"
        )
        assert (await client.ask(write[: -len(TTL)])).status == 403
        await client.send(TTL)
        await client.send(request("GET", "/health/live"))
        assert (await client.answer()).body == b"ok"
        assert admin.server.parsed == parsed + 2
        client.close()

    serve(test)


def test_a_refused_body_of_unknown_length_is_no_request(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        client = await RawClient.to(admin.server.address)
        await client.ask(TTL)
        write = request(
            "POST", "/admin/v2/tenants/x", b"", "Origin: http://evil.example", "Transfer-Encoding: chunked"
        ).replace(b"Content-Length: 0\r\n", b"")
        assert (await client.ask(write)).status == 403
        # no chunk begins like this: whoever reads it as one ends the connection
        await client.send(TTL)
        assert await client.ended()
        client.close()

    serve(test)


def test_heads_end_only_as_http_has_it(serve: Serve) -> None:
    """Where a request ends is found by that."""

    async def test(admin: Admin) -> None:
        for wrong in (TTL.replace(b"\r\n", b"\n"), TTL.replace(b"\r\n\r\n", b"\n\n") + b"\r\n\r\n"):
            client = await RawClient.to(admin.server.address)
            assert (await client.ask(wrong)).status == 400
            client.close()

    serve(test)


def test_a_read_that_asks_whether_its_body_is_wanted_is_told_each_time(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        client = await RawClient.to(admin.server.address)
        asked = request("GET", "/admin/v2/namespaces/public/default", b"", "Expect: 100-continue")
        for _ in range(3):
            await client.send(asked)
            assert [(await client.answer()).status for _ in range(2)] == [100, 200]
        client.close()

    serve(test)


def test_a_client_that_closes_its_connection_is_obeyed(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        last = request("GET", "/admin/v2/namespaces/public/default", b"", "Connection: close")
        for _ in range(2):
            client = await RawClient.to(admin.server.address)
            await client.ask(POLICIES)
            found = await client.ask(last)
            assert b"Connection: close" in found.head
            assert await client.ended()
            client.close()

    serve(test)


def test_a_client_that_asks_whether_its_body_is_wanted_is_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        client = await RawClient.to(admin.server.address)
        write = request(
            "POST", "/admin/v2/namespaces/public/default/messageTTL", b"88", "Expect: 100-continue"
        )
        await client.send(write[:-2])
        assert (await client.answer()).status == 100
        await client.send(b"88")
        assert (await client.answer()).status == 204
        other = request("POST", "/admin/v2/namespaces/public/default/messageTTL", b"89", "Expect: the-worst")
        assert (await client.ask(other)).status == 417
        client.close()
        assert (await admin.ask("GET", "/admin/v2/namespaces/public/default/messageTTL")).json == 88

    serve(test)


def test_behind_a_long_body_nobody_counts_any_more(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        client = await RawClient.to(admin.server.address)
        await client.ask(POLICIES)
        long = request("POST", "/admin/v2/namespaces/public/default/messageTTL", b" " * 70_000)
        assert (await client.ask(long)).status == 412
        parsed = admin.server.parsed
        for count in range(1, 4):
            assert (await client.ask(POLICIES)).status == 200
            assert admin.server.parsed == parsed + count
        client.close()

    serve(test)


def test_answers_do_not_pile_up_for_a_client_that_does_not_read(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        kept = json.dumps({"about": "x" * 20_000})
        path = "/admin/v2/namespaces/public/default/properties"
        assert (await admin.ask("PUT", path, kept)).status == 204
        client = await RawClient.to(admin.server.address)
        await client.ask(POLICIES)
        await client.ask(POLICIES)
        most = 0
        for _ in range(1_000):
            await client.send(POLICIES)
            most = max(most, *(each.transport.get_write_buffer_size() for each in admin.server.connections))
        assert most < 1_000_000
        client.close()

    serve(test)


def test_the_shorter_way_ends_where_aiohttp_would_close_an_idle_connection(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it sees each connection that is in use now and then."""
    monkeypatch.setattr("gateway.admin.connection.SHORT_WAY_SECONDS", 0.0)

    async def test(admin: Admin) -> None:
        client = await RawClient.to(admin.server.address)
        for count in range(1, 4):
            await client.ask(POLICIES)
            assert admin.server.parsed == count
        client.close()

    serve(test)
