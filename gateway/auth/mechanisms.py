"""What a SASL mechanism is here: a client's bytes in, and what becomes of its login out. Pure.

| outcome | the client | what follows |
|---|---|---|
| `Challenge` | has said a part | it is told these bytes, and says more |
| `Password` | says a name and a password | they are compared with what is kept, which takes a millisecond |
| `Token` | says a token | whoever knows the keys says whose it is |
| `Proved` | has proved that it knows a user's password | it is logged in, and is told these bytes |

Whatever is wrong is a `RefusedError`: the client is told the same for all of them, and the log why.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from gateway.auth.errors import RefusedError
from semantics.names import Namespace

LONGEST_NAME = 256
"""Characters of a name that a client may say. No user has as many; none of this is told to anybody but the log."""


class Challenge(NamedTuple):
    """The client is told this, and answers."""

    data: bytes


class Password(NamedTuple):
    """A name and a password, in clear."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"<Password of {self.name}>"


class Token(NamedTuple):
    """A token in text."""

    text: str
    name: str = ""
    """who its bearer wants to be; "": whoever the token names"""
    home: Namespace | None = None
    """where its bearer wants to be at home; None: where the token says"""

    def __repr__(self) -> str:
        return "<Token>"


class Proved(NamedTuple):
    """Who has shown to know the password of a user."""

    name: str
    epoch: int
    """of the user's row whose verifier it was"""
    data: bytes
    """what the client is told, so that it knows that the gateway has the verifier"""


Outcome = Challenge | Password | Token | Proved


class Mechanism(Protocol):
    """One exchange of one client."""

    name: str
    """as Kafka calls the mechanism"""
    user: str
    """who the client says it is, as far as it has said so: for the log"""

    def receive(self, data: bytes) -> Outcome:
        """The client's next bytes. Raises RefusedError."""
        ...

    def refused(self, error: RefusedError) -> Challenge:
        """What it said was found wrong: what it is told before the exchange ends. Raises the error where nothing is."""
        ...


def checked_name(name: str) -> str:
    """A name as a client may say it. Raises RefusedError."""
    if not name:
        raise RefusedError("no name is said")
    if len(name) > LONGEST_NAME:
        raise RefusedError(f"a name of {len(name)} characters")
    if not name.isprintable():
        raise RefusedError("a name with characters that do not print")
    return name
