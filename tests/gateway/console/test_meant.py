"""Which dead letters a form means, and values that are typed."""

from __future__ import annotations

import base64
from urllib.parse import parse_qsl

import pytest

from gateway.console.meant import Chosen, UnreadableError, editable, edited


def test_a_filter_is_kept_through_pages() -> None:
    fields = {
        "reason": "REJECTED",
        "text": " card & co ",
        "header": "tenant=a=b",
        "key": "",
        "state": "open",
        "all": "1",
    }
    chosen = Chosen.of(fields)
    assert dict(parse_qsl(chosen.query(state="any"))) == {
        "reason": "REJECTED", "text": "card & co", "header": "tenant=a=b", "state": "any",
    }  # fmt: skip
    assert Chosen.of(dict(chosen.fields())) == chosen
    assert chosen.body() == {
        "filter": {"reason": "REJECTED", "text": "card & co", "header": {"tenant": "a=b"}}
    }
    assert chosen.words() == ["--reason", "REJECTED", "--text", "card & co", "--header", "tenant=a=b"]


def test_those_that_were_ticked_are_meant_unless_all_are() -> None:
    fields = {"reason": "REJECTED", "l.0:17": "1", "l.3:1": "1", "e.0:17": "eA=="}
    chosen = Chosen.of(fields)
    assert chosen.body() == {
        "filter": {"reason": "REJECTED", "ids": ["0:17", "3:1"]}, "edits": {"0:17": {"value": "eA=="}},
    }  # fmt: skip
    assert Chosen.of(dict(chosen.fields())) == chosen
    assert "ids" not in Chosen.of({**fields, "all": "1"}).body()["filter"]


def test_neither_is_never_all() -> None:
    """A form without a tick must not send everything."""
    assert Chosen.of({"reason": "REJECTED"}).nothing
    assert Chosen.of({"reason": "REJECTED"}).body()["filter"]["ids"] == []


@pytest.mark.parametrize("said", ["tenant", "=x"])
def test_a_header_that_makes_no_sense(said: str) -> None:
    with pytest.raises(UnreadableError, match="NAME=VALUE"):
        Chosen.of({"header": said, "all": "1"}).body()


@pytest.mark.parametrize(
    "value", [b"", b"plain", b'{\n  "a": 1\n}', "ü€".encode(), b"\xff\x00", b"a\r\nb", b"\0", b"\nx\n"]
)
def test_a_value_that_nobody_changed_is_the_same(value: bytes) -> None:
    text, kind = editable(value)
    assert base64.b64decode(edited(text.replace("\n", "\r\n"), kind)) == value


def test_what_is_no_base64_is_refused() -> None:
    with pytest.raises(UnreadableError, match="base64"):
        edited("abc", "base64")
