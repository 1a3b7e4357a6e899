"""What a topic would be is told before it is made, and refused as its creation would be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.secured import Secured, furnish, serve_secured
from tests.gateway.admin.test_audit_topic import kept
from tests.gateway.admin.test_audit_topic import serve as serve_with

SPACE = "/admin/v2/namespaces/shop/eu"


async def space(admin: Admin) -> None:
    assert (await admin.ask("PUT", "/admin/v2/tenants/shop", "{}")).status == 204
    assert (await admin.ask("PUT", SPACE, "{}")).status == 204
    assert (await admin.ask("POST", f"{SPACE}/messageTTL", "90")).status == 204


def said(policies: list[dict[str, Any]]) -> list[tuple[str, object, str]]:
    """Those that the broker's settings do not say."""
    return [(each["policy"], each["value"], each["from"]) for each in policies if each["from"] != "broker"]


@pytest.mark.parametrize(("path", "body", "count"), [("", "{}", 0), ("/partitions", "3", 3)])
def test_what_it_would_be_is_what_it_is(path: str, body: str, count: int, serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await space(admin)
        at = "/admin/v2/persistent/shop/eu/orders"
        seen = await admin.ask("PUT", f"{at}{path}?dryRun=true", body)
        assert seen.status == 200, seen
        assert seen.json["partitions"] == count
        assert said(seen.json["policies"]) == [("message-ttl", 90, "namespace")]
        assert admin.broker.catalog.get("shop/eu/orders") is None
        assert (await admin.ask("PUT", f"{at}{path}", body)).status == 204
        assert (await admin.ask("GET", f"{at}/partitions")).json["partitions"] == count
        assert (await admin.ask("GET", f"{at}/policies")).json == seen.json["policies"]

    serve(test)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("public/default/there", "{}", 409),
        ("public/default/there/partitions", "2", 409),
        ("nobody/knows/orders", "{}", 404),
        ("public/default/orders/partitions", "999999", 412),
        ("public/default/orders/partitions", "0", 412),
        ("public/default/orders-partition-3", "{}", 412),
        ("public/default/magnetar-audit", "{}", 412),
    ],
)
def test_it_is_refused_in_the_same_way(path: str, body: str, status: int, serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("there")
        at = f"/admin/v2/persistent/{path}"
        dry = await admin.ask("PUT", f"{at}?dryRun=true", body)
        real = await admin.ask("PUT", at, body)
        assert (dry.status, dry.json) == (real.status, real.json)
        assert dry.status == status

    serve(test)


def test_the_audit_tells_nothing_of_a_look() -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("there")
        await admin.ask("PUT", "P/orders?dryRun=true", "{}")
        await admin.ask("PUT", "P/there?dryRun=true", "{}")
        assert [each["target"] for each in await kept(admin)] == ["persistent/public/default/there"]

    serve_with(test, "audit.topic=true")


def test_who_may_not_make_it_may_not_look() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        path = "/admin/v2/persistent/shop/eu/mine?dryRun=true"
        assert (await at.ask("cora", "PUT", path, "{}")).status == 403
        assert (await at.ask("ada", "PUT", path, "{}")).status == 200

    serve_secured(test)
