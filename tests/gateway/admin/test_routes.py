"""Which function serves a call, and what is said of calls that none serves."""

from __future__ import annotations

import pytest

from gateway.admin import routes
from gateway.admin.exchange import LOOKUP, ROOT, Call
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin


@pytest.mark.parametrize(
    ("method", "path", "status", "word"),
    [
        ("GET", "/", 404, "/metrics"),
        ("GET", "/admin/v2", 404, "nothing"),
        ("GET", "/admin/v2/", 404, "nothing"),
        ("GET", "/admin/v2/nonsense", 404, "nothing"),
        ("GET", "/admin/v2/tenant", 404, "nothing"),
        ("GET", "/admin/v2/topic/stats", 404, "nothing"),
        ("GET", "/admin/v2/persistent/public", 404, "nothing"),
        ("POST", "/admin/v2/persistent/public/default/orders/persistence", 501, "`topics set-persistence`"),
        ("PUT", "/admin/v2/clusters/mars", 501, "`clusters create`"),
        ("GET", "/admin/v2/clusters/mars", 404, "no cluster 'mars'"),
        ("POST", "/admin/v2/brokers/shutdown", 501, "`brokers shutdown`"),
        ("POST", "/admin/v2/namespaces/public/default/subscribeRate", 501, "`namespaces set-subscribe-rate`"),
        (
            "POST",
            "/admin/v2/bookies/racks-info/x",
            501,
            "`bookies set-bookie-rack` is not served: it would say in which racks",
        ),
        ("GET", "/admin/v2/schemas/public/default/x/schema", 501, "schemas"),
        ("GET", "/admin/v3/functions/public/default", 501, "Magnetar runs no code of its users."),
        ("GET", "/admin/v3/sink/public/default", 501, "`sinks list` is not served"),
        ("GET", "/admin/v3/nonsense", 501, "nothing of /admin/v3"),
        ("GET", "/admin/v3", 501, "nothing of /admin/v3"),
        (
            "GET",
            "/admin/namespaces/public/standalone",
            501,
            "`namespaces list-cluster` is not served: it would list",
        ),
        ("GET", "/proxy-stats/connections", 501, "There is no proxy"),
        ("GET", "/admin/v2/worker-stats/metrics", 501, "`functions-worker monitoring-metrics` is not served"),
        ("GET", "/admin/v2/broker-stats/mbeans", 501, "`broker-stats mbeans` is not served"),
        (
            "GET",
            "/admin/v2/clusters/c/namespaceIsolationPolicies",
            501,
            "`ns-isolation-policy list` is not served",
        ),
        (
            "PUT",
            "/admin/v2/namespaces/public/default/0x00000000_0xffffffff/split",
            501,
            "`namespaces split-bundle`",
        ),
        (
            "POST",
            "/admin/v2/persistent/public/default/o/offloadPolicies",
            501,
            "`topics set-offload-policies` is not",
        ),
        ("GET", "/lookup/v2/destination/persistent/public/default/x", 501, "lookup"),
        ("GET", "/lookup/v2/topic", 404, "nothing at /lookup/v2/topic."),
        ("GET", "/lookup/v2/topic/bookies/public/default/x", 404, "nothing at /lookup/v2/topic/bookies"),
        ("GET", "/admin/v2/lookup/public/default/x", 404, "nothing"),
        ("GET", "/admin/v2/tenants/shop", 404, "no tenant 'shop'"),
        ("GET", "/admin/v2/namespaces/shop", 404, "no tenant 'shop'"),
        ("GET", "/admin/v2/brokers/mars", 404, "no cluster 'mars'"),
        ("POST", "/metrics", 405, "GET"),
        ("DELETE", "/health/live", 405, "GET"),
    ],
)
def test_what_is_not_served_says_so(serve: Serve, method: str, path: str, status: int, word: str) -> None:
    async def test(admin: Admin) -> None:
        answer = await admin.ask(method, path)
        assert answer.status == status
        assert word in answer.json["reason"]

    serve(test)


def test_every_route_of_the_table_can_be_reached() -> None:
    """A key that no path leads to would be a verb that is never served."""
    examples = {
        "clusters": ("clusters",), "brokers": ("brokers",), "tenants": ("tenants",), "tenant": ("namespaces", "t"),
        "namespace": ("namespaces", "t", "n"), "domain": ("persistent", "t", "n"),
        "topic": ("persistent", "t", "n", "x"), "magnetar": ("magnetar",),
        "subscription": ("persistent", "t", "n", "x", "subscription", "s"),
        "lookup": ("persistent", "t", "n", "x"), "broker-stats": ("broker-stats",),
        "anti-affinity": ("namespaces", "standalone", "antiAffinity", "group"),
        "resourcegroups": ("resourcegroups",),
        "entry": ("persistent", "t", "n", "x", "ledger", "1", "entry", "2"),
    }  # fmt: skip
    for method, kind, tail in routes.VERBS:
        rest = tuple(part for part in tail.replace("*", "anything").split("/") if part)
        call = Call(method, examples[kind] + rest, root=LOOKUP if kind == "lookup" else ROOT)
        assert routes.verb_of(call) is routes.VERBS[method, kind, tail]


def test_a_topic_may_be_called_partitioned(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("partitioned")
        assert (await admin.ask("GET", "P/partitioned/stats")).status == 200
        assert (await admin.ask("DELETE", "P/partitioned")).status == 204

    serve(test)
