"""Who calls: a token (Bearer), a name and a password (Basic), the certificate of the connection, or nobody.

`X-Pulsar-Auth-Method-Name` is not looked at: what is shown says by itself what it is.

A client says who it is with each request, and to check a password takes a thread a millisecond. So what was found good
is known for a while, by a keyed hash of what was said; the key is made at the start and is nowhere else. A user that
changes is forgotten at once. What fails is never known, and how often it may is bounded for each address.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Awaitable, Callable
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gateway.admin.exchange import RefusedError as Refused
from gateway.auth.errors import BusyError, RefusedError
from gateway.peer import NOBODY, Identity

if TYPE_CHECKING:
    from gateway.audit import Audit
    from gateway.auth.ports import Tokens

SECONDS = 60.0
"""How long a login is known."""
KNOWN = 1_000
"""Logins that are known; beyond that all are forgotten."""
LONGEST = 16 * 1024
"""Characters of what a client shows."""
FAILURES = 20
"""Logins of one address that may fail at once; room for one more comes each second. One that is being
checked counts."""
ADDRESSES = 10_000
"""Addresses whose failures are counted; beyond that all are forgotten."""
AT_ONCE = 64
"""Logins that are being checked."""

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="Magnetar", Basic realm="Magnetar", charset="UTF-8"'}
"""By what a client may say who it is, in an answer with 401."""

AGAIN = {"Retry-After": "1"}
"""In an answer to who may come again, after so many seconds."""

UNKNOWN = (
    "Who you say you are is not known here: the token, or the name and its password, are wrong or have ended."
)
"""Whatever is wrong with a login."""
BUSY = "Too many log in at once: try again."
NEEDED = (
    "Nobody may do this who does not say who it is: by a token (Bearer), or by a name and a password (Basic)."
)
"""For who says nothing."""


class Users(Protocol):
    """Those that are kept."""

    watchers: list[Callable[[str], None]]

    def identify_password(self, name: str, password: str, mechanism_hint: str) -> Awaitable[Identity]:
        """Raises RefusedError and BusyError of `gateway.auth.errors`."""
        ...


class LoginError(Refused):
    """A login that is refused, as an answer. `headers` go with it."""

    def __init__(self, status: int, reason: str, headers: dict[str, str]) -> None:
        super().__init__(status, reason)
        self.headers = headers


class _Known(NamedTuple):
    identity: Identity
    until: float


class Logins:
    """Of one server."""

    def __init__(
        self,
        users: Users,
        tokens: Tokens,
        identity_of: Callable[[asyncio.BaseTransport], Identity] | None,
        audit: Audit,
        monotonic: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        """`identity_of`: whose certificate a client has shown, NOBODY without one, or RefusedError of
        `gateway.auth.errors`; None where nobody shows any. The clocks tell seconds, and ms since 1970.
        """
        self._users = users
        self._tokens = tokens
        self._identity_of = identity_of
        self._audit = audit
        self._monotonic = monotonic
        self._wall_ms = wall_ms
        self._key = os.urandom(32)
        self._known: dict[bytes, _Known] = {}
        self._checking: dict[bytes, asyncio.Task[Identity]] = {}
        self._failures = _Failures()
        # counts changes of users: what was checked before one is not to be known after it
        self._changes = 0
        users.watchers.append(self._changed)

    def close(self) -> None:
        """Users are not watched any more."""
        if self._changed in self._users.watchers:
            self._users.watchers.remove(self._changed)

    async def who(
        self, authorization: str | None, host: str, transport: asyncio.BaseTransport | None
    ) -> Identity:
        """Who it says that it is, in the header of that name, or by the connection's certificate; NOBODY without both.

        Raises LoginError: 401 for what is wrong, 429 when too much was, 503 when too many come at once.
        """
        if authorization is None:
            return self._by_certificate(host, transport)
        if len(authorization) > LONGEST:
            raise LoginError(401, UNKNOWN, CHALLENGE)
        key = hmac.digest(self._key, authorization.encode("utf-8", "surrogateescape"), hashlib.sha256)
        known = self._known.get(key)
        if known is not None and self._holds(known):
            return known.identity
        self._known.pop(key, None)
        checking = self._checking.get(key)
        if checking is None:
            if not self._failures.room(host, self._monotonic()):
                raise LoginError(429, "Too many logins from this address have failed: wait a second.", AGAIN)
            if len(self._checking) >= AT_ONCE:
                raise LoginError(503, BUSY, AGAIN)
            checking = asyncio.ensure_future(self._check(key, authorization, host))
            self._checking[key] = checking
            checking.add_done_callback(lambda task: self._checked(key, task))
        # several requests may wait for it, and one that goes away does not end it
        return await asyncio.shield(checking)

    def _checked(self, key: bytes, task: asyncio.Task[Identity]) -> None:
        self._checking.pop(key, None)
        if not task.cancelled():
            # whoever waited for it may have gone
            task.exception()

    def _by_certificate(self, host: str, transport: asyncio.BaseTransport | None) -> Identity:
        if self._identity_of is None or transport is None:
            return NOBODY
        try:
            identity = self._identity_of(transport)
        except RefusedError as refused:
            self._audit.login_refused("", host, "http", "SSL", refused.reason)
            raise LoginError(401, UNKNOWN, CHALLENGE) from None
        if identity is not NOBODY:
            self._audit.login(identity.principal, host, "http", identity.mechanism)
        return identity

    async def _check(self, key: bytes, authorization: str, host: str) -> Identity:
        scheme, _, said = authorization.partition(" ")
        changes = self._changes
        self._failures.tried(host, self._monotonic())
        name = ""
        try:
            if scheme.lower() == "bearer":
                identity = await self._tokens.verify(said.strip())
            elif scheme.lower() == "basic":
                name, password = _basic(said.strip())
                identity = await self._users.identify_password(name, password, "Basic")
            else:
                raise RefusedError("neither Bearer nor Basic")
        except RefusedError as refused:
            mechanism = scheme if scheme.lower() in ("bearer", "basic") else "HTTP"
            self._audit.login_refused(name, host, "http", mechanism, refused.reason)
            raise LoginError(401, UNKNOWN, CHALLENGE) from None
        except BusyError:
            # nobody has looked at it, so it has not failed
            self._failures.forgive(host)
            raise LoginError(503, BUSY, AGAIN) from None
        self._failures.forgive(host)
        self._audit.login(identity.principal, host, "http", identity.mechanism or scheme)
        if changes == self._changes:
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[key] = _Known(identity, self._monotonic() + SECONDS)
        return identity

    def _holds(self, known: _Known) -> bool:
        ends = known.identity.expires_at
        return self._monotonic() < known.until and (ends is None or self._wall_ms() < ends)

    def _changed(self, user: str) -> None:
        self._changes += 1
        self._known = {key: each for key, each in self._known.items() if each.identity.user != user}


class _Failures:
    """How often logins have failed, by address: in IPv6 by the 64 bits that one client may have all of."""

    def __init__(self) -> None:
        # (how many more may fail, at that time)
        self._room: dict[str, tuple[float, float]] = {}

    def room(self, host: str, now: float) -> bool:
        """Whether one more may fail."""
        return self._now(_address(host), now) >= 1

    def tried(self, host: str, now: float) -> None:
        """One is tried, and counts until it is forgiven."""
        address = _address(host)
        if len(self._room) >= ADDRESSES and address not in self._room:
            self._room.clear()
        self._room[address] = self._now(address, now) - 1, now

    def forgive(self, host: str) -> None:
        """The one that was tried is good."""
        address = _address(host)
        if address in self._room:
            room, at = self._room[address]
            self._room[address] = min(room + 1, float(FAILURES)), at

    def _now(self, address: str, now: float) -> float:
        room, at = self._room.get(address, (float(FAILURES), now))
        return min(room + now - at, float(FAILURES))


def _address(host: str) -> str:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(int(address) >> 64)
    return host


def _basic(text: str) -> tuple[str, str]:
    """(name, password) of what follows `Basic`. Raises RefusedError."""
    try:
        name, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise RefusedError("no name and password in base64") from None
    if not colon or not name:
        raise RefusedError("no name and password")
    return name, password
