"""Backlogs of many topics in one call."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.wire import records
from tests.gateway.admin.conftest import Admin

Serve = Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]
EARLIEST = '{"ledgerId": -1, "entryId": -1}'
LAG = "/admin/v2/magnetar/lag"


def test_backlog_age_and_consumers_of_groups_and_share_groups(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        began = admin.broker.clock.wall_ms()
        await admin.partitioned("orders", 2)
        await admin.plain("quiet")
        await admin.produce("orders", 0, [b"a", b"b", b"c"])
        await admin.produce("orders", 1, [b"d"])
        await admin.commit("billing", "orders", 0, 1)
        await admin.commit("billing", "orders", 1, 1)
        await admin.commit("done", "orders", 0, 3)
        assert (await admin.ask("PUT", "P/orders/subscription/packing", EARLIEST)).status == 204
        assert (await admin.ask("POST", "P/orders-partition-0/subscription/packing/skip/1")).status == 204

        answer = (await admin.ask("GET", LAG)).json
        assert answer["next"] is None
        orders, quiet = answer["topics"]
        assert quiet == {
            "topic": "persistent://public/default/quiet", "partitions": 0, "messages": 0, "storageSize": 0,
            "subscriptions": [],
        }  # fmt: skip
        assert (orders["partitions"], orders["messages"]) == (2, 4)
        assert orders["storageSize"] > 0
        billing, done, packing = orders["subscriptions"]
        keys = ("name", "type", "msgBacklog", "msgDelayed", "consumersCount")
        assert [[one[key] for key in keys] for one in orders["subscriptions"]] == [
            ["billing", "Failover", 2, 0, 0], ["done", "Failover", 0, 0, 0], ["packing", "Shared", 3, 0, 0],
        ]  # fmt: skip
        for one in (billing, packing):
            assert began <= one["earliestMsgPublishTimeInBacklog"] <= admin.broker.clock.wall_ms()
        assert done["earliestMsgPublishTimeInBacklog"] == -1

        assert (await admin.ask("GET", "P/orders/lag")).json == orders
        only = (await admin.ask("GET", f"{LAG}?subscription=packing")).json["topics"]
        assert [(one["topic"], one["subscriptions"]) for one in only] == [(orders["topic"], [packing])]
        assert (await admin.ask("GET", "P/quiet/lag?subscription=packing")).status == 404

    serve(test)


def test_the_age_of_a_delayed_message_begins_when_it_is_due(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        assert (await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)).status == 204
        now = admin.broker.clock.wall_ms()
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        for due in (now + 3_600_000, now - 60_000):
            headers: list[tuple[str, bytes | None]] = [("pulsar-deliver-at", b"%d" % due)]
            batch = records.build_batch([records.Record(0, now - 7_200_000, b"k", b"x", headers)])
            admin.broker.partition(topic, 0).append(batch, records.header(batch), now)
            await admin.broker.write([])
            (one,) = (await admin.ask("GET", "P/orders/lag")).json["subscriptions"]
            assert one["earliestMsgPublishTimeInBacklog"] == now - 7_200_000
            if due > now:
                assert (one["oldestAgeSeconds"], "oldest" in one) == (-1, False)
            else:
                assert 60 <= one["oldestAgeSeconds"] < 3_600
        (row,) = (await admin.ask("GET", "/admin/v2/magnetar/subscriptions")).json["subscriptions"]
        assert row["oldest"] == one["oldest"]

    serve(test)


def test_pages_by_name_and_what_nobody_uses_stays_on_the_disk(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        for number in range(5):
            await admin.plain(f"t-{number}")
        for _ in range(2):
            admin.broker.in_use.release_idle()
        seen: list[list[str]] = []
        after: str | None = ""
        while after is not None:
            answer = (await admin.ask("GET", f"{LAG}?limit=2&after={after}")).json
            seen.append([one["topic"][-3:] for one in answer["topics"]])
            after = answer["next"]
        assert seen == [["t-0", "t-1"], ["t-2", "t-3"], ["t-4"]]
        assert admin.broker.runtimes() == []

    serve(test)


@pytest.mark.parametrize("limit", ["0", "10001", "many", "-1", "9" * 5_000, "0" * 19 + "20000"])
def test_a_page_has_a_limit(serve: Serve, limit: str) -> None:
    async def test(admin: Admin) -> None:
        assert (await admin.ask("GET", f"{LAG}?limit={limit}")).status == 400

    serve(test)


def test_the_age_is_that_of_the_oldest_batch_and_moves_with_the_backlog(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a", b"b"])
        before = admin.broker.clock.wall_ms()
        while admin.broker.clock.wall_ms() == before:
            pass
        await admin.produce("orders", 0, [b"c"])
        ages: list[int] = []
        for offset in (0, 1, 2, 3):
            await admin.commit("billing", "orders", 0, offset)
            (one,) = (await admin.ask("GET", "P/orders/lag")).json["subscriptions"]
            ages.append(one["earliestMsgPublishTimeInBacklog"])
        assert ages[0] == ages[1] <= before < ages[2]
        assert ages[3] == -1

    serve(test)
