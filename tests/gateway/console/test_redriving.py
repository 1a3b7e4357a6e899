"""To whom a replay goes, as it is typed on its page, and what that says of who is there."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from tests.gateway.admin.billing import EARLIEST
from tests.gateway.admin.test_group_ids import TOPIC, at_home
from tests.gateway.admin.test_replaying import RETRY, dead, stored
from tests.gateway.console.browser import Browser, browse
from tests.gateway.console.test_letters import HERE, ended, plan_of


@pytest.mark.parametrize("said", ["mail", "public/default/mail", "persistent://public/default/mail"])
def test_another_topic_is_called_by_any_of_its_names(said: str) -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        await browser.admin.plain("mail")
        preview = await browser.get(f"{HERE}/replay?all=1&to=other&other={quote(said, safe='')}")
        assert preview.status == 200, preview.words
        assert "They would go to mail ." in preview.words
        await ended(browser, await browser.post(HERE + "/replay", plan_of(preview)))
        assert len(await stored(browser.admin, "mail")) == 2

    browse(test)


@pytest.mark.parametrize(
    ("said", "status", "why"),
    [
        ("topic", 412, "Letters cannot be sent to a topic called 'topic'"),
        ("a/b", 404, "There is no topic 'a/b' that letters could be sent to"),
        (
            "public/default/no one",
            404,
            "There is no topic 'public/default/no one' that letters could be sent to",
        ),
    ],
)
def test_what_was_typed_as_a_name_is_never_another_target(said: str, status: int, why: str) -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 1)
        await browser.admin.plain("topic")
        preview = await browser.get(f"{HERE}/replay?all=1&to=other&other={quote(said, safe='')}")
        assert preview.status == status, preview.words
        assert why in preview.words
        assert "They would go to" not in preview.words

    browse(test)


def test_where_nobody_reads_the_preview_says_what_to_do() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        says = f"Nobody reads {RETRY} : they are delivered when consumers of billing subscribe to it, besides orders."
        assert says in (await browser.get(HERE + "/replay?all=1")).words
        assert "Nobody reads" not in (await browser.get(HERE + "/replay?all=1&to=topic")).words
        assert "Nobody reads" not in (await browser.get(HERE + "/replay?all=1&key=none")).words

    browse(test)


def test_pages_of_the_retry_topic_lead_to_those_of_its_base() -> None:
    """The letters are the same; "everybody on" it would be everybody on the base topic."""

    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        preview = await browser.get(HERE + "/replay?m.0:0=1")
        await ended(browser, await browser.post(HERE + "/replay", plan_of(preview)))
        of_retries = HERE.replace("orders", RETRY)
        assert (await browser.get(of_retries)).status == 200
        for page in (
            "/dead?by=header:a&text=x",
            "/letter?id=0:1",
            "/replay?all=1&to=topic",
            "/discard?m.0:1=1",
        ):
            answer = await browser.get(of_retries + page)
            assert answer.status == 303, page
            to, wanted = urlsplit(answer.location), urlsplit(HERE + page)
            assert (to.path, parse_qsl(to.query)) == (wanted.path, parse_qsl(wanted.query))
            assert (await browser.get(answer.location)).status == 200

    browse(test)


def test_so_they_do_in_a_namespace_with_a_listener_of_its_own() -> None:
    """There the name of a subscription is not the id that is kept."""

    async def test(browser: Browser) -> None:
        admin = browser.admin
        await at_home(admin)
        made = await admin.ask("PUT", f"{TOPIC}/subscription/billing?enableRetry=true", EARLIEST)
        assert made.status == 204, made
        letters = "orders-billing-DLQ"
        assert (await admin.ask("PUT", TOPIC.replace("orders", letters), "{}")).status == 204
        await admin.produce(f"shop/eu/{letters}", 0, [b"1"])
        there = "/ui/s/shop/eu/{}/billing{}"
        for page in ("/dead?text=x", "/letter?id=0:0", "/replay?all=1&to=topic", "/discard?all=1"):
            answer = await browser.get(there.format("orders-billing-RETRY", page))
            assert answer.status == 303, (page, answer.words)
            to, wanted = urlsplit(answer.location), urlsplit(there.format("orders", page))
            assert (to.path, parse_qsl(to.query)) == (wanted.path, parse_qsl(wanted.query))
            assert (await browser.get(answer.location)).status == 200

    browse(test)
