"""The audit in a browser: its rows can be read on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.console.conftest import House, Watched

pytestmark = pytest.mark.integration


def test_no_column_of_the_audit_is_off_a_phone(house: House, watch: Callable[..., Watched]) -> None:
    name = "a-topic-with-a-name-that-is-longer-than-a-phone-is-wide-as-those-of-programs-often-are"
    house.gateway.admin("topics", "create", name)
    watched = watch(viewport={"width": 390, "height": 800})
    page = watched.to("/ui/audit?kind=change")
    row = page.get_by_role("row").filter(has_text=name)
    assert "made a topic" in row.inner_text()
    scroll = page.get_by_role("group", name="Entries")
    assert scroll.evaluate("it => it.scrollWidth - it.clientWidth") == 0
    for cell in row.get_by_role("cell").all():
        if cell.is_visible():
            box = cell.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    watched.check()
