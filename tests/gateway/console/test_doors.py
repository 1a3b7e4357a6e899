"""What a role may not see it is not told of: neither in numbers, nor by links that end at a refusal."""

from __future__ import annotations

import html
import json
import re
from base64 import urlsafe_b64decode

import pytest

from gateway.admin import ranked
from semantics.access.acl import Operation, ResourceType
from semantics.names import Namespace
from tests.gateway.admin.billing import EARLIEST
from tests.gateway.admin.secured import Granted, Secured, basic, bury
from tests.gateway.console.browser import Browser, browse_secured

TOPIC, SUBSCRIPTION = "/ui/t/shop/eu/orders", "/ui/s/shop/eu/orders/billing"
API = "/admin/v2/magnetar/"


async def others(at: Secured, count: int = 3) -> None:
    """Subscriptions of another tenant that come first by name."""
    for number in range(count):
        for path, body in (("", "{}"), ("/subscription/theirs", EARLIEST)):
            answer = await at.ask("root", "PUT", f"/admin/v2/persistent/other/eu/a-{number}{path}", body)
            assert answer.status == 204, answer


def test_numbers_of_a_list_are_those_of_what_its_reader_may_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranked, "STRETCH", 2)

    async def test(browser: Browser, at: Secured) -> None:
        await others(at)
        for who, count in (("root", 4), ("ada", 1), ("eve", 3), ("mona", 0)):
            found = (await at.ask(who, "GET", API + "subscriptions?sort=name&limit=3")).json
            assert (found["of"], found["looked"]) == (count, min(count, 3)), who
            assert len(found["subscriptions"]) == min(count, 3)
            assert ("next" in found) == (count > 3), who
            assert ("behind" in found) == (who == "root"), who
            told = (await at.ask(who, "GET", API + "attention")).json
            assert told["looked"] == count
            page = await browser.get("/ui/", Authorization=basic(who))
            whole = who == "root"
            assert f"Subscriptions {count} {'of all' if whole else 'that you may see'}" in page.words, who
            listed = await browser.get("/ui/subscriptions", Authorization=basic(who))
            assert f"{count} {'in all' if whole else 'that you may see'}" in listed.words, who

    browse_secured(test)


def test_where_a_list_goes_on_names_nothing_that_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though a bound of what is looked at for one page is reached among others' subscriptions."""
    monkeypatch.setattr(ranked, "MOST_LOOKED", 1)

    async def test(browser: Browser, at: Secured) -> None:
        await others(at)
        answer = await at.ask(
            "root", "PUT", "/admin/v2/persistent/shop/eu/orders/subscription/more", EARLIEST
        )
        assert answer.status == 204
        first = (await at.ask("ada", "GET", API + "subscriptions?sort=name")).json
        assert [each["subscription"] for each in first["subscriptions"]] == ["billing"]
        token = first["next"]
        assert b"other" not in urlsafe_b64decode(token + "=" * (-len(token) % 4))
        second = (await at.ask("ada", "GET", f"{API}subscriptions?sort=name&after={token}")).json
        assert [each["subscription"] for each in second["subscriptions"]] == ["more"]
        assert "next" not in second

    browse_secured(test)


def test_each_link_of_a_page_leads_to_what_its_reader_may_see() -> None:
    """Pages that a producer, a consumer, somebody who looks at the cluster and admins come to from the first one."""

    async def test(browser: Browser, at: Secured) -> None:
        await others(at, 1)
        await bury(at, 100)
        await at.admin.produce("shop/eu/orders", 0, [b"x"])
        job = await replaying(at, "root")
        at.rows.rows.append(
            Granted("User:mona", ResourceType.TOPIC, Operation.DESCRIBE, namespace=Namespace("shop", "eu"))
        )
        for who in ("root", "ada", "eve", "pat", "cora", "mona"):
            seen = await followed(browser, who)
            assert ("/ui/gateway" in seen) == ("/ui/audit" in seen) == (who == "root"), who
            assert (TOPIC in seen) == (who != "eve"), who
            for below in ("/messages", "/dead", "/letter"):
                assert (SUBSCRIPTION + below in seen) == (who in ("root", "ada", "cora")), (who, below)
            assert (job in seen) == (who != "eve"), who
            page = await browser.get("/ui/topics", Authorization=basic(who))
            assert ("New topic" in page.words) == (who in ("root", "ada", "eve")), who
            assert "magnetar-admin" in page.words, who

    browse_secured(test)


