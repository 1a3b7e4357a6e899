"""What needs attention on the first page: each row leads to where it is looked at."""

from __future__ import annotations

import pytest

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
