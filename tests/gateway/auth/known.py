"""Users and tokens in memory, as few lines as do it: what logins ask for."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable
from typing import NamedTuple

from gateway.auth.errors import RefusedError
from gateway.peer import Identity

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class Verifier(NamedTuple):
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class Row(NamedTuple):
    verifiers: dict[str, Verifier]
    password: str
    home: str | None
    epoch: int


def made(mechanism: str, password: str, iterations: int = 4096) -> Verifier:
    """RFC 5802, written down once more."""
    name = HASHES[mechanism]
    salt = hashlib.sha256(f"{mechanism} {password}".encode()).digest()[:20]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client = hmac.new(salted, b"Client Key", name).digest()
    server = hmac.new(salted, b"Server Key", name).digest()
    return Verifier(salt, iterations, hashlib.new(name, client).digest(), server)


class MemoryUsers:
    """Users by name."""

    def __init__(self, **passwords: str) -> None:
        self.watchers: list[Callable[[str], None]] = []
        self.rows: dict[str, Row] = {}
        self.epoch = 0
        # while it is unset passwords wait to be compared
        self.open = asyncio.Event()
        self.open.set()
        for name, password in passwords.items():
            self.put(name, password)

    def put(self, name: str, password: str, home: str | None = None) -> None:
        self.epoch += 1
        self.rows[name] = Row({each: made(each, password) for each in HASHES}, password, home, self.epoch)
        for watcher in self.watchers:
            watcher(name)

    def delete(self, name: str) -> None:
        del self.rows[name]
        for watcher in self.watchers:
            watcher(name)

    def close(self) -> None:
        """As the gateway asks at its end: there is nothing to close."""

    def get(self, name: str, /) -> Row | None:
        return self.rows.get(name)

    def decoy(self, name: str, mechanism: str, /) -> Verifier:
        size = hashlib.new(HASHES[mechanism]).digest_size
        return Verifier(hashlib.sha256(name.encode()).digest()[:20], 4096, bytes(size), bytes(size))

    async def identify_password(self, name: str, password: str, mechanism_hint: str, /) -> Identity:
        await self.open.wait()
        await asyncio.sleep(0)
        row = self.rows.get(name)
        if row is None or row.password != password:
            raise RefusedError("wrong password, or no such user")
        return Identity(f"User:{name}", mechanism_hint, row.home, None, name)


class MemoryTokens:
    """Whose each token is."""

    def __init__(self, **identities: Identity) -> None:
        self.identities = identities
        # while it is unset tokens wait to be verified
        self.open = asyncio.Event()
        self.open.set()

    @property
    def any(self) -> bool:
        return bool(self.identities)

    def start(self) -> None:
        """It reads no keys."""

    async def stop(self) -> None:
        """Nothing of it goes on."""

    async def verify(self, text: str, /) -> Identity:
        await self.open.wait()
        await asyncio.sleep(0)
        found = self.identities.get(text)
        if found is None:
            raise RefusedError("a token that nobody has signed")
        return found


class ScramClient:
    """The client's side of SCRAM, from the RFC alone."""

    def __init__(
        self, mechanism: str, name: str, password: str, nonce: str = "fyko+d2lbbFgONRv9qkxdawL"
    ) -> None:
        self.hash = HASHES[mechanism]
        self.password = password
        self.nonce = nonce
        self.bare = f"n={name},r={nonce}"
        self.first = f"n,,{self.bare}".encode()
        self.server_signature = b""

    def final(self, server_first: bytes, *, binding: str = "biws", nonce: str | None = None) -> bytes:
        """Its second message."""
        import base64

        parts = dict(each.split("=", 1) for each in server_first.decode().split(","))
        salted = hashlib.pbkdf2_hmac(
            self.hash, self.password.encode(), base64.b64decode(parts["s"]), int(parts["i"])
        )
        unproved = f"c={binding},r={parts['r'] if nonce is None else nonce}"
        exchange = f"{self.bare},{server_first.decode()},{unproved}".encode()
        key = hmac.new(salted, b"Client Key", self.hash).digest()
        signature = hmac.new(hashlib.new(self.hash, key).digest(), exchange, self.hash).digest()
        server_key = hmac.new(salted, b"Server Key", self.hash).digest()
        self.server_signature = base64.b64encode(hmac.new(server_key, exchange, self.hash).digest())
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        return f"{unproved},p={proof}".encode()
