"""All of it by the keyboard alone, without single keys: each stop is seen, and an act is done from find to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.integration.console.conftest import House, Watched
from tests.integration.sharing import make_group, make_topic, member, send, some

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

Watch = Callable[..., Watched]

MOST_STOPS = 150

_FOCUSED = """() => {
    const it = document.activeElement, box = it.getBoundingClientRect();
    return {
        name: it.getAttribute("aria-label") || it.labels?.[0]?.innerText || it.innerText,
        ring: getComputedStyle(it).outlineStyle,
        seen: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
        main: document.getElementById("main").contains(it),
    };
}"""


def stop(page: Page) -> dict[str, Any]:
    """Where the next Tab leads: it has a ring, and is on the screen."""
    page.keyboard.press("Tab")
    found: dict[str, Any] = page.evaluate(_FOCUSED)
    assert found["ring"] != "none", found
    assert found["seen"], found
    return found


def tab_to(page: Page, name: str) -> None:
    """As often as it takes to come to what is called so."""
    passed: list[str] = []
    while len(passed) < MOST_STOPS:
        passed.append(stop(page)["name"])
        if passed[-1].startswith(name):
            return
    raise AssertionError(f"no {name!r} among {passed}")


def test_a_message_is_found_and_taken_back_and_another_settled_by_the_keyboard_alone(
    house: House, watch: Watch
) -> None:
    at = house.gateway.bootstrap
    topic = make_topic(at, "keyboard")
    group = make_group(at, "typists", share__record__lock__duration__ms=60_000)
    send(at, topic, [(None, b"1")])
    stuck = member(at, group, topic)
    assert [each.value() for each in some(stuck)] == [b"1"]
    watched = watch()
    page = watched.to("/ui/view?back=%2Fui%2F")
    page.get_by_label("Keys").select_option("off")
    page.get_by_role("button", name="Keep").click()
    page.wait_for_url("**/ui/")

    tab_to(page, "Go to a topic")
    page.keyboard.type(group)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{topic}/{group}")
    tab_to(page, "Skip to content")
    page.keyboard.press("Enter")
    assert stop(page)["main"], "what the link leads to comes next"
    tab_to(page, "Take back…")
    page.keyboard.press("Enter")
    page.wait_for_url("**/act?*")
    tab_to(page, "Take 1 message back")
    page.keyboard.press("Enter")
    page.get_by_role("status").filter(has_text="1 message taken back").wait_for()
    stuck.close()
    other = member(at, group, topic)
    assert [each.value() for each in some(other)] == [b"1"]

    tab_to(page, "All open messages")
    page.keyboard.press("Enter")
    page.wait_for_url("**/messages")
    tab_to(page, "Choose 0:0")
    page.keyboard.press("Space")
    page.keyboard.down("Shift")
    while page.evaluate(_FOCUSED)["name"] != "Settle…":
        page.keyboard.press("Tab")
    page.keyboard.up("Shift")
    page.keyboard.press("Enter")
    page.wait_for_url("**/act?*")
    tab_to(page, "Type the name")
    page.keyboard.type(group)
    page.keyboard.press("Enter")
    page.get_by_role("status").filter(has_text="1 message settled").wait_for()
    other.close()
    watched.check()


@pytest.mark.parametrize("name", ["overview", "key shared", "dead letters", "act"])
def test_each_stop_of_a_page_is_seen_and_none_is_a_trap(name: str, house: House, watch: Watch) -> None:
    page = watch(viewport={"width": 1000, "height": 600}).to(house.pages[name])
    things = page.evaluate(
        "document.querySelectorAll('a[href],button,input:not([type=hidden]),select,textarea,summary,[tabindex]').length"
    )
    for _ in range(things + 1):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        found = page.evaluate(_FOCUSED)
        assert found["ring"] != "none", found
        assert found["seen"], found
    else:
        raise AssertionError("the last stop does not lead out of the page")
