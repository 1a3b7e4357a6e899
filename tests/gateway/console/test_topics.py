"""Lists of topics and of subscriptions: what a page says that has nothing of what was asked for."""

from __future__ import annotations

import html
import re

import pytest

from gateway.admin import lag, ranked
from tests.gateway.admin.conftest import Admin
from tests.gateway.console.browser import Browser, Seen, browse

NONE_SO_FAR = "None so far; there are more to look at."
NONE = "There are none here."


async def beside(admin: Admin, count: int) -> None:
    """So many topics of acme/eu before one of public/default."""
    assert (await admin.ask("PUT", "/admin/v2/tenants/acme", "{}")).status == 204
    assert (await admin.ask("PUT", "/admin/v2/namespaces/acme/eu", "{}")).status == 204
    for number in range(count):
        assert (await admin.ask("PUT", f"/admin/v2/persistent/acme/eu/t-{number:02}", "{}")).status == 204
    await admin.plain("orders")


def next_of(page: Seen) -> str:
    found = re.search(r'href="([^"]*)">Next 50<', page.text)
    return html.unescape(found[1]) if found is not None else ""


def test_topics_of_a_namespace_are_there_whatever_stands_before_them() -> None:
    async def test(browser: Browser) -> None:
        await beside(browser.admin, 51)
        page = await browser.get("/ui/topics?namespace=public/default")
        assert 'href="/ui/t/public/default/orders"' in page.text
        assert next_of(page) == ""
        assert "t-00" not in page.text
        first = await browser.get("/ui/topics?namespace=acme/eu")
        assert first.text.count("<tr data-row>") == 50
        assert (await browser.get(next_of(first))).text.count("<tr data-row>") == 1

    browse(test)


def test_a_page_that_has_none_so_far_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "MOST_LOOKED", 2)
    monkeypatch.setattr(ranked, "MOST_LOOKED", 1)

    async def test(browser: Browser) -> None:
        await beside(browser.admin, 2)
        page = await browser.get("/ui/topics?namespace=public/default")
        assert NONE_SO_FAR in page.words
        assert NONE not in page.words
        page = await browser.get(next_of(page))
        assert 'href="/ui/t/public/default/orders"' in page.text
        for group in ("billing", "mail"):
            await browser.admin.commit(group, "orders", 0, 0)
        page = await browser.get("/ui/subscriptions?sort=name&q=mail")
        assert NONE_SO_FAR in page.words
        page = await browser.get(next_of(page))
        assert "/billing" not in page.text
        assert "/mail" in page.text
        page = await browser.get("/ui/subscriptions?sort=name&q=nobody")
        page = await browser.get(next_of(page))
        assert (NONE in page.words, next_of(page)) == (True, "")

    browse(test)
