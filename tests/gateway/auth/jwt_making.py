"""Tokens made by hand, good ones and others, with Python's own library; and keys."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SECRET = bytes(range(32))
NOW = 1_700_000_000
"""Seconds since 1970."""

RSA_KEY = rsa.generate_private_key(65_537, 2048)
OTHER_RSA = rsa.generate_private_key(65_537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_EC = ec.generate_private_key(ec.SECP256R1())


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def part(value: object) -> str:
    return b64(json.dumps(value, separators=(",", ":")).encode())


def token(header: Any, claims: Any, key: Any) -> str:
    """Signed with bytes (HMAC), a private key, or with nothing (None)."""
    text = f"{part(header)}.{claims if isinstance(claims, str) else part(claims)}"
    return f"{text}.{b64(signature(text.encode(), key))}"


def signature(text: bytes, key: Any) -> bytes:
    if key is None:
        return b""
    if isinstance(key, bytes):
        return hmac.digest(key, text, "sha256")
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(text, padding.PKCS1v15(), hashes.SHA256())
    r, s = decode_dss_signature(key.sign(text, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def pem(key: Any) -> bytes:
    found: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found


def der(key: Any) -> bytes:
    found: bytes = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return found


def jwk(key: Any, kid: str | None = None, **more: Any) -> dict[str, Any]:
    """The public key as a row of a JWKS."""
    numbers = key.public_key().public_numbers()
    if isinstance(key, rsa.RSAPrivateKey):
        row = {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}
    else:
        row = {
            "kty": "EC",
            "crv": "P-256",
            "x": b64(numbers.x.to_bytes(32, "big")),
            "y": b64(numbers.y.to_bytes(32, "big")),
        }
    return {**row, **({} if kid is None else {"kid": kid}), **more}


def number(value: int) -> str:
    return b64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def jwks(*rows: Any) -> bytes:
    return json.dumps({"keys": list(rows)}).encode()
