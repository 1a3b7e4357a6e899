"""Verifiers of nobody: who logs in as a user that there is not learns nothing from the answer, nor from its time. Pure.

A decoy looks like the users that there are: how many iterations it has, and what its salt looks like, is drawn from
theirs, and is always the same for a name.
"""

from __future__ import annotations

import hmac
from collections import Counter
from typing import NamedTuple

from gateway.auth.credentials import HASHES, LEAST_ITERATIONS, SALT, SHA_256, UserRow, Verifier, preferred

_LETTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"
"""Salts of Kafka's tools are made of these."""


class Shape(NamedTuple):
    """What a stranger can see of a verifier."""

    mechanism: str
    iterations: int
    salt: int
    letters: bool


def shape_of(verifier: Verifier) -> Shape:
    letters = all(each in _LETTERS for each in verifier.salt)
    return Shape(verifier.mechanism, verifier.iterations, len(verifier.salt), letters)


class Decoys:
    """Counts the shapes of the users there are."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        # of SCRAM by mechanism, and of those that passwords are checked against by None
        self._shapes: dict[str | None, Counter[Shape]] = {}

    def add(self, row: UserRow) -> None:
        self._count(row, 1)

    def remove(self, row: UserRow) -> None:
        self._count(row, -1)

    def _count(self, row: UserRow, by: int) -> None:
        for mechanism, verifier in [*row.verifiers.items(), (None, preferred(row))]:
            if verifier is not None:
                shapes = self._shapes.setdefault(mechanism, Counter())
                shapes[shape_of(verifier)] += by
                # those of which there are none
                self._shapes[mechanism] = +shapes

    def of(self, name: str, mechanism: str | None = None) -> Verifier:
        """For an exchange of SCRAM by this mechanism; None: for a password in clear."""
        number = int.from_bytes(self._digest(name, b"which"), "big")
        kinds = self._shapes.get(mechanism) or Counter(
            [Shape(mechanism or SHA_256, LEAST_ITERATIONS, SALT, False)]
        )
        number %= kinds.total()
        shape = next(iter(kinds))
        for shape in sorted(kinds):
            number -= kinds[shape]
            if number < 0:
                break
        salt = b""
        while len(salt) < shape.salt:
            salt += self._digest(name, b"salt %d" % len(salt))
        if shape.letters:
            salt = bytes(_LETTERS[each % len(_LETTERS)] for each in salt)
        # as long as the hash; nobody knows a password of it
        stored, server = (
            hmac.digest(self._secret, _bytes(name) + what, HASHES[shape.mechanism])
            for what in (b"stored", b"server")
        )
        return Verifier(shape.mechanism, salt[: shape.salt], shape.iterations, stored, server)

    def _digest(self, name: str, what: bytes) -> bytes:
        return hmac.digest(self._secret, what + b"\0" + _bytes(name), "sha256")


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
