"""Which namespaces are homes."""

from __future__ import annotations

from semantics.homes import EVERYWHERE, written
from semantics.names import DEFAULT, Namespace


def test_everywhere_is_each_namespace_and_is_not_empty() -> None:
    assert EVERYWHERE
    assert DEFAULT in EVERYWHERE
    assert Namespace("shop", "later") in EVERYWHERE


def test_homes_are_written_alike_whatever_order_they_are_in_and_no_two_alike() -> None:
    eu, us = Namespace("shop", "eu"), Namespace("shop", "us")
    assert written(frozenset((us, eu))) == written(frozenset((eu, us))) == b"shop/eu,shop/us"
    assert (written(frozenset()), written(EVERYWHERE)) == (b"", b"*")
