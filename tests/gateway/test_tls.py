"""A gateway whose listener speaks TLS, by clients that do so by hand."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import uvloop

from gateway.auth import issuing
from gateway.config import Settings
from gateway.connection import Connection
from gateway.errors import StartError
from gateway.open_files import shares
from gateway.sending import Senders
from gateway.server import Gateway, start
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.large import filled, records_of, same
from tests.gateway.pki import NOW, Pki
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body, serving

BOTH = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"
Test = Callable[[Gateway, Pki], Coroutine[Any, Any, None]]


def run(folder: Path, test: Test, *flags: str, asking: str | None = None) -> None:
    """Run a test with a gateway that listens with TLS and without. `asking`: it asks for certificates so."""

    async def body() -> None:
        pki = Pki(folder / "pki")
        own = pki.flags if asking is None else pki.asking(asking)
        async with asyncio.timeout(60), serving(*own, *flags, listeners=BOTH) as gateway:
            await test(gateway, pki)

    uvloop.run(body())


async def connect(gateway: Gateway, tls: ssl.SSLContext) -> Client:
    return await Client.connect(gateway, listener="SSL", tls=tls)


async def hello(client: Client) -> None:
    await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())


def connections(gateway: Gateway) -> set[Connection]:
    """Those over TLS."""
    return gateway.listeners[1].connections


def shown_by(client: Client) -> str:
    """The certificate that the gateway has shown, as a client sees it."""
    der = client.writer.get_extra_info("ssl_object").getpeercert(True)
    return ssl.DER_cert_to_PEM_cert(der)


async def renewed(gateway: Gateway) -> None:
    """The job that looks at files has its turn."""
    assert gateway.tls is not None
    await gateway.tls.look(gateway.broker.clock.wall_ms())


async def silent(gateway: Gateway) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that connects and says nothing."""
    return await asyncio.open_connection(*gateway.broker.endpoints["SSL"])


