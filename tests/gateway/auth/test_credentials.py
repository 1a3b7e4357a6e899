"""What is kept instead of a password, and what can be a user."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth import credentials
from gateway.auth.credentials import SHA_256, SHA_512, UserError, UserRow, Verifier, check, from_salted, make

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def test_the_keys_of_the_example_of_rfc_7677() -> None:
    verifier = make(SHA_256, "pencil", 4096, SALT)
    assert verifier[:3] == (SHA_256, SALT, 4096)
    # the server's signature of the exchange in RFC 7677, section 3
    exchange = (
        "n=user,r=rOprNGfwEbeRWgbNEkqO,"
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    import hmac

    signature = hmac.digest(verifier.server_key, exchange.encode(), "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_only_the_password_is_right(mechanism: str) -> None:
    verifier = make(mechanism, "pässwörd", 4096, b"salt")
    assert check(verifier, "pässwörd")
    # no SASLprep: what looks the same and is written otherwise is another password
    for wrong in ("passwort", "", "pässwörd ", "pa\u0308sswo\u0308rd", "\ud800"):
        assert not check(verifier, wrong)


def test_a_password_that_was_salted_elsewhere_gives_the_same() -> None:
    import hashlib

    salted = hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 5000)
    assert from_salted(SHA_512, salted, 5000, b"salt") == make(SHA_512, "secret", 5000, b"salt")


@given(
    st.dictionaries(
        st.sampled_from([SHA_256, SHA_512]),
        st.builds(
            Verifier, st.just(SHA_256), st.binary(), st.integers(4096, 16384), st.binary(), st.binary()
        ),
    ),
    st.none() | st.just("shop/eu"),
    st.integers(0, 1 << 40),
)
def test_a_row_is_read_as_it_was_written(
    verifiers: dict[str, Verifier], home: str | None, epoch: int
) -> None:
    row = UserRow(verifiers, home, epoch)
    assert credentials.decode(credentials.encode(row)) == row


def test_nothing_secret_is_shown() -> None:
    row = UserRow({SHA_256: Verifier(SHA_256, b"salty", 4096, b"stored-key", b"server-key")}, "shop/eu", 3)
    for shown in (repr(row), repr(row.verifiers), str(row)):
        assert not any(secret in shown for secret in ("salty", "stored-key", "server-key"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "has a name"),
        ("a,b", "comma"),
        ("a=b", "equals"),
        ("a\nb", "control"),
        ("a\0", "control"),
        ("a\u202eb", "control"),
        ("a\u2028b", "control"),
        ("\ud800", "control"),
        (" ada", "space"),
        ("ada ", "space"),
        ("x" * 129, "129"),
        ("ANONYMOUS", "others"),
        ("*", "others"),
    ],
)
def test_names_that_no_user_can_have(name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        credentials.check_name(name)


@pytest.mark.parametrize("name", ["ada", "shop.ada", "Ada Lovelace", "ädä", "a:b", "a/b", "x" * 128, "日本"])
def test_names_that_a_user_can_have(name: str) -> None:
    assert credentials.check_name(name) == name


@pytest.mark.parametrize(
    ("password", "words"), [("", "empty"), ("x" * 1025, "1025"), ("ä" * 513, "1026"), ("\ud800", "valid")]
)
def test_passwords_that_no_user_can_have(password: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as refused:
        credentials.check_password(password)
    assert not password or password not in str(refused.value)


def test_a_home_is_a_namespace() -> None:
    assert credentials.check_home("shop/eu") == "shop/eu"
    for wrong in ("shop", "", "a/b/c", "a/../b", "a.b/c"):
        with pytest.raises(UserError, match="home"):
            credentials.check_home(wrong)
