"""Permissions are granted, shown and taken back: as rows of ACLs, which somebody else may have made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.broker import acl_rows
from gateway.broker.users import row_of
from semantics.access import bundles
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin

V2 = "/admin/v2"
EU = f"{V2}/namespaces/shop/eu"
ORDERS = f"{V2}/persistent/shop/eu/orders"


async def made(admin: Admin) -> None:
    for path in ("tenants/shop", "namespaces/shop/eu", "namespaces/shop/us"):
        assert (await admin.ask("PUT", f"{V2}/{path}")).status == 204
    assert (await admin.ask("PUT", f"{ORDERS}/partitions", "2")).status == 204


async def write(admin: Admin, method: str, path: str, body: object = None) -> None:
    answer = await admin.ask(method, path, None if body is None else json.dumps(body))
    assert (answer.status, answer.body) == (204, b"")


def test_of_a_namespace(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await write(admin, "POST", f"{EU}/permissions/ada", ["consume", "produce", "consume"])
        await write(admin, "POST", f"{EU}/permissions/a%2Fb", ["packages"])
        kept = {"ada": ["produce", "consume"], "a/b": ["packages"]}
        assert (await admin.ask("GET", f"{EU}/permissions")).json == kept
        # a grant replaces what the role had
        await write(admin, "POST", f"{EU}/permissions/ada", ["sinks"])
        await write(admin, "DELETE", f"{EU}/permissions/a%2Fb")
        await write(admin, "DELETE", f"{EU}/permissions/nobody")
        assert (await admin.ask("GET", f"{EU}/permissions")).json == {"ada": ["sinks"]}
        assert (await admin.ask("GET", f"{V2}/namespaces/shop/us/permissions")).json == {}
        # what is durable, not what is in memory
        rows = [row for row, _ in acl_rows.read(admin.broker.store)]
        assert [(row.principal, row.operation.name) for row in rows] == [("User:ada", "SINKS")]

    serve(test)


def test_of_subscriptions(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        path = f"{EU}/permissions/subscription"
        await write(admin, "POST", f"{path}/billing", ["bob", "ada", "bob"])
        await write(admin, "POST", f"{path}/audit", ["eve"])
        assert (await admin.ask("GET", path)).json == {"billing": ["ada", "bob"], "audit": ["eve"]}
        await write(admin, "DELETE", f"{EU}/permissions/billing/bob")
        await write(admin, "DELETE", f"{EU}/permissions/audit/eve")
        await write(admin, "DELETE", f"{EU}/permissions/nosuch/eve")
        assert (await admin.ask("GET", path)).json == {"billing": ["ada"]}
        # a role of that name is a role of the namespace
        await write(admin, "POST", f"{EU}/permissions/subscription", ["consume"])
        assert (await admin.ask("GET", f"{EU}/permissions")).json == {"subscription": ["consume"]}

    serve(test)


def test_of_a_topic_beside_those_of_its_namespace(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await write(admin, "POST", f"{EU}/permissions/ada", ["consume"])
        await write(admin, "POST", f"{ORDERS}/permissions/ada", ["produce"])
        await write(admin, "POST", f"{ORDERS}/permissions/bob", ["functions"])
        together = {"ada": ["produce", "consume"], "bob": ["functions"]}
        for each in (ORDERS, f"{ORDERS}-partition-1"):
            assert (await admin.ask("GET", f"{each}/permissions")).json == together
        await write(admin, "DELETE", f"{ORDERS}/permissions/ada")
        assert (await admin.ask("GET", f"{ORDERS}/permissions")).json == {**together, "ada": ["consume"]}
        # what the namespace allows is not the topic's to take
        refused = await admin.ask("DELETE", f"{ORDERS}/permissions/ada")
        assert refused.status == 412
        assert "Permissions are not set at the topic level" in refused.json["reason"]

    serve(test)


def test_a_grant_that_a_topic_of_the_default_namespace_hides_is_told_of_in_the_log(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[tuple[str, str]]:
        found = [vars(each) for each in caplog.records if "hide them from a role" in each.getMessage()]
        caplog.clear()
        return [(each["role"], each["topics"]) for each in found]

    async def test(admin: Admin) -> None:
        for name in ("shop.eu.orders", "shop.eu.bills", "shop.us.orders"):
            assert (await admin.ask("PUT", f"{V2}/persistent/public/default/{name}")).status == 204
        await made(admin)
        assert (await admin.ask("PUT", f"{V2}/persistent/shop/eu/free")).status == 204
        await write(admin, "POST", f"{ORDERS}/permissions/ada", ["consume"])
        assert told() == [("ada", "shop.eu.orders")]
        await write(admin, "POST", f"{EU}/permissions/ada", ["consume"])
        assert told() == [("ada", "shop.eu.bills, shop.eu.orders")]
        await write(admin, "POST", f"{V2}/persistent/shop/eu/free/permissions/ada", ["consume"])
        # who is at home there calls them by names of their own
        await admin.broker.users.create("bob", row_of({}, "shop/eu"))
        await write(admin, "POST", f"{EU}/permissions/bob", ["consume"])
        assert told() == []
        await admin.broker.users.create("eve", row_of({}, "public/default"))
        await write(admin, "POST", f"{ORDERS}/permissions/eve", ["consume"])
        assert told() == [("eve", "shop.eu.orders")]

    serve(test)


def test_policies_of_the_namespace_show_all(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("PUT", f"{V2}/persistent/shop/eu/a", "{}")).status == 204
        await admin.plain("home")
        await write(admin, "POST", f"{EU}/permissions/ada", ["consume"])
        await write(admin, "POST", f"{EU}/permissions/subscription/billing", ["ada"])
        for path in (ORDERS, f"{V2}/persistent/shop/eu/a", f"{V2}/persistent/public/default/home"):
            await write(admin, "POST", f"{path}/permissions/bob", ["produce"])
        full, bob = "persistent://shop/eu/", {"bob": ["produce"]}

        async def shown(namespace: str) -> Any:
            return (await admin.ask("GET", f"{V2}/namespaces/{namespace}")).json["auth_policies"]

        assert await shown("shop/eu") == {
            "namespace_auth": {"ada": ["consume"]},
            "destination_auth": {f"{full}a": bob, f"{full}orders": bob},
            "subscription_auth_roles": {"billing": ["ada"]},
        }
        home = {
            "namespace_auth": {}, "subscription_auth_roles": {},
            "destination_auth": {"persistent://public/default/home": bob},
        }  # fmt: skip
        assert await shown("public/default") == home
        await write(admin, "DELETE", f"{ORDERS}/permissions/bob")
        assert (await admin.ask("DELETE", f"{V2}/persistent/shop/eu/a")).status == 204
        # a topic of the same name that comes later has none
        assert (await admin.ask("PUT", f"{V2}/persistent/shop/eu/a", "{}")).status == 204
        assert (await shown("shop/eu"))["destination_auth"] == {}
        assert await shown("public/default") == home

    serve(test)


def test_a_namespace_is_made_with_them(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        said = {"namespace_auth": {"ada": ["consume"]}, "subscription_auth_roles": {"billing": ["ada"]}}
        body = {"auth_policies": {**said, "destination_auth": {}}}
        await write(admin, "PUT", f"{V2}/namespaces/shop/asia", body)
        shown = (await admin.ask("GET", f"{V2}/namespaces/shop/asia")).json["auth_policies"]
        assert shown == body["auth_policies"]
        of_topic = {"auth_policies": {"destination_auth": {"persistent://shop/new/x": {"ada": ["consume"]}}}}
        refused = await admin.ask("PUT", f"{V2}/namespaces/shop/new", json.dumps(of_topic))
        assert (refused.status, "has no topics" in refused.json["reason"]) == (412, True)
        assert (await admin.ask("GET", f"{V2}/namespaces/shop/new")).status == 404

    serve(test)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (f"{EU}/permissions/ada", ["fly"], 400, "no action 'fly'; there are produce, consume"),
        (f"{EU}/permissions/ada", "produce", 400, "Actions are a list"),
        (f"{EU}/permissions/ada", [1], 400, "Actions are a list"),
        (f"{EU}/permissions/ada", None, 400, "Actions are a list"),
        (f"{EU}/permissions/ada", [], 412, "Say what the role may do"),
        (f"{EU}/permissions/a%0Ab", ["produce"], 412, "holds no control character"),
        (f"{EU}/permissions/%E2%80%AEada", ["produce"], 412, "holds no control character"),
        (f"{ORDERS}/permissions/a%01b", ["produce"], 412, "holds no control character"),
        (f"{EU}/permissions/subscription/billing", ["a\nb"], 412, "holds no control character"),
        (f"{EU}/permissions/subscription/billing", ["a" * 1020], 412, "at most 1019 characters"),
        (f"{EU}/permissions/subscription/billing", {}, 400, "Roles are a list"),
        (f"{EU}/permissions/subscription/billing", [""], 400, "Roles are a list"),
        (f"{EU}/permissions/subscription/billing", [], 412, "Say which roles"),
        (f"{V2}/namespaces/shop/nosuch/permissions/ada", ["produce"], 404, "no namespace"),
        (f"{ORDERS}/permissions/ada", ["fly"], 400, "no action 'fly'"),
        (f"{ORDERS}-partition-0/permissions/ada", ["produce"], 412, "name persistent://shop/eu/orders."),
        (f"{V2}/persistent/shop/eu/nosuch/permissions/ada", ["produce"], 404, "no topic"),
    ],
)
def test_what_is_refused_is_not_kept(serve: Serve, path: str, body: object, status: int, words: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        answer = await admin.ask("POST", path, None if body is None else json.dumps(body))
        assert (answer.status, words in answer.json["reason"]) == (status, True), answer.json
        shown = (await admin.ask("GET", EU)).json["auth_policies"]
        assert not any(shown.values())

    serve(test)


def test_the_actions_are_pulsars() -> None:
    """Of AuthAction."""
    assert sorted(bundles.ACTIONS) == ["consume", "functions", "packages", "produce", "sinks", "sources"]
