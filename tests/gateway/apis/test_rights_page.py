"""The table of rights in docs/SECURITY.md is that of the code."""

from __future__ import annotations

import pytest

from gateway import apis
from gateway.apis.registry import APIS
from gateway.apis.rights_page import PAGE, table, with_table


def test_the_page_has_the_table_as_it_is() -> None:
    page = PAGE.read_text()
    assert page == with_table(page), "python -m gateway.apis.rights_page writes it anew"


def test_it_tells_of_every_api() -> None:
    apis.load_all()
    told = table()
    for key, api in APIS.items():
        assert f"| {key} {api.name} |" in told


def test_a_page_without_a_place_for_it_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the lines"):
        with_table("# Security\n")
