"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677), the server's side. Pure.

    n,,n=ada,r=<its nonce>                         ->  r=<both nonces>,s=<salt>,i=<iterations>
    c=biws,r=<both nonces>,p=<its proof>           ->  v=<the gateway's signature>

An exchange with a user that there is not goes on like any other, with a decoy's salt, and fails at its end like one
with a wrong password. Names and passwords are taken as they come: no client of Kafka's prepares them (SASLprep). Names
with `,` or `=` are refused, since some clients do not escape them. So is Kafka's tokenauth: there are no delegation
tokens. There is no channel binding, and who believes that there is (`p=`) is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple

from gateway.auth.errors import RefusedError
from gateway.auth.mechanisms import Challenge, Proved, checked_name
from gateway.auth.ports import Verifier

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash of each mechanism, as hashlib calls it."""
LONGEST_NONCE = 4096
"""Bytes of a client's nonce. Clients send 24 to 64."""
LONGEST_MESSAGE = 8192
"""Bytes of one message: a nonce, a name and what is around them."""
NONCE = 24
"""Random bytes in the gateway's part of a nonce."""

_FIRST = re.compile(
    r"(?P<header>(?:n|y),,)(?P<bare>n=(?P<name>[^,=\0]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<more>(?:,[A-Za-z]+=[^,\0]+)*))",
    re.DOTALL,
)
_FINAL = re.compile(
    r"(?P<unproved>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=[^,\0]+)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)",
    re.DOTALL,
)


class Found(NamedTuple):
    """Whom a name means."""

    verifier: Verifier
    """its own, or a decoy's"""
    epoch: int | None
    """of the user's row; None where there is no such user, or none with this mechanism"""


class Scram:
    """One exchange."""

    __slots__ = ("_find", "_first", "_found", "_hash", "_header", "_nonce", "_own", "name", "user")

    def __init__(self, mechanism: str, find: Callable[[str], Found], nonce: str) -> None:
        """`find`: whom a name means. `nonce`: the gateway's part, new for each exchange. KeyError: no such
        mechanism.
        """
        self.name = mechanism
        self.user = ""
        self._hash = HASHES[mechanism]
        self._find = find
        self._own = nonce
        # once the client has begun: its header, what both said, both nonces, and whom it means
        self._header = ""
        self._first = ""
        self._nonce = ""
        self._found: Found | None = None

    def receive(self, data: bytes) -> Challenge | Proved:
        if len(data) > LONGEST_MESSAGE:
            raise RefusedError(f"a SCRAM message of {len(data)} bytes")
        try:
            text = str(data, "utf-8")
        except UnicodeDecodeError:
            raise RefusedError("a SCRAM message that is no text") from None
        return self._begin(text) if self._found is None else self._end(text, self._found)

    def refused(self, error: RefusedError) -> Challenge:
        # not the same one again: this frame would hold it, and it this frame, and both the connection
        raise RefusedError(error.reason) from None

    def _begin(self, text: str) -> Challenge:
        said = _FIRST.fullmatch(text)
        if said is None:
            raise RefusedError(_why(text))
        self.user = checked_name(said["name"])
        if len(said["nonce"]) > LONGEST_NONCE:
            raise RefusedError(f"a nonce of {len(said['nonce'])} bytes")
        if ",tokenauth=true" in f"{said['more']},".lower():
            raise RefusedError("it wants to log in with a delegation token, and there are none")
        found = self._found = self._find(self.user)
        salt = base64.b64encode(found.verifier.salt).decode()
        self._header = said["header"]
        self._nonce = said["nonce"] + self._own
        answer = f"r={self._nonce},s={salt},i={found.verifier.iterations}"
        self._first = f"{said['bare']},{answer}"
        return Challenge(answer.encode())

    def _end(self, text: str, found: Found) -> Proved:
        said = _FINAL.fullmatch(text)
        if said is None:
            raise RefusedError("a SCRAM message that does not prove anything")
        if _decoded(said["binding"]) != self._header.encode():
            raise RefusedError("its two messages differ in channel binding")
        if said["nonce"] != self._nonce:
            raise RefusedError("its proof is for another exchange")
        proof = _decoded(said["proof"])
        verifier = found.verifier
        exchange = f"{self._first},{said['unproved']}".encode()
        signature = hmac.digest(verifier.stored_key, exchange, self._hash)
        if len(proof) != len(signature):
            raise RefusedError(f"a proof of {len(proof)} bytes")
        key = bytes(ours ^ theirs for ours, theirs in zip(signature, proof, strict=True))
        right = hmac.compare_digest(hashlib.new(self._hash, key).digest(), verifier.stored_key)
        if found.epoch is None:
            raise RefusedError(f"there is no such user, or it has no password for {self.name}")
        if not right:
            raise RefusedError("wrong password")
        told = base64.b64encode(hmac.digest(verifier.server_key, exchange, self._hash))
        return Proved(self.user, found.epoch, b"v=" + told)


def _why(text: str) -> str:
    """What is wrong with a first message."""
    if text.startswith("p="):
        return "it wants channel binding, and there is none"
    if re.match("[ny],a=", text):
        return "it wants to act as somebody else"
    if re.match("[ny],,m=", text):
        return "it wants an extension of SCRAM that there is not"
    if re.match("[ny],,n=[^,]*=", text):
        return "a name with an equals sign or a comma"
    return "a message that does not begin a SCRAM exchange"


def _decoded(text: str) -> bytes:
    """Bytes out of base64, of which there is one way to write them. Raises RefusedError."""
    try:
        found = base64.b64decode(text, validate=True)
    except binascii.Error:
        found = b""
    if base64.b64encode(found).decode() != text:
        raise RefusedError("a SCRAM message that is no base64")
    return found
