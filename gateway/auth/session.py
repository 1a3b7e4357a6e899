"""How long a login lasts, and how a client renews it on the same connection (KIP-368)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from gateway.auth.errors import BusyError, RefusedError
from gateway.auth.login import Login, Step
from gateway.peer import Identity, Peer, Progress
from store.pending import Pending

FAILURE_MS = 100
"""How long a client waits to hear that its login failed; Kafka's connection.failed.authentication.delay.ms. Who tries
passwords has to open a connection for each, and to wait as long."""
AT_MOST_EVERY_MS = 1000
"""A login is not renewed more often than this, as in Kafka."""

NO_ERROR, UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED = 0, 33, 34, 58
"""Kafka's error codes."""


def failure(mechanism: str, again: bool = False) -> str:
    """What the client of a failed login is told for all reasons, in Kafka's words. `again`: it had logged in before."""
    during = "re-authentication" if again else "authentication"
    return f"Authentication failed during {during} due to invalid credentials with SASL mechanism {mechanism}"


def lifetime_ms(expires_at: int | None, longest_ms: int, now: int) -> int:
    """How long a login lasts; 0: without end, as the protocol has it. `expires_at`: when its token ends, and `now`, in
    ms since 1970. `longest_ms`: connections.max.reauth.ms. Raises RefusedError when the token has ended.
    """
    if expires_at is None:
        return longest_ms
    left = expires_at - now
    if left <= 0:
        raise RefusedError("its token has ended")
    return min(left, longest_ms) if longest_ms else left


class Renewals(Protocol):
    """What sessions need of the listener."""

    @property
    def offered(self) -> tuple[str, ...]:
        """Mechanisms."""
        ...

    @property
    def longest(self) -> int:
        """Bytes of what a client says at a time."""
        ...

    def monotonic_ms(self) -> int: ...

    def begin(self, mechanism: str, /) -> Login:
        """A login by a mechanism that is offered."""
        ...

    def lifetime_ms(self, identity: Identity, /) -> int:
        """How long a login lasts from now on; 0: without end. Raises RefusedError."""
        ...

    def renewed(self, session: Session, /) -> None:
        """A client has logged in again."""
        ...

    def not_renewed(self, session: Session, login: Login | None, reason: str, /) -> None:
        """Or has failed to."""
        ...

    def not_renewed_now(self, session: Session, /) -> None:
        """Or was not looked at, since too many log in at once."""
        ...


class Serving(Protocol):
    """The connection of a client that has logged in."""

    def close(self, reason: str, /) -> None:
        """End it, for a reason that goes to the log."""
        ...

    def lock(self, over: Callable[[], bool], /) -> None:
        """Serve nothing but a login while this one is over."""
        ...


