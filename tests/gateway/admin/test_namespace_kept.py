"""What a namespace says that has no effect on one node: it is kept, shown and taken back."""

from __future__ import annotations

import json

import pytest

from gateway.broker.catalog import Catalog
from semantics.names import Namespace
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin

N = "/admin/v2/namespaces"
EU = f"{N}/shop/eu"


async def made(admin: Admin) -> None:
    for path in (
        "tenants/shop",
        "tenants/bank",
        "namespaces/shop/eu",
        "namespaces/shop/us",
        "namespaces/bank/eu",
    ):
        assert (await admin.ask("PUT", f"/admin/v2/{path}")).status == 204


def test_allowed_clusters_and_the_mode_of_subscriptions(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        before = (await admin.ask("GET", EU)).json
        for path, unset, said in (
            ("allowedClusters", [], ["standalone"]),
            ("subscriptionAuthMode", "None", "Prefix"),
        ):
            assert (await admin.ask("GET", f"{EU}/{path}")).json == unset
            assert (await admin.ask("POST", f"{EU}/{path}", json.dumps(said))).status == 204
            assert (await admin.ask("GET", f"{EU}/{path}")).json == said
        policies = (await admin.ask("GET", EU)).json
        assert policies == {**before, "allowed_clusters": ["standalone"], "subscription_auth_mode": "Prefix"}
        row = Catalog(admin.broker.store).namespaces.get(Namespace("shop", "eu"))
        assert row is not None
        assert (row.allowed_clusters, row.subscription_auth_mode) == (["standalone"], "Prefix")

    serve(test)


def test_anti_affinity_groups(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        none = await admin.ask("GET", f"{EU}/antiAffinity")
        assert (none.status, none.body) == (204, b"")
        # Java's client sends a bare word, Go's JSON
        for namespace, body in (("shop/eu", "halls"), ("bank/eu", '"halls"'), ("shop/us", "others")):
            assert (await admin.ask("POST", f"{N}/{namespace}/antiAffinity", body)).status == 204
        for namespace in ("shop/eu", "bank/eu"):
            answer = await admin.ask("GET", f"{N}/{namespace}/antiAffinity")
            assert (answer.body, answer.content_type) == (b"halls", "text/plain; charset=utf-8")
        path = f"{N}/standalone/antiAffinity/halls"
        assert (await admin.ask("GET", path)).json == ["bank/eu", "shop/eu"]
        # as Java's client asks
        assert (await admin.ask("GET", path.replace("/v2", ""))).json == ["bank/eu", "shop/eu"]
        assert (await admin.ask("GET", path.replace("/v2", "") + "/x")).status == 501
        assert (await admin.ask("GET", f"{path}?property=shop")).json == ["shop/eu"]
        assert (await admin.ask("DELETE", f"{EU}/antiAffinity")).status == 204
        assert (await admin.ask("GET", f"{path}?property=shop")).json == []
        assert (await admin.ask("GET", f"{path}?property=nosuch")).status == 404
        assert (await admin.ask("GET", f"{N}/moon/antiAffinity/halls")).status == 412

    serve(test)


def test_a_namespace_may_be_called_like_that_path(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("PUT", f"{N}/shop/antiAffinity")).status == 204
        assert (await admin.ask("GET", f"{N}/shop/antiAffinity/properties")).json == {}
        assert (await admin.ask("GET", f"{N}/shop/antiAffinity/topics")).json == []

    serve(test)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("allowedClusters", '["moon"]', 412, "no cluster 'moon'"),
        ("allowedClusters", "[]", 412, "is not empty"),
        ("allowedClusters", '"standalone"', 400, "a list of names"),
        ("subscriptionAuthMode", '"Suffix"', 400, "None or Prefix, not 'Suffix'"),
        ("subscriptionAuthMode", "", 400, "None or Prefix"),
        ("antiAffinity", "", 412, "has a name"),
        ("antiAffinity", '" "', 412, "has a name"),
        ("antiAffinity", "x" * 250, 412, "at most 249 characters"),
    ],
)
def test_what_makes_no_sense_is_not_kept(serve: Serve, path: str, body: str, status: int, words: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        before = [(await admin.ask("GET", each)).body for each in (EU, f"{EU}/antiAffinity")]
        answer = await admin.ask("POST", f"{EU}/{path}", body)
        assert (answer.status, words in answer.json["reason"]) == (status, True), answer.json
        assert [(await admin.ask("GET", each)).body for each in (EU, f"{EU}/antiAffinity")] == before

    serve(test)
