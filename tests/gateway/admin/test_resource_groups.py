"""Resource groups over HTTP, on a real broker: made, changed, deleted, and who is in one."""

from __future__ import annotations

import json

import pytest

from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.secured import Secured, furnish, serve_secured

V2 = "/admin/v2"
SMALL, OF_EU = f"{V2}/resourcegroups/small", f"{V2}/namespaces/shop/eu/resourcegroup"
RATES = {
    "publishRateInMsgs": 10, "publishRateInBytes": 1000, "dispatchRateInMsgs": 20, "dispatchRateInBytes": 5_000_000_000,
}  # fmt: skip


async def made(admin: Admin) -> None:
    """Group `small`, and tenant shop with the namespace shop/eu."""
    assert (await admin.ask("PUT", SMALL, json.dumps(RATES))).status == 204
    for path in ("tenants/shop", "namespaces/shop/eu"):
        assert (await admin.ask("PUT", f"{V2}/{path}")).status == 204


def test_groups_are_made_changed_and_deleted(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("PUT", f"{V2}/resourcegroups/free")).status == 204
        assert (await admin.ask("GET", f"{V2}/resourcegroups")).json == ["free", "small"]
        assert (await admin.ask("GET", f"{V2}/resourcegroups/free")).json == {}
        assert (await admin.ask("GET", SMALL)).json == RATES
        changed = {"publishRateInMsgs": -1, "publishRateInBytes": None, "dispatchRateInMsgs": 30}
        assert (await admin.ask("PUT", SMALL, json.dumps(changed))).status == 204
        expected = {**RATES, "publishRateInMsgs": -1, "dispatchRateInMsgs": 30}
        assert (await admin.ask("GET", SMALL)).json == expected
        assert (await admin.ask("DELETE", SMALL)).status == 204
        assert (await admin.ask("GET", f"{V2}/resourcegroups")).json == ["free"]

    serve(test)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "resourcegroups/none", None, 404, "no resource group 'none'"),
        ("DELETE", "resourcegroups/none", None, 404, "`resourcegroups create` makes one"),
        ("PUT", "resourcegroups/a.b", None, 412, "cannot be a resource group"),
        ("PUT", "resourcegroups/small", [1], 400, "an object"),
        ("PUT", "resourcegroups/small", {"publishRateInMsgs": "10"}, 412, "a whole number"),
        ("PUT", "resourcegroups/small", {"publishRateInMsgs": True}, 412, "a whole number"),
        ("PUT", "resourcegroups/small", {"publishRateInMsgs": 2**31}, 412, "from -1 to 2147483647"),
        ("PUT", "resourcegroups/small", {"dispatchRateInBytes": -2}, 412, "a whole number"),
        ("PUT", "resourcegroups/small", {"replicationDispatchRateInMsgs": 5}, 501, "one cluster"),
        ("POST", "namespaces/shop/eu/resourcegroup/none", None, 404, "no resource group"),
        ("POST", "namespaces/shop/none/resourcegroup/small", None, 404, "no namespace"),
        ("PUT", "namespaces/shop/us", {"resource_group_name": "none"}, 404, "no resource group"),
        ("GET", "magnetar/resourcegroups/none/stats", None, 404, "no resource group"),
    ],
)
def test_what_is_refused(serve: Serve, method: str, path: str, body: object, status: int, words: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        answer = await admin.ask(method, f"{V2}/{path}", None if body is None else json.dumps(body))
        assert answer.status == status, answer
        assert words in answer.json["reason"]
        assert (await admin.ask("GET", SMALL)).json == RATES

    serve(test)


def test_a_namespace_is_put_into_one_and_taken_out(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        none = await admin.ask("GET", OF_EU)
        assert (none.status, none.json) == (200, None)
        assert (await admin.ask("POST", f"{OF_EU}/small")).status == 204
        named = await admin.ask("GET", OF_EU)
        # a bare word, as Pulsar's clients read it
        assert (named.body, named.content_type) == (b"small", "text/plain; charset=utf-8")
        policies = await admin.ask("GET", f"{V2}/namespaces/shop/eu")
        assert policies.json["resource_group_name"] == "small"
        refused = await admin.ask("DELETE", SMALL)
        assert (refused.status, "in use by shop/eu" in refused.json["reason"]) == (412, True)
        assert (await admin.ask("DELETE", OF_EU)).status == 204
        assert (await admin.ask("GET", OF_EU)).json is None
        assert "resource_group_name" not in (await admin.ask("GET", f"{V2}/namespaces/shop/eu")).json
        assert (await admin.ask("DELETE", SMALL)).status == 204

    serve(test)


def test_a_namespace_is_made_in_one(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        made_in = json.dumps({"resource_group_name": "small"})
        assert (await admin.ask("PUT", f"{V2}/namespaces/shop/us", made_in)).status == 204
        assert (await admin.ask("GET", f"{V2}/namespaces/shop/us/resourcegroup")).body == b"small"

    serve(test)


def test_what_its_namespaces_have_used_is_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.ask("POST", f"{OF_EU}/small")
        assert (await admin.ask("PUT", f"{V2}/persistent/shop/eu/orders")).status == 204
        await admin.produce("shop/eu/orders", 0, [b"a", b"b"])
        told = (await admin.ask("GET", f"{V2}/magnetar/resourcegroups/small/stats")).json
        assert told.pop("publishedBytes") > 60
        assert told == {
            "publishedMsgs": 2, "dispatchedMsgs": 0, "dispatchedBytes": 0, "namespaces": ["shop/eu"],
        }  # fmt: skip
        labels = 'cluster="standalone",ResourceGroup="small",MonitoringClass="Publish"'
        metrics = (await admin.ask("GET", "/metrics")).body.decode()
        assert f"pulsar_resource_group_messages_used{{{labels}}} 2\n" in metrics

    serve(test)


def test_a_tenant_does_not_leave_its_group_by_a_new_namespace() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        for name in ("small", "others"):
            assert (await at.ask("root", "PUT", f"{V2}/resourcegroups/{name}")).status == 204
        assert (await at.ask("root", "POST", f"{OF_EU}/small")).status == 204
        spaces = f"{V2}/namespaces/shop"

        async def group_of(namespace: str) -> object:
            return (await at.ask("ada", "GET", f"{spaces}/{namespace}/resourcegroup")).body

        # it is the same for one that is there and one that is not
        for name in ("others", "none"):
            said = json.dumps({"resource_group_name": name})
            refused = await at.ask("ada", "PUT", f"{spaces}/us", said)
            assert (refused.status, "takes a super-user" in refused.json["reason"]) == (403, True)
        for namespace, policies in (("us", {}), ("de", {"resource_group_name": "small"})):
            assert (await at.ask("ada", "PUT", f"{spaces}/{namespace}", json.dumps(policies))).status == 204
            assert await group_of(namespace) == b"small"
        # nor by deleting all that it has
        for namespace in ("us", "de", "eu"):
            assert (await at.ask("ada", "DELETE", f"{spaces}/{namespace}?force=true")).status == 204
        assert (
            await at.ask("root", "POST", f"{V2}/tenants/shop", json.dumps({"adminRoles": ["ada"]}))
        ).status == 204
        assert (await at.ask("ada", "PUT", f"{spaces}/eu", "{}")).status == 204
        assert await group_of("eu") == b"small"
        # a super-user says another
        other = json.dumps({"resource_group_name": "others"})
        assert (await at.ask("root", "PUT", f"{spaces}/it", other)).status == 204
        assert await group_of("it") == b"others"
        # of several it is in one
        assert (await at.ask("ada", "PUT", f"{spaces}/fr", "{}")).status == 204
        assert await group_of("fr") == b"others"

    serve_secured(test)
