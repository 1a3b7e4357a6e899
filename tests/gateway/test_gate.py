"""What a client of a SASL listener can do before its login, and what becomes of it."""

from __future__ import annotations

import asyncio
import logging
import struct
from unittest import mock

import pytest
import uvloop

from gateway.auth.session import failure
from gateway.errors import StartError
from gateway.gate import MOST_FRAMES
from gateway.logs import TextFormatter
from gateway.peer import Identity
from gateway.server import Gateway
from gateway.wire import codec, messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.auth.known import MemoryTokens, MemoryUsers, ScramClient
from tests.gateway.broker.held import Clock, until
from tests.gateway.login_client import (
    AUTHENTICATE,
    HANDSHAKE,
    VERSIONS,
    asking,
    connect,
    handshake,
    logged_in,
    plain,
    run,
    say,
    scram,
    value,
)
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body

SOFTWARE = messages.ApiVersionsRequest(client_software_name="lib", client_software_version="1.0")
OFFERED = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


async def works(client: Client, topic: str = "t") -> None:
    """It is served."""
    await create(client, topic)
    answer = await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, batch(b"v")))
    assert answer.responses[0].partition_responses[0].error_code == 0


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

    with caplog.at_level("INFO", "magnetar.logins"):
        run(test, tokens=tokens)
    lines = [each.__dict__ for each in caplog.records if each.getMessage() == "a login failed"]
    assert [(each["user"], each["reason"]) for each in lines] == [
        ("ada", "wrong password, or no such user"),
        ("eve", "wrong password, or no such user"),
        ("x", "its token has ended"),
        ("x", "it is at home in no/where, and there is no such namespace"),
        ("", "a PLAIN message of 1 parts, which has three"),
        ("ada", "wrong password"),
        ("eve", "there is no such user, or it has no password for SCRAM-SHA-256"),
    ]
    assert {each["client"] for each in lines} == {"/127.0.0.1"}
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


def test_who_asks_without_end_is_ended() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        header = struct.pack(">hhih", VERSIONS, 99, 5, -1) + b"\0"
        client.writer.write((struct.pack(">i", len(header)) + header) * 1000)
        got = b""
        while more := await client.reader.read(1 << 16):
            got += more
        (size,) = struct.unpack_from(">i", got)
        assert len(got) == MOST_FRAMES * (4 + size)

    run(test)


def test_a_client_that_says_nothing_or_half_has_its_time() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        clients = [await connect(gateway) for _ in range(3)]
        clients[1].writer.write(b"\0\0")
        await handshake(clients[2], "SCRAM-SHA-256")
        for each in clients:
            assert await each.at_end()
        await until(lambda: not gateway.listeners[0].gates)
        assert value(gateway.broker.metrics.gates, "SASL_PLAINTEXT") == 0
        assert value(gateway.broker.metrics.connections_refused, "SASL_PLAINTEXT", "login") == 3

    run(test, "sasl.login.timeout.ms=100")


@pytest.mark.parametrize("limit", ["max.connections", "max.connections.per.ip"])
def test_gates_count_as_connections(limit: str) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        metrics, listener = gateway.broker.metrics, gateway.listeners[0]
        silent = [await connect(gateway) for _ in range(3)]
        await until(lambda: len(listener.gates) == 3)
        assert value(metrics.gates, "SASL_PLAINTEXT") == 3
        assert value(metrics.connections, "SASL_PLAINTEXT") == 3
        assert await (await connect(gateway)).at_end(), "there are as many as may be"
        assert (await plain(silent[0])).error_code == 0
        assert (len(listener.gates), len(listener.connections)) == (2, 1)
        assert value(metrics.gates, "SASL_PLAINTEXT") == 2
        assert value(metrics.connections, "SASL_PLAINTEXT") == 3
        assert await (await connect(gateway)).at_end(), "who has logged in counts on"
        for each in silent:
            each.close()
        await until(lambda: not listener.gates and not listener.connections)
        assert value(metrics.gates, "SASL_PLAINTEXT") == value(metrics.connections, "SASL_PLAINTEXT") == 0
        assert value(metrics.connections_accepted, "SASL_PLAINTEXT") == 3
        await works(await logged_in(gateway))

    run(test, f"{limit}=3")


