"""What stock clients ask before anything of topics: clusters, brokers, tenants, namespaces, health."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gateway.admin import cluster
from store.api import DiskFull, Outcome, Write
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/admin/v2/clusters", ["standalone"]),
        ("/admin/v2/tenants", ["public"]),
        ("/admin/v2/tenants/public", {"adminRoles": [], "allowedClusters": ["standalone"]}),
        ("/admin/v2/namespaces/public", ["public/default"]),
        (
            "/admin/v2/namespaces/public/default/bundles",
            {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1},
        ),
    ],
)
def test_what_stock_clients_ask_first(serve: Serve, path: str, expected: object) -> None:
    async def test(admin: Admin) -> None:
        answer = await admin.ask("GET", path)
        assert (answer.status, answer.content_type, answer.json) == (200, "application/json", expected)

    serve(test)


def test_brokers(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        address = admin.server.address
        assert (await admin.ask("GET", "/admin/v2/brokers/standalone")).json == [address]
        leader = (await admin.ask("GET", "/admin/v2/brokers/leaderBroker")).json
        assert leader == {"serviceUrl": f"http://{address}", "brokerId": address}
        # the server may listen on every address: what the client used is what reaches it
        named = (await admin.ask("GET", "/admin/v2/brokers/leaderBroker", Host="192.0.2.7:80")).json
        assert named == {"serviceUrl": "http://192.0.2.7:80", "brokerId": "192.0.2.7:80"}
        config = (await admin.ask("GET", "/admin/v2/brokers/configuration/runtime")).json
        assert config["clusterName"] == "standalone"
        assert config["num.partitions"] == "1"
        assert all(isinstance(value, str) for value in config.values())
        for path, word in (("version", b"0.1.0"), ("health", b"ok"), ("health?topicVersion=V2", b"ok")):
            answer = await admin.ask("GET", f"/admin/v2/brokers/{path}")
            assert (answer.status, answer.body) == (200, word)
            assert answer.content_type == "text/plain; charset=utf-8"

    serve(test)


def test_health_fails_when_the_store_takes_no_writes(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        def refuse(writes: Sequence[Write], durability: object, done: Callable[[Outcome], None]) -> None:
            done(DiskFull("no space left on the device"))

        monkeypatch.setattr(admin.broker.durable, "commit", refuse)
        answer = await admin.ask("GET", "/admin/v2/brokers/health")
        assert answer.status == 503
        assert "no space left" in answer.json["reason"]
        # alive all the same: a restart would not help
        assert (await admin.ask("GET", "/health/live")).status == 200

    serve(test)


def test_live_and_ready(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        for path in ("/health/live", "/health/ready"):
            answer = await admin.ask("GET", path)
            assert (answer.status, answer.body) == (200, b"ok")
        admin.reasons.append("The gateway is stopping.")
        assert (await admin.ask("GET", "/health/live")).status == 200
        answer = await admin.ask("GET", "/health/ready")
        assert (answer.status, answer.json) == (503, {"reason": "The gateway is stopping."})
        assert (await admin.ask("GET", "/admin/v2/brokers/health")).status == 503

    serve(test)


def test_the_cluster_and_its_broker_are_described(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        address = admin.server.url.removeprefix("http://")
        admin.broker.endpoints["INSIDE"] = ("gateway", 29092)
        admin.broker.endpoints["HOST"] = ("127.0.0.1", 9092)
        for path, expected in (
            ("clusters/standalone", {"serviceUrl": f"http://{address}"}),
            ("brokers", [address]),
            ("clusters/standalone/peers", []),
            ("clusters/standalone/failureDomains", {}),
            ("clusters/standalone/migrate", {"migrated": False}),
            (
                "brokers/internal-configuration",
                {"metadataStoreUrl": "memory:local", "configurationMetadataStoreUrl": "memory:local"},
            ),
            # of two listeners the one with the host that the caller knows the gateway by
            ("magnetar/kafka", {"bootstrap": "127.0.0.1:9092"}),
        ):
            assert (await admin.ask("GET", f"/admin/v2/{path}")).json == expected
        assert (await admin.ask("GET", "/admin/v2/brokers/ready")).body == b"ok"
        admin.reasons.append("It is stopping.")
        assert (await admin.ask("GET", "/admin/v2/brokers/ready")).status == 503

    serve(test)


def test_what_is_asked_of_another_cluster_or_broker_is_refused(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        for path in ("peers", "failureDomains", "failureDomains/a", "migrate"):
            refused = await admin.ask("GET", f"/admin/v2/clusters/moon/{path}")
            assert (refused.status, "no cluster 'moon'" in refused.json["reason"]) == (404, True)
        refused = await admin.ask("GET", "/admin/v2/clusters/standalone/failureDomains/a")
        assert (refused.status, "no failure domain 'a'" in refused.json["reason"]) == (404, True)
        refused = await admin.ask("GET", "/admin/v2/brokers/standalone/moon:1/ownedNamespaces")
        assert (refused.status, "no broker 'moon:1'" in refused.json["reason"]) == (404, True)
        assert (await admin.ask("GET", "/admin/v2/brokers/moon/moon:1/ownedNamespaces")).status == 404

    serve(test)


def test_a_broker_has_all_namespaces(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PAGE", 1)

    async def test(admin: Admin) -> None:
        for path in ("tenants/shop", "namespaces/shop/eu", "namespaces/shop/us"):
            assert (await admin.ask("PUT", f"/admin/v2/{path}")).status == 204
        path = "/admin/v2/brokers/standalone/{}/ownedNamespaces"
        answer = await admin.ask("GET", path.format(admin.server.address))
        status = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
        names = ("public/default", "shop/eu", "shop/us")
        assert answer.json == {f"{name}/0x00000000_0xffffffff": status for name in names}
        # by the name that the caller knows it by, as `brokers list` says it
        assert (await admin.ask("GET", path.format("192.0.2.7:80"), Host="192.0.2.7:80")).status == 200

    serve(test)


def test_the_check_of_quotas_is_answered_as_done(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        answer = await admin.ask("GET", "/admin/v2/brokers/backlog-quota-check")
        assert (answer.status, answer.body) == (204, b"")

    serve(test)


def test_where_metadata_is(serve: Serve, tmp_path: Path) -> None:
    async def test(admin: Admin) -> None:
        admin.broker.data = tmp_path
        answer = await admin.ask("GET", "/admin/v2/brokers/internal-configuration")
        assert answer.json["metadataStoreUrl"] == f"rocksdb://{tmp_path.resolve()}"

    serve(test)
