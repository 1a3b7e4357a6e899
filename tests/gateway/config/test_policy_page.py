"""The table of policies in docs/SEMANTICS.md is that of the code."""

from __future__ import annotations

import pytest

from gateway.config.policy_page import PAGE, table, with_table
from semantics.policies import TABLE, Level


def test_the_page_has_the_table_as_it_is() -> None:
    page = PAGE.read_text()
    assert page == with_table(page), "python -m gateway.config.policy_page writes it anew"


def test_it_tells_of_every_policy() -> None:
    told = table()
    for policy in TABLE:
        assert (f"`{policy.name}`" in told) == (Level.TOPIC in policy.levels)
        assert policy.setting is None or f"`{policy.setting}`" in told


def test_a_page_without_a_place_for_it_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the lines"):
        with_table("# Semantics\n")
