"""How much of the gateway a client can take up before it has logged in, and for how long."""

from __future__ import annotations

import asyncio
import gc
import struct
import warnings

import pytest
import uvloop

from gateway.gate import MOST_FRAMES, Gate
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.auth.known import MemoryTokens, MemoryUsers
from tests.gateway.broker.held import Clock, until
from tests.gateway.login_client import (
    AUTHENTICATE,
    VERSIONS,
    asking,
    connect,
    handshake,
    logged_in,
    plain,
    run,
    say,
    value,
    works,
)
from tests.proofs.fuzz import logins

LOGIN = logins.say(b"\0ada\0secret")


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


def test_who_is_refused_has_a_moment_to_hear_it_and_is_served_nothing_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.gate.HEARD_MS", 600_000)

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        listener = gateway.listeners[0]
        client, other, third = [await connect(gateway) for _ in range(3)]
        for each in (client, other, third):
            assert (await plain(each, password="wrong")).error_code == 58
        client.writer.write(LOGIN * 100)
        # when this one has logged in what was said before is read
        await works(await logged_in(gateway))
        assert len(listener.gates) == 3
        assert gateway.broker.receiving.total == 0
        client.close()
        other.writer.write_eof()
        assert await other.at_end()
        await until(lambda: len(listener.gates) == 1)
        assert value(gateway.broker.metrics.logins, "SASL_PLAINTEXT", "PLAIN", "failure") == 3
        # the end of the gateway does not wait for the third

    run(test)


def test_who_is_refused_and_stays_is_ended() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        assert (await plain(client, password="wrong")).error_code == 58
        assert await client.at_end()
        await until(lambda: not gateway.listeners[0].gates)

    run(test)


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


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        ("PLAIN", (b"\0ada\0guess",)),
        ("PLAIN", (b"\0ada\0token:a.b.c",)),
        ("SCRAM-SHA-256", (b"n,,n=ada,r=abc", b"c=biws,r=abc,p=AAAA")),
        ("OAUTHBEARER", (b"n,,\x01auth=Bearer a.b.c\x01\x01", b"\x01")),
    ],
)
def test_of_who_is_refused_nothing_is_left_for_the_collector(mechanism: str, said: tuple[bytes, ...]) -> None:
    """Over TLS each that waits for it holds some 40 KB, which the collector does not see."""

    def gates() -> int:
        return sum(isinstance(each, Gate) for each in gc.get_objects())

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        gateway.broker.tokens = MemoryTokens()  # type: ignore[assignment]
        gc.collect()
        gc.disable()
        try:
            before = gates()
            client = await connect(gateway)
            await handshake(client, mechanism)
            for each in said:
                answer = await say(client, each)
            assert answer.error_code == Error.SASL_AUTHENTICATION_FAILED
            assert await client.at_end()
            await until(lambda: not gateway.listeners[0].gates)
            # the loop's own turn ends, and with it what it still names
            await until(lambda: gates() == before)
        finally:
            gc.enable()

    run(test)


def test_who_goes_away_before_its_password_is_looked_at_leaves_no_complaint() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        await handshake(client, "PLAIN")
        (gate,) = gateway.listeners[0].gates
        with warnings.catch_warnings(record=True) as complaints:
            warnings.simplefilter("always")
            # both in one turn of the loop, as they come from one that resets its connection
            gate.data_received(LOGIN)
            gate.transport.abort()
            gate.connection_lost(None)
            await until(lambda: not gateway.listeners[0].gates)
            assert await client.at_end()
            # a coroutine that nobody has awaited says so when it goes
            del gate
            gc.collect()
        assert [str(each.message) for each in complaints] == []

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
