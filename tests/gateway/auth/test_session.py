"""How long a login lasts, and what a client that logs in again is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from gateway.auth.errors import RefusedError
from gateway.auth.login import Known, Login
from gateway.auth.session import Session, failure, lifetime_ms
from gateway.peer import Identity, Peer, Progress
from gateway.wire.errors import Error
from tests.gateway.auth.known import MemoryTokens, MemoryUsers, ScramClient


@pytest.mark.parametrize(
    ("expires_at", "longest", "lasts"),
    [(None, 0, 0), (None, 7, 7), (1030, 0, 30), (1030, 7, 7), (1005, 7, 5)],
)
def test_the_shorter_of_both_counts(expires_at: int | None, longest: int, lasts: int) -> None:
    assert lifetime_ms(expires_at, longest, 1000) == lasts


def test_what_is_told_are_kafkas_words() -> None:
    words = "due to invalid credentials with SASL mechanism PLAIN"
    assert failure("PLAIN") == f"Authentication failed during authentication {words}"
    assert failure("PLAIN", again=True) == f"Authentication failed during re-authentication {words}"


@pytest.mark.parametrize("expires_at", [1000, 999])
def test_a_token_that_has_ended_lasts_not_for_ever(expires_at: int) -> None:
    with pytest.raises(RefusedError, match="ended"):
        lifetime_ms(expires_at, 0, 1000)


class Listener:
    """What a session needs of it."""

    offered = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
    longest = 10_000

    def __init__(self) -> None:
        self.now = 10_000
        self.users = MemoryUsers(ada="secret", bob="secret")
        self.tokens = MemoryTokens(
            good=Identity("User:ada", "token"), other=Identity("User:ada", "token", home="shop/eu")
        )
        self.lasts = 5_000
        self.heard: list[str] = []

    def monotonic_ms(self) -> int:
        return self.now

    def close(self, reason: str, /) -> None:
        self.heard.append(f"closed: {reason}")

    def lock(self, over: Callable[[], bool], /) -> None:
        assert over()
        self.heard.append("locked")

    def begin(self, mechanism: str, /) -> Login:
        return Login(mechanism, Known(self.users, self.tokens, True))

    def lifetime_ms(self, identity: Identity, /) -> int:
        return self.lasts

    def renewed(self, session: Session, /) -> None:
        self.heard.append("renewed")

    def not_renewed(self, session: Session, login: Login | None, reason: str, /) -> None:
        self.heard.append(reason)

    def not_renewed_now(self, session: Session, /) -> None:
        self.heard.append("not renewed now")


def run(
    body: Callable[[Listener, Session], Coroutine[Any, Any, None]], mechanism: str = "SCRAM-SHA-256"
) -> Listener:
    """A session of ada's; how its connection ends is heard as well."""
    listener = Listener()

    async def main() -> None:
        user = "ada" if mechanism != "OAUTHBEARER" else None
        peer = Peer(1, "/127.0.0.1", "SASL", principal="User:ada", user=user)
        identity = Identity("User:ada", mechanism, None, None, user)
        session = Session(identity, peer, 5_000, listener, listener)
        await body(listener, session)
        # what is closed is closed when the loop turns
        await asyncio.sleep(0)

    asyncio.run(main())
    return listener


async def begun(session: Session, mechanism: str) -> int:
    found = session.handshake(mechanism)
    return await found if isinstance(found, Awaitable) else found


async def said(session: Session, data: bytes) -> Progress:
    found = session.authenticate(data)
    return await found if isinstance(found, Awaitable) else found


async def scram(session: Session, name: str = "ada", password: str = "secret") -> Progress:
    client = ScramClient("SCRAM-SHA-256", name, password)
    told = await said(session, client.first)
    assert (told.error, told.lifetime_ms) == (0, 0)
    return await said(session, client.final(told.data))


def test_it_lasts_until_it_is_renewed() -> None:
    async def body(listener: Listener, session: Session) -> None:
        listener.now += 4_999
        assert not session.over
        assert session.handshake("SCRAM-SHA-256") == 0
        listener.now += 2
        assert session.over, "a login that has begun is none"
        done = await scram(session)
        assert (done.error, done.lifetime_ms) == (0, 5_000)
        assert not session.over
        listener.now += 5_000
        assert session.over
        assert session.over_for_ms == 0

    assert run(body).heard == ["renewed"]


def test_one_without_an_end() -> None:
    async def body(listener: Listener, session: Session) -> None:
        listener.lasts = 0
        session.handshake("SCRAM-SHA-256")
        await scram(session)
        listener.now += 10**9
        assert not session.over
        assert session.over_for_ms < 0

    run(body)


