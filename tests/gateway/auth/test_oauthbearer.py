"""OAUTHBEARER: one message, and the dance where its token is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.errors import RefusedError
from gateway.auth.mechanisms import Token
from gateway.auth.oauthbearer import INVALID, OauthBearer


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (b"n,,\x01auth=Bearer abc.def-_.ghi\x01\x01", Token("abc.def-_.ghi")),
        (b"n,,\x01auth=bearer abc==\x01\x01", Token("abc==")),
        (b"n,a=ada,\x01auth=Bearer abc\x01\x01", Token("abc", name="ada")),
        (b"n,a=a=2Cb=3Dc,\x01auth=Bearer abc\x01\x01", Token("abc", name="a,b=c")),
        (b"n,,\x01traceId=7 x\x01auth=Bearer abc\x01more=y\x01\x01", Token("abc")),
    ],
)
def test_what_a_client_says(said: bytes, outcome: Token) -> None:
    assert OauthBearer().receive(said) == outcome


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01\x01more",
        b"n,,\x01a1=x\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,a=a\nb,\x01auth=Bearer abc\x01\x01",
        # the last one would count, and it is none
        b"n,,\x01auth=Bearer abc\x01auth=x\x01\x01",
    ],
)
def test_what_is_refused(said: bytes) -> None:
    with pytest.raises(RefusedError):
        OauthBearer().receive(said)


def test_a_client_whose_token_is_refused_hears_of_it_and_then_fails() -> None:
    machine = OauthBearer()
    machine.receive(b"n,,\x01auth=Bearer abc\x01\x01")
    error = RefusedError("expired")
    assert machine.refused(error).data == INVALID
    with pytest.raises(RefusedError, match="expired"):
        machine.receive(b"\x01")


def test_nothing_but_an_end_follows_a_refused_token() -> None:
    machine = OauthBearer()
    machine.receive(b"n,,\x01auth=Bearer abc\x01\x01")
    machine.refused(RefusedError("expired"))
    with pytest.raises(RefusedError, match="expired"):
        machine.receive(b"n,,\x01auth=Bearer better\x01\x01")


@given(st.binary(max_size=99) | st.from_regex(r"n,(a=\w+)?,\x01(\w+=[ -~]*\x01){0,3}\x01").map(str.encode))
def test_no_bytes_do_anything_else(data: bytes) -> None:
    try:
        assert isinstance(OauthBearer().receive(data), Token)
    except RefusedError:
        pass
