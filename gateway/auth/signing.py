"""Tokens and keys that are made here, as `pulsar tokens` makes them."""

from __future__ import annotations

import json
import os
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_pem_private_key,
)
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, RSAKey

from gateway.auth.token_keys import KeyProblem, of_secret

SECRET = 32
"""Bytes of a secret key for HS256."""
_CURVES: dict[str, ec.EllipticCurve] = {
    "ES256": ec.SECP256R1(),
    "ES384": ec.SECP384R1(),
    "ES512": ec.SECP521R1(),
}


def claims_for(
    subject: str, *, issued: int, expires: int | None = None, home: str | None = None
) -> dict[str, Any]:
    """What a token says, times in seconds since 1970."""
    claims: dict[str, Any] = {"sub": subject, "iat": issued}
    if expires is not None:
        claims["exp"] = expires
    if home is not None:
        claims["home"] = home
    return claims


def by_secret(claims: dict[str, Any], secret: bytes, algorithm: str = "HS256") -> str:
    """A token signed with the key that verifies it. Raises KeyProblem."""
    found = of_secret(secret)
    if algorithm not in found.algorithms:
        raise KeyProblem(f"The key is too short for {algorithm}.")
    return _signed(claims, found.key, algorithm)


def by_private(claims: dict[str, Any], private: bytes, algorithm: str = "RS256") -> str:
    """A token signed with a private key in PEM, or in DER, as Pulsar writes it. Raises KeyProblem."""
    pem = private.lstrip().startswith(b"-----")
    try:
        key = (load_pem_private_key if pem else load_der_private_key)(private, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyProblem("This is no private key in PEM or DER, or it has a password.") from None
    raw = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    if isinstance(key, rsa.RSAPrivateKey) and algorithm.startswith("RS"):
        return _signed(claims, RSAKey.import_key(raw), algorithm)
    if isinstance(key, ec.EllipticCurvePrivateKey) and algorithm in _CURVES:
        return _signed(claims, ECKey.import_key(raw), algorithm)
    raise KeyProblem(f"This key cannot sign with {algorithm}: say --algorithm.")


def _signed(claims: dict[str, Any], key: Key, algorithm: str) -> str:
    try:
        # as Pulsar's: nothing but the algorithm
        return jwt.encode({"alg": algorithm}, claims, key, algorithms=[algorithm], default_type=None)
    except (JoseError, ValueError) as error:
        raise KeyProblem(f"This key cannot sign with {algorithm}: {error}") from None


def new_secret(algorithm: str = "HS256") -> bytes:
    """A key to sign and to verify with."""
    return os.urandom(SECRET * int(algorithm[2:]) // 256)


def new_pair(algorithm: str = "RS256") -> tuple[bytes, bytes]:
    """A private key (PKCS#8) and its public key, both in PEM."""
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    if algorithm in _CURVES:
        key = ec.generate_private_key(_CURVES[algorithm])
    else:
        key = rsa.generate_private_key(65_537, 2048)
    return (
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    )


def shown(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a token says of itself, and what it says; nothing of it is verified. Raises KeyProblem."""
    from base64 import urlsafe_b64decode

    parts = text.strip().split(".")
    try:
        header, claims = (json.loads(urlsafe_b64decode(each + "=" * (-len(each) % 4))) for each in parts[:2])
    except (ValueError, RecursionError):
        raise KeyProblem("This is no token.") from None
    if len(parts) != 3 or not isinstance(header, dict) or not isinstance(claims, dict):
        raise KeyProblem("This is no token.")
    return header, claims
