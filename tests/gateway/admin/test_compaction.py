"""Pulsar's verbs of compaction: begin one, and ask how it went."""

from __future__ import annotations

import asyncio

from gateway.broker.compaction import State, Status
from tests.gateway.admin.billing import EARLIEST, Serve
from tests.gateway.admin.conftest import Admin


def test_a_topic_is_compacted_when_somebody_asks(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        topic = await admin.broker.create_topic("state", 2, {"cleanup.policy": "compact"})
        for path in ("P/state/compaction", "P/state-partition-1/compaction"):
            assert (await admin.ask("GET", path)).json == {"status": "NOT_RUN", "lastError": ""}
        assert (await admin.ask("PUT", "P/state-partition-1/compaction")).status == 204
        while (found := (await admin.ask("GET", "P/state-partition-1/compaction")).json)[
            "status"
        ] == "RUNNING":
            await asyncio.sleep(0.01)
        assert found == {"status": "SUCCESS", "lastError": ""}
        # of the whole the other one is to come
        assert (await admin.ask("GET", "P/state/compaction")).json["status"] == "NOT_RUN"
        admin.broker.compaction._status[topic.partitions[0]] = Status(State.ERROR, "a wrong CRC")
        assert (await admin.ask("GET", "P/state/compaction")).json == {
            "status": "ERROR",
            "lastError": "a wrong CRC",
        }

    serve(test)


def test_who_is_waited_for_is_told_as_it_is_now(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.broker.create_topic("orders", 1, {"cleanup.policy": "compact"})
        await admin.produce("orders", 0, [b"a"])
        path = "P/orders-partition-0/compaction"
        assert "heldBack" not in (await admin.ask("GET", path)).json
        assert (await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)).status == 204
        told = (await admin.ask("GET", path)).json["heldBack"]
        assert told.startswith("Subscription billing has not acknowledged offset 0 of partition 0")
        assert (await admin.ask("DELETE", "P/orders/subscription/billing")).status == 204
        assert "heldBack" not in (await admin.ask("GET", path)).json

    serve(test)


def test_what_cannot_be_begun_says_why(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        topic = await admin.broker.create_topic("state", 2, {"cleanup.policy": "compact"})
        await admin.broker.create_topic("orders", 1, {})
        assert (await admin.ask("PUT", "P/nothing/compaction")).status == 404
        answer = await admin.ask("PUT", "P/orders/compaction")
        assert answer.status == 412
        assert "cleanup.policy of orders is not compact" in answer.json["reason"]
        admin.broker.compaction._running.add(topic.partitions[1])
        assert (await admin.ask("PUT", "P/state/compaction")).status == 409
        assert (await admin.ask("PUT", "P/state-partition-0/compaction")).status == 204

    serve(test)
