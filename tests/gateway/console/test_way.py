"""A message is followed on its page: from where it was published to the letters that it has become."""

from __future__ import annotations

import re

from tests.gateway.admin.secured import Secured, basic
from tests.gateway.admin.test_replaying import DLQ, RETRY, dead
from tests.gateway.console.browser import Browser, browse, browse_secured
from tests.gateway.console.test_letters import HERE, ended, plan_of

AT = "/ui/m/public/default/orders/0/0"


def test_what_was_replayed_is_followed_to_where_it_is_now() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        preview = await browser.get(HERE + "/replay?m.0:0=1")
        await ended(browser, await browser.post(HERE + "/replay", plan_of(preview)))
        page = await browser.get(AT)
        assert 'href="?way=1"' in page.text
        assert "Its way" not in page.words
        page = await browser.get(AT + "?way=1")
        section = page.text.partition('id="wa"')[2].partition("</section>")[0]
        assert re.findall(r'href="(/ui/m/[^"]*)"', section) == [
            AT, f"/ui/m/public/default/{DLQ}/0/0", f"/ui/m/public/default/{RETRY}/0/0"
        ]  # fmt: skip
        assert "dead letter (REJECTED)" in page.words
        assert "to be tried again" in page.words
        assert "magnetar-admin topics trace orders" in page.words
        # that of what it has become is the same
        same = await browser.get(f"/ui/m/public/default/{DLQ}/0/0?way=1")
        assert same.text.partition('id="wa"')[2].count("/ui/m/") == 3

    browse(test)


def test_who_may_not_read_the_topic_follows_nothing() -> None:
    async def test(browser: Browser, at: Secured) -> None:
        await at.admin.produce("shop/eu/orders", 0, [b"x"])
        path = "/ui/m/shop/eu/orders/0/0"
        assert "?way=1" in (await browser.get(path, Authorization=basic("ada"))).text
        assert "Its way" in (await browser.get(path + "?way=1", Authorization=basic("ada"))).words
        for query in ("", "?way=1"):
            refused = await browser.get(path + query, Authorization=basic("pat"))
            assert refused.status == 403
            assert "Its way" not in refused.words

    browse_secured(test)