async def ended(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(10):
        try:
            return await reader.read(1) == b""
        except ConnectionError:
            return True


def test_who_clients_are_is_what_their_certificates_say(tmp_path: Path) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        for name, principal in (("ada", "User:CN=ada"), (None, "User:ANONYMOUS")):
            client = await connect(gateway, pki.client(name))
            await hello(client)
            (connection,) = connections(gateway)
            assert connection.peer.principal == principal
            client.close()
            while connections(gateway):
                await asyncio.sleep(0)

    run(tmp_path, test, asking="requested")


def test_whom_no_rule_fits_is_closed_and_told_of_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        client = await connect(gateway, pki.client("eve"))
        assert await client.at_end()
        other = await connect(gateway, pki.client("ada"))
        await hello(other)
        (connection,) = connections(gateway)
        assert connection.peer.principal == "User:ada"
        other.close()

    with caplog.at_level("INFO"):
        run(tmp_path, test, r"ssl.principal.mapping.rules=RULE:^CN=(a.*)$/$1/", asking="required")
    reasons = [each.__dict__["reason"] for each in caplog.records if "reason" in each.__dict__]
    assert "no rule of ssl.principal.mapping.rules fits CN=eve" in reasons


def test_large_answers_are_whole_and_no_thread_writes_to_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These would be sent by threads over a listener without TLS."""
    asked: list[object] = []
    monkeypatch.setattr(Senders, "send", lambda self, *arguments: asked.append(arguments))

    async def test(gateway: Gateway, pki: Pki) -> None:
        client = await connect(gateway, pki.client())
        await create(client, "t", max__message__bytes="2000000")
        batches = await filled(client)
        for most in (300_000, 10_000_000):
            sent = [client.send(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())]
            sent += [
                client.send(ApiKey.FETCH, 11, fetch_body("t", nth, partition_max_bytes=most, max_bytes=most))
                for nth in (0, 2, 1)
            ]
            sent.append(client.send(ApiKey.PRODUCE, 9, produce_body("u", batch(b"v"))))
            got = [await client.receive() for _ in sent]
            assert [correlation for correlation, _ in got] == sent
            for (_, answer), first in zip(got[1:4], (0, 2, 1), strict=True):
                wanted = batches[first:] if most > 1_000_000 else batches[first : first + 1]
                records = records_of(answer)
                for each in wanted:
                    assert same(records[: len(each)], each)
                    records = records[len(each) :]
                assert not records
        assert not asked
        client.close()

    run(tmp_path, test, "store.driver=rocksdb", f"data={tmp_path / 'data'}", "store.tail.cache.bytes=0")


def test_what_was_stored_before_a_restart_is_checked_and_sent_whole(tmp_path: Path) -> None:
    """Nobody vouches for these bytes yet: they are read again, with their CRCs."""
    stored = [batch(os.urandom(300_000)) for _ in range(3)]

    async def write(gateway: Gateway, pki: Pki) -> None:
        client = await Client.connect(gateway)
        await create(client, "t")
        for each in stored:
            await client.ask(ApiKey.PRODUCE, 9, produce_body("t", each))
        client.close()

    async def read(gateway: Gateway, pki: Pki) -> None:
        client = await connect(gateway, pki.client())
        answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", 0))
        records = records_of(answer)
        for each in stored:
            assert same(records[: len(each)], each)
            records = records[len(each) :]
        assert not records
        client.close()

    for test in (write, read):
        run(tmp_path, test, "store.driver=rocksdb", f"data={tmp_path / 'data'}", "store.tail.cache.bytes=0")


def test_what_a_client_leaves_unread_counts_and_ends_with_its_time(tmp_path: Path) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        client = await connect(gateway, pki.client())
        await create(client, "t", max__message__bytes="20000000")
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(os.urandom(15_000_000))))
        greedy = await connect(gateway, pki.client())
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        greedy.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_bytes=1 << 30, partition_max_bytes=1 << 30))
        while not (waiting := [c for c in connections(gateway) if c.transport.get_write_buffer_size()]):
            await hello(client)
        (theirs,) = waiting
        # a socket takes some megabytes, and two pieces are on their way to it
        assert gateway.broker.unsent_bytes > 5_000_000
        assert theirs.transport.get_write_buffer_size() > 5_000_000
        theirs.close("for a test")
        for _ in range(12):
            gateway.listeners[1].second()
        while theirs in connections(gateway):
            await asyncio.sleep(0)
        assert gateway.broker.unsent_bytes == 0
        greedy.close()
        client.close()

    run(tmp_path, test)


def test_a_slow_client_gets_all_of_a_large_answer(tmp_path: Path) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        client = await connect(gateway, pki.client())
        await create(client, "t", max__message__bytes="20000000")
        stored = batch(os.urandom(15_000_000))
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", stored))
        slow = await connect(gateway, pki.client())
        asked = slow.send(
            ApiKey.FETCH, 11, fetch_body("t", 0, max_bytes=1 << 30, partition_max_bytes=1 << 30)
        )
        then = slow.send(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        # its reader holds 64 KiB, and the loop has others to serve in between
        for _ in range(200):
            await hello(client)
        correlation, answer = await slow.receive()
        assert correlation == asked
        assert same(records_of(answer), stored)
        assert (await slow.receive())[0] == then
        assert gateway.broker.unsent_bytes == 0
        slow.close()
        client.close()

    run(tmp_path, test)


def test_a_new_certificate_is_shown_to_who_comes_and_others_stay(tmp_path: Path) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        old = pki.certificate_file.read_text()
        before = await connect(gateway, pki.client())
        new = pki.renew()
        await renewed(gateway)
        after = await connect(gateway, pki.client())
        await hello(before)
        await hello(after)
        assert shown_by(before) == old
        assert shown_by(after) == new.certificate_pem.decode()
        before.close()
        after.close()

    run(tmp_path, test)


def test_clients_of_a_ca_that_goes_are_ended_and_others_stay(tmp_path: Path) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        other = issuing.authority("another", NOW)
        pki.write("ca.pem", pki.ca.certificate_pem + other.certificate_pem)
        await renewed(gateway)
        ada = await connect(gateway, pki.client("ada", pki.ca))
        bob = await connect(gateway, pki.client("bob", other))
        await hello(ada)
        await hello(bob)
        pki.write("ca.pem", other.certificate_pem)
        await renewed(gateway)
        assert await ada.at_end()
        await hello(bob)
        again = await connect(gateway, pki.client("ada", pki.ca))
        assert await again.at_end()
        bob.close()

    run(tmp_path, test, asking="required")


def test_a_ca_that_goes_in_the_middle_of_a_handshake_lets_nobody_in(tmp_path: Path) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        reader, writer = await silent(gateway)
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        end = pki.client("ada").wrap_bio(back, there, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            end.do_handshake()
        writer.write(there.read())
        said = await reader.read(1 << 20)
        pki.write("ca.pem", issuing.authority("another", NOW).certificate_pem)
        await renewed(gateway)
        back.write(said)
        while True:
            try:
                end.do_handshake()
                break
            except ssl.SSLWantReadError:
                back.write(await reader.read(1 << 20))
        writer.write(there.read())
        back.write(await reader.read(1 << 20))
        assert end.read(100) == b"", "the gateway has ended it"
        writer.close()
        while connections(gateway):
            await asyncio.sleep(0)

    run(tmp_path, test, asking="required")


def test_silent_clients_count_as_connections_of_their_address(tmp_path: Path) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        known = await connect(gateway, pki.client())
        await hello(known)
        files = len(os.listdir("/proc/self/fd"))
        crowd = [await silent(gateway) for _ in range(300)]
        closed = 0
        while closed < 296:
            await hello(known)
            closed = sum(reader.at_eof() for reader, _ in crowd)
        assert closed == 296, "five connections are allowed, and one was there"
        # each that is held has an end here and one in the gateway
        assert len(os.listdir("/proc/self/fd")) <= files + 300 + 4
        for reader, writer in crowd:
            if not reader.at_eof():
                writer.close()
                break
        new = None
        while new is None:
            with contextlib.suppress(ConnectionError):
                new = await connect(gateway, pki.client())
        await hello(new)
        for _, writer in crowd:
            writer.close()
        new.close()
        known.close()

    run(tmp_path, test, "max.connections.per.ip=5", "ssl.handshakes.per.ip.per.second=10000")


def test_who_does_not_shake_hands_in_time_is_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        reader, writer = await silent(gateway)
        assert await ended(reader)
        writer.close()
        assert gateway.broker.metrics.handshakes_failed.labels("SSL", "failed").value == 1

    with caplog.at_level("INFO", "magnetar.tls"):
        run(tmp_path, test, "ssl.handshake.timeout.ms=100")
    (reason,) = [each.__dict__["reason"] for each in caplog.records if "reason" in each.__dict__]
    assert reason == "it takes longer than ssl.handshake.timeout.ms"


def test_an_address_that_begins_too_many_handshakes_is_closed(tmp_path: Path) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        assert gateway.tls is not None
        begin, now = gateway.tls.handshakes.begin, gateway.broker.loop.time()
        with mock.patch.object(gateway.tls.handshakes, "begin", lambda address, _: begin(address, now)):
            crowd = [await silent(gateway) for _ in range(20)]
            while (closed := sum(reader.at_eof() for reader, _ in crowd)) < 14:
                await asyncio.sleep(0)
            assert closed == 14, "three may in a second, three wait, and the clock stands"
        assert gateway.broker.metrics.handshakes_failed.labels("SSL", "refused").value == closed
        plain = await Client.connect(gateway)
        await hello(plain)
        plain.close()
        for _, writer in crowd:
            writer.close()

    run(tmp_path, test, "ssl.handshakes.per.ip.per.second=3")


def test_beyond_what_may_begin_in_a_second_clients_wait_and_lose_nothing(tmp_path: Path) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        known = await connect(gateway, pki.client())
        tls, acceptor = gateway.tls, gateway.listeners[1]._acceptor
        assert tls is not None
        assert acceptor is not None
        with mock.patch.object(tls.handshakes, "wait", return_value=3600.0):
            waiting = asyncio.create_task(connect(gateway, pki.client()))
            for _ in range(50):
                await hello(known)
            assert not waiting.done()
            assert not acceptor._coming
        acceptor.resume()
        client = await waiting
        await hello(client)
        client.close()
        known.close()

    run(tmp_path, test)


def test_a_slow_handshake_gives_way_when_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.acceptor.SLOW_HANDSHAKE", 0.0)

    async def test(gateway: Gateway, pki: Pki) -> None:
        room = shares().connections // 2
        crowd = [await silent(gateway) for _ in range(room)]
        client = await connect(gateway, pki.client())
        await hello(client)
        assert await ended(crowd[0][0]), "the oldest"
        assert not any(reader.at_eof() for reader, _ in crowd[2:])
        for _, writer in crowd:
            writer.close()
        client.close()

    with mock.patch("resource.getrlimit", return_value=(128, 128)):
        run(tmp_path, test, "ssl.handshakes.per.ip.per.second=10000")


PLAIN = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (PLAIN, "it does not speak TLS: a client of this listener needs security.protocol=SSL or SASL_SSL"),
        (b"GET / HTTP/1.1\r\n\r\n", "it speaks HTTP without TLS, to a listener that is TLS"),
        (b"", "it went away in the middle; clients do so that do not accept the gateway's certificate"),
    ],
    ids=["kafka", "http", "nothing"],
)
def test_strangers_are_told_of_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: bytes, reason: str
) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        reader, writer = await silent(gateway)
        writer.write(said)
        if not said:
            writer.write_eof()
        assert await ended(reader) or said
        writer.close()

    with caplog.at_level("INFO", "magnetar.tls"):
        run(tmp_path, test)
    told = [each for each in caplog.records if each.getMessage() == "a TLS handshake failed"]
    assert [each.__dict__["reason"] for each in told] == [reason]


def by_hand(gateway: Gateway, tls: ssl.SSLContext) -> None:
    """A handshake of a client that tells why it does not go on, which those of the loop do not."""
    with socket.create_connection(gateway.broker.endpoints["SSL"], 10) as plain:
        tls.wrap_socket(plain, server_hostname="localhost").recv(1)


def test_what_does_not_fit_is_told_of_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        old = pki.client("ada")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        stranger = Pki(tmp_path / "other").client()
        twelve = pki.client()
        twelve.maximum_version = ssl.TLSVersion.TLSv1_2
        eve = pki.client("eve", issuing.authority("a CA", NOW))
        eve.maximum_version = ssl.TLSVersion.TLSv1_2
        for context in (old, stranger, twelve, eve):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(by_hand, gateway, context)

    with caplog.at_level("INFO", "magnetar.tls"), pytest.warns(DeprecationWarning, match="TLSv1_1"):
        run(tmp_path, test, asking="required")
    reasons = [each.__dict__["reason"] for each in caplog.records if "reason" in each.__dict__]
    assert len(reasons) == 4
    assert "ssl.enabled.protocols" in reasons[0]
    assert "does not know the CA of this gateway's certificate" in reasons[1]
    assert "shows no certificate" in reasons[2]
    assert reasons[3].startswith("its certificate is not good here: ")


def test_half_a_handshake_and_crumbs_of_one_harm_nobody(tmp_path: Path) -> None:
    async def test(gateway: Gateway, pki: Pki) -> None:
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        end = pki.client().wrap_bio(back, there, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
        first = there.read()
        half_reader, half = await silent(gateway)
        half.write(first[: len(first) // 2])
        _, crumbs = await silent(gateway)
        for position in range(len(first)):
            crumbs.write(first[position : position + 1])
            await asyncio.sleep(0)
        client = await connect(gateway, pki.client())
        await hello(client)
        half.write_eof()
        assert await ended(half_reader)
        crumbs.close()
        client.close()

    run(tmp_path, test)


def test_a_stop_does_not_wait_for_handshakes(tmp_path: Path) -> None:
    async def body() -> None:
        pki = Pki(tmp_path / "pki")
        async with asyncio.timeout(8):
            async with serving(*pki.flags, listeners=BOTH) as gateway:
                reader, writer = await silent(gateway)
                client = await connect(gateway, pki.client())
                await hello(client)
            assert await ended(reader)
            assert await client.at_end()
            writer.close()

    uvloop.run(body())


def refusal(*flags: str, listeners: str = "SSL://127.0.0.1:0", admin: str = "") -> str:
    """Why a gateway does not start."""

    async def body() -> None:
        settings = Settings.load(
            ["store.driver=memory", *flags], options={"listeners": listeners, "admin.listen": admin}
        )
        async with contextlib.AsyncExitStack() as stack:
            await start(settings, stack)

    with pytest.raises(StartError) as caught:
        uvloop.run(body())
    return str(caught.value)


def test_without_a_certificate_it_does_not_start_and_says_how_to_make_one() -> None:
    assert "magnetar tls self-signed" in refusal()
    assert "magnetar tls self-signed" in refusal(listeners="SASL_SSL://127.0.0.1:0")
    assert "magnetar tls self-signed" in refusal(
        "admin.security.protocol=SSL", listeners="127.0.0.1:0", admin="127.0.0.1:0"
    )


def test_http_over_tls_with_the_days_that_are_left(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")

    async def get(gateway: Gateway, tls: ssl.SSLContext, path: str) -> bytes:
        assert gateway.admin_address is not None
        host, port = gateway.admin_address.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer

    async def body() -> None:
        settings = Settings.load(
            [
                "store.driver=memory",
                *pki.asking(),
                "admin.security.protocol=SSL",
                "admin.authentication=false",
                "authorization=false",
            ],
            options={"listeners": "SSL://127.0.0.1:0", "admin.listen": "127.0.0.1:0"},
        )
        async with asyncio.timeout(30), contextlib.AsyncExitStack() as stack:
            gateway = await start(settings, stack)
            # also without a certificate: who has none may have a password
            for context in (pki.client(), pki.client("ada")):
                metrics = await get(gateway, context, "/metrics")
                assert metrics.startswith(b"HTTP/1.1 200")
                (line,) = [
                    each
                    for each in metrics.splitlines()
                    if each.startswith(b"magnetar_tls_certificate_expires_seconds ")
                ]
                assert 99 * 86400 < float(line.split()[1]) <= 100 * 86400
            assert await get(gateway, pki.client(), "/health/live") != b""

    uvloop.run(body())


def test_a_gateway_without_tls_does_not_wait_for_cryptography() -> None:
    code = "import gateway.server, gateway.admin.server, sys; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
