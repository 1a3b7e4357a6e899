"""Consumer groups of the new protocol (KIP-848), as administrators see them and what they may do to them."""

from __future__ import annotations

from collections.abc import Awaitable

from gateway.broker.consumer_groups import Beating
from gateway.broker.machines import Caller
from gateway.coordinators.consumer_events import Beat
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin


async def beat(admin: Admin, epoch: int, *names: str) -> Beat:
    groups = admin.broker.consumer_groups
    beating = Beating(
        "billing",
        "m",
        epoch,
        None,
        None,
        30_000,
        names or None,
        None,
        None,
        frozenset(),
        ("/127.0.0.1", "client"),
        Caller(lambda answer: answer),
    )
    found = groups.leave(beating) if epoch < 0 else groups.heartbeat(beating)
    answer: Beat = await found if isinstance(found, Awaitable) else found
    return answer


def test_its_offsets_are_moved_and_deleted_when_nobody_is_there(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.produce("orders", 0, [b"a", b"b"])
        await admin.commit("billing", "orders", 0, 1)
        assert (await beat(admin, 0, "orders")).error == 0
        path = "P/orders/subscription/billing"
        refused = await admin.ask("DELETE", path)
        assert refused.status == 412
        assert "billing is a consumer group with 1 member:" in refused.json["reason"]
        assert (await beat(admin, -1)).error == 0
        moved = await admin.ask("POST", f"{path}/resetcursor/0")
        assert moved.status == 204
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        (row,) = admin.broker.groups.committed("billing", topic, [0])
        assert row is not None
        assert row.offset == 0
        assert (await admin.ask("DELETE", path)).status == 204
        assert admin.broker.groups.committed("billing", topic, [0]) == [None]

    serve(test)


def test_its_offsets_of_some_partitions_and_of_all(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 12)
        await admin.partitioned("orders-2", 12)
        for index in (0, 3, 11):
            await admin.produce("orders", index, [b"a"] * 20)
            await admin.commit("billing", "orders", index, 10 + index)
        await admin.commit("billing", "orders-2", 5, 0)
        topic = admin.broker.catalog.get("orders")
        assert topic is not None

        def offsets(*partitions: int) -> list[int | None]:
            found = admin.broker.groups.committed("billing", topic, partitions)
            return [row.offset if row is not None else None for row in found]

        assert offsets(3, 4) == [13, None]
        wanted = [10, None, None, 13, *[None] * 7, 21]
        assert offsets(*range(12)) == wanted
        assert offsets(*range(11, -1, -1)) == wanted[::-1]
        assert admin.broker.groups.committed("nobody", topic, range(12)) == [None] * 12
        stats = (await admin.ask("GET", "P/orders/partitioned-stats")).json
        there = [index for index, one in stats["partitions"].items() if one["subscriptions"]]
        assert there == [f"persistent://public/default/orders-partition-{index}" for index in (0, 3, 11)]

    serve(test)


def test_its_members_and_what_they_have_not_read_are_exported(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 1)
        await admin.produce("orders", 0, [b"a", b"b"])
        assert (await beat(admin, 0, "orders")).error == 0
        await admin.broker.write([])
        found = (await admin.ask("GET", "/metrics")).body.decode()
        assert 'kafka_consumergroup_members{consumergroup="billing"} 1' in found
        assert admin.broker.consumer_groups.assignment("billing") == {"m": {"orders": [0]}}

    serve(test)
