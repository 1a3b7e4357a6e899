"""Where a login leads to, how long it lasts, and what ends it."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from gateway.audit import Kind
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.broker.stood_still import HEARD_MS, STOOD_STILL_MS
from gateway.connection import Connection
from gateway.framing import Locked
from gateway.peer import Identity
from gateway.rights import UNCHECKED, Rights
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.names import Namespace
from tests.gateway.auth.known import MemoryTokens, MemoryUsers, ScramClient
from tests.gateway.broker.held import Clock, until
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
)
from tests.gateway.rings import Rings
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body

EU = Namespace("shop", "eu")


async def namespaced(gateway: Gateway) -> None:
    """There is shop/eu."""
    await gateway.broker.tenancy.create_tenant("shop", TenantRow())
    await gateway.broker.tenancy.create(EU, NamespaceRow())


async def home(gateway: Gateway, name: str, password: str = "secret") -> str:
    """Where this login is at home; "" where it is refused."""
    client = await connect(gateway)
    answer = await plain(client, name, password)
    if answer.error_code:
        assert await client.at_end()
        return ""
    (connection,) = gateway.listeners[0].connections
    found = connection.peer.namespace
    client.close()
    await until(lambda: not gateway.listeners[0].connections)
    return found


TOKENS = {
    "free": Identity("User:tom", "token"),
    "bound": Identity("User:tom", "token", home="shop/eu"),
    "lost": Identity("User:tom", "token", home="nowhere"),
}


@pytest.mark.parametrize(
    ("unbound", "homes"),
    [
        ("listener", ["public/default", "shop/eu", "public/default", "shop/eu", "shop/eu", ""]),
        ("shop/eu", ["shop/eu", "shop/eu", "shop/eu", "", "shop/eu", ""]),
        ("refuse", ["", "shop/eu", "", "", "shop/eu", ""]),
        ("no/where", ["", "shop/eu", "", "", "shop/eu", ""]),
    ],
)
def test_homes(unbound: str, homes: list[str]) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        await namespaced(gateway)
        users.put("bob", "secret", home="shop/eu")
        logins = [
            ("ada", "secret"),
            ("bob", "secret"),
            ("any", "token:free"),
            ("shop/eu", "token:free"),
            ("shop/eu", "token:bound"),
            ("any", "token:lost"),
        ]
        assert [await home(gateway, *each) for each in logins] == homes

    run(test, f"tenancy.unbound={unbound}", tokens=MemoryTokens(**TOKENS))


def test_who_may_do_nothing_in_a_namespace_is_not_told_whether_it_is_there() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        await namespaced(gateway)
        wanted = ("shop/eu", "shop/none", "none/eu")
        assert [await home(gateway, each, "token:stranger") for each in wanted] == ["", "", ""]
        refused = gateway.broker.audit.last(3, Kind.REFUSED)
        assert {each.outcome.partition(",")[2] for each in refused} == {" and may do nothing there"}
        # that of the listener it has anyway
        assert await home(gateway, "public/default", "token:stranger") == "public/default"
        row = Acl(
            ResourceType.GROUP, PatternType.PREFIXED, "g", "User:sam", "*", Operation.READ, Permission.ALLOW,
            Namespace("shop", "eu"),
        )  # fmt: skip
        await gateway.broker.access.add([row])
        assert await home(gateway, "shop/eu", "token:stranger") == "shop/eu"

    run(test, tokens=MemoryTokens(stranger=Identity("User:sam", "token")))


def test_nobody_chooses_a_home_where_no_rights_are_asked_for() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        await namespaced(gateway)
        assert await home(gateway, "shop/eu", "token:free") == ""
        assert await home(gateway, "shop/eu", "token:bound") == "shop/eu"

    run(test, "authorization=false", tokens=MemoryTokens(**TOKENS))


def test_two_clients_of_two_homes_see_each_their_own() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        await namespaced(gateway)
        users.put("bob", "secret", home="shop/eu")
        ada, bob = await logged_in(gateway), await logged_in(gateway, "bob")
        await create(ada, "of-ada")
        await create(bob, "of-bob")
        for client, own in ((ada, "of-ada"), (bob, "of-bob")):
            told = await client.ask(ApiKey.METADATA, 9, messages.MetadataRequest(topics=None))
            names = [each.name for each in told.topics]
            assert own in names
            if client is bob:
                assert names == [own]

    run(test)


def test_rights_are_asked_for_by_who_it_is_and_whence() -> None:
    asked: list[tuple[str, str, str]] = []

    class Access:
        def rights_of(self, principal: str, host: str, namespace: Namespace, /) -> Rights:
            asked.append((principal, host, str(namespace)))
            return UNCHECKED

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        await logged_in(gateway)
        await Client.connect(gateway, "test", "INSIDE")
        await until(lambda: len(asked) == 2)
        assert asked == [
            ("User:ada", "/127.0.0.1", "public/default"),
            ("User:ANONYMOUS", "/127.0.0.1", "public/default"),
        ]

    run(test, access=Access(), listeners="SASL_PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0")


def test_a_connection_is_as_new_as_its_login() -> None:
    """A producer's newest connection is the one that counts: it may have been accepted before the one it replaces."""

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        late = await connect(gateway)
        await handshake(late, "PLAIN")
        await logged_in(gateway)
        (first,) = gateway.listeners[0].connections
        await say(late, b"\0ada\0secret")
        (second,) = gateway.listeners[0].connections - {first}
        assert second.id == second.peer.connection > first.id

    run(test)


