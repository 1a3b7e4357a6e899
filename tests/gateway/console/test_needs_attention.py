"""What needs attention on the first page: each row leads to where it is looked at."""

from __future__ import annotations

import html
import re

import pytest

from gateway.console import standing
from tests.gateway.admin.billing import EARLIEST
from tests.gateway.admin.test_mishaps import restarted
from tests.gateway.admin.test_open_transactions import begun
from tests.gateway.admin.test_replaying import dead, did
from tests.gateway.broker.transacted import put
from tests.gateway.console.browser import Browser, browse


def test_a_job_that_did_not_do_all_leads_to_its_page() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        await did(browser.admin, "discard", filter={"ids": ["0:0"]})
        await restarted(browser.admin)
        page = await browser.get("/ui/")
        assert "The discard of dead letters of billing on orders, job 1, was interrupted" in page.words
        assert '<a href="/ui/jobs/1"><b>billing</b></a>' in page.text
        assert "magnetar-admin jobs show 1" in page.words

    browse(test)


def test_a_transaction_that_holds_readers_up_leads_to_the_page_of_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.plain("payments")
        who = await begun(admin, "tx <a>&b", 900_000)
        topic = admin.broker.catalog.get("payments")
        assert topic is not None
        put(admin.broker.partition(topic, 0), b"a", producer_id=who.id, epoch=who.epoch, implicit=True)
        await admin.broker.write([])
        began = admin.broker.clock.wall_ms()
        monkeypatch.setattr(type(admin.broker.clock), "wall_ms", lambda self: began + 12 * 60_000)
        page = await browser.get("/ui/")
        assert "Transaction tx <a>&b has been open for 12 minutes" in page.words
        assert '<a href="/ui/transactions?q=tx+%3Ca%3E%26b"><b>tx &lt;a&gt;&amp;b</b></a>' in page.text
        listed = await browser.get("/ui/transactions?q=tx+%3Ca%3E%26b")
        assert "readers wait at 0:0" in listed.words

    browse(test)


def test_several_subscriptions_of_a_topic_are_one_row_that_leads_to_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        for topic, count in (("orders", 4), ("sales", 2)):
            await admin.plain(topic)
            for number in range(count):
                assert (await admin.ask("PUT", f"P/{topic}/subscription/s{number}", EARLIEST)).status == 204
            await admin.produce(topic, 0, [b"x"])
        began = admin.broker.clock.wall_ms()
        monkeypatch.setattr(type(admin.broker.clock), "wall_ms", lambda self: began + 3_600_000)
        page = await browser.get("/ui/")
        assert "4 messages wait for 4 subscriptions on orders (s0, s1 and 2 more)" in page.words
        assert "Need attention 3 " in page.words, "one of orders, two of sales"
        assert page.text.count(" data-row=") == 3
        cli = "magnetar-admin attention -t orders --rule nobody"
        assert cli in page.words
        (link,) = re.findall(r'href="(/ui/attention\?[^"]*)"><b>4 subscriptions', page.text)
        each = await browser.get(html.unescape(link))
        assert re.findall(r"waits for (\w+) on orders", each.words) == ["s0", "s1", "s2", "s3"]
        assert "sales" not in each.words
        assert cli in each.words
        every = await browser.get("/ui/attention")
        assert every.text.count(" data-row=") == 6

    browse(test)


def test_all_of_it_a_page_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "ROWS", 3)

    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.plain("orders")
        for number in range(5):
            assert (await admin.ask("PUT", f"P/orders/subscription/s{number}", EARLIEST)).status == 204
        await admin.produce("orders", 0, [b"x"])
        began = admin.broker.clock.wall_ms()
        monkeypatch.setattr(type(admin.broker.clock), "wall_ms", lambda self: began + 3_600_000)
        seen, link = list[str](), "/ui/attention?rule=nobody"
        for count in (3, 2):
            page = await browser.get(link)
            assert page.text.count(" data-row=") == count
            seen += re.findall(r"waits for (\w+) on orders", page.words)
            link = html.unescape(
                next(iter(re.findall(r'href="(/ui/attention\?[^"]*after[^"]*)"', page.text)), "")
            )
        assert (seen, link) == ([f"s{number}" for number in range(5)], "")
        none = await browser.get("/ui/attention?rule=full")
        assert "Nothing that is seen from here." in none.words

    browse(test)
