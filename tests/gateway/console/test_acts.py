"""Acts on whole subscriptions and topics: what is shown before is what is done, and what would be refused is told
before."""

from __future__ import annotations

import re
from collections.abc import Awaitable

import pytest

from gateway.broker.machines import Caller
from gateway.broker.share_admission import Beating
from tests.gateway.admin.billing import EARLIEST, made, stats, take
from tests.gateway.admin.secured import Secured, basic
from tests.gateway.admin.test_reset_preview import hourly, sent
from tests.gateway.console.browser import Browser, Seen, browse, browse_secured
from tests.gateway.console.test_subscription_pages import fields

AT = "/ui/s/public/default/orders/billing"
TOPIC = "/ui/t/public/default/orders"
API = "P/orders/subscription/billing"
NAMED = {"confirm": "billing"}


def offers(page: Seen) -> bool:
    """Whether there is a form that does it."""
    return 'name="confirm"' in page.text


async def group(browser: Browser, count: int = 3) -> None:
    """A consumer group that has read nothing yet."""
    await browser.admin.plain("orders")
    await browser.admin.produce("orders", 0, [b"x"] * count)
    assert (await browser.admin.ask("PUT", f"{API}?type=failover", EARLIEST)).status == 204


async def consumer(browser: Browser, group: str, topic: str) -> None:
    """A member of a share group comes and stays."""
    caller = Caller(lambda answer: answer)
    answer = browser.admin.broker.share_groups.heartbeat(
        Beating(group, "AAAAAAAAAAAAAAAAAAAAAA", 0, (topic,), None, ("127.0.0.1", "client"), 1, caller)
    )
    if isinstance(answer, Awaitable):
        answer = await answer
    assert answer.error == 0, answer


async def backlog(browser: Browser) -> int:
    return int((await stats(browser.admin))["msgBacklog"])


class TestClear:
    @pytest.mark.parametrize("kind", ["shared", "failover"])
    def test_no_more_is_settled_than_was_shown(self, kind: str) -> None:
        async def test(browser: Browser) -> None:
            await made(browser.admin, kind, 12)
            preview = await browser.get(AT + "/clear")
            assert "Settle 12 messages" in preview.words
            assert "what comes after this preview is not settled" in preview.words
            await browser.admin.produce("orders", 0, [b"later"] * 50)
            wrong = await browser.post(AT + "/clear", {**fields(preview), "confirm": "bill"})
            assert wrong.status == 400
            assert "Settle 62 messages" in wrong.words, "a page that is made anew is a new preview"
            done = await browser.post(AT + "/clear", {**fields(preview), **NAMED})
            assert "12 messages were settled." in (await browser.get(done.location)).words
            assert await backlog(browser) == 50

        browse(test)

    def test_others_that_came_before_the_end_make_a_new_preview(self) -> None:
        async def test(browser: Browser) -> None:
            await made(browser.admin, "shared", 5)
            assert (await browser.admin.ask("POST", f"{API}/skip/4")).status == 204
            preview = await browser.get(AT + "/clear")
            assert "Settle 1 message " in preview.words
            assert (await browser.admin.ask("POST", f"{API}/resetcursor", EARLIEST)).status == 204
            again = await browser.post(AT + "/clear", {**fields(preview), **NAMED})
            assert again.status == 409
            assert "It would settle 5 messages, where 1 was looked at. Nothing was done" in again.words
            assert await backlog(browser) == 5
            assert (await browser.post(AT + "/clear", {**fields(again), **NAMED})).status == 303
            assert await backlog(browser) == 0

        browse(test)

    @pytest.mark.parametrize("ends", ["", "0", "0:x", "x"])
    def test_a_form_of_no_preview_does_nothing(self, ends: str) -> None:
        async def test(browser: Browser) -> None:
            await made(browser.admin)
            answer = await browser.post(AT + "/clear", {**NAMED, "ends": ends})
            assert answer.status == 409
            assert "Nothing was done" in answer.words
            assert await backlog(browser) == 5

        browse(test)


class TestDeletions:
    @pytest.mark.parametrize(
        ("there", "leads", "says"),
        [
            (AT + "/unsubscribe", TOPIC, "The subscription billing was deleted."),
            (TOPIC + "/delete", "/ui/topics", "The topic orders was deleted."),
        ],
    )
    def test_what_was_deleted_is_told_once(self, there: str, leads: str, says: str) -> None:
        async def test(browser: Browser) -> None:
            await made(browser.admin)
            name = "orders" if there.startswith(TOPIC + "/") else "billing"
            done = await browser.post(there, {**fields(await browser.get(there)), "confirm": name})
            assert (done.status, done.location.partition("?")[0]) == (303, leads)
            assert says in (await browser.get(done.location)).words
            assert says not in (await browser.get(done.location)).words

        browse(test)

    @pytest.mark.parametrize("partitions", [0, 3])
    def test_a_topic_that_was_made_anew_since_the_preview_stays(self, partitions: int) -> None:
        async def test(browser: Browser) -> None:
            admin = browser.admin

            async def make() -> None:
                await (admin.partitioned("orders", partitions) if partitions else admin.plain("orders"))

            path = "P/orders/partitions" if partitions else "P/orders"
            await make()
            preview = await browser.get(TOPIC + "/delete")
            assert (await admin.ask("DELETE", path)).status == 204
            await make()
            await admin.produce("orders", 0, [b"of another"])
            late = await browser.post(TOPIC + "/delete", {**fields(preview), "confirm": "orders"})
            assert late.status == 409
            assert "it was made anew since" in late.words
            assert (await browser.get(TOPIC)).status == 200
            done = await browser.post(TOPIC + "/delete", {**fields(late), "confirm": "orders"})
            assert done.status == 303, "the answer was a preview of what is there now"

        browse(test)


