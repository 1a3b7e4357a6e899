"""Groups of both kinds and transactional ids are found by their names, by those who may see them."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from gateway.console.visit import ROWS
from tests.gateway.admin.billing import made
from tests.gateway.admin.secured import Secured, basic
from tests.gateway.admin.test_open_transactions import begun, ended
from tests.gateway.console.browser import Browser, browse, browse_secured


def test_a_consumer_group_is_found_by_its_name_as_a_share_group_is() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin)
        await browser.admin.plain("payments")
        await browser.admin.produce("payments", 0, [b"one"])
        await browser.admin.commit("billing-reports", "payments", 0, 0)
        page = await browser.get("/ui/find?q=billing")
        assert 'href="/ui/s/public/default/orders/billing"' in page.text
        assert 'href="/ui/s/public/default/payments/billing-reports"' in page.text
        # of but one, and that is called so, its page is opened
        only = await browser.get("/ui/find?q=billing-reports")
        assert (only.status, only.location) == (303, "/ui/s/public/default/payments/billing-reports")
        assert "billing-reports" in (await browser.get(only.location)).words

    browse(test)


def test_what_is_only_a_part_of_a_name_may_be_in_messages_as_well() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin)
        await browser.admin.produce("orders", 0, [b"about bill 7"])
        page = await browser.get("/ui/find?q=bill")
        assert page.status == 200
        assert 'href="/ui/s/public/default/orders/billing"' in page.text
        assert 'href="/ui/m/public/default/orders/0/5"' in page.text

    browse(test)


@pytest.mark.parametrize("said", ["orders:١:١", "orders:9:4", "orders 999999999 1"])
def test_what_is_no_place_of_a_topic_is_looked_for(said: str) -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin)
        assert (await browser.get(f"/ui/find?q={quote(said)}")).status == 200
        assert (await browser.get("/ui/find?q=orders:0:4")).location == "/ui/m/public/default/orders/0/4"

    browse(test)


def test_while_not_all_are_known_none_is_the_only_one() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin)
        sums = browser.admin.server._context.sums
        assert (await browser.get("/ui/find?q=billing")).status == 303
        sums.whole = False
        sums._wholly.set()
        assert (await browser.get("/ui/find?q=billing")).status == 200

    browse(test)


def test_a_topic_and_a_group_of_one_name_are_both_found() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin)
        opened = await browser.get("/ui/find?q=orders")
        assert (opened.status, opened.location) == (303, "/ui/t/public/default/orders")
        await browser.admin.plain("payments")
        await browser.admin.produce("payments", 0, [b"one"])
        await browser.admin.commit("orders", "payments", 0, 0)
        page = await browser.get("/ui/find?q=orders")
        assert page.status == 200
        assert 'href="/ui/t/public/default/orders"' in page.text
        assert 'href="/ui/s/public/default/payments/orders"' in page.text

    browse(test)


def test_a_group_of_a_topics_name_is_found_behind_very_many_others() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin)
        await browser.admin.plain("payments")
        await browser.admin.produce("payments", 0, [b"one"])
        for name in ("orders", *[f"orders-{number:03}" for number in range(ROWS)]):
            await browser.admin.commit(name, "payments" if name == "orders" else "orders", 0, 0)
        page = await browser.get("/ui/find?q=orders")
        assert page.status == 200
        assert page.text.count('href="/ui/s/public/default/orders/orders-') == ROWS

    browse(test)


@pytest.mark.parametrize("said", ["persist", "ult/ord", "FAULT", "dev/inv", "shop", "nvoic", "://shop/dev"])
def test_topics_are_found_by_any_part_of_their_full_names(said: str) -> None:
    async def test(browser: Browser) -> None:
        await browser.admin.plain("orders")
        for path in ("tenants/shop", "namespaces/shop/dev", "persistent/shop/dev/invoices"):
            assert (await browser.admin.ask("PUT", f"/admin/v2/{path}", "{}")).status == 204
        names = {f"persistent://{each}" for each in ("public/default/orders", "shop/dev/invoices")}
        page = await browser.get(f"/ui/find?q={quote(said)}")
        for name in names:
            assert (f">{name}<" in page.text) == (said.lower() in name), name

    browse(test)


def test_a_transactional_id_is_found_and_leads_to_what_is_known_of_it() -> None:
    async def test(browser: Browser) -> None:
        await ended(browser.admin, "tx-orders", await begun(browser.admin, "tx-orders"), committed=True)
        await begun(browser.admin, "tx-payments")
        await begun(browser.admin, "others")
        page = await browser.get("/ui/find?q=TX-")
        assert "tx-orders committed" in page.words
        assert "tx-payments open" in page.words
        assert "others" not in page.words
        only = await browser.get("/ui/find?q=tx-orders")
        assert only.status == 303
        its = await browser.get(only.location)
        assert "tx-orders" in its.words
        assert "tx-payments" not in its.words
        assert "magnetar-admin transactions list --state any -q tx-orders" in its.words
        # among those that are open alone it is not
        assert "There are none." in (await browser.get("/ui/transactions?q=tx-orders")).words

    browse(test)


def test_names_are_found_by_those_who_may_see_them() -> None:
    async def test(browser: Browser, at: Secured) -> None:
        await begun(at.admin, "billing-tx")
        for who, sees in (("root", True), ("eve", False)):
            found = await browser.get("/ui/find?q=billin", Authorization=basic(who))
            assert found.status == 200
            assert ("shop/eu/orders" in found.text) == sees, who
            assert ("billing-tx" in found.text) == sees, who

    browse_secured(test)
