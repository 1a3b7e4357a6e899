"""What a client of a SASL listener can do before its login, and what becomes of it."""

from __future__ import annotations

import asyncio
import logging
import struct
from unittest import mock

import pytest

from gateway.auth.session import failure
from gateway.errors import StartError
from gateway.logs import TextFormatter
from gateway.peer import Identity
from gateway.server import Gateway
from gateway.wire import codec, messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.auth.known import MemoryTokens, MemoryUsers, ScramClient
from tests.gateway.broker.held import until
from tests.gateway.login_client import (
    AUTHENTICATE,
    HANDSHAKE,
    VERSIONS,
    connect,
    handshake,
    logged_in,
    plain,
    run,
    say,
    scram,
    value,
    works,
)
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body

SOFTWARE = messages.ApiVersionsRequest(client_software_name="lib", client_software_version="1.0")
OFFERED = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


def test_every_mechanism_leads_to_a_connection() -> None:
    tokens = MemoryTokens(abc=Identity("User:ada", "token"))

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        for number, mechanism in enumerate(OFFERED):
            client = await connect(gateway)
            if mechanism == "PLAIN":
                answer = await plain(client)
            elif mechanism == "OAUTHBEARER":
                await handshake(client, mechanism)
                answer = await say(client, b"n,,\x01auth=Bearer abc\x01\x01")
            else:
                answer = await scram(client, mechanism=mechanism)
                assert answer.auth_bytes.startswith(b"v=")
            assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, None, 0)
            (peer,) = [each.peer for each in gateway.listeners[0].connections]
            assert (peer.principal, peer.client_id) == ("User:ada", "test")
            await works(client, f"t{number}")
            client.close()
            await until(lambda: not gateway.listeners[0].connections)
        logins = gateway.broker.metrics.logins
        assert [value(logins, "SASL_PLAINTEXT", each, "success") for each in OFFERED] == [1] * 4

    run(test, tokens=tokens)


def test_what_comes_behind_the_login_is_served() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        await works(await logged_in(gateway))
        client = await connect(gateway)
        received = gateway.listeners[0].received
        before, written = received.value, bytearray()
        write = client.writer.write

        def counted(data: bytes | bytearray | memoryview) -> None:
            written.extend(data)
            write(data)

        client.writer.write = counted  # type: ignore[method-assign]
        client.send(HANDSHAKE, 1, messages.SaslHandshakeRequest(mechanism="PLAIN"))
        client.send(AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=b"\0ada\0secret"))
        wanted = [client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v"))) for _ in range(20)]
        # a part of the last one
        header = codec.encode_request_header(VERSIONS, 0, 99, "test")
        frame = struct.pack(">i", len(header)) + header
        client.writer.write(frame[:7])
        client._asked[99] = (VERSIONS, 0)
        await client.receive()
        await client.receive()
        got = [await client.receive() for _ in wanted]
        assert [correlation for correlation, _ in got] == wanted
        assert [each.responses[0].partition_responses[0].base_offset for _, each in got] == list(range(1, 21))
        client.writer.write(frame[7:])
        assert (await client.receive())[0] == 99
        assert received.value - before == len(written)

    run(test)


def test_bytes_that_come_one_by_one() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        written = bytearray()
        with mock.patch.object(client.writer, "write", written.extend):
            client.send(VERSIONS, 3, SOFTWARE)
            client.send(HANDSHAKE, 1, messages.SaslHandshakeRequest(mechanism="PLAIN"))
            client.send(AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=b"\0ada\0secret"))
        for each in written:
            client.writer.write(bytes((each,)))
            await asyncio.sleep(0)
        answers = [(await client.receive())[1] for _ in range(3)]
        assert [each.error_code for each in answers] == [0, 0, 0]
        (connection,) = gateway.listeners[0].connections
        assert connection.peer.software == "lib 1.0"

    run(test)


def test_versions_are_told_before_the_login() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        header = struct.pack(">hhih", VERSIONS, 99, 5, -1) + b"\0"
        client.writer.write(struct.pack(">i", len(header)) + header)
        client._asked[5] = (VERSIONS, 0)
        _, unknown = await client.receive()
        assert unknown.error_code == Error.UNSUPPORTED_VERSION
        told = await client.ask(VERSIONS, 3, SOFTWARE)
        assert told.error_code == 0
        assert {each.api_key for each in told.api_keys} >= {0, 1, 17, 18, 36}
        assert (await plain(client)).error_code == 0
        # and then as often as it likes
        for _ in range(3):
            assert (await client.ask(VERSIONS, 3, SOFTWARE)).error_code == 0

    run(test)


