"""PLAIN (RFC 4616): a name and a password in one message. Pure.

A password that begins with `token:` is a token, and its user then names the client's home: as clients of Pulsar's own
Kafka plugin have it, which log in as `tenant/namespace`.
"""

from __future__ import annotations

from gateway.auth.errors import RefusedError
from gateway.auth.mechanisms import Challenge, Password, Token, checked_name
from semantics.names import Namespace, NamingError

PLAIN = "PLAIN"
LONGEST_PASSWORD = 1024
"""Bytes of a password that is no token. No user has a longer one."""
_TOKEN = "token:"


class Plain:
    """One exchange."""

    __slots__ = ("user",)
    name = PLAIN

    def __init__(self) -> None:
        self.user = ""

    def receive(self, data: bytes) -> Password | Token:
        try:
            parts = str(data, "utf-8").split("\0")
        except UnicodeDecodeError:
            raise RefusedError("a PLAIN message that is no text") from None
        if len(parts) != 3:
            raise RefusedError(f"a PLAIN message of {len(parts)} parts, which has three")
        acting_as, name, password = parts
        self.user = checked_name(name)
        if acting_as and acting_as != name:
            raise RefusedError("it wants to act as somebody else")
        if not password:
            raise RefusedError("no password is said")
        if password.startswith(_TOKEN):
            return Token(password.removeprefix(_TOKEN), home=_home(name))
        if len(password.encode()) > LONGEST_PASSWORD:
            raise RefusedError("a password that is longer than any")
        return Password(name, password)

    def refused(self, error: RefusedError) -> Challenge:
        # not the same one again: this frame would hold it, and it this frame, and both the connection
        raise RefusedError(error.reason) from None


def _home(user: str) -> Namespace | None:
    """Which home a user names; None for a name without a slash, which says nothing."""
    if "/" not in user:
        return None
    try:
        return Namespace.parse(user)
    except NamingError:
        raise RefusedError(f"its token comes with a user that is no tenant/namespace: {user}") from None
