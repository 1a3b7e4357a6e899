"""One login, whatever its mechanism: the client's bytes in, and at the end who it is."""

from __future__ import annotations

import secrets
from functools import partial
from typing import NamedTuple

from gateway.auth.errors import RefusedError
from gateway.auth.mechanisms import Challenge, Mechanism, Outcome, Password, Proved, Token
from gateway.auth.oauthbearer import OAUTHBEARER, OauthBearer
from gateway.auth.plain import PLAIN, Plain
from gateway.auth.ports import Tokens, Users
from gateway.auth.scram import NONCE, Found, Scram
from gateway.peer import Identity
from semantics.names import Namespace
from store.pending import Pending

PRINCIPAL = "User:"
"""How the principal of a user begins."""


class Known(NamedTuple):
    """By whom clients are known."""

    users: Users
    tokens: Tokens
    choose_home: bool
    """whether the bearer of a token that names no home may choose one; False: it is refused when it tries"""


class Step(NamedTuple):
    """What becomes of the client's bytes."""

    data: bytes
    """what it is told"""
    identity: Identity | None = None
    """who it is; None: it has not proved that yet, and goes on"""


class Login:
    """From the choice of a mechanism to the end of its exchange."""

    __slots__ = ("_known", "_machine")

    def __init__(self, mechanism: str, known: Known) -> None:
        """KeyError for a mechanism that there is not."""
        self._known = known
        self._machine = self._made(mechanism)

    @property
    def mechanism(self) -> str:
        return self._machine.name

    @property
    def user(self) -> str:
        """Who the client says it is, for the log; "" while it has not."""
        return self._machine.user

    def step(self, data: bytes) -> Pending[Step]:
        """The client's next bytes. Raises RefusedError, at once or when it is awaited; then also BusyError."""
        outcome = self._machine.receive(data)
        if isinstance(outcome, Challenge):
            return Step(outcome.data)
        if isinstance(outcome, Proved):
            return self._proved(outcome)
        return self._ask(outcome)

    def _made(self, mechanism: str) -> Mechanism:
        if mechanism == PLAIN:
            return Plain()
        if mechanism == OAUTHBEARER:
            return OauthBearer()
        return Scram(mechanism, partial(_find, self._known.users, mechanism), secrets.token_urlsafe(NONCE))

    def _proved(self, proved: Proved) -> Step:
        row = self._known.users.get(proved.name)
        if row is None or row.epoch != proved.epoch:
            raise RefusedError("the user was changed meanwhile")
        return Step(
            proved.data, Identity(PRINCIPAL + proved.name, self.mechanism, row.home, None, proved.name)
        )

    async def _ask(self, said: Outcome) -> Step:
        try:
            return Step(b"", await self._identify(said))
        except RefusedError as error:
            return Step(self._machine.refused(error).data)

    async def _identify(self, said: Outcome) -> Identity:
        users, tokens, choose_home = self._known
        if isinstance(said, Password):
            return await users.identify_password(said.name, said.password, self.mechanism)
        assert isinstance(said, Token)
        found = (await tokens.verify(said.text))._replace(mechanism=self.mechanism)
        if said.name and PRINCIPAL + said.name != found.principal:
            raise RefusedError(f"it wants to act as {said.name}, and its token is that of {found.principal}")
        return at_home(found, said.home, choose_home)


def _find(users: Users, mechanism: str, name: str) -> Found:
    # made for a user as well: who measures answers would know by what it takes that there is none
    decoy = users.decoy(name, mechanism)
    row = users.get(name)
    verifier = row.verifiers.get(mechanism) if row is not None else None
    if row is None or verifier is None:
        return Found(decoy, None)
    return Found(verifier, row.epoch)


def at_home(identity: Identity, wanted: Namespace | None, choose: bool) -> Identity:
    """Whoever it is, at the home that its client asks for. Raises RefusedError where that is not its own."""
    if wanted is None or identity.home == str(wanted):
        return identity
    if identity.home is not None:
        raise RefusedError(f"it wants to be at home in {wanted}, and its token binds it to {identity.home}")
    if not choose:
        raise RefusedError(f"it wants to be at home in {wanted}, and its token does not bind it to that")
    return identity._replace(home=str(wanted), chosen=True)
