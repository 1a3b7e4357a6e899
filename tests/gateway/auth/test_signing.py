"""Tokens and keys that are made here are those that are taken here."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.auth import signing, token_keys
from gateway.auth.token_keys import KeyProblem
from gateway.cli import tokens
from tests.gateway.auth.jwt_making import EC_KEY, RSA_KEY, SECRET

CLAIMS = signing.claims_for("ada", issued=1, expires=2, home="shop/eu")


@pytest.mark.parametrize("algorithm", tokens._HMAC)
def test_by_a_secret_key(algorithm: str) -> None:
    secret = signing.new_secret(algorithm)
    text = signing.by_secret(CLAIMS, secret, algorithm)
    assert token_keys.head_of(text).algorithm == algorithm
    assert token_keys.claims_of(text, token_keys.of_secret(secret)) == CLAIMS
    assert signing.new_secret(algorithm) != secret


@pytest.mark.parametrize("algorithm", tokens._PAIRS)
def test_by_a_pair_of_keys(algorithm: str) -> None:
    private, public = signing.new_pair(algorithm)
    text = signing.by_private(CLAIMS, private, algorithm)
    assert token_keys.claims_of(text, token_keys.of_public(public)) == CLAIMS


def test_what_is_not_said_is_not_in_it() -> None:
    assert signing.claims_for("ada", issued=1) == {"sub": "ada", "iat": 1}


def test_a_key_as_pulsar_writes_it() -> None:
    raw = RSA_KEY.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    assert signing.shown(signing.by_private(CLAIMS, raw)) == ({"alg": "RS256"}, CLAIMS)


def test_keys_that_cannot_sign() -> None:
    ec = EC_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for raw, algorithm in ((ec, "RS256"), (ec, "ES384"), (ec, "HS256"), (b"sesame", "RS256"), (b"", "RS256")):
        with pytest.raises(KeyProblem) as refused:
            signing.by_private(CLAIMS, raw, algorithm)
        assert "sesame" not in str(refused.value)
    for secret, algorithm in ((SECRET[:31], "HS256"), (SECRET, "HS512")):
        with pytest.raises(KeyProblem):
            signing.by_secret(CLAIMS, secret, algorithm)


@pytest.mark.parametrize("text", ["", "a", "a.b.c", "e30.e30", "e30.W10.x", "W10.e30.x", "é.e30.x"])
def test_what_is_no_token_is_not_shown(text: str) -> None:
    with pytest.raises(KeyProblem, match="no token"):
        signing.shown(text)
