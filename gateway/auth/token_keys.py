"""Keys of tokens, and signatures by them. With which algorithms a key is used is the key's to say, never the token's.

It imports cryptography (50 ms), so import it where there are tokens.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_public_key,
)
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OctKey, RSAKey

from gateway.auth.errors import RefusedError

LONGEST_TOKEN = 65_536
"""Characters."""
_LONGEST_HEADER = 8192
_LARGEST_FILE = 65_536
_MOST_KEYS = 100
"""Of one JWKS that are looked at."""
_LEAST_RSA = 2048
"""Bits; RFC 7518 wants as many."""
_MOST_RSA = 8192
"""Bits: a signature is the longer to check."""

_HMAC = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Bytes that a key has at least; it is what Pulsar's Java library asks for."""
_RSA = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"))
_PUBLIC = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y")}
"""What is read of a key in a JWKS: nothing of a private one, if somebody publishes that."""
_EC = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}


class KeyProblem(ValueError):
    """A key that cannot be used. The text is a sentence for a person, without the key."""


class TokenKey(NamedTuple):
    """A key that verifies."""

    key: Key
    algorithms: frozenset[str]
    kid: str | None = None

    def __repr__(self) -> str:
        return f"<TokenKey {self.kid} {sorted(self.algorithms)}>"


class Head(NamedTuple):
    """What a token says of itself, before anything of it is proved."""

    algorithm: str
    kid: str | None


# -- keys -------------------------------------------------------------------------------------------------------------


def file_of(location: str) -> Path | None:
    """The file that a location names, None for one that is something else."""
    parts = urlsplit(location)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path))


def read(location: str) -> bytes:
    """The key at a location, as Pulsar has it: `file:///path`, `data:;base64,…`, or base64. A file holds the key as it
    is, and not in base64. Raises KeyProblem.
    """
    path = file_of(location)
    if path is not None:
        try:
            with path.open("rb") as file:
                raw = file.read(_LARGEST_FILE + 1)
        except OSError as error:
            raise KeyProblem(f"{path} cannot be read: {error.strerror}.") from None
        if len(raw) > _LARGEST_FILE:
            raise KeyProblem(f"{path} is too large for a key.")
        return raw
    text = location.partition(";base64,")[2] if location.startswith("data:") else location
    if _is_file(text):
        # its name may be base64, too
        raise KeyProblem(
            f"{text} is a file: write {Path(text).absolute().as_uri()}, with file:// before the path."
        )
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        lacks = " A path has file:// before it." if text.startswith(("/", "./", "../", "file:")) else ""
        raise KeyProblem(f"A key is a file:///path, or base64.{lacks}") from None


