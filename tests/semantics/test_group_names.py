"""Ids of groups of several homes: apart from each other, and back to the names that clients say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.group_names import (
    SEPARATOR,
    bare,
    full,
    home_of,
    in_text,
    may_be_said,
    parts,
    scoped,
    shown,
    topic_prefix,
)
from semantics.names import DEFAULT, Namespace

EU = Namespace("shop", "eu")
said = st.text(min_size=1, max_size=30).filter(lambda name: SEPARATOR not in name)
homes = st.sampled_from([DEFAULT, EU, Namespace("shop", "us"), Namespace("a", "b")])


@given(homes, said)
def test_a_name_comes_back_with_its_home(home: Namespace, name: str) -> None:
    kept = scoped(home, name)
    assert (bare(kept), home_of(kept)) == (name, home)
    assert (kept == name) == (home == DEFAULT)


@given(homes, said, homes, said)
def test_no_two_groups_have_one_id(one: Namespace, name: str, other: Namespace, its: str) -> None:
    assert (scoped(one, name) == scoped(other, its)) == ((one, name) == (other, its))


@given(homes, said, homes)
def test_an_id_is_said_by_clients_of_its_home_only(home: Namespace, name: str, other: Namespace) -> None:
    assert may_be_said(other, scoped(home, name)) == (home == other)
    assert not may_be_said(other, scoped(other, scoped(EU, name)))
    assert may_be_said(other, "")


ids = st.builds(scoped, homes, said | st.builds(full, homes, said))


@given(ids, ids, homes)
def test_no_two_groups_are_shown_alike(one: str, other: str, home: Namespace) -> None:
    assert (shown(one, home) == shown(other, home)) == (one == other)
    assert SEPARATOR not in shown(one, home)
    assert scoped(*(parts(shown(one, home)) or (home, shown(one, home)))) == one


@pytest.mark.parametrize("made_up", ["a/\x1fb", "/\x1f", "a/b/c/\x1fd", "a\x1fb"])
def test_an_id_that_was_made_up_before_belongs_to_nobody_else(made_up: str) -> None:
    assert (home_of(made_up), bare(made_up), shown(made_up)) == (DEFAULT, made_up, made_up)


def test_what_it_looks_like() -> None:
    kept = scoped(EU, "billing")
    assert (shown(kept), topic_prefix(kept)) == ("shop/eu//billing", "shop/eu/")
    assert in_text(f"group {kept} of {kept}") == "group shop/eu//billing of shop/eu//billing"
    assert (shown(kept, EU), shown("billing", EU)) == ("billing", "public/default//billing")
    assert [shown(name) for name in ("shop/eu/billing", "shop/eu//billing", "shop/eu//")] == [
        "shop/eu/billing",
        "public/default//shop/eu//billing",
        "shop/eu//",
    ]
    assert (shown("a/b"), topic_prefix("a/b"), scoped(EU, "")) == ("a/b", "", "")
