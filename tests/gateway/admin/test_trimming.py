"""Messages that are deleted by verbs: what retention would take, and all there is; on a real broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.gateway.admin.billing import EARLIEST, Serve, made, stats, take
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_backlogs import did

SUB = "P/orders/subscription/billing"
SMALL = {"internal.segment.bytes": "60", "retention.bytes": "1"}
"""Each batch is a segment, and none but the newest is kept."""


async def small(
    admin: Admin, batches: int = 3, partitions: int = 2, configs: dict[str, str] | None = None
) -> None:
    """Topic `orders` with so many segments of two messages in each partition."""
    await admin.broker.create_topic("orders", partitions, {**SMALL, **(configs or {})})
    for index in range(partitions):
        for _ in range(batches):
            await admin.produce("orders", index, [b"x" * 40, b"y" * 40])


async def spans(admin: Admin) -> list[tuple[int, int]]:
    """Of each partition, where its log begins and ends."""
    found = (await admin.ask("GET", "P/orders/partitioned-stats")).json["partitions"].values()
    return [(each["magnetar"]["logStartOffset"], each["magnetar"]["highWatermark"]) for each in found]


# -- trimmed -------------------------------------------------------------------------------------------------


def test_what_retention_no_longer_keeps_goes_at_once(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await small(admin)
        assert did(await admin.ask("POST", "P/orders-partition-1/trim")) == 4
        assert await spans(admin) == [(0, 6), (4, 6)]
        assert did(await admin.ask("POST", "P/orders/trim")) == 4
        assert await spans(admin) == [(4, 6), (4, 6)]
        assert did(await admin.ask("POST", "P/orders/trim")) == 0

    serve(test)


def test_what_a_subscription_needs_stays_as_in_a_round(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await small(admin, partitions=1, configs={"retention.bytes": "-1", "pulsar.retention.bytes": "0"})
        assert (await admin.ask("PUT", f"{SUB}?type=shared", EARLIEST)).status == 204
        assert did(await admin.ask("POST", "P/orders/trim")) == 0
        assert did(await admin.ask("POST", f"{SUB}/skip/3")) == 3
        assert did(await admin.ask("POST", "P/orders/trim")) == 2
        assert await spans(admin) == [(2, 6)]

    serve(test)


def test_a_round_beside_it_does_no_harm(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await small(admin)
        both = (admin.ask("POST", "P/orders/trim"), admin.broker.retention.apply())
        answer, _ = await asyncio.gather(*both)
        assert answer.status == 204
        assert await spans(admin) == [(4, 6), (4, 6)]

    serve(test)


# -- truncated -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_everything_goes_and_subscriptions_go_on_behind_it(serve: Serve, kind: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, kind)
        assert await take(admin, "c", 2)
        assert did(await admin.ask("DELETE", "P/orders/truncate")) == 5
        of_topic: dict[str, Any] = (await admin.ask("GET", "P/orders/stats")).json
        assert (of_topic["magnetar"]["logStartOffset"], of_topic["storageSize"]) == (5, 0)
        billing = await stats(admin)
        assert (billing["msgBacklog"], billing["unackedMessages"]) == (0, 0)
        await admin.produce("orders", 0, [b"new"])
        assert await take(admin, "c") == [5]
        assert did(await admin.ask("DELETE", "P/orders/truncate")) == 1
        assert did(await admin.ask("DELETE", "P/orders/truncate")) == 0

    serve(test)


def test_what_is_told_of_ledgers_is_what_is_there(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        for value in (b"a", b"b"):
            await admin.produce("orders", 0, [value])
        await admin.commit("reader", "orders", 0, 2)

        async def told() -> tuple[int, int, bool]:
            """(entries, bytes, whether nothing is behind where the reader stands)."""
            found: dict[str, Any] = (await admin.ask("GET", "P/orders/internalStats")).json
            last = found["cursors"]["reader"]["markDeletePosition"] == found["lastConfirmedEntry"]
            return found["numberOfEntries"], found["totalSize"], last

        entries, size, last = await told()
        assert (entries, last) == (2, True)
        assert did(await admin.ask("DELETE", "P/orders/truncate")) == 2
        assert await told() == (0, 0, True)
        await admin.produce("orders", 0, [b"c"])
        assert await told() == (1, size // 2, False)

    serve(test)


def test_one_partition_is_truncated_alone(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await small(admin)
        assert (await admin.ask("PUT", f"{SUB}?type=shared", EARLIEST)).status == 204
        assert did(await admin.ask("DELETE", "P/orders-partition-0/truncate")) == 6
        assert await spans(admin) == [(6, 6), (0, 6)]
        backlogs = (await admin.ask("GET", "P/orders/partitioned-stats")).json["subscriptions"]
        assert backlogs["billing"]["msgBacklog"] == 6
        assert did(await admin.ask("DELETE", "P/orders/truncate")) == 6

    serve(test)


def test_consumer_groups_are_moved_while_they_have_no_members(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a", b"b", b"c"])
        for group in ("idle", "busy"):
            await admin.commit(group, "orders", 0, 1)
        await admin.join("busy", "orders")
        assert did(await admin.ask("DELETE", "P/orders/truncate")) == 3
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        rows = {group: admin.broker.groups.committed(group, topic, [0])[0] for group in ("idle", "busy")}
        assert {group: row.offset for group, row in rows.items() if row is not None} == {"idle": 3, "busy": 1}
        # of nothing there is nothing to read
        backlogs = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"]
        assert {name: each["msgBacklog"] for name, each in backlogs.items()} == {"idle": 0, "busy": 0}

    serve(test)


@pytest.mark.parametrize(("method", "verb"), [("POST", "trim"), ("DELETE", "truncate")])
def test_a_queue_topic_has_nothing_to_delete(serve: Serve, method: str, verb: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.ask("PUT", "P/orders/subscription/lanes?type=shared&lanes=1", EARLIEST)
        refused = await admin.ask(method, f"P/orders-lanes-QUEUE/{verb}")
        assert (refused.status, "on the topic that it reads" in refused.json["reason"]) == (412, True)
        # what lanes have taken goes with the messages
        if verb == "truncate":
            assert did(await admin.ask(method, f"P/orders/{verb}")) == 5
            subscriptions = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"]
            assert subscriptions["lanes"]["msgBacklog"] == 0

    serve(test)
