"""Pulsar's roles."""

from __future__ import annotations

import pytest

from semantics.access.roles import administers, is_super_user, role_of

SUPER = frozenset({"User:root", "User:CN=ops,O=shop"})


@pytest.mark.parametrize(
    ("principal", "is_super", "is_admin"),
    [
        ("User:root", True, True),
        ("User:CN=ops,O=shop", True, True),
        ("User:ada", False, True),
        ("User:CN=bob", False, True),
        ("User:eve", False, False),
        ("User:Ada", False, False),
        # what has no kind is no principal, whatever it is called
        ("ada", False, False),
        ("root", False, False),
        ("Group:ada", False, False),
        ("User:", False, False),
    ],
)
def test_who_may_do_everything_and_who_in_a_tenant(principal: str, is_super: bool, is_admin: bool) -> None:
    assert is_super_user(principal, SUPER) is is_super
    assert administers(principal, SUPER, ["ada", "CN=bob"]) is is_admin


def test_a_super_user_looks_after_a_tenant_that_names_nobody() -> None:
    assert administers("User:root", SUPER, [])
    assert not administers("User:ada", SUPER, [])


def test_a_role_is_a_principal_without_its_kind() -> None:
    assert role_of("User:User:ada") == "User:ada"
