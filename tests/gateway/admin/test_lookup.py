"""Where a topic is served, as Pulsar's tools look it up."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from gateway.admin import cluster, lookup
from gateway.admin.exchange import LOOKUP, Call
from gateway.broker.placement import Advertised
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin

HERE = "/lookup/v2/topic/persistent/public/default"


def advertised(admin: Admin) -> None:
    admin.broker.endpoints["INSIDE"] = ("gateway", 29092)
    admin.broker.endpoints["SIX"] = ("::1", 9093)
    admin.broker.endpoints["HOST"] = ("127.0.0.1", 9092)


def test_a_topic_is_where_the_caller_reaches_the_gateway(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        advertised(admin)
        await admin.plain("plain")
        await admin.partitioned("orders", 2)
        for name in ("plain", "orders", "orders-partition-1"):
            answer = await admin.ask("GET", f"{HERE}/{name}")
            assert answer.json == {
                "brokerUrl": "kafka://127.0.0.1:9092",
                "nativeUrl": "kafka://127.0.0.1:9092",
                "httpUrl": admin.server.url,
            }
        for host, url in (("[::1]:80", "kafka://[::1]:9093"), ("192.0.2.7:80", "kafka://gateway:29092")):
            answer = await admin.ask("GET", f"{HERE}/plain", Host=host)
            assert (answer.json["brokerUrl"], answer.json["httpUrl"]) == (url, f"http://{host}")
        bundle = await admin.ask("GET", f"{HERE}/orders/bundle")
        assert (bundle.body, bundle.content_type) == (
            b"0x00000000_0xffffffff",
            "text/plain; charset=utf-8",
        )

    serve(test)


def test_it_is_the_node_that_leads_the_partition(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        advertised(admin)
        await admin.partitioned("orders", 2)
        placement = admin.broker.placement
        nodes = [Advertised(1, "one", 1, None), Advertised(2, "two", 2, None)]
        monkeypatch.setattr(placement, "nodes", lambda listener: nodes)
        monkeypatch.setattr(placement, "replicas", lambda topic: [[1], [2]])
        found = [(await admin.ask("GET", f"{HERE}/orders-partition-{index}")).json for index in (0, 1)]
        assert [each["brokerUrl"] for each in found] == ["kafka://one:1", "kafka://two:2"]
        del nodes[1]
        gone = await admin.ask("GET", f"{HERE}/orders-partition-1")
        assert (gone.status, "Node 2" in gone.json["reason"]) == (503, True)

    serve(test)


def test_a_topic_that_is_not_there(serve: Serve) -> None:
    """Of one that a client would make by asking for it, it is told where that would be."""

    async def test(admin: Admin) -> None:
        refused = await admin.ask("GET", f"{HERE}/nosuch")
        assert (refused.status, refused.json["reason"]) == (503, "The gateway has no Kafka listener yet.")
        advertised(admin)
        answer = await admin.ask("GET", f"{HERE}/nosuch")
        assert answer.json["brokerUrl"] == "kafka://127.0.0.1:9092"
        assert admin.broker.catalog.names() == []
        await admin.broker.broker_configs.alter("", lambda old: {"allowAutoTopicCreation": "false"})
        for path in (f"{HERE}/nosuch", f"{HERE}/nosuch-partition-1"):
            assert (await admin.ask("GET", path)).status == 404
        for path in ("persistent/public/nosuch/x", "persistent/public/nosuch/x/bundle"):
            assert (await admin.ask("GET", f"/lookup/v2/topic/{path}")).status == 404
        assert (await admin.ask("GET", f"{HERE}/a%3Ab")).status == 412

    serve(test)


def test_no_page_of_another_site_reads_it(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        advertised(admin)
        assert (await admin.ask("GET", f"{HERE}/x", Host="evil.example:80")).status == 403

    serve(test)


def test_over_tls_addresses_of_http_are_named_so(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        advertised(admin)
        await admin.plain("orders")
        context = dataclasses.replace(admin.server._context, tls=True)
        asked = Call("GET", ("persistent", "public", "default", "orders"), host="here:8443", root=LOOKUP)
        found = msgspec.json.decode((await lookup.topic(context, asked)).body)
        assert found["httpUrlTls"] == "https://here:8443"
        assert "httpUrl" not in found
        of_cluster = await cluster.cluster(context, Call("GET", ("clusters", "standalone"), host="here:8443"))
        assert msgspec.json.decode(of_cluster.body) == {"serviceUrlTls": "https://here:8443"}
        leader = await cluster.leader_broker(
            context, Call("GET", ("brokers", "leaderBroker"), host="here:8443")
        )
        assert msgspec.json.decode(leader.body)["serviceUrl"] == "https://here:8443"

    serve(test)
