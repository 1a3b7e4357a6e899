"""From a small phone to a large screen, and with names as long as they may be: nothing is beside the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page

from tests.integration.console.conftest import House, Watched
from tests.integration.console.test_browser import NAMES
from tests.integration.sharing import PATIENCE, make_group, make_topic, member, send, some

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

Watch = Callable[..., Watched]

WIDTHS = (320, 390, 640, 820, 900, 1024, 1100, 1180, 1280, 1600)
LONG = "x" * 199

# what of the head is beside the screen or beside what it is in; links of the row of pages may be scrolled to on a phone
_CUT = """phone => [...document.querySelectorAll('.top *')].filter(each => {
  if (each.closest('.vh, svg') || (phone && each.closest('nav'))) return false;
  const at = each.getBoundingClientRect();
  const end = document.querySelector('.top').getBoundingClientRect().bottom;
  return at.width && (at.left < 0 || at.right > innerWidth || at.bottom > end + 1);
}).map(each => each.outerHTML.slice(0, 80))"""
# cards whose table is wider than they are; that of the numbers of charts has as many columns as there are lines
_WIDE = """() => [...document.querySelectorAll('main .scroll:not(.tall)')]
  .filter(each => each.scrollWidth > each.clientWidth + 1)
  .map(each => `${each.getAttribute('aria-label') || each.getAttribute('aria-labelledby')}: ${each.scrollWidth}`)"""
# in which rows tiles stand: how far to the right each row reaches, and how many lines its largest number has
_TILES = """() => [...document.querySelectorAll('.figs')].flatMap(figs => {
  const end = figs.getBoundingClientRect().right, rows = {};
  for (const fig of figs.children) {
    const at = fig.getBoundingClientRect();
    (rows[Math.round(at.top)] ||= []).push(at.right);
  }
  return Object.values(rows).map(row => Math.round(end - Math.max(...row)));
})"""
_LINES = """() => [...document.querySelectorAll('.figs .fig b')].map(each => {
  each.firstChild.textContent = '57 min 58 s';
  const lines = new Set();
  const range = document.createRange();
  range.selectNodeContents(each);
  for (const box of range.getClientRects()) lines.add(Math.round(box.top));
  return [lines.size, each.scrollWidth - each.clientWidth];
})"""


def resize(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})


def test_no_page_scrolls_sideways_at_any_width_and_nothing_of_the_head_is_cut(
    house: House, watch: Watch
) -> None:
    watched = watch(viewport={"width": 1280, "height": 900})
    page = watched.to("/ui/view?back=%2Fui%2F")
    page.get_by_label("Time zone").fill("America/New_York")
    page.get_by_role("button", name="Keep").click()
    page.wait_for_url("**/ui/")
    for name in NAMES:
        page = watched.to(house.pages[name])
        for width in WIDTHS:
            resize(page, width)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
            assert page.evaluate(_CUT, width <= 640) == [], (name, width)


def test_tiles_fill_their_rows_and_an_age_is_on_one_line(house: House, watch: Watch) -> None:
    watched = watch()
    for name in ("overview", "key shared", "lanes"):
        page = watched.to(house.pages[name])
        for width in WIDTHS:
            resize(page, width)
            assert all(left <= 2 for left in page.evaluate(_TILES)), (name, width)
            for lines, beyond in page.evaluate(_LINES):
                assert (lines, beyond) == (1, 0), (name, width)


@pytest.fixture(scope="module")
def long_names(house: House) -> Iterator[dict[str, str]]:
    """Pages of names of 200 characters: a group with a client that takes what is in a topic, and a transaction."""
    at = house.gateway.bootstrap
    topic, group = make_topic(at, "t" + LONG), make_group(at, "g" + LONG)
    client = member(at, group, topic, **{"client.id": "c" + LONG, "max.poll.interval.ms": 86_400_000})
    send(at, topic, [(b"k" * 200, b"v" * 300), (b"k" * 200, b"1")])
    assert some(client)
    client.close()
    stuck = member(at, group, topic, **{"client.id": "c" + LONG, "max.poll.interval.ms": 86_400_000})
    assert some(stuck)
    writer = Producer(
        {"bootstrap.servers": at, "transactional.id": "x" + LONG, "transaction.timeout.ms": 900_000}
    )
    writer.init_transactions(PATIENCE)
    writer.begin_transaction()
    writer.produce(topic, b"not yet")
    assert writer.flush(PATIENCE) == 0
    unread = make_group(at, "u" + LONG)
    house.gateway.admin("topics", "create-subscription", topic, "-s", unread)
    of_topic, one = f"/ui/t/public/default/{topic}", f"/ui/s/public/default/{topic}/{group}"
    yield {
        "overview": "/ui/",
        "topics": "/ui/topics",
        "subscriptions": "/ui/subscriptions?q=xxx",
        "topic": of_topic,
        "delete topic": f"{of_topic}/delete",
        "subscription": one,
        "open": f"{one}/messages",
        "of a client": f"{one}/messages?consumer={'c' + LONG}",
        "act": f"{one}/act?do=settle&all=1",
        "due": f"{one}/due?span=1h",
        "dead": f"{one}/dead",
        "clear": f"{one}/clear",
        "reset": f"{one}/reset?time=2h",
        "unsubscribe": f"{one}/unsubscribe",
        "message": f"/ui/m/public/default/{topic}/0/0",
        "transactions": "/ui/transactions?state=any",
        "audit": "/ui/audit",
        "find": "/ui/find?q=" + quote("xxx"),
        "found": "/ui/find?q=" + quote("k" * 200),
    }
    writer.abort_transaction(PATIENCE)
    stuck.close()


def test_long_names_wrap_and_hide_nothing(long_names: dict[str, str], watch: Watch) -> None:
    """Neither the page nor a card of it is to be scrolled sideways because of a name."""
    watched = watch()
    wrong = []
    for name, path in long_names.items():
        page = watched.to(path)
        for width in (390, 900, 1024, 1280):
            resize(page, width)
            beyond = page.evaluate("document.documentElement.scrollWidth") - width
            wide = page.evaluate(_WIDE)
            if beyond > 0 or wide:
                wrong.append((name, width, beyond, wide))
    assert not wrong, "\n".join(map(str, wrong))


def test_a_command_is_read_to_its_end(house: House, watch: Watch) -> None:
    """What is beside its box would have to be looked for: no bar says that there is more."""
    watched = watch()
    for name in ("replay", "act", "clear"):
        page = watched.to(house.pages[name])
        for width in (390, 1280):
            resize(page, width)
            found = page.locator(".cli code").evaluate_all(
                "all => all.map(each => each.scrollWidth - each.clientWidth)"
            )
            assert found, name
            assert max(found) <= 0, (name, width)


# words of cells, of at most 20 letters, that stand on two lines
_BROKEN = r"""cells => cells.flatMap(cell => {
  const found = [], texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const top = (text, at) => {
    const range = document.createRange();
    range.setStart(text, at);
    range.setEnd(text, at + 1);
    return range.getBoundingClientRect().top;
  };
  while (texts.nextNode()) {
    const text = texts.currentNode;
    for (const word of text.data.matchAll(/[a-z0-9]{2,20}/gi))
      if (Math.abs(top(text, word.index) - top(text, word.index + word[0].length - 1)) > 4) found.push(word[0]);
  }
  return found;
})"""


def test_names_of_settings_and_of_who_did_something_break_between_their_parts(
    house: House, watch: Watch
) -> None:
    watched = watch()
    for name, cells in (("gateway", "td.m"), ("audit", "td.who")):
        page = watched.to(house.pages[name])
        for width in (390, 900, 1280):
            resize(page, width)
            found = page.locator(cells)
            assert found.count() > 5
            assert found.evaluate_all(_BROKEN) == [], (name, width)
    assert page.locator("td.who").first.inner_text().startswith("User:ANONYMOUS\n"), "on one line at 1280"