@pytest.mark.parametrize("letters", ["", "shop/eu/graves"])
def test_so_it_does_for_who_may_consume_by_one_subscription_and_from_no_other_topic(letters: str) -> None:
    """What lies in its dead letter topic it may see as its letters; not so where that is a topic of choice."""

    async def test(browser: Browser, at: Secured) -> None:
        if letters:
            properties = "/admin/v2/persistent/shop/eu/orders/subscription/billing/properties"
            chosen = json.dumps({"pulsar.dead.letter.topic": letters})
            assert (await at.ask("root", "PUT", properties, chosen)).status == 204
        await bury(at, 100)
        await at.admin.produce("shop/eu/orders", 0, [b"x"])
        job = await replaying(at, "root")
        coras = [row for row in at.rows.rows if row.principal == "User:cora"]
        at.rows.rows = [row._replace(name=name) for row in coras for name in ("orders", "billing")]
        seen = await followed(browser, "cora")
        assert {job, SUBSCRIPTION, SUBSCRIPTION + "/messages"} <= seen
        assert (SUBSCRIPTION + "/dead" in seen) == (SUBSCRIPTION + "/letter" in seen) == (not letters)
        # in which it died
        message = await browser.get("/ui/m/shop/eu/orders/0/0", Authorization=basic("cora"))
        assert ("The letter" in message.words) == (not letters)
        if not letters:
            letter = await browser.get(SUBSCRIPTION + "/letter?id=0:0", Authorization=basic("cora"))
            assert (
                "To see its value takes the right to consume from persistent://shop/eu/orders-billing-DLQ."
                in letter.words
            )
            assert "as it is stored" not in letter.words
            assert "Value It is not shown." in letter.words

    browse_secured(test)


def test_stop_is_there_for_who_may_stop_the_job() -> None:
    async def test(browser: Browser, at: Secured) -> None:
        at.rows.rows.append(Granted("User:mona", ResourceType.TOPIC, Operation.DESCRIBE))
        await bury(at, 100)
        for by, stops in (("root", ("root", "ada")), ("cora", ("root", "ada", "cora"))):
            job = await replaying(at, by)
            for who in ("root", "ada", "cora", "pat", "mona"):
                page = await browser.get(job, Authorization=basic(who))
                assert (f'action="{job}/stop"' in page.text) == (who in stops), (by, who)
                assert ("jobs stop" in page.words) == (who in stops), (by, who)
            refused = await browser.post(job + "/stop", {"token": page.token}, Authorization=basic("pat"))
            assert refused.status == 403
            stopped = await browser.post(job + "/stop", {}, Authorization=basic(stops[-1]))
            assert (stopped.status, stopped.location) == (303, job)

    browse_secured(test)


async def replaying(at: Secured, who: str) -> str:
    """The page of a job over dead letters that will not be over soon."""
    replay = "/admin/v2/persistent/shop/eu/orders/subscription/billing/magnetar/replay"
    answer = await at.ask(who, "POST", replay, json.dumps({"filter": {}, "rate": 1}))
    assert answer.json["state"] == "running", answer
    return f"/ui/jobs/{answer.json['id']}"


async def followed(browser: Browser, who: str) -> set[str]:
    """The pages that somebody comes to from the first one, each of which shows."""
    seen, waiting = {"/ui/"}, ["/ui/"]
    while waiting:
        link = waiting.pop()
        page = await browser.get(link, Authorization=basic(who))
        if page.status == 303:
            # letters of a RETRY topic are those of its base
            page = await browser.get(page.location, Authorization=basic(who))
        # 400: an act on messages that there are none of any more
        assert page.status in (200, 400), (who, link, page.words)
        for each in re.findall(r'href="(/ui/[^"#]*)', page.text):
            # of a page with several orders or spans one is enough
            path = each.partition("?")[0]
            if path not in seen and not path.startswith("/ui/static"):
                seen.add(path)
                waiting.append(html.unescape(each))
    return seen
