"""The page of the audit: what each row says, and that it goes on where memory ends."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from gateway.audit import Audit
from gateway.console.audit_page import counted, says
from tests.gateway.admin.billing import made
from tests.gateway.admin.test_acts import done
from tests.gateway.console.browser import Browser, browse

AT = "persistent/public/default/orders"
MANY = "audit.max.per.second=1000"
ROWS = re.compile(r"<tr data-row>.*?</tr>", re.DOTALL)


def row(what: str, target: str = AT, **more: Any) -> dict[str, Any]:
    return {"what": what, "target": target, "over": "http", **more}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (row("settle", f"{AT}/subscription/b/magnetar/act"), "settled messages"),
        (row("POST", f"{AT}/subscription/b/magnetar/act", act="take-back"), "took messages back"),
        (row("POST", f"{AT}/subscription/b/magnetar/act"), "acted on messages"),
        (row("deliver-now"), "had messages delivered now"),
        (row("dead-letter"), "made messages dead letters"),
        (row("replay"), "sent dead letters again"),
        (row("edit"), "sent a dead letter again with an edit"),
        (row("discard"), "discarded dead letters"),
        (row("replay ended", "jobs/1"), "sending dead letters again ended"),
        (row("POST", f"{AT}/subscription/b/skip/2"), "skipped messages"),
        (row("POST", f"{AT}/subscription/b/skip"), "skipped messages"),
        (row("POST", f"{AT}/subscription/b/skip_all"), "cleared a backlog"),
        (row("POST", f"{AT}/subscription/b/resetcursor/170"), "reset a subscription"),
        (row("POST", f"{AT}/subscription/b/expireMessages/9"), "let messages expire"),
        (row("POST", "magnetar/jobs/3/stop"), "stopped a job"),
        (row("PUT", AT), "made a topic"),
        (row("PUT", f"{AT}/partitions"), "made a topic"),
        (row("DELETE", AT), "deleted a topic"),
        (row("DELETE", f"{AT}/partitions"), "deleted a topic"),
        (row("DELETE", f"{AT}/subscription/b"), "deleted a subscription"),
        (row("PUT", f"{AT}/subscription/b"), "made a subscription"),
        # a topic or a subscription may be called as an act is
        (row("DELETE", "persistent/public/default/skip_all"), "deleted a topic"),
        (row("POST", f"{AT}/subscription/act/analyzeBacklog"), "acted on messages"),
        (row("PUT", "tenants/shop"), ""),
        (row("DeleteTopics", "orders", over="kafka"), ""),
    ],
)
def test_what_a_row_says(told: dict[str, Any], said: str) -> None:
    assert says(told) == said


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, ""),
        ({"messages": 1}, "1 message"),
        ({"messages": 1200, "partition": 0}, "1,200 messages"),
        ({"job": 7, "letters": 2, "to": "orders-RETRY"}, "2 dead letters, job 7"),
        ({"job": 7, "letters": 1, "diedAgain": 1}, "1 dead letter, 1 died again, job 7"),
        ({"messages": 0}, "0 messages"),
    ],
)
def test_how_many(counts: dict[str, Any], said: str) -> None:
    assert counted(row("POST", counts=counts)) == said


def rows_of(text: str) -> list[str]:
    return [
        " ".join(html.unescape(re.sub(r"<[^>]*>", " ", each)).split())
        for each in ROWS.findall(text.replace("<wbr>", ""))
    ]


def older(text: str) -> str:
    found = re.search(r'href="([^"]*)">Older<', text)
    return html.unescape(found[1]) if found is not None else ""


def test_an_act_says_what_it_was_and_of_how_many_messages() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin, count=3)
        plan = await done(browser.admin, "settle", filter={}, dryRun=True)
        await done(browser.admin, "settle", filter={}, plan=plan["plan"])
        newest = rows_of((await browser.get("/ui/audit")).text)[0]
        assert "settled messages: 3 messages" in newest
        assert f"{AT}/subscription/billing/magnetar/act" in newest

    browse(test)
    browse(test, "audit.topic=true")


def test_pages_go_on_with_what_came_before_a_restart() -> None:
    async def test(browser: Browser) -> None:
        for number in range(60):
            await browser.admin.plain(f"topic-{number}")
        broker = browser.admin.broker
        await broker.write([])
        broker.audit = Audit(100, broker.clock.wall_ms, broker.loop.time)
        page = await browser.get("/ui/audit?kind=change")
        first = rows_of(page.text)
        page = await browser.get(older(page.text))
        second = rows_of(page.text)
        assert [len(first), len(second), older(page.text)] == [50, 10, ""]
        assert [
            f"default/topic-{number} " in each + " " for number, each in enumerate(reversed(first + second))
        ]
        assert "topic-59" in first[0]
        assert "topic-0 " in second[-1]

    browse(test, "audit.topic=true", MANY)


def test_one_users_changes_stay_chosen_from_page_to_page() -> None:
    async def test(browser: Browser) -> None:
        audit = browser.admin.broker.audit
        for number in range(60):
            audit.change("CreateTopics", "User:kim", "h", "kafka", target=f"kim-{number}")
            audit.change("CreateTopics", "User:ada", "h", "kafka", target=f"ada-{number}")
        page = await browser.get("/ui/audit?who=kim")
        both = rows_of(page.text) + rows_of((await browser.get(older(page.text))).text)
        assert len(both) == 60
        assert not any("ada" in each for each in both)
        none = await browser.get("/ui/audit?who=nobody-of-that-name")
        assert "There is nothing of that" in none.words

    browse(test, MANY)


def test_a_look_at_what_makes_no_sense_is_in_no_row() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin, count=1)
        before = rows_of((await browser.get("/ui/audit")).text)
        where = "/ui/s/public/default/orders/billing"
        for look in (
            "act?do=settle&all=1&state=nonsense",
            "replay?to=other&other=nowhere&all=1",
            "act?do=settle&id=x",
        ):
            assert (await browser.get(f"{where}/{look}")).status in (400, 404), look
        assert rows_of((await browser.get("/ui/audit")).text) == before

    browse(test)


def test_what_a_page_did_is_told_as_such_with_its_line() -> None:
    async def test(browser: Browser) -> None:
        await browser.post("/ui/topics", {"topic": "orders", "partitions": "0"})
        await browser.admin.plain("by-a-tool")
        await browser.admin.broker.write([])
        tool, page = rows_of((await browser.get("/ui/audit?kind=change")).text)
        assert "magnetar-admin topics create orders" in page
        assert "by the console" in page
        assert "by the console" not in tool

    browse(test)
    browse(test, "audit.topic=true")
