"""Messages that are found by what is in them: open ones with their reasons, and records that nobody has open."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.admin import browsing
from gateway.admin.chosen import Look
from tests.gateway.admin.billing import ack, made, take
from tests.gateway.admin.test_replaying import dead
from tests.gateway.console.browser import Browser, browse


def test_an_open_message_is_found_with_why_it_does_not_arrive() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin, count=3)
        await take(browser.admin, "c1", 1)
        told = await browser.admin.ask("GET", "P/orders/subscription/billing/explain?offset=0")
        why = told.json["explanation"].split(",")[0]
        page = await browser.get("/ui/find?q=m0")
        assert "/ui/m/public/default/orders/0/0" in page.text
        assert "/ui/m/public/default/orders/0/1" not in page.text
        assert why in page.words
        await ack(browser.admin, "c1", 0, 0)
        assert why not in (await browser.get("/ui/find?q=m0")).words

    browse(test)


def test_what_finds_a_dead_letter_on_a_terminal_is_the_verb_of_dead_letters() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 3)
        page = await browser.get("/ui/find?q=m1")
        assert "A dead letter: REJECTED" in page.words
        assert "magnetar-admin dead-letters list orders -s billing --text m1" in page.words
        assert "subscriptions why" not in page.words

    browse(test)


def test_a_record_of_a_consumer_group_is_found_by_key_and_by_text() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"one", b'{"order": 880026}', b"three"])
        await admin.commit("readers", "orders", 0, 3)
        page = await browser.get("/ui/find?q=880026")
        assert "/ui/m/public/default/orders/0/1" in page.text
        assert "Its page says what each subscription made of it." in page.words
        none = await browser.get("/ui/find?q=nothing+like+it")
        assert "None that was looked at has that" in none.words

    browse(test)


def test_what_a_subscription_has_open_is_no_record_of_its_topic_besides() -> None:
    """Though a consumer group, of which only records can be looked through, is behind by more."""

    async def test(browser: Browser) -> None:
        admin = browser.admin
        await made(admin, count=3)
        await admin.commit("archive", "orders", 0, 0)
        await take(admin, "c1", 1)
        await ack(admin, "c1", 0, 0)
        page = await browser.get("/ui/find?q=m2")
        assert "Messages 1, in 2 of 2 subscriptions" in page.words
        assert "Its page says" not in page.words
        assert "Its page says" in (await browser.get("/ui/find?q=m0")).words, "of what is settled"

    browse(test)


def test_a_topic_that_several_subscriptions_read_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"one"])
        await admin.commit("readers", "orders", 0, 0)
        await admin.commit("others", "orders", 0, 0)
        browsed, seen = browsing.browse, list[Any]()

        async def counted(*args: Any) -> Any:
            seen.append(args)
            return await browsed(*args)

        monkeypatch.setattr(browsing, "browse", counted)
        assert "None that was looked at has that" in (await browser.get("/ui/find?q=nothing+like+it")).words
        assert len(seen) == 2, "by key and by text"

    browse(test)


def test_what_is_found_is_text() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"<script>x</script>"])
        await admin.commit("readers", "orders", 0, 0)
        page = await browser.get("/ui/find?q=%3Cscript%3Ex")
        assert "/ui/m/public/default/orders/0/0" in page.text
        assert "<script>x" not in page.text

    browse(test)


def test_where_there_was_no_time_for_all_messages_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not said that there is none."""

    async def test(browser: Browser) -> None:
        admin = browser.admin
        await made(admin, count=3)
        whole = await browser.get("/ui/find?q=nothing+like+it")
        assert "in 1 of 1 subscription, those with the oldest open messages first None" in whole.words
        assert "There was no time for all" not in whole.words
        monkeypatch.setattr(Look, "_over", property(lambda _: True))
        part = await browser.get("/ui/find?q=nothing+like+it")
        assert "oldest open messages first; not all of their messages None" in part.words
        assert "There was no time for all. The pages of single subscriptions look on" in part.words

    browse(test)


def test_who_looks_for_nothing_is_not_told_that_there_is_none() -> None:
    async def test(browser: Browser) -> None:
        assert "None has that in its name" not in (await browser.get("/ui/find")).words
        assert "None has that in its name" in (await browser.get("/ui/find?q=x")).words

    browse(test)
