"""What logins need of those who keep users and rights, and know tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.peer import Identity


class Verifier(Protocol):
    """What is kept of a password (RFC 5802)."""

    @property
    def salt(self) -> bytes: ...

    @property
    def iterations(self) -> int: ...

    @property
    def stored_key(self) -> bytes: ...

    @property
    def server_key(self) -> bytes: ...


class User(Protocol):
    """What is kept of a user."""

    @property
    def verifiers(self) -> Mapping[str, Verifier]:
        """By mechanism."""
        ...

    @property
    def home(self) -> str | None:
        """The namespace that it is bound to."""
        ...

    @property
    def epoch(self) -> int:
        """Another one after each change."""
        ...


class Users(Protocol):
    """Those who may log in with a password."""

    @property
    def watchers(self) -> list[Callable[[str], None]]:
        """Called with the name of each user that is another now, or gone."""
        ...

    def get(self, name: str, /) -> User | None: ...

    def decoy(self, name: str, mechanism: str, /) -> Verifier:
        """Of a user that there is not: always the same for a name, and nobody knows a password of it."""
        ...

    async def identify_password(self, name: str, password: str, mechanism_hint: str, /) -> Identity:
        """Who says this name and this password. Raises RefusedError, BusyError."""
        ...


class Tokens(Protocol):
    """Those who come with a token that another has signed."""

    async def verify(self, text: str, /) -> Identity:
        """Whose token it is. Raises RefusedError, BusyError."""
        ...
