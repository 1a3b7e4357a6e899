"""Which messages and dead letters a page or a form is about."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qsl

import pytest

from gateway.console.chosen import Letters, Messages
from gateway.console.typed import UnreadableError


def test_a_filter_is_kept_through_pages() -> None:
    fields = {
        "reason": "REJECTED",
        "text": " card & co ",
        "header": "tenant=a=b",
        "key": "",
        "state": "open",
        "all": "1",
    }
    chosen = Letters.read(fields)
    assert dict(parse_qsl(chosen.listed(state="any"))) == {
        "reason": "REJECTED", "text": "card & co", "header": "tenant=a=b", "state": "any",
    }  # fmt: skip
    assert Letters.read(chosen.fields()) == chosen
    assert chosen.body() == {
        "filter": {"reason": "REJECTED", "text": "card & co", "header": {"tenant": "a=b"}}
    }
    assert chosen.words() == ["--reason=REJECTED", "--text=card & co", "--header=tenant=a=b"]


def test_what_nobody_typed_is_no_filter_and_spaces_are_one_where_they_are_compared() -> None:
    empty = {"reason": "", "key": "", "text": "  ", "header": "", "since": " ", "all": "1"}
    assert Letters.read(empty).body() == {"filter": {}}
    assert Letters.read({**empty, "key": " "}).body() == {"filter": {"key": " "}}
    assert Messages.read({"state": "", "key": " ", "text": " ", "all": "1"}).body() == {
        "filter": {"key": " "}
    }


def test_those_that_were_ticked_are_meant_unless_all_are() -> None:
    fields = {"reason": "REJECTED", "m.0:17": "1", "m.3:1": "1", "draft": "d1", "e.0:17": "eA=="}
    chosen = Letters.read(fields)
    assert (chosen.draft, chosen.edits) == ("d1", {}), "an edit is what was kept under that name"
    assert replace(chosen, edits={"0:17": "eA=="}).body() == {
        "filter": {"reason": "REJECTED", "ids": ["0:17", "3:1"]}, "edits": {"0:17": {"value": "eA=="}},
    }  # fmt: skip
    assert Letters.read(chosen.fields()) == chosen
    assert "ids" not in Letters.read({**fields, "all": "1"}).body()["filter"]


def test_neither_is_never_all() -> None:
    """A form without a tick must not send everything."""
    assert Letters.read({"reason": "REJECTED"}).nothing
    assert Letters.read({"reason": "REJECTED"}).body()["filter"]["ids"] == []


@pytest.mark.parametrize("said", ["tenant", "=x"])
def test_a_header_that_makes_no_sense(said: str) -> None:
    with pytest.raises(UnreadableError, match="NAME=VALUE"):
        Letters.read({"header": said, "all": "1"}).body()


def test_messages_are_chosen_as_letters_are() -> None:
    fields = {"state": "acquired,blocked", "key": " a ", "consumer": "", "partition": "3", "m.17:3:0:5": "1"}
    ticked = Messages.read(fields)
    assert (ticked.nothing, ticked.body()) == (False, {"messages": ["17:3:0:5"]})
    assert ticked.words() == ["-m", "17:3:0:5"]
    assert Messages.read(dict(parse_qsl(ticked.query()))) == ticked
    chosen = Messages.read({**fields, "all": "1"})
    assert chosen.body() == {"filter": {"state": "acquired,blocked", "key": " a "}}
    assert chosen.words() == ["--state=acquired", "--state=blocked", "--key= a "]
    assert dict(parse_qsl(chosen.listed())) == {"state": "acquired,blocked", "key": " a ", "partition": "3"}
    assert "m.17:3:0:5" not in chosen.fields()
    assert Messages.read({"all": "1"}).words() == ["--all"]
    assert Messages.read({"state": "acquired"}).nothing
