"""Who asks is one value for a connection, and every kind of API is given it."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from gateway import connection
from gateway.apis.produce import produce
from gateway.apis.registry import APIS
from gateway.peer import ANONYMOUS, HOME, Peer, host_of
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.share_asking import share_acknowledge_body, share_fetch_body
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body, serving


def run(test: Callable[[Gateway, Client], Coroutine[Any, Any, None]]) -> None:
    async def body() -> None:
        async with serving() as gateway:
            client = await Client.connect(gateway, "ada")
            try:
                await create(client, "t")
                await test(gateway, client)
            finally:
                client.close()

    asyncio.run(body())


def of(gateway: Gateway) -> list[Peer]:
    return [each.peer for listener in gateway.listeners for each in listener.connections]


def test_every_kind_of_api_is_given_the_connections_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, set[Peer]] = {"handler": set(), "direct": set(), "quick": set(), "produce": set()}

    async def test(gateway: Gateway, client: Client) -> None:
        metadata, fetch = APIS[ApiKey.METADATA], APIS[ApiKey.FETCH]

        def handler(broker: Any, context: Any, request: Any) -> Any:
            seen["handler"].add(context.peer)
            return metadata.handler and metadata.handler(broker, context, request)

        def direct(broker: Any, asked: Any) -> Any:
            seen["direct"].add(asked.peer)
            return fetch.direct and fetch.direct(broker, asked)

        def quick(broker: Any, peer: Any, *frame: Any) -> Any:
            seen["quick"].add(peer)
            return fetch.quick and fetch.quick(broker, peer, *frame)

        def produced(broker: Any, client: Any, *frame: Any) -> Any:
            seen["produce"].add(client.peer)
            return produce(broker, client, *frame)

        monkeypatch.setitem(APIS, ApiKey.METADATA, replace(metadata, handler=handler))
        monkeypatch.setitem(APIS, ApiKey.FETCH, replace(fetch, direct=direct, quick=quick))
        monkeypatch.setattr(connection, "produce", produced)
        other = await Client.connect(gateway)
        await other.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        await client.ask(ApiKey.FETCH, 11, fetch_body("t", 0))
        await client.ask(ApiKey.METADATA, 9, messages.MetadataRequest(topics=None))
        (peer,) = (each for each in of(gateway) if each.client_id == "ada")
        assert all(each == {peer} for each in seen.values()), seen
        assert (peer.host, peer.listener) == ("/127.0.0.1", "PLAINTEXT")
        assert (peer.principal, peer.namespace) == (ANONYMOUS, HOME)
        numbers = {each.connection for each in of(gateway)}
        assert (len(numbers), max(numbers)) == (2, gateway.broker.connection_numbers.newest)
        other.close()

    run(test)


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (ApiKey.PRODUCE, 9, produce_body("t", batch(b"v"))),
        (ApiKey.PRODUCE, 8, produce_body("t", batch(b"v"))),
        (ApiKey.FETCH, 11, fetch_body("t", 0)),
        (ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, bytes(16))),
        (ApiKey.SHARE_ACKNOWLEDGE, 2, share_acknowledge_body("m", 1, bytes(16), {})),
        (ApiKey.METADATA, 9, messages.MetadataRequest(topics=None)),
    ],
    ids=lambda each: each.name if isinstance(each, ApiKey) else "",
)
def test_every_kind_of_request_says_who_its_client_is(key: ApiKey, version: int, body: Any) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        (peer,) = of(gateway)
        # a name of the same length too
        for name in ("bob", "", "ada", "someone else"):
            client.client_id = name
            await client.ask(key, version, body)
            assert peer.client_id == (name or "bob")

    run(test)


def test_a_client_without_a_name_keeps_the_one_that_it_had() -> None:
    peer = Peer(1, "/h", "PLAINTEXT")
    for named in (b"\xff\xff", b"\x00\x00"):
        peer.call(b"\x00\x03ada")
        peer.call(named)
        assert (peer.client_id, peer.named) == ("ada", named)


def test_a_client_id_beyond_its_request_is_nobodys() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        (peer,) = of(gateway)
        head = struct.pack(">hhih", ApiKey.PRODUCE, 3, 1, 30) + b"x"
        client.writer.write(struct.pack(">i", len(head)) + head)
        assert await client.at_end()
        assert peer.client_id == "ada"

    run(test)


def test_of_a_long_client_id_a_part_is_kept() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        other = await Client.connect(gateway, "x" * 30_000)
        await other.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert {len(each.client_id) for each in of(gateway)} == {len("ada"), 256}
        assert max(len(each.named) for each in of(gateway)) == 2 + 4 * 256
        other.close()

    run(test)


def test_the_log_names_the_client_whose_connection_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        with caplog.at_level(logging.INFO, "magnetar.listener"):
            client.send(999, 0, b"")
            assert await client.at_end()
        (told,) = (vars(each) for each in caplog.records if each.getMessage() == "closing a connection")
        assert (told["client"], told["client_id"]) == ("/127.0.0.1", "ada")

    run(test)


@pytest.mark.parametrize(
    ("peername", "host"),
    [
        (("127.0.0.1", 1), "/127.0.0.1"),
        # by a socket for both families
        (("::ffff:10.0.0.7", 1, 0, 0), "/10.0.0.7"),
        (("::1", 1, 0, 0), "/::1"),
        (("2001:db8::1", 1, 0, 0), "/2001:db8::1"),
        (None, "/unknown"),
        ((), "/unknown"),
    ],
)
def test_an_address_is_written_in_one_way(peername: object, host: str) -> None:
    assert host_of(peername) == host
