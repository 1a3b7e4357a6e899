"""Consumer groups as the subscriptions of a topic."""

from __future__ import annotations

from store.api import Trim
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin


def test_a_group_is_a_failover_subscription_with_its_backlog(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.produce("orders", 0, [b"a", b"b", b"c", b"d"])
        await admin.produce("orders", 1, [b"e", b"f"])
        await admin.commit("billing", "orders", 0, 1)
        await admin.commit("billing", "orders", 1, 0)
        await admin.commit("audit", "orders", 1, 2)

        one = (await admin.ask("GET", "P/orders-partition-0/stats")).json
        assert list(one["subscriptions"]) == ["billing"]
        billing = one["subscriptions"]["billing"]
        assert (billing["type"], billing["msgBacklog"], billing["isDurable"]) == ("Failover", 3, True)
        assert billing["backlogSize"] == one["backlogSize"] == one["storageSize"] * 3 // 4
        assert billing["magnetar"] == {"committedOffset": 1, "groupState": "Empty", "groupMembers": 0}

        whole = (await admin.ask("GET", "P/orders/partitioned-stats?perPartition=false")).json
        assert whole["subscriptions"]["billing"]["msgBacklog"] == 5
        assert whole["subscriptions"]["audit"]["msgBacklog"] == 0
        assert whole["partitions"] == {}
        # an offset means something in one partition only
        for subscription in whole["subscriptions"].values():
            assert sorted(subscription["magnetar"]) == ["groupMembers", "groupState"]

    serve(test)


def test_what_is_trimmed_is_no_backlog(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("plain")
        await admin.produce("plain", 0, [b"a", b"b"])
        await admin.produce("plain", 0, [b"c"])
        await admin.commit("billing", "plain", 0, 1)
        topic = admin.broker.catalog.get("plain")
        assert topic is not None
        await admin.broker.write([Trim(topic.partitions[0], 2)])

        stats = (await admin.ask("GET", "P/plain/stats")).json
        assert stats["magnetar"]["logStartOffset"] == 2
        assert stats["subscriptions"]["billing"]["msgBacklog"] == 1

    serve(test)