def test_who_does_not_begin_with_a_handshake() -> None:
    async def body(listener: Listener, session: Session) -> None:
        assert (await said(session, b"n,,n=ada,r=abc")).error == Error.ILLEGAL_SASL_STATE
        session.handshake("SCRAM-SHA-256")
        await scram(session)
        assert (await said(session, b"n,,n=ada,r=abc")).error == Error.ILLEGAL_SASL_STATE

    assert run(body).heard == ["renewed"]


def test_a_login_is_renewed_once_a_second_at_most() -> None:
    async def body(listener: Listener, session: Session) -> None:
        assert session.handshake("SCRAM-SHA-256") == 0
        listener.now += 999
        assert session.handshake("SCRAM-SHA-256") == Error.ILLEGAL_SASL_STATE
        # the one that was begun goes on
        assert (await scram(session)).error == 0
        listener.now += 1
        assert session.handshake("SCRAM-SHA-256") == 0

    run(body)


@pytest.mark.parametrize(
    ("before", "now"),
    [(None, b"\0ada\0secret"), ("ada", b"\0ada\0token:good")],
)
def test_a_login_by_a_token_is_not_renewed_by_a_password_nor_the_other_way_round(
    before: str | None, now: bytes
) -> None:
    """A connection ends with its user: which one that is, is said once."""

    async def body(listener: Listener, session: Session) -> None:
        session.identity = session.identity._replace(user=before)
        assert session.handshake("PLAIN") == 0
        assert (await said(session, now)).error == Error.SASL_AUTHENTICATION_FAILED

    heard = run(body, "PLAIN").heard
    assert heard == [
        "it logged in by a token and now by a password, or the other way round", "locked", "closed: a login failed",
    ]  # fmt: skip


def test_another_user_a_wrong_password_and_a_mechanism_that_is_not_offered_end_it() -> None:
    async def other(listener: Listener, session: Session) -> None:
        session.handshake("SCRAM-SHA-256")
        told = await scram(session, "bob")
        assert told == Progress(Error.SASL_AUTHENTICATION_FAILED, failure("SCRAM-SHA-256", again=True))

    heard = run(other).heard
    assert heard == ["it logged in as User:ada, and now is User:bob", "locked", "closed: a login failed"]

    async def wrong(listener: Listener, session: Session) -> None:
        session.handshake("SCRAM-SHA-256")
        assert await scram(session, password="wrong") == Progress(58, failure("SCRAM-SHA-256", again=True))

    assert run(wrong).heard == ["wrong password", "locked", "closed: a login failed"]

    async def unknown(listener: Listener, session: Session) -> None:
        assert await begun(session, "GSSAPI") == Error.UNSUPPORTED_SASL_MECHANISM

    assert run(unknown).heard == [
        "it asks for GSSAPI, which is not offered",
        "locked",
        "closed: a login failed",
    ]


def test_another_mechanism_ends_it_whatever_is_said() -> None:
    async def body(listener: Listener, session: Session) -> None:
        assert session.handshake("PLAIN") == 0
        told = await said(session, b"\0ada\0secret")
        assert told == Progress(Error.SASL_AUTHENTICATION_FAILED, failure("PLAIN", again=True))
        # and no other login is begun
        assert session.over
        listener.now += 1_000
        assert session.handshake("SCRAM-SHA-256") == Error.ILLEGAL_SASL_STATE

    heard = run(body).heard
    assert heard == [
        "it logged in by SCRAM-SHA-256, and wants to go on by PLAIN",
        "locked",
        "closed: a login failed",
    ]


def test_who_says_too_much_at_a_time_is_refused() -> None:
    async def body(listener: Listener, session: Session) -> None:
        session.handshake("OAUTHBEARER")
        told = await said(session, b"n,,\x01auth=Bearer " + b"x" * 10_000 + b"\x01\x01")
        assert told.error == Error.SASL_AUTHENTICATION_FAILED

    assert run(body, "OAUTHBEARER").heard[0] == "it says 10018 bytes at a time"


def test_a_token_that_leads_to_another_home_ends_it() -> None:
    async def good(listener: Listener, session: Session) -> None:
        session.handshake("OAUTHBEARER")
        assert (await said(session, b"n,,\x01auth=Bearer good\x01\x01")).error == 0

    assert run(good, "OAUTHBEARER").heard == ["renewed"]

    async def other(listener: Listener, session: Session) -> None:
        session.handshake("OAUTHBEARER")
        told = await said(session, b"n,,\x01auth=Bearer other\x01\x01")
        assert told.error == Error.SASL_AUTHENTICATION_FAILED

    heard = run(other, "OAUTHBEARER").heard
    assert heard == ["it was at home in None, and now in shop/eu", "locked", "closed: a login failed"]
