"""Who looks at pages that it may see is refused nothing, so the audit tells of no attempts where there were none."""

from __future__ import annotations

import json

from gateway.audit import Kind
from semantics.access.acl import Operation, ResourceType
from tests.gateway.admin.billing import EARLIEST
from tests.gateway.admin.secured import Granted, Secured, basic, bury
from tests.gateway.console.browser import Browser, browse_secured

ORDERS = "/admin/v2/persistent/shop/eu/orders"
TOPIC, SUBSCRIPTION, OTHER = (
    "/ui/t/shop/eu/orders",
    "/ui/s/shop/eu/orders/billing",
    "/ui/s/shop/eu/orders/archive",
)
EVERYBODYS = (
    "/ui/",
    "/ui/topics",
    "/ui/subscriptions",
    "/ui/dead",
    "/ui/jobs",
    "/ui/transactions",
    TOPIC,
    SUBSCRIPTION,
)
FIND = "/ui/find?q=m0"


async def furnished(at: Secured) -> None:
    """A letter in a topic of choice, a message, a second subscription by key."""
    chosen = json.dumps({"pulsar.dead.letter.topic": "shop/eu/graves"})
    assert (await at.ask("root", "PUT", f"{ORDERS}/subscription/billing/properties", chosen)).status == 204
    await bury(at)
    answer = await at.ask("root", "PUT", f"{ORDERS}/subscription/archive?type=key_shared", EARLIEST)
    assert answer.status == 204, answer
    await at.admin.produce("shop/eu/orders", 0, [b"m0"])


def refusals(at: Secured) -> list[tuple[str, str]]:
    return [(each.who, each.target) for each in at.admin.broker.audit.last(1000, Kind.REFUSED)]


def test_a_consumer_of_one_subscription_looks_at_pages_and_is_refused_nothing() -> None:
    """It is no admin of the tenant, may not consume by the other subscription, nor read where the letters are."""

    async def test(browser: Browser, at: Secured) -> None:
        await furnished(at)
        coras = [row for row in at.rows.rows if row.principal == "User:cora"]
        at.rows.rows = [row._replace(name=name) for row in coras for name in ("orders", "billing")]
        message = "/ui/m/shop/eu/orders/0/1"
        mine = (f"{SUBSCRIPTION}?key=k", message, message + "?way=1", OTHER, OTHER + "?key=k", FIND)
        seen = {}
        for path in (*EVERYBODYS, *mine):
            seen[path] = await browser.get(path, Authorization=basic("cora"))
            assert seen[path].status == 200, (path, seen[path].words)
        assert refusals(at) == []
        assert "It takes an admin of the topic's tenant." in seen[TOPIC].words
        assert (
            "archive It takes the right to consume from the topic by the subscription." in seen[message].words
        )
        assert "It takes the right to consume" in seen[OTHER].words
        assert "It takes the right to consume" not in seen[SUBSCRIPTION].words

    browse_secured(test)


def test_who_may_only_produce_or_look_is_refused_nothing_either() -> None:
    async def test(browser: Browser, at: Secured) -> None:
        await furnished(at)
        at.rows.rows.append(Granted("User:mona", ResourceType.TOPIC, Operation.DESCRIBE))
        for who in ("pat", "mona"):
            for path in (*EVERYBODYS, OTHER + "?key=k", FIND):
                page = await browser.get(path, Authorization=basic(who))
                assert page.status == 200, (path, page.words)
        assert refusals(at) == []

    browse_secured(test)


def test_who_tries_is_told_of() -> None:
    async def test(browser: Browser, at: Secured) -> None:
        page = await browser.get(SUBSCRIPTION + "/messages", Authorization=basic("pat"))
        assert page.status == 403
        place = "persistent/shop/eu/orders/subscription/billing/magnetar/open"
        assert refusals(at) == [("User:pat", place)]

    browse_secured(test)
