"""The stats of all topics in memory, in Pulsar's shape."""

from __future__ import annotations

import pytest

from tests.gateway.admin.billing import EARLIEST, Serve
from tests.gateway.admin.conftest import Admin

PATH = "/admin/v2/broker-stats/topics"
BUNDLE = "0x00000000_0xffffffff"


def test_topics_in_memory_by_namespace(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        for path in ("tenants/shop", "namespaces/shop/eu", "persistent/shop/eu/fruit"):
            assert (await admin.ask("PUT", f"/admin/v2/{path}")).status == 204
        await admin.plain("plain")
        await admin.partitioned("orders", 3)
        assert (await admin.ask("GET", PATH)).json == {}
        await admin.produce("plain", 0, [b"a"])
        await admin.produce("orders", 1, [b"a", b"b"])
        await admin.produce("shop/eu/fruit", 0, [b"a"])
        await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)
        await admin.commit("readers", "plain", 0, 0)
        await admin.commit("others", "shop/eu/fruit", 0, 1)
        found = (await admin.ask("GET", PATH)).json
        full = "persistent://public/default/"
        assert {name: sorted(its[BUNDLE]["persistent"]) for name, its in found.items()} == {
            "public/default": [f"{full}orders-partition-{n}" for n in range(3)] + [f"{full}plain"],
            "shop/eu": ["persistent://shop/eu/fruit"],
        }
        here = found["public/default"][BUNDLE]["persistent"]
        # each is what `topics stats` says of it
        for name in ("plain", "orders-partition-1"):
            alone = (await admin.ask("GET", f"P/{name}/stats")).json
            # rates change from moment to moment
            passing = ("averageMsgSize", "msgRateIn", "msgThroughputIn")
            assert here[full + name] == {**alone, **{key: here[full + name][key] for key in passing}}
        assert here[f"{full}orders-partition-1"]["subscriptions"]["billing"]["msgBacklog"] == 2
        assert list(here[f"{full}plain"]["subscriptions"]) == ["readers"]
        # by the name that Pulsar had for it before
        old = (await admin.ask("GET", PATH.replace("topics", "destinations"))).json
        assert {name: list(its[BUNDLE]["persistent"]) for name, its in old.items()} == {
            name: list(its[BUNDLE]["persistent"]) for name, its in found.items()
        }

    serve(test)


def test_a_topic_that_goes_meanwhile_is_left_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("gone")
        await admin.plain("stays")
        for name in ("gone", "stays"):
            await admin.produce(name, 0, [b"a"])
        # as it was when the list was made
        listed = admin.broker.runtimes()
        assert (await admin.ask("DELETE", "P/gone")).status == 204
        monkeypatch.setattr(admin.broker, "runtimes", lambda: listed)
        found = (await admin.ask("GET", PATH)).json
        assert list(found["public/default"][BUNDLE]["persistent"]) == ["persistent://public/default/stays"]

    serve(test)
