"""Consumer groups as the subscriptions of a topic."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.groups import Span, backlog, connected, merged, span_of, views
from store.api import DropLog, Durability, Trim
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
        age = billing["magnetar"].pop("oldestAgeSeconds")
        assert 0 <= age < 600
        assert billing["magnetar"] == {"committedOffset": 1, "groupState": "Empty", "groupMembers": 0}

        whole = (await admin.ask("GET", "P/orders/partitioned-stats?perPartition=false")).json
        assert whole["subscriptions"]["billing"]["msgBacklog"] == 5
        assert whole["subscriptions"]["audit"]["msgBacklog"] == 0
        assert whole["partitions"] == {}
        # an offset means something in one partition only
        for subscription in whole["subscriptions"].values():
            assert sorted(subscription["magnetar"]) == ["groupMembers", "groupState", "oldestAgeSeconds"]

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


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 300))
def test_a_backlog_is_what_is_still_there_behind_the_committed_offset(
    start: int, kept: int, offset: int
) -> None:
    span = Span(start, start + kept, 10)
    assert backlog(span, offset) == len([each for each in range(start, start + kept) if each >= offset])


def test_a_partition_that_cannot_be_read_has_no_span(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("plain")
        await admin.produce("plain", 0, [b"a", b"b"])
        topic = admin.broker.catalog.get("plain")
        assert topic is not None
        found = span_of(admin.broker.store, topic.partitions[0])
        assert found is not None
        assert (found.start, found.end, found.size > 0) == (0, 2, True)
        seen: list[Span | None] = []

        def ask(outcome: object) -> None:
            seen.append(span_of(admin.broker.store, topic.partitions[0]))

        # it is being deleted
        admin.broker.store.commit([DropLog(topic.partitions[0])], Durability.OS, ask)
        assert seen == [None]

    serve(test)


def test_who_is_connected_to_a_topic(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.plain("other")
        await admin.commit("away", "orders", 0, 0)
        await admin.join("here", "orders")
        for name, expected in (("orders", ["here"]), ("other", [])):
            topic = admin.broker.catalog.get(name)
            assert topic is not None
            assert await connected(admin.broker, topic) == expected

    serve(test)


def test_every_group_with_all_that_it_committed(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.plain("other")
        await admin.produce("orders", 1, [b"a"])
        await admin.commit("billing", "orders", 1, 1)
        await admin.commit("billing", "other", 0, 0)
        await admin.join("idle", "other")
        assert {each.group_id: each async for each in views(admin.broker)} == {
            "billing": ("billing", 0, {"orders": {1: 1}, "other": {0: 0}}), "idle": ("idle", 1, {}),
        }  # fmt: skip

    serve(test)


def test_partitions_are_summed_and_what_they_were_stays() -> None:
    def failover(records: int) -> dict[str, Any]:
        return {
            "type": "Failover", "msgBacklog": records, "msgBacklogNoDelayed": records, "backlogSize": 10 * records,
            "isDurable": True, "consumers": [], "activeConsumerName": f"c{records}",
            "magnetar": {
                "committedOffset": 7, "groupState": "Empty", "groupMembers": 0, "oldestAgeSeconds": records,
            },
        }  # fmt: skip

    each = [{"billing": failover(1)}, {}, {"billing": failover(2), "audit": failover(5)}]
    before = copy.deepcopy(each)
    found = asyncio.run(merged(each))
    assert each == before
    assert list(found) == ["billing", "audit"]
    assert (found["billing"]["msgBacklog"], found["billing"]["backlogSize"]) == (3, 30)
    assert found["billing"]["magnetar"] == {"groupState": "Empty", "groupMembers": 0, "oldestAgeSeconds": 2}
    assert found["audit"]["msgBacklogNoDelayed"] == 5
    # of several partitions it is no one's
    assert (found["billing"]["activeConsumerName"], found["audit"]["activeConsumerName"]) == (None, "c5")
