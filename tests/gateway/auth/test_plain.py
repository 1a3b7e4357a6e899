"""PLAIN: one message, and what is wrong with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.errors import RefusedError
from gateway.auth.mechanisms import Password, Token
from gateway.auth.plain import Plain
from semantics.names import Namespace


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (b"\0ada\0secret", Password("ada", "secret")),
        (b"ada\0ada\0secret", Password("ada", "secret")),
        ("\0jürgen\0pässwörd".encode(), Password("jürgen", "pässwörd")),
        (b"\0ada\0a b,c=d", Password("ada", "a b,c=d")),
        (b"\0ada\0token:abc.def.ghi", Token("abc.def.ghi")),
        (b"\0shop/eu\0token:abc", Token("abc", home=Namespace("shop", "eu"))),
        # a user whose name has a slash, and whose password is none of those
        (b"\0shop/eu\0secret", Password("shop/eu", "secret")),
        # a password may be long if it is a token
        (b"\0ada\0token:" + b"x" * 50_000, Token("x" * 50_000)),
    ],
)
def test_what_a_client_says(said: bytes, outcome: object) -> None:
    assert Plain().receive(said) == outcome


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "parts"),
        (b"ada\0secret", "2 parts"),
        (b"\0ada\0secret\0", "4 parts"),
        (b"\0\0secret", "no name"),
        (b"\0ada\0", "no password"),
        (b"root\0ada\0secret", "somebody else"),
        (b"\0ada\0\xff\xfe", "no text"),
        (b"\0ada\nroot\0secret", "do not print"),
        (b"\0" + b"a" * 300 + b"\0secret", "300 characters"),
        (b"\0ada\0" + b"x" * 2000, "longer"),
        (b"\0shop/eu/x\0token:abc", "tenant/namespace"),
    ],
)
def test_what_is_refused(said: bytes, reason: str) -> None:
    with pytest.raises(RefusedError, match=reason):
        Plain().receive(said)


def test_the_log_hears_who_it_was_and_no_password() -> None:
    plain = Plain()
    outcome = plain.receive(b"\0ada\0secret")
    assert plain.user == "ada"
    assert "secret" not in repr(outcome)
    assert "abc" not in repr(Plain().receive(b"\0ada\0token:abc"))


@given(
    st.binary(max_size=200)
    | st.lists(st.text(max_size=9), max_size=5).map(lambda each: "\0".join(each).encode())
)
def test_no_bytes_do_anything_else(data: bytes) -> None:
    plain = Plain()
    try:
        outcome = plain.receive(data)
    except RefusedError as error:
        with pytest.raises(RefusedError):
            plain.refused(error)
    else:
        assert isinstance(outcome, Password | Token)
        if isinstance(outcome, Password):
            assert data.endswith(f"\0{outcome.name}\0{outcome.password}".encode())