class Session:
    """What a client has logged in as, on one connection."""

    __slots__ = (
        "_asked_at",
        "_failed",
        "_login",
        "_logins",
        "_wrong",
        "connection",
        "ends_at",
        "identity",
        "peer",
        "watched",
    )

    def __init__(
        self,
        identity: Identity,
        peer: Peer,
        lifetime_ms: int,
        logins: Renewals,
        connection: Serving,
    ) -> None:
        self.identity = identity
        self.peer = peer
        self.connection = connection
        self._logins = logins
        self._failed = False
        self.ends_at: int | None = None
        """monotonic ms; None: it lasts as long as the connection"""
        self.watched = False
        """whether somebody will look at it when it is over"""
        self._last(lifetime_ms)
        # the login that renews it, when that was begun, and why it will fail
        self._login: Login | None = None
        self._asked_at: int | None = None
        self._wrong: str | None = None

    @property
    def offered(self) -> tuple[str, ...]:
        """Mechanisms by which it could be renewed, but for the rule that it is the same as before."""
        return self._logins.offered

    @property
    def over(self) -> bool:
        """Whether it has lasted as long as it may: only a new login is served then. Or one has failed."""
        return self._failed or self.over_for_ms >= 0

    @property
    def over_for_ms(self) -> int:
        """How long it has been over; negative while it is not, and where it has no end."""
        return -1 if self.ends_at is None else self._logins.monotonic_ms() - self.ends_at

    def handshake(self, mechanism: str) -> Pending[int]:
        """The client begins to log in again. The answer's error code: Kafka's."""
        if self._failed:
            return ILLEGAL_SASL_STATE
        now = self._logins.monotonic_ms()
        if self._asked_at is not None and now - self._asked_at < AT_MOST_EVERY_MS:
            return ILLEGAL_SASL_STATE
        if mechanism not in self._logins.offered:
            return self._not_offered(mechanism)
        self._asked_at = now
        self._login = self._logins.begin(mechanism)
        # told when it has said who it is, as Kafka does
        self._wrong = (
            f"it logged in by {self.identity.mechanism}, and wants to go on by {mechanism}"
            if mechanism != self.identity.mechanism
            else None
        )
        return NO_ERROR

    def authenticate(self, data: bytes) -> Pending[Progress]:
        """The client's next bytes. Nothing else of the client is served until there is an answer."""
        login = self._login
        if login is None:
            return Progress(
                ILLEGAL_SASL_STATE, "The client has logged in: SaslHandshake begins another login."
            )
        try:
            if self._wrong is not None:
                raise RefusedError(self._wrong)
            if len(data) > self._logins.longest:
                raise RefusedError(f"it says {len(data)} bytes at a time")
            step = login.step(data)
            return self._wait(login, step) if isinstance(step, Awaitable) else self._went(login, step)
        except RefusedError as error:
            return self._refuse(login, error.reason)

    async def _wait(self, login: Login, step: Awaitable[Step]) -> Progress:
        try:
            return self._went(login, await step)
        except RefusedError as error:
            return await self._refuse(login, error.reason)
        except BusyError as error:
            return await self._put_off(login, str(error))

    def _went(self, login: Login, step: Step) -> Progress:
        if step.identity is None:
            return Progress(NO_ERROR, None, step.data)
        before = self.identity
        if step.identity.principal != before.principal:
            raise RefusedError(f"it logged in as {before.principal}, and now is {step.identity.principal}")
        if step.identity.home != before.home:
            raise RefusedError(f"it was at home in {before.home}, and now in {step.identity.home}")
        if step.identity.user != before.user:
            # a connection ends with its user, and by which one that is goes by how it logged in first
            raise RefusedError("it logged in by a token and now by a password, or the other way round")
        lifetime = self._logins.lifetime_ms(step.identity)
        self.identity = step.identity
        self._login = None
        self._last(lifetime)
        self._logins.renewed(self)
        return Progress(NO_ERROR, None, step.data, lifetime)

    async def _not_offered(self, mechanism: str) -> int:
        await self._fail(None, f"it asks for {mechanism[:64]}, which is not offered")
        return UNSUPPORTED_SASL_MECHANISM

    async def _refuse(self, login: Login, reason: str) -> Progress:
        await self._fail(login, reason)
        return Progress(SASL_AUTHENTICATION_FAILED, failure(login.mechanism, again=True))

    async def _put_off(self, login: Login, reason: str) -> Progress:
        """Its connection ends without an answer, later: then the client connects and logs in anew. A failed login it
        might not repeat.
        """
        self._login = None
        self._failed = True
        self._logins.not_renewed_now(self)
        await asyncio.sleep(FAILURE_MS / 1000)
        self.connection.close(reason)
        # which is not sent any more
        return Progress(SASL_AUTHENTICATION_FAILED, failure(login.mechanism, again=True))

    async def _fail(self, login: Login | None, reason: str) -> None:
        """The client is told late, then the connection ends. What it has sent behind is not served."""
        self._login = None
        self._failed = True
        self._logins.not_renewed(self, login, reason)
        await asyncio.sleep(FAILURE_MS / 1000)
        self.connection.lock(lambda: True)
        # when the answer has been written, which is before the loop turns
        asyncio.get_running_loop().call_soon(self.connection.close, "a login failed")

    def _last(self, lifetime_ms: int) -> None:
        self.ends_at = self._logins.monotonic_ms() + lifetime_ms if lifetime_ms else None
