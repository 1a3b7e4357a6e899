"""One dead letter topic of several subscriptions: it is told what is in it, not that each of them has all of that."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.gateway.admin.billing import EARLIEST, ack, made, take
from tests.gateway.admin.conftest import Admin
from tests.gateway.console.browser import Browser, browse
from tests.gateway.console.test_counts import figure, pill

ATTENTION = "/admin/v2/magnetar/attention"
NAMES = "billing", "mail", "stock"


async def shared(admin: Admin, count: int = 3) -> None:
    """So many messages of `billing` are dead letters in `bin`, where those of two others on `orders` go, too."""
    await made(admin, count=count)
    for name in NAMES:
        await admin.broker.group_configs.alter(name, lambda old: {**old, "pulsar.dead.letter.topic": "bin"})
        answer = await admin.ask("PUT", f"P/orders/subscription/{name}", EARLIEST)
        assert answer.status == (409 if name == "billing" else 204), answer
    # what is seen first is no news
    assert await findings(admin) == []
    for offset in await take(admin, "c1"):
        await ack(admin, "c1", offset, offset, kind=3)
    async with asyncio.timeout(30):
        while (topic := admin.broker.catalog.get("bin")) is None or (
            admin.broker.partition(topic, 0).high_watermark < count
        ):
            await asyncio.sleep(0)


async def findings(admin: Admin, query: str = "") -> list[dict[str, Any]]:
    """Those of dead letters."""
    found = (await admin.ask("GET", ATTENTION + query)).json["findings"]
    return [each for each in found if each["rule"] in ("letters", "deadLetters")]


def test_sums_over_subscriptions_have_it_once() -> None:
    async def test(browser: Browser) -> None:
        await shared(browser.admin)
        page = await browser.get("/ui/")
        assert (figure(page), pill(page)) == ("3", "3")
        (one,) = await findings(browser.admin, "?together=true")
        assert (one["findings"], one["number"]) == (3, 3)
        assert one["sentence"].startswith(
            "3 dead letters have come to bin, where those of 3 subscriptions on orders ("
        )

    browse(test)


def test_its_list_and_the_sentences_name_it() -> None:
    async def test(browser: Browser) -> None:
        await shared(browser.admin)
        found = {each["where"]["subscription"]: each["sentence"] for each in await findings(browser.admin)}
        assert sorted(found) == list(NAMES)
        for name, sentence in found.items():
            assert sentence.startswith(
                f"3 dead letters have come to bin, where those of {name} on orders go"
            ), sentence
        listed = await browser.get("/ui/dead")
        for name in NAMES:
            assert f"{name} on orders; counted with all in bin, where its letters go 3" in listed.words
            row = await browser.get(f"/ui/subscriptions?q={name}")
            assert "its dead letters are counted with all in bin" in row.words

    browse(test)


def test_the_page_of_each_lists_its_own_and_says_whose_the_counts_are() -> None:
    async def test(browser: Browser) -> None:
        await shared(browser.admin)
        says = "kept in bin , where letters of other subscriptions may be, too; in all 3 open"
        for name, count in (("billing", 3), ("stock", 0)):
            page = await browser.get(f"/ui/s/public/default/orders/{name}/dead")
            assert page.text.count('name="m.') == count
            assert says in page.words
        await browser.admin.plain("sales")
        await browser.admin.ask("PUT", "P/sales/subscription/own", EARLIEST)
        page = await browser.get("/ui/s/public/default/sales/own/dead")
        assert "kept in sales-own-DLQ 0 open" in page.words
        # others may choose what is one's own
        admin = browser.admin
        await admin.broker.group_configs.alter(
            "theirs", lambda old: {**old, "pulsar.dead.letter.topic": "sales-own-DLQ"}
        )
        assert (await admin.ask("PUT", "P/sales/subscription/theirs", EARLIEST)).status == 204
        await admin.plain("sales-own-DLQ")
        await browser.get("/ui/subscriptions")
        page = await browser.get("/ui/s/public/default/sales/own/dead")
        assert "kept in sales-own-DLQ , where letters of other subscriptions may be, too" in page.words

    browse(test)