def test_a_changed_or_deleted_user_is_cut_off_and_nobody_else() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        users.put("bob", "secret")
        first, second, other = (
            await logged_in(gateway),
            await logged_in(gateway),
            await logged_in(gateway, "bob"),
        )
        parked = await logged_in(gateway)
        await create(parked, "t")
        parked.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=60_000))
        await parked.writer.drain()
        users.put("ada", "better")
        for each in (first, second, parked):
            assert await each.at_end()
        assert (await other.ask(VERSIONS, 0, messages.ApiVersionsRequest())).error_code == 0
        third = await logged_in(gateway, password="better")
        users.delete("ada")
        assert await third.at_end()
        assert (await other.ask(VERSIONS, 0, messages.ApiVersionsRequest())).error_code == 0
        assert not gateway.listeners[0].logins._by_user.keys() - {"bob"}

    run(test)


# -- sessions --------------------------------------------------------------------------------------------------------


def answered(answer: Any) -> int:
    code: int = answer.error_code
    return code


def test_a_login_is_renewed_on_its_connection() -> None:
    clock = Clock()

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        assert (await scram(client)).session_lifetime_ms == 60_000
        await create(client, "t")
        clock.now += 50_000
        assert (await scram(client)).session_lifetime_ms == 60_000
        clock.now += 50_000
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        (connection,) = gateway.listeners[0].connections
        assert connection.peer.principal == "User:ada"
        renewed = gateway.broker.metrics.reauthentications
        assert value(renewed, "SASL_PLAINTEXT", "SCRAM-SHA-256", "success") == 1

    run(test, "connections.max.reauth.ms=60000", clock=clock)


def test_the_end_of_a_token_counts_if_it_is_sooner() -> None:
    clock = Clock()
    tokens = MemoryTokens(
        soon=Identity("User:ada", "token", expires_at=clock.now + 7_000),
        late=Identity("User:ada", "token", expires_at=clock.now + 90_000),
    )

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        for token, lasts in (("soon", 7_000), ("late", 60_000)):
            client = await connect(gateway)
            assert (await plain(client, "x", f"token:{token}")).session_lifetime_ms == lasts
            client = await connect(gateway)
            # version 0 has no word for it, and it holds all the same
            assert (await plain(client, "x", f"token:{token}", version=0)).error_code == 0

    run(test, "connections.max.reauth.ms=60000", clock=clock, tokens=tokens)


async def over(gateway: Gateway, clock: Clock, by: int = 1_000) -> None:
    """A second goes by, and every session that was for that long is over; the timers that tell so are real."""
    clock.now += by
    for listener in gateway.listeners:
        for connection, session in listener.logins._ending.items():
            if session.over:
                listener.logins._look(session, connection)


@pytest.mark.parametrize(
    "said",
    [
        (ApiKey.PRODUCE, 9, produce_body("t", batch(b"v"))),
        (ApiKey.PRODUCE, 9, produce_body("t", batch(b"v"), acks=0)),
        (ApiKey.FETCH, 11, fetch_body("t", 0)),
        (VERSIONS, 0, messages.ApiVersionsRequest()),
        (ApiKey.METADATA, 9, messages.MetadataRequest(topics=None)),
    ],
    ids=str,
)
@pytest.mark.parametrize("logging_in", [False, True])
def test_who_is_over_its_time_is_served_nothing(said: tuple[int, int, object], logging_in: bool) -> None:
    clock = Clock()

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await logged_in(gateway)
        await create(client, "t")
        await over(gateway, clock)
        if logging_in:
            await handshake(client, "PLAIN")
        client.send(*said)
        assert await client.at_end()
        witness = await logged_in(gateway)
        told = await witness.ask(ApiKey.FETCH, 11, fetch_body("t", 0))
        assert told.responses[0].partitions[0].high_watermark == 0

    run(test, "connections.max.reauth.ms=1000", clock=clock)


