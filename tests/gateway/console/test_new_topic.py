"""Topics that are made on a page: of which domain."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from tests.gateway.console.browser import Browser, browse
from tests.gateway.console.test_subscription_pages import fields as sent_by


@pytest.mark.parametrize("count", [0, 2])
def test_the_domain_that_was_typed_is_that_of_the_topic(count: int) -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        assert (await admin.ask("PUT", "/admin/v2/tenants/shop", "{}")).status == 204
        assert (await admin.ask("PUT", "/admin/v2/namespaces/shop/eu", "{}")).status == 204
        for domain in ("non-persistent", "persistent"):
            local = f"from-{domain}"
            full = f"{domain}://shop/eu/{local}"
            page = await browser.get("/ui/topics/new?" + urlencode({"topic": full, "partitions": count}))
            assert page.status == 200, page.words
            assert full in page.words, "in the line that does the same"
            memory = "in memory for a short time, and gone with a restart"
            assert (memory in page.words) == (domain == "non-persistent")
            assert (f"Make the non-persistent topic {local}?" in page.words) == (domain == "non-persistent")
            made = await browser.post("/ui/topics", sent_by(page))
            assert (made.status, made.location) == (303, f"/ui/t/shop/eu/{local}")
            topic = admin.broker.catalog.get(f"shop/eu/{local}")
            assert topic is not None
            assert topic.transient == (domain == "non-persistent")
            assert topic.partitioned == (count > 0)
            assert (await browser.get(made.location)).status == 200

    browse(test)


@pytest.mark.parametrize("typed", ["volatile://shop/eu/x", "non-persistent://x", "a/b", ""])
def test_what_is_no_name_is_said_with_the_form(typed: str) -> None:
    async def test(browser: Browser) -> None:
        for page in (
            await browser.get("/ui/topics/new?" + urlencode({"topic": typed, "partitions": "0"})),
            await browser.post("/ui/topics", {"topic": typed, "partitions": "0"}),
        ):
            assert page.status == 412, page.words
            assert 'id="wrong" role="alert"' in page.text
            assert f'value="{typed}"' in page.text
        assert browser.admin.broker.catalog.names() == []

    browse(test)