def test_bare_tokens_behind_handshake_0() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        async def token(client: Client, data: bytes) -> bytes:
            client.writer.write(struct.pack(">i", len(data)) + data)
            (size,) = struct.unpack(">i", await client.reader.readexactly(4))
            return await client.reader.readexactly(size)

        client = await connect(gateway)
        assert (await handshake(client, "PLAIN", 0)).mechanisms == OFFERED
        assert await token(client, b"\0ada\0secret") == b""
        await works(client)
        client = await connect(gateway)
        await handshake(client, "SCRAM-SHA-512", 0)
        machine = ScramClient("SCRAM-SHA-512", "ada", "secret")
        told = await token(client, machine.first)
        assert await token(client, machine.final(told)) == b"v=" + machine.server_signature
        assert (await client.ask(VERSIONS, 0, messages.ApiVersionsRequest())).error_code == 0
        client = await connect(gateway)
        await handshake(client, "PLAIN", 0)
        client.writer.write(struct.pack(">i", 10) + b"\0ada\0wrong")
        assert await client.at_end(), "who is refused is told nothing"

    run(test)


def test_all_who_are_refused_are_told_the_same_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    tokens = MemoryTokens(
        old=Identity("User:ada", "token", expires_at=1), lost=Identity("User:ada", "token", home="no/where")
    )

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        clients = []
        for name, password in (("ada", "wrong"), ("eve", "secret"), ("x", "token:old"), ("x", "token:lost")):
            client = await connect(gateway)
            answer = await plain(client, name, password)
            assert (answer.error_code, answer.error_message) == (58, failure("PLAIN"))
            assert (answer.auth_bytes, answer.session_lifetime_ms) == (b"", 0)
            clients.append(client)
        client = await connect(gateway)
        await handshake(client, "PLAIN")
        assert (await say(client, b"nonsense", 0)).error_message == failure("PLAIN")
        clients.append(client)
        for name, password in (("ada", "wrong"), ("eve", "secret")):
            client = await connect(gateway)
            answer = await scram(client, name, password)
            assert (answer.error_code, answer.error_message) == (58, failure("SCRAM-SHA-256"))
            clients.append(client)
        for client in clients:
            assert await client.at_end()
        failed = gateway.broker.metrics.logins
        assert value(failed, "SASL_PLAINTEXT", "PLAIN", "failure") == 5
        assert value(failed, "SASL_PLAINTEXT", "SCRAM-SHA-256", "failure") == 2

    with caplog.at_level("INFO", "magnetar.audit"):
        run(test, tokens=tokens)
    lines = [each.__dict__ for each in caplog.records if each.getMessage() == "a login failed"]
    assert [(each.get("who", ""), each["outcome"]) for each in lines] == [
        ("ada", "wrong password, or no such user"),
        ("eve", "wrong password, or no such user"),
        ("x", "its token has ended"),
        ("x", "it is at home in no/where, and there is no such namespace"),
        ("", "a PLAIN message of 1 parts, which has three"),
        ("ada", "wrong password"),
        ("eve", "there is no such user, or it has no password for SCRAM-SHA-256"),
    ]
    assert {each["host"] for each in lines} == {"127.0.0.1"}
    assert all("secret" not in str(each) and "token:" not in str(each) for each in lines)


def test_a_refused_token_of_oauthbearer_is_told_in_two_steps() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        await handshake(client, "OAUTHBEARER")
        told = await say(client, b"n,,\x01auth=Bearer forged\x01\x01")
        assert (told.error_code, told.auth_bytes) == (0, b'{"status":"invalid_token"}')
        told = await say(client, b"\x01")
        assert (told.error_code, told.error_message) == (58, failure("OAUTHBEARER"))
        assert await client.at_end()

    run(test, tokens=MemoryTokens())


def test_a_mechanism_that_is_not_offered() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        answer = await handshake(client, "GSSAPI")
        assert answer.error_code == Error.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == OFFERED
        assert await client.at_end()
        assert value(gateway.broker.metrics.logins, "SASL_PLAINTEXT", "unknown", "failure") == 1

    run(test)


def test_passwords_in_clear_are_offered_only_where_somebody_wants_it() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        answer = await handshake(client, "PLAIN")
        assert answer.error_code == Error.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == OFFERED[1:]

    run(test, "sasl.plain.insecure=false")


