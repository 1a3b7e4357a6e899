"""What a role may not see it is not told of: neither in numbers, nor by links that end at a refusal."""

from __future__ import annotations

import html
import re
from base64 import urlsafe_b64decode

import pytest

from gateway.admin import ranked
from semantics.access.acl import Operation, ResourceType
from semantics.names import Namespace
from tests.gateway.admin.billing import EARLIEST
from tests.gateway.admin.secured import Granted, Secured, basic
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
        produced = await at.ask("root", "GET", "/admin/v2/persistent/shop/eu/orders/partitions")
        assert produced.status == 200
        await at.admin.produce("shop/eu/orders", 0, [b"x"])
        at.rows.rows.append(
            Granted("User:mona", ResourceType.TOPIC, Operation.DESCRIBE, namespace=Namespace("shop", "eu"))
        )
        for who in ("root", "ada", "eve", "pat", "cora", "mona"):
            seen, waiting = {"/ui/"}, ["/ui/"]
            while waiting:
                link = waiting.pop()
                page = await browser.get(link, Authorization=basic(who))
                # 400: an act on messages that there are none of any more
                assert page.status in (200, 400), (who, link, page.words)
                for each in re.findall(r'href="(/ui/[^"#]*)', page.text):
                    # of a page with several orders or spans one is enough
                    path = each.partition("?")[0]
                    if path not in seen and not path.startswith("/ui/static"):
                        seen.add(path)
                        waiting.append(html.unescape(each))
            assert ("/ui/gateway" in seen) == ("/ui/audit" in seen) == (who == "root"), who
            assert (TOPIC in seen) == (who != "eve"), who
            assert (SUBSCRIPTION + "/messages" in seen) == (who in ("root", "ada", "cora")), who
            page = await browser.get("/ui/topics", Authorization=basic(who))
            assert ("New topic" in page.words) == (who in ("root", "ada", "eve")), who
            assert "magnetar-admin" in page.words, who

    browse_secured(test)