class TestPlans:
    def test_what_was_never_shown_is_not_settled_where_a_topic_was_made_anew(self) -> None:
        async def test(browser: Browser) -> None:
            await made(browser.admin)
            preview = await browser.get(AT + "/act?do=settle&all=1")
            assert "Settle 5 messages" in preview.words
            assert (await browser.admin.ask("DELETE", "P/orders?force=true")).status == 204
            await made(browser.admin)
            again = await browser.post(AT + "/act", {**fields(preview), **NAMED})
            assert again.status == 409
            assert "of what was made anew since. Nothing was done" in again.words
            assert await backlog(browser) == 5
            assert (await browser.post(AT + "/act", {**fields(again), **NAMED})).status == 303
            assert await backlog(browser) == 0

        browse(test)

    @pytest.mark.parametrize("anew", ["topic", "subscription"])
    @pytest.mark.parametrize("act", ["clear", "reset?time=1970-01-01", "unsubscribe"])
    def test_a_subscription_that_was_made_anew_or_its_topic_stays_as_it_is(self, act: str, anew: str) -> None:
        async def test(browser: Browser) -> None:
            await made(browser.admin, count=5)
            preview = await browser.get(f"{AT}/{act}")
            assert offers(preview)
            if anew == "topic":
                assert (await browser.admin.ask("DELETE", "P/orders")).status == 204
                await made(browser.admin, count=5)
            else:
                assert (await browser.admin.ask("DELETE", API)).status == 204
                assert (await browser.admin.ask("PUT", f"{API}?type=shared", EARLIEST)).status == 204
            assert (await browser.admin.ask("POST", f"{API}/skip/2")).status == 204
            late = await browser.post(f"{AT}/{act.partition('?')[0]}", {**fields(preview), **NAMED})
            assert late.status == 409
            assert "it was made anew since" in late.words
            assert offers(late), "a new preview"
            assert await backlog(browser) == 3

        browse(test)


class TestNames:
    def test_one_that_ends_with_a_space_can_be_typed(self) -> None:
        """Browsers cut none off, people do, and forms of pages are read without."""

        async def test(browser: Browser) -> None:
            await made(browser.admin)
            path = "P/orders/subscription/trail%20"
            assert (await browser.admin.ask("PUT", path + "?type=shared", EARLIEST)).status == 204
            there = "/ui/s/public/default/orders/trail%20"
            for act in ("/clear", "/reset?time=1h"):
                form = fields(await browser.get(there + act))
                answer = await browser.post(there + act.partition("?")[0], {**form, "confirm": "trail"})
                assert answer.status == 303, (act, answer.words)

        browse(test)


class TestRefused:
    @pytest.mark.parametrize(
        ("there", "why"),
        [
            (AT + "/clear", "has connected members: stop them first"),
            (AT + "/unsubscribe", "is a consumer group with 1 member: stop them first"),
            (TOPIC + "/delete", "has connected consumers, in billing. Stop them first"),
        ],
    )
    def test_it_is_told_before_and_not_after(self, there: str, why: str) -> None:
        async def test(browser: Browser) -> None:
            await group(browser)
            preview = await browser.get(there)
            assert preview.status == 200
            assert offers(preview)
            await browser.admin.join("billing", "orders")
            refused = await browser.get(there)
            assert refused.status == 412
            assert why in refused.words
            assert "Look again" in refused.words
            assert not offers(refused)
            # who had the page already
            name = "orders" if there.startswith(TOPIC) else "billing"
            late = await browser.post(there, {**fields(preview), "confirm": name})
            assert late.status == 412
            assert why in late.words
            assert re.search(r"<h1>(Clear|Delete) the ", late.text), "the page, and not a bare sentence"
            assert not offers(late)
            assert await backlog(browser) == 3

        browse(test)

    def test_a_reset_of_a_group_that_came_to_work_is_asked_again(self) -> None:
        async def test(browser: Browser) -> None:
            await group(browser)
            preview = await browser.get(AT + "/reset?time=1970-01-01")
            await browser.admin.join("billing", "orders")
            late = await browser.post(AT + "/reset", {**fields(preview), **NAMED})
            assert late.status == 412
            assert "members" in late.words
            assert "To which time" in late.words

        browse(test)

    def test_who_may_not_is_told_before_a_form(self) -> None:
        async def test(browser: Browser, at: Secured) -> None:
            await at.admin.produce("shop/eu/orders", 0, [b"x"])
            here = "/ui/s/shop/eu/orders/billing"
            for path in (
                "/clear", "/unsubscribe", "/reset", "/reset?time=2h", "/act?do=settle&all=1", "/replay?all=1",
                "/discard?all=1",
            ):  # fmt: skip
                answer = await browser.get(here + path, Authorization=basic("pat"))
                assert answer.status == 403, (path, answer.words)
                assert "<form" not in answer.text.partition("<main")[2].partition("</main")[0], path
                seen = await browser.get(here + path, Authorization=basic("ada"))
                assert seen.status == 200, (path, seen.words)
            answer = await browser.get("/ui/t/shop/eu/orders/delete", Authorization=basic("pat"))
            assert answer.status == 403

        browse_secured(test)


