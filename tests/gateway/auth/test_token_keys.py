"""Keys of tokens, and what is tried against signatures."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth import signing, token_keys
from gateway.auth.errors import RefusedError
from gateway.auth.token_keys import KeyProblem, TokenKey, claims_of, head_of
from tests.gateway.auth.jwt_making import (
    EC_KEY,
    OTHER_EC,
    OTHER_RSA,
    RSA_KEY,
    SECRET,
    b64,
    der,
    jwk,
    jwks,
    part,
    pem,
    token,
)

ADA = {"sub": "ada"}
KEYS = {
    "HS256": (token_keys.of_secret(SECRET), SECRET, b"another key that is 32 bytes long"),
    "RS256": (token_keys.of_public(pem(RSA_KEY)), RSA_KEY, OTHER_RSA),
    "ES256": (token_keys.of_public(pem(EC_KEY)), EC_KEY, OTHER_EC),
}


def proved(text: str, key: TokenKey) -> Any:
    """As `tokens.py` asks."""
    head = head_of(text)
    return claims_of(text, key) if head.algorithm in key.algorithms else None


@pytest.mark.parametrize("algorithm", KEYS)
def test_only_who_has_the_key_can_sign(algorithm: str) -> None:
    key, own, other = KEYS[algorithm]
    good = token({"alg": algorithm, "typ": "JWT", "x5t#S256": "ignored"}, ADA, own)
    assert proved(good, key) == ADA
    assert proved(token({"alg": algorithm}, ADA, other), key) is None
    head, _, signature = good.split(".")
    assert proved(f"{head}.{part({'sub': 'root'})}.{signature}", key) is None
    assert proved(good[:-6] + ("AAAAAA" if not good.endswith("AAAAAA") else "BBBBBB"), key) is None


PUBLIC = {"pem": pem(RSA_KEY), "der": der(RSA_KEY), "stripped": pem(RSA_KEY).strip()}


@pytest.mark.parametrize("algorithm", ["none", "None", "nOnE", "", "HS256", "HS512", "hs256", "EdDSA", "RS1"])
@pytest.mark.parametrize("of", KEYS)
def test_a_token_does_not_choose_its_algorithm(algorithm: str, of: str) -> None:
    key, own, _ = KEYS[of]
    if of == algorithm:
        return
    for signed_with in (None, own, *PUBLIC.values()):
        text = token({"alg": algorithm}, ADA, signed_with)
        assert proved(text, key) is None
        # also where nobody has looked at the algorithm before
        assert claims_of(text, key) is None


@pytest.mark.parametrize("own", [EC_KEY, RSA_KEY])
def test_a_key_that_the_token_brings_along_is_not_used(own: Any) -> None:
    algorithm = "ES256" if own is EC_KEY else "RS256"
    attacker = OTHER_EC if own is EC_KEY else OTHER_RSA
    header = {
        "alg": algorithm,
        "jwk": jwk(attacker),
        "jku": "https://evil.example/jwks",
        "x5u": "https://evil.example",
    }
    assert proved(token(header, ADA, attacker), KEYS[algorithm][0]) is None


def test_a_key_that_is_for_one_algorithm_is_used_with_no_other() -> None:
    (key,) = token_keys.of_jwks(jwks(jwk(RSA_KEY, alg="RS512")))
    text = token({"alg": "RS256"}, ADA, RSA_KEY)
    assert proved(text, key) is None
    assert claims_of(text, key) is None
    assert proved(signing.by_private(ADA, private(RSA_KEY), "RS512"), key) == ADA


def test_zeros_are_no_signature() -> None:
    text = f"{part({'alg': 'ES256'})}.{part(ADA)}."
    for signature in (bytes(64), bytes(63), bytes(65), b"", b"\0" * 31 + b"\1" + b"\0" * 31 + b"\1"):
        assert proved(text + b64(signature), KEYS["ES256"][0]) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no token"),
        ("a.b", "no token"),
        ("a.b.c.d", "no token"),
        ("a.b.c.d.e", "no token"),
        ("é.b.c", "no token"),
        ("!.b.c", "header"),
        (f"{part([])}.e30.", "header"),
        (f"{part('alg')}.e30.", "header"),
        (f"{b64(b'{')}.e30.", "header"),
        (f"{b64(b'[' * 4000)}.e30.", "header"),
        (f"{part({})}.e30.", "alg"),
        (f"{part({'alg': None})}.e30.", "alg"),
        (f"{part({'alg': ['HS256']})}.e30.", "alg"),
        (f"{part({'alg': 'HS256', 'kid': 7})}.e30.", "kid"),
        (f"{part({'alg': 'HS256', 'crit': ['exp']})}.e30.", "crit"),
        (f"{part({'alg': 'HS256', 'crit': []})}.e30.", "crit"),
        (f"{part({'alg': 'HS256', 'b64': False})}.e30.", "crit"),
        (f"{part({'alg': 'HS256', 'pad': 'x' * 8192})}.e30.", "no token"),
        ("x" * 65_537, "too long"),
        (part({"alg": "HS256"}) + "." + "x" * 65_536 + ".x", "too long"),
    ],
)
def test_what_is_no_token(text: str, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        head_of(text)


@pytest.mark.parametrize("header", [{"crit": ["exp"], "exp": 1}, {"crit": ["b64"], "b64": False}])
def test_an_extension_is_refused_although_it_is_signed(header: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="crit"):
        head_of(token({"alg": "HS256", **header}, ADA, SECRET))


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"7", b"null", b'"ada"', b"{", b"\xff", b"[" * 40_000, b"9" * 5000]
)
def test_a_signed_token_that_says_nothing(payload: bytes) -> None:
    with pytest.raises(RefusedError, match="says nothing"):
        proved(token({"alg": "HS256"}, b64(payload), SECRET), KEYS["HS256"][0])


@given(
    st.text(max_size=60) | st.lists(st.text(alphabet="abcXYZ09-_=", max_size=30), max_size=5).map(".".join)
)
def test_whatever_comes_is_refused(text: str) -> None:
    try:
        head_of(text)
    except RefusedError:
        return
    for key, _, _ in KEYS.values():
        assert claims_of(text, key) is None


# -- keys


def test_what_is_no_secret_is_no_secret_key() -> None:
    with pytest.raises(KeyProblem, match="no secret key"):
        token_keys.of_secret(pem(RSA_KEY))


def test_a_long_key_signs_longer() -> None:
    assert [len(token_keys.of_secret(bytes(size)).algorithms) for size in (32, 47, 48, 64)] == [1, 1, 2, 3]
    with pytest.raises(KeyProblem, match="31"):
        token_keys.of_secret(bytes(31))


@pytest.mark.parametrize("raw", [pem(RSA_KEY), der(RSA_KEY), b"\n" + pem(RSA_KEY)])
def test_public_keys_are_pem_or_der(raw: bytes) -> None:
    key = token_keys.of_public(raw)
    assert proved(token({"alg": "RS256"}, ADA, RSA_KEY), key) == ADA
    assert "HS256" not in key.algorithms


def private(key: Any) -> bytes:
    found: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return found


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "no public key"),
        (b"secret", "no public key"),
        (private(RSA_KEY), "private"),
        (pem(rsa.generate_private_key(65_537, 1024)), "2048 to"),
        (pem(ec.generate_private_key(ec.SECP256K1())), "curve"),
        (pem(ed25519.Ed25519PrivateKey.generate()), "RSA"),
    ],
)
def test_public_keys_that_are_none(raw: bytes, why: str) -> None:
    with pytest.raises(KeyProblem, match=why):
        token_keys.of_public(raw)


def test_where_a_key_is(tmp_path: Path) -> None:
    text = base64.b64encode(SECRET).decode()
    (tmp_path / "a key").write_bytes(SECRET)
    for location in (text, f"data:;base64,{text}", f"file://{tmp_path}/a%20key", f"file:{tmp_path}/a%20key"):
        assert token_keys.read(location) == SECRET
    (tmp_path / "large").write_bytes(bytes(65_537))
    for wrong, why in (
        (f"file://{tmp_path}/none", "No such file"),
        (f"file://{tmp_path}/large", "too large"),
        (f"file://elsewhere{tmp_path}/a%20key", "base64"),
        ("my secret!", "base64"),
        ("sécret", "base64"),
    ):
        with pytest.raises(KeyProblem, match=why) as refused:
            token_keys.read(wrong)
        assert "secret" not in str(refused.value)


def test_a_jwks_gives_the_keys_that_verify() -> None:
    raw = jwks(
        jwk(RSA_KEY, "r", use="sig"),
        jwk(EC_KEY, "e", alg="ES256"),
        jwk(OTHER_RSA, "for encryption", use="enc"),
        jwk(OTHER_RSA, "to sign", key_ops=["sign"]),
        jwk(OTHER_RSA, "of another algorithm", alg="HS256"),
        {"kty": "oct", "k": b64(SECRET), "kid": "symmetric"},
        {"kty": "RSA", "kid": "broken"},
        {"kty": "RSA", "n": 7, "e": [], "kid": "worse"},
        {"kty": "EC", "crv": "P-256", "x": b64(bytes(32)), "y": b64(bytes(32)), "kid": "not on the curve"},
        {"kty": ["RSA"], "kid": "odd"},
        jwk(OTHER_EC) | {"kid": 7},
        "no row",
        None,
    )
    found = {each.kid: each for each in token_keys.of_jwks(raw)}
    assert set(found) == {"r", "e"}
    assert proved(token({"alg": "RS256"}, ADA, RSA_KEY), found["r"]) == ADA
    assert proved(token({"alg": "ES256"}, ADA, EC_KEY), found["e"]) == ADA
    assert found["e"].algorithms == {"ES256"}


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"keys": 7}', b"<html>", b"\xff", b"[" * 100_000, b"null"]
)
def test_what_is_no_jwks(raw: bytes) -> None:
    with pytest.raises(KeyProblem, match="no JWKS"):
        token_keys.of_jwks(raw)


def test_keys_are_not_shown() -> None:
    key = token_keys.of_secret(b"an open secret that is long enough")
    assert "secret" not in repr(key)
    assert json.dumps(b64(SECRET)) not in repr(KEYS["HS256"][0])