def _is_file(text: str) -> bool:
    """Whether a location is the bare name of a file that is there."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def of_secret(raw: bytes) -> TokenKey:
    """The key of who signs and verifies. Raises KeyProblem."""
    algorithms = frozenset(name for name, least in _HMAC.items() if len(raw) >= least)
    if not algorithms:
        raise KeyProblem(
            f"A secret key has 32 bytes at least, and this one has {len(raw)}: `magnetar tokens create-secret-key`."
        )
    try:
        return TokenKey(OctKey.import_key(raw), algorithms)
    except ValueError:
        # in PEM: it would be for all to know
        raise KeyProblem(
            "This is no secret key, but a certificate or half of a pair: `magnetar tokens create-secret-key` makes one."
        ) from None


def of_public(raw: bytes) -> TokenKey:
    """The key of who verifies only, in PEM or, as Pulsar writes it, in DER. Raises KeyProblem."""
    if b"PRIVATE KEY" in raw:
        raise KeyProblem(
            "This is a private key: the gateway needs the public one, and nothing else should have it."
        )
    try:
        loaded = load_pem_public_key(raw) if raw.lstrip().startswith(b"-----") else load_der_public_key(raw)
    except (ValueError, UnsupportedAlgorithm):
        raise KeyProblem("This is no public key in PEM or DER.") from None
    pem = loaded.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    if isinstance(loaded, rsa.RSAPublicKey):
        _check_size(loaded.key_size)
        return _checked(RSAKey.import_key(pem))
    if isinstance(loaded, ec.EllipticCurvePublicKey):
        return _checked(ECKey.import_key(pem))
    raise KeyProblem("A public key is one of RSA, or of a curve of NIST's.")


def of_jwks(raw: bytes) -> tuple[TokenKey, ...]:
    """The keys of a JWKS (RFC 7517) that verify signatures; symmetric ones are none. Raises KeyProblem."""
    try:
        found = json.loads(raw)
        rows = found["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise KeyProblem("This is no JWKS.") from None
    if not isinstance(rows, list):
        raise KeyProblem("This is no JWKS.")
    keys = []
    for row in rows[:_MOST_KEYS]:
        # one that cannot be used does not keep the others from being used
        if isinstance(row, dict) and (key := _of_jwk(row)) is not None:
            keys.append(key)
    return tuple(keys)


def _of_jwk(row: dict[str, Any]) -> TokenKey | None:
    kid, uses = row.get("kid"), row.get("key_ops")
    if row.get("use", "sig") != "sig" or (isinstance(uses, list) and "verify" not in uses):
        return None
    parts = _PUBLIC.get(str(row.get("kty")))
    if parts is None or not (kid is None or isinstance(kid, str)):
        return None
    try:
        public = {each: row[each] for each in parts}
        found = _checked(RSAKey.import_key(public) if row["kty"] == "RSA" else ECKey.import_key(public))
    except (JoseError, ValueError, KeyError, TypeError, AttributeError, UnsupportedAlgorithm):
        return None
    algorithms = frozenset(each for each in found.algorithms if each == row.get("alg", each))
    return TokenKey(found.key, algorithms, kid) if algorithms else None


def _checked(key: RSAKey | ECKey) -> TokenKey:
    """Raises KeyProblem."""
    if isinstance(key, RSAKey):
        _check_size(key.public_key.key_size)
        return TokenKey(key, _RSA)
    algorithm = _EC.get(key.curve_name)
    if algorithm is None:
        raise KeyProblem(f"A key is on one of the curves {', '.join(_EC)}.")
    return TokenKey(key, frozenset((algorithm,)))


def _check_size(bits: int) -> None:
    """Of a key of RSA. Raises KeyProblem."""
    if not _LEAST_RSA <= bits <= _MOST_RSA:
        raise KeyProblem(f"A key of RSA has {_LEAST_RSA} to {_MOST_RSA} bits, and this one has {bits}.")


# -- tokens -----------------------------------------------------------------------------------------------------------


def head_of(text: str) -> Head:
    """What a token says of its signature. Raises RefusedError."""
    if len(text) > LONGEST_TOKEN:
        raise RefusedError("the token is too long")
    parts = text.split(".")
    if len(parts) != 3 or not text.isascii() or len(parts[0]) > _LONGEST_HEADER:
        raise RefusedError("this is no token")
    try:
        header = json.loads(_decoded(parts[0]))
    except (ValueError, RecursionError):
        raise RefusedError("the token has no header") from None
    if not isinstance(header, dict):
        raise RefusedError("the token has no header")
    if "crit" in header or "b64" in header:
        # it asks for something that is not understood here, and must not be ignored
        raise RefusedError("the token asks for an extension (crit)")
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or not (kid is None or isinstance(kid, str)):
        raise RefusedError("the token's header is none (alg, kid)")
    return Head(algorithm, kid)


def claims_of(text: str, key: TokenKey) -> Mapping[str, object] | None:
    """What a token says if this key has signed it, else None. Raises RefusedError for a signed one that says nothing.

    `head_of` has found the token well-made.
    """
    registry = jws.JWSRegistry(algorithms=sorted(key.algorithms), strict_check_header=False)
    registry.max_header_length = _LONGEST_HEADER
    try:
        payload = jws.deserialize_compact(text, key.key, registry=registry).payload
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    try:
        claims = json.loads(payload or b"")
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise RefusedError("the token says nothing")
    return claims


def _decoded(part: str) -> bytes:
    """Raises ValueError."""
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