class TestReset:
    @pytest.mark.parametrize("kind", ["shared", "failover"])
    def test_what_came_since_is_delivered_too(self, kind: str) -> None:
        async def test(browser: Browser) -> None:
            await hourly(browser.admin, kind)
            preview = await browser.get(AT + "/reset?time=2023-11-15T00:13:20Z")
            assert "Reset, and deliver 4" in preview.words
            assert "Later ones what comes after this preview is delivered, too" in preview.words
            await browser.admin.produce("orders", 0, [b"later"] * 50)
            done = await browser.post(AT + "/reset", {**fields(preview), **NAMED})
            assert done.status == 303
            assert "54 messages are to be delivered." in (await browser.get(done.location)).words
            assert await backlog(browser) == 54

        browse(test)

    def test_so_is_what_its_client_says_to_be_older(self) -> None:
        async def test(browser: Browser) -> None:
            await hourly(browser.admin, "shared")
            preview = await browser.get(AT + "/reset?time=2024-01-01")
            assert "Reset, and deliver 0" in preview.words
            await sent(browser.admin, 0)
            done = await browser.post(AT + "/reset", {**fields(preview), **NAMED})
            assert done.status == 303
            assert await backlog(browser) == 1

        browse(test)

    def test_what_would_come_has_changed(self) -> None:
        async def test(browser: Browser) -> None:
            await hourly(browser.admin, "shared")
            preview = await browser.get(AT + "/reset?time=2023-11-15T00:13:20Z")
            assert "Reset, and deliver 4" in preview.words
            assert (await browser.admin.ask("DELETE", "P/orders/truncate")).status == 204
            await browser.admin.produce("orders", 0, [b"later"] * 3)
            again = await browser.post(AT + "/reset", {**fields(preview), **NAMED})
            assert again.status == 409
            assert "0 would be delivered, where the preview had 4. Nothing was done" in again.words
            assert "Reset, and deliver 3" in again.words, "a page that is made anew is a new preview"
            assert await backlog(browser) == 3
            assert fields(again)["time"] == fields(preview)["time"]
            await browser.admin.produce("orders", 0, [b"later"])
            assert (await browser.post(AT + "/reset", {**fields(again), **NAMED})).status == 303
            assert await backlog(browser) == 4

        browse(test)

    def test_what_would_be_settled_has_changed(self) -> None:
        async def test(browser: Browser) -> None:
            await hourly(browser.admin, "shared")
            assert (await browser.admin.ask("POST", f"{API}/skip/2")).status == 204
            preview = await browser.get(AT + "/reset?time=2023-11-15T00:13:20Z")
            assert (await browser.admin.ask("POST", f"{API}/resetcursor", EARLIEST)).status == 204
            again = await browser.post(AT + "/reset", {**fields(preview), **NAMED})
            assert again.status == 409
            assert "2 open ones would be settled, where the preview had 0" in again.words
            for gone in ("ends", "messages", "openBefore"):
                form = {name: said for name, said in fields(preview).items() if name != gone}
                none = await browser.post(AT + "/reset", {**form, **NAMED})
                assert none.status == 409, gone
                assert "The form says of no preview" in none.words
            assert await backlog(browser) == 6

        browse(test)

    def test_a_share_group_says_who_is_connected_and_what_becomes_of_what_they_have(self) -> None:
        async def test(browser: Browser) -> None:
            await made(browser.admin)
            there = AT + "/reset?time=1970-01-01"
            assert "Consumers none is connected Way back" in (await browser.get(there)).words
            await take(browser.admin, "c1")
            await consumer(browser, "billing", "orders")
            words = (await browser.get(there)).words
            assert "1 is connected, and goes on: what is in their hands is given out again" in words
            assert "to acknowledge what they had changes nothing" in words

        browse(test)
