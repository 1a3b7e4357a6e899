"""The console on a phone, 390 pixels wide: what is needed is read without scrolling sideways."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import ViewportSize

from tests.integration.console.conftest import House, Watched
from tests.integration.console.test_browser import NAMES

pytestmark = pytest.mark.integration

Watch = Callable[..., Watched]

PHONE: ViewportSize = {"width": 390, "height": 844}

# how far the text of each reason reaches, in its box and on the screen
_REASONS = """() => [...document.querySelectorAll('main td.why')].map(cell => {
  const at = cell.getBoundingClientRect(), box = cell.closest('.scroll');
  return [cell.innerText, Math.floor(at.left), Math.ceil(at.right), box.scrollWidth - box.clientWidth];
})"""


def test_no_page_scrolls_sideways_on_a_phone(house: House, watch: Watch) -> None:
    watched = watch(viewport=PHONE)
    for name in NAMES:
        page = watched.to(house.pages[name])
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_the_reason_of_what_waits_is_read_without_scrolling_sideways(
    scripts: bool, house: House, watch: Watch
) -> None:
    """Of causes, of open messages, of what is found: its line is as long as the screen."""
    watched = watch(viewport=PHONE, java_script_enabled=scripts)
    for name in ("key shared", "shared", "open messages", "message", "found"):
        reasons = watched.to(house.pages[name]).evaluate(_REASONS)
        assert reasons, name
        for text, left, right, beyond in reasons:
            assert text, name
            assert 0 <= left < right <= PHONE["width"], (name, text)
            assert right - left >= 300, (name, text)
            assert beyond <= 0, (name, text)


def test_a_card_says_what_its_numbers_are_and_has_all_of_them(house: House, watch: Watch) -> None:
    """The head of the table is not shown there."""
    page = watch(viewport=PHONE).to(house.pages["key shared"])
    table = page.get_by_role("region", name="What holds messages up").locator("table")
    assert not table.locator("thead").is_visible()
    shown = table.locator("tbody td[data-l]:visible")
    said = set(shown.evaluate_all("all => all.map(each => getComputedStyle(each, '::before').content)"))
    assert {'"Holds up"', '"Oldest"'} <= said
    # where there is more room it is a table as it was
    page.set_viewport_size({"width": 1280, "height": 900})
    assert table.locator("thead").is_visible()