def test_a_listener_at_which_nobody_could_log_in_is_not_started() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        pass

    with pytest.raises(StartError, match=r"Nobody could log in.*sasl\.plain\.insecure"):
        run(test, "sasl.plain.insecure=false", "sasl.enabled.mechanisms=PLAIN")
    with pytest.raises(
        StartError, match=r"sasl\.enabled\.mechanisms is empty\. Name SCRAM-SHA-256"
    ) as caught:
        run(test, "sasl.enabled.mechanisms=")
    assert "SASL_SSL" not in str(caught.value).partition(": ")[2]


@pytest.mark.parametrize(
    "said",
    [
        (ApiKey.PRODUCE, 9, produce_body("t", batch(b"v"))),
        (ApiKey.PRODUCE, 9, produce_body("t", batch(b"v"), acks=0)),
        (ApiKey.METADATA, 9, messages.MetadataRequest(topics=None)),
        (ApiKey.FETCH, 11, fetch_body("t", 0)),
        (AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=b"\0ada\0secret")),
        (HANDSHAKE, 7, b"\0\x05PLAIN"),
        (999, 0, b""),
    ],
    ids=str,
)
@pytest.mark.parametrize("at", ["first", "behind ApiVersions", "within the exchange"])
def test_nothing_else_is_served_before_the_login(said: tuple[int, int, object], at: str) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        witness = await logged_in(gateway)
        await create(witness, "t")
        client = await connect(gateway)
        key, version, body = said
        if at == "behind ApiVersions":
            await client.ask(VERSIONS, 0, messages.ApiVersionsRequest())
        elif at == "within the exchange":
            await handshake(client, "SCRAM-SHA-256")
            if key == AUTHENTICATE:
                # it belongs there, and this one proves nothing
                assert (await say(client, b"\0ada\0secret")).error_code == 58
                return
        if isinstance(body, bytes):
            header = struct.pack(">hhih", key, version, 1, -1)
            client.writer.write(struct.pack(">i", len(header) + len(body)) + header + body)
        else:
            client.send(key, version, body)
        assert await client.at_end()
        offsets = await witness.ask(ApiKey.FETCH, 11, fetch_body("t", 0))
        assert offsets.responses[0].partitions[0].high_watermark == 0

    run(test)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_second_handshake_and_second_versions_are_out_of_place(mechanism: str) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        await handshake(client, mechanism)
        assert (await handshake(client, mechanism)).error_code == Error.ILLEGAL_SASL_STATE
        assert await client.at_end()
        client = await connect(gateway)
        await client.ask(VERSIONS, 0, messages.ApiVersionsRequest())
        client.send(VERSIONS, 0, messages.ApiVersionsRequest())
        assert await client.at_end()

    run(test)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 65_537),
        struct.pack(">i", -1),
        struct.pack(">i", 9) + bytes(9),
        struct.pack(">i", 100_000_000) + struct.pack(">hhih", 0, 9, 1, -1),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n",
        # a client id that runs past the end
        struct.pack(">ihhih", 12, 18, 0, 1, 500) + b"ab",
        # a mechanism that does
        struct.pack(">ihhih", 14, 17, 1, 1, -1) + b"\x7f\xffab",
    ],
)
def test_bytes_that_make_no_sense_end_the_connection(data: bytes) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        before = gateway.broker.metrics.requests_malformed.value
        client = await connect(gateway)
        client.writer.write(data)
        assert await client.at_end()
        assert gateway.broker.metrics.requests_malformed.value == before + 1

    run(test)


def test_a_login_is_of_the_listener_that_asks() -> None:
    """Beside it there may be one that asks nobody."""

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await Client.connect(gateway, "test", "INSIDE")
        answer = await handshake(client, "PLAIN")
        assert answer.error_code == Error.ILLEGAL_SASL_STATE
        await works(client)
        await works(await logged_in(gateway), "u")

    run(test, listeners="SASL_PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0")


def test_the_log_has_no_line_that_a_client_wrote(caplog: pytest.LogCaptureFixture) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        await handshake(client, "X\n2026 ERROR all is lost" + "x" * 1000)
        assert await client.at_end()

    with caplog.at_level(logging.INFO, "magnetar"):
        run(test)
    lines = [TextFormatter().format(each) for each in caplog.records]
    assert any("a login failed" in each for each in lines)
    assert all("\n" not in each and len(each) < 1000 for each in lines)
