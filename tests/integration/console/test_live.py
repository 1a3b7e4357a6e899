"""Figures that are made anew while somebody looks at them, and what a reader is at meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from compat.peers.magnetar import MagnetarPeer
from tests.integration.console.conftest import HOSTILE, House, Watched
from tests.integration.sharing import make_group, make_topic, member, send, some

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

Watch = Callable[..., Watched]
Own = Callable[..., MagnetarPeer]

PACE = 5_000
"""Milliseconds between two looks."""
MOST_LOOKS = 100


def open_(watched: Watched, path: str) -> Page:
    """A page whose clock stands still but for what `look` does; so do those that it goes to."""
    watched.page.clock.install()
    watched.page.add_init_script("window.looks = 0; addEventListener('looked', () => { window.looks += 1; })")
    return watched.to(path)


def look(page: Page) -> None:
    """Let the time pass until it asks again, and wait until it has shown the answer."""
    before = page.evaluate("window.looks")
    page.clock.run_for(PACE)
    page.wait_for_function("before => window.looks > before", arg=before)


def look_until(page: Page, shown: Callable[[], bool]) -> None:
    """Look as often as it takes: what has been written is counted a moment later."""
    for _ in range(MOST_LOOKS):
        look(page)
        if shown():
            return
    raise AssertionError(page.locator("main").inner_text())


def furnish(house: House, name: str, count: int) -> str:
    """A topic with so many open messages of a group of its own: the page of that."""
    at = house.gateway.bootstrap
    make_topic(at, name)
    make_group(at, f"of-{name}")
    send(at, name, [(HOSTILE.encode(), b"%d" % number) for number in range(count)])
    worker = member(at, f"of-{name}", name)
    some(worker)
    worker.close()
    return f"/ui/s/public/default/{name}/of-{name}"


def test_figures_change_and_focus_selection_typing_and_scrolling_stay(house: House, watch: Watch) -> None:
    there = furnish(house, "lively", 3)
    watched = watch(viewport={"width": 900, "height": 500})
    page = open_(watched, there)
    count = page.locator(".figs b").first
    assert count.inner_text() == "3"
    page.get_by_label("Offset", exact=True).fill("12")
    link = page.get_by_role("link", name="All open messages")
    link.focus()
    page.evaluate(
        """() => {
            window.before = [document.activeElement, document.querySelector(".figs b")];
            getSelection().selectAllChildren(document.querySelector("#con"));
            scrollTo(0, 240);
        }"""
    )
    send(house.gateway.bootstrap, "lively", [(None, b"more")] * 5)
    look_until(page, lambda: count.inner_text() == "8")
    assert page.locator(".say").inner_text() == "8 messages are open and no consumer is connected."
    assert page.evaluate("window.before[0] === document.activeElement")
    assert page.evaluate("window.before[1] === document.querySelector('.figs b')"), (
        "the same, with other text"
    )
    assert page.evaluate("getSelection().toString()") == "Consumers"
    assert page.evaluate("scrollY") == 240
    assert page.get_by_label("Offset", exact=True).input_value() == "12"
    assert page.get_by_role("button", name="Copy the command").first.is_visible()
    # what is selected is not changed under who copies it
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.figs b'))")
    send(house.gateway.bootstrap, "lively", [(None, b"more")])
    bar = page.get_by_role("region", name="By partition").get_by_role("row").nth(1).get_by_role("cell").nth(3)
    look_until(page, lambda: bar.inner_text() == "9")
    assert count.inner_text() == "8"
    page.evaluate("getSelection().removeAllRanges()")
    look_until(page, lambda: count.inner_text() == "9")
    watched.check()


def test_a_list_keeps_its_rows_and_says_that_there_are_others(house: House, watch: Watch) -> None:
    furnish(house, "listed", 2)
    at = house.gateway.bootstrap
    watched = watch(color_scheme="dark")
    page = open_(watched, "/ui/subscriptions?sort=name&q=listed")
    rows = page.locator("tbody tr")
    assert rows.count() == 1
    send(at, "listed", [(None, b"more")] * 5)
    make_group(at, "also-listed")
    worker = member(at, "also-listed", "listed")
    some(worker)
    note = page.get_by_role("link", name="1 more: look again")
    look_until(page, lambda: note.count() == 1 and rows.first.get_by_role("cell").nth(3).inner_text() == "7")
    assert rows.count() == 1
    assert watched.axe() == []
    look(page)
    assert note.count() == 1, "it is said once"
    note.click()
    page.wait_for_function("document.querySelectorAll('tbody tr').length === 2")
    assert note.count() == 0
    worker.close()
    watched.check()


def test_what_others_wrote_is_text_when_it_comes_later_too(house: House, watch: Watch) -> None:
    watched = watch()
    page = open_(watched, "/ui/")
    for name in ("overview", "topics", "topic", "key shared", "jobs", "consumer group", "lanes"):
        watched.to(house.pages[name])
        for _ in range(2):
            look(page)
            assert page.locator("#made").inner_text().startswith("as of "), name
            assert page.locator("#stale").inner_text() == ""
        watched.check()
    watched.to(furnish(house, "hostile-later", 1))
    worker = member(house.gateway.bootstrap, "of-hostile-later", "hostile-later", **{"client.id": HOSTILE})
    some(worker)
    consumers = page.get_by_role("region", name="Consumers")
    look_until(page, lambda: HOSTILE in consumers.inner_text())
    worker.close()
    watched.check()


def test_nobody_is_asked_for_a_page_that_nobody_sees(house: House, watch: Watch) -> None:
    page = open_(watch(), "/ui/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "part=live" in request.url else None)
    page.evaluate("Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true})")
    page.evaluate("window.away = true")
    page.clock.run_for(20 * PACE)
    assert asked == []
    page.evaluate(
        "window.away = false; document.dispatchEvent(new Event('visibilitychange', {bubbles: true}))"
    )
    page.wait_for_function("() => window.looks === 1")
    look(page)
    assert len(asked) == 2


def test_pages_outlive_a_gateway_that_ends_while_they_ask_and_say_of_when_they_are(
    own_gateway: Own, watch: Watch
) -> None:
    """SIGTERM: pages that ask again and again hold nobody up."""
    gateway = own_gateway()
    make_topic(gateway.bootstrap, "orders")
    kept = [watch(home=gateway.admin_url, color_scheme=each) for each in ("light", "dark", "light")]
    for watched, path in zip(kept, ("/ui/", "/ui/topics", "/ui/t/public/default/orders"), strict=True):
        page = watched.to(path)
        page.evaluate("document.getElementById('main').dataset.live = 0.01")
        with page.expect_response("**part=live*"):
            page.evaluate("document.dispatchEvent(new Event('visibilitychange', {bubbles: true}))")
    assert gateway.stop() == 0
    for watched in kept:
        stale = watched.page.locator("#stale")
        stale.filter(has_text="the gateway does not answer").wait_for()
        assert re.fullmatch(r"As of \d\d:\d\d:\d\d UTC: the gateway does not answer\.", stale.inner_text())
        assert watched.page.locator("h1").is_visible()
        assert watched.axe() == []
    gateway.start()
    for watched in kept:
        watched.page.locator("#stale").filter(has_not_text="As of").wait_for(state="attached")
        assert watched.page.locator("#made").inner_text().startswith("as of ")
    gateway.admin("topics", "delete-partitioned-topic", "orders")
    kept[2].page.locator("#stale").filter(has_text="it is not there any more").wait_for()