@pytest.mark.parametrize("limit", ["max.connections", "files"])
def test_strangers_make_room_for_who_comes_after_them(limit: str) -> None:
    clock = Clock()

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        listener = gateway.listeners[0]
        if limit == "files":
            assert listener._acceptor is not None
            listener._acceptor._room = 3
        known = [await logged_in(gateway)]
        silent = [await connect(gateway)]
        await until(lambda: len(listener.gates) == 1)
        clock.now += 1
        silent.append(await connect(gateway))
        await until(lambda: len(listener.gates) == 2)
        clock.now += 998
        assert await (await connect(gateway)).at_end(), "they have their second"
        clock.now += 1
        known.append(await logged_in(gateway))
        assert await silent[0].at_end()
        assert [gate.over for gate in listener.gates] == [False], "the other one is not a second old"
        assert value(gateway.broker.metrics.connections_refused, "SASL_PLAINTEXT", "login") == 1
        assert await (await connect(gateway)).at_end()
        clock.now += 1_000
        known.append(await logged_in(gateway))
        assert await silent[1].at_end()
        await until(lambda: not listener.gates)
        assert await (await connect(gateway)).at_end(), "who has logged in makes room for nobody"
        for each in known:
            assert (await each.ask(VERSIONS, 0, messages.ApiVersionsRequest())).error_code == 0

    run(test, "max.connections=3" if limit == "max.connections" else "max.connections=1000", clock=clock)


def test_each_that_comes_takes_the_place_of_another() -> None:
    clock = Clock()

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        listener = gateway.listeners[0]
        silent = [await connect(gateway) for _ in range(3)]
        await until(lambda: len(listener.gates) == 3)
        clock.now += 1_000
        # in one turn of the loop, before those that go are gone
        await asyncio.gather(*(connect(gateway) for _ in range(3)))
        for each in silent:
            assert await each.at_end()

    run(test, "max.connections=3", clock=clock)


@pytest.mark.parametrize("size", [5_000, 60_000, 100_000, 524_288])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER", "PLAIN"])
def test_nonces_and_tokens_of_any_size(mechanism: str, size: int) -> None:
    said = {
        "SCRAM-SHA-256": b"n,,n=ada,r=%s",
        "OAUTHBEARER": b"n,,\x01auth=Bearer %s\x01\x01",
        "PLAIN": b"\0ada\0token:%s",
    }

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        await handshake(client, mechanism)
        asked = messages.SaslAuthenticateRequest(auth_bytes=said[mechanism] % (b"x" * size))
        client.send(AUTHENTICATE, 2, asked)
        if size < 65_000:
            told = (await client.receive())[1]
            if mechanism == "OAUTHBEARER":
                assert told.auth_bytes == b'{"status":"invalid_token"}'
                told = await say(client, b"\x01")
            assert told.error_code == Error.SASL_AUTHENTICATION_FAILED
        assert await client.at_end()

    run(test)


def test_memory_that_is_short_holds_a_gate_and_lets_it_go_on() -> None:
    """Reading begins again with the connection, if it was held while the client logged in."""

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        receiving = gateway.broker.receiving
        client = await connect(gateway)
        await handshake(client, "PLAIN")
        # somebody else has all of it
        other = await connect(gateway)
        other.writer.write(struct.pack(">i", 60_000) + bytes(50_000))
        await until(lambda: receiving.total > 40_000)
        receiving.limit = 40_000
        users.open.clear()
        client.send(AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=b"\0ada\0secret"))
        (gate,) = [each for each in gateway.listeners[0].gates if each._login is not None]
        await until(lambda: gate._task is not None)
        receiving.account(gate, 100)
        assert gate._held
        users.open.set()
        assert (await client.receive())[1].error_code == 0
        await works(client)

    run(test)


def test_who_goes_away_while_its_password_is_compared() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        users.open.clear()
        client = await connect(gateway)
        await handshake(client, "PLAIN")
        client.send(AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=b"\0ada\0secret"))
        await client.writer.drain()
        listener = gateway.listeners[0]
        (gate,) = listener.gates
        await until(lambda: gate._task is not None)
        client.close()
        await client.writer.wait_closed()
        users.open.set()
        await until(lambda: not listener.gates and not listener.connections)
        await works(await logged_in(gateway))

    run(test)


def test_what_comes_while_a_password_is_compared_waits() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        users.open.clear()
        client = await connect(gateway)
        await handshake(client, "PLAIN")
        client.send(AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=b"\0ada\0secret"))
        asked = client.send(ApiKey.METADATA, 9, messages.MetadataRequest(topics=[]))
        (gate,) = gateway.listeners[0].gates
        await until(lambda: gate._task is not None)
        users.open.set()
        assert (await client.receive())[1].error_code == 0
        assert (await client.receive())[0] == asked

    run(test)


def test_a_stop_does_not_wait_for_who_has_not_logged_in() -> None:
    patient = ("shutdown.timeout.ms=600000", "sasl.login.timeout.ms=600000")

    async def main() -> None:
        async with asking(MemoryUsers(ada="secret"), *patient) as gateway:
            silent, half = await connect(gateway), await connect(gateway)
            await handshake(half, "SCRAM-SHA-256")
            await until(lambda: len(gateway.listeners[0].gates) == 2)
        assert await silent.at_end()
        assert await half.at_end()

    uvloop.run(main())


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
