"""Verifiers of nobody: who logs in as a user that there is not learns nothing from the answer, nor from its time. Pure.

A decoy is like what the tools make: half of the names have one as of Magnetar's tool, the others one as of Kafka's. All
of it follows from a secret and the name: it never changes, whatever users there are, as a user's own does not. So
nobody who makes users can tell by them which others there are.
"""

from __future__ import annotations

import hmac

from gateway.auth.credentials import HASHES, LEAST_ITERATIONS, SALT, SHA_256, Verifier

_LETTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"
"""Salts of Kafka's tools are made of these: numbers to the base of 36."""
_KAFKAS_BITS = 130
"""Bits of such a number."""


class Decoys:
    """Of one gateway."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, name: str, mechanism: str | None = None) -> Verifier:
        """For an exchange of SCRAM by this mechanism; None: for a password in clear."""
        mechanism = mechanism or SHA_256
        salt = self._digest(name, b"salt " + mechanism.encode())
        salt = _letters(salt) if self._digest(name, b"which")[0] & 1 else salt[:SALT]
        # as long as the hash; nobody knows a password of it
        stored, server = (
            hmac.digest(self._secret, _bytes(name) + what, HASHES[mechanism])
            for what in (b"stored", b"server")
        )
        return Verifier(mechanism, salt, LEAST_ITERATIONS, stored, server)

    def _digest(self, name: str, what: bytes) -> bytes:
        return hmac.digest(self._secret, what + b"\0" + _bytes(name), "sha256")


def _letters(digest: bytes) -> bytes:
    number, found = int.from_bytes(digest, "big") % (1 << _KAFKAS_BITS), bytearray()
    while number or not found:
        number, digit = divmod(number, len(_LETTERS))
        found.append(_LETTERS[digit])
    return bytes(reversed(found))


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