def test_who_is_over_its_time_may_log_in_again_and_is_served_then() -> None:
    clock = Clock()

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        await scram(client)
        await create(client, "t")
        for _ in range(3):
            await over(gateway, clock)
            assert answered(await handshake(client, "SCRAM-SHA-256")) == 0
            machine = ScramClient("SCRAM-SHA-256", "ada", "secret")
            told = await say(client, machine.first)
            # what comes behind the proof in one go is served
            client.send(
                AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=machine.final(told.auth_bytes))
            )
            asked = client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
            assert answered((await client.receive())[1]) == 0
            assert (await client.receive())[0] == asked

    run(test, "connections.max.reauth.ms=1000", clock=clock)


def test_a_parked_fetch_ends_with_the_login() -> None:
    clock = Clock()

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await logged_in(gateway)
        await create(client, "t")
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=600_000))
        (connection,) = gateway.listeners[0].connections
        await until(lambda: connection._fetch is not None)
        await over(gateway, clock)
        _, told = await client.receive()
        assert told.responses[0].partitions[0].records in (None, b"")
        writer = await logged_in(gateway)
        await writer.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0))
        assert await client.at_end()

    run(test, "connections.max.reauth.ms=1000", clock=clock)


def test_the_timer_that_ends_a_login_is_real() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await logged_in(gateway)
        await create(client, "t")
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=600_000))
        assert (await client.receive())[1].error_code == 0

    run(test, "connections.max.reauth.ms=100")


def test_of_a_connection_that_ends_nothing_is_kept_until_its_login_would_have_ended() -> None:
    """Over TLS each has some 40 KB, and tokens last for days."""

    def kept() -> int:
        return sum(isinstance(each, Connection) for each in gc.get_objects())

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        gc.collect()
        gc.disable()
        try:
            before = kept()
            client = await logged_in(gateway)
            await client.ask(VERSIONS, 0, messages.ApiVersionsRequest())
            assert kept() == before + 1
            client.close()
            await until(lambda: not gateway.listeners[0].connections)
            await until(lambda: kept() == before)
        finally:
            gc.enable()

    run(test, "connections.max.reauth.ms=3600000")


def test_the_next_login_has_an_end_like_the_first() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await logged_in(gateway)
        await create(client, "t")
        (connection,) = gateway.listeners[0].connections
        await until(lambda: isinstance(connection._frames, Locked))
        assert (await plain(client)).session_lifetime_ms == 100
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=600_000))
        assert (await client.receive())[1].error_code == 0

    run(test, "connections.max.reauth.ms=100")


def test_a_login_without_an_end_may_be_followed_by_one_that_has_it() -> None:
    tokens = MemoryTokens(abc=Identity("User:ada", "token"))

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        assert (await plain(client, "x", "token:abc")).session_lifetime_ms == 0
        await create(client, "t")
        soon = gateway.broker.clock.wall_ms() + 300
        tokens.identities["abc"] = Identity("User:ada", "token", expires_at=soon)
        assert 0 < (await plain(client, "x", "token:abc")).session_lifetime_ms <= 300
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=600_000))
        assert (await client.receive())[1].error_code == 0
        client.send(VERSIONS, 0, messages.ApiVersionsRequest())
        assert await client.at_end()
        await until(lambda: not gateway.listeners[0].logins._sessions)
        assert not gateway.listeners[0].logins._ending

    run(test, tokens=tokens)


def test_a_client_that_goes_away_while_it_logs_in_again_leaves_nothing() -> None:
    tokens = MemoryTokens(abc=Identity("User:ada", "token"))

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await connect(gateway)
        await plain(client, "x", "token:abc")
        tokens.open.clear()
        tokens.identities["abc"] = Identity(
            "User:ada", "token", expires_at=gateway.broker.clock.wall_ms() + 60_000
        )
        await handshake(client, "PLAIN")
        client.send(AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=b"\0x\0token:abc"))
        (connection,) = gateway.listeners[0].connections
        await until(lambda: connection._task is not None)
        client.writer.transport.abort()
        await until(lambda: not gateway.listeners[0].connections)
        tokens.open.set()
        renewed = gateway.broker.metrics.reauthentications
        await until(lambda: value(renewed, "SASL_PLAINTEXT", "PLAIN", "success") == 1)
        assert not gateway.listeners[0].logins._ending

    run(test, tokens=tokens)


def test_nobody_is_called_anonymous() -> None:
    """What those may do who are not asked for a name is for them."""

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        assert await home(gateway, "x", "token:abc") == ""

    run(test, tokens=MemoryTokens(abc=Identity("User:ANONYMOUS", "token")))


def test_who_does_not_log_in_again_is_swept_away() -> None:
    clock = Clock()

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        idle, lasting = await logged_in(gateway), await logged_in(gateway)
        listener = gateway.listeners[0]
        assert len(listener.logins._ending) == 2
        await over(gateway, clock, 11_000)
        listener.second()
        assert len(listener.connections) == 2, "it has its time to log in"
        assert (await plain(lasting)).error_code == 0
        clock.now += 1
        listener.second()
        assert await idle.at_end()
        assert (await lasting.ask(VERSIONS, 0, messages.ApiVersionsRequest())).error_code == 0
        await until(lambda: len(listener.logins._ending) == 1)

    run(test, "connections.max.reauth.ms=1000", clock=clock)


@pytest.mark.parametrize("again", [True, False])
def test_who_logs_in_again_while_the_process_stands_still_is_heard_before_its_time_is_over(
    again: bool,
) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        rings = Rings(gateway)
        client = await logged_in(gateway)
        listener = gateway.listeners[0]
        listener.second()
        # nothing runs for longer than it may be late; then all that is due is done before connections are read
        late = gateway.broker.settings.integer("sasl.login.timeout.ms")
        rings.ring(1_000 + late + STOOD_STILL_MS)
        listener.second()
        # it was sent in time, and in front of the login
        assert (await client.ask(VERSIONS, 0, messages.ApiVersionsRequest())).error_code == 0
        if again:
            assert (await plain(client)).error_code == 0
        rings.ring(HEARD_MS)
        if again:
            listener.second()
            assert (await client.ask(VERSIONS, 0, messages.ApiVersionsRequest())).error_code == 0
        else:
            client.send(VERSIONS, 0, messages.ApiVersionsRequest())
            assert await client.at_end()

    run(test, "connections.max.reauth.ms=1000")


@pytest.mark.parametrize(
    ("name", "password", "mechanism"),
    [("bob", "secret", "PLAIN"), ("ada", "wrong", "PLAIN"), ("ada", "secret", "SCRAM-SHA-256")],
)
def test_another_user_or_mechanism_ends_the_connection(name: str, password: str, mechanism: str) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        users.put("bob", "secret")
        client = await logged_in(gateway)
        await handshake(client, mechanism)
        told = await say(client, f"\0{name}\0{password}".encode())
        assert told.error_code == Error.SASL_AUTHENTICATION_FAILED
        assert await client.at_end()
        failed = gateway.broker.metrics.reauthentications
        assert value(failed, "SASL_PLAINTEXT", "PLAIN", "failure") == 1
        assert value(gateway.broker.metrics.logins, "SASL_PLAINTEXT", "PLAIN", "failure") == 0

    run(test)


def test_a_mechanism_that_is_not_offered_ends_the_connection() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await logged_in(gateway)
        assert answered(await handshake(client, "GSSAPI")) == Error.UNSUPPORTED_SASL_MECHANISM
        assert await client.at_end()

    run(test)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "SCRAM-SHA-256"])
def test_nothing_behind_a_login_that_fails_is_served(mechanism: str) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await logged_in(gateway)
        await create(client, "t")
        client.send(HANDSHAKE, 1, messages.SaslHandshakeRequest(mechanism=mechanism))
        if mechanism != "GSSAPI":
            client.send(AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=b"\0ada\0secret"))
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        codes = [answered((await client.receive())[1])]
        if mechanism != "GSSAPI":
            codes.append(answered((await client.receive())[1]))
        assert codes in ([33], [0, 58])
        assert await client.at_end()
        witness = await logged_in(gateway)
        told = await witness.ask(ApiKey.FETCH, 11, fetch_body("t", 0))
        assert told.responses[0].partitions[0].high_watermark == 0

    run(test)


def test_nothing_of_a_client_is_served_while_its_new_password_is_compared() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        client = await logged_in(gateway)
        await create(client, "t")
        users.open.clear()
        client.send(HANDSHAKE, 1, messages.SaslHandshakeRequest(mechanism="PLAIN"))
        client.send(AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=b"\0ada\0wrong"))
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        assert answered((await client.receive())[1]) == 0
        await asyncio.sleep(0)
        users.open.set()
        assert answered((await client.receive())[1]) == 58
        assert await client.at_end()
        witness = await logged_in(gateway)
        told = await witness.ask(ApiKey.FETCH, 11, fetch_body("t", 0))
        assert told.responses[0].partitions[0].high_watermark == 0

    run(test)
