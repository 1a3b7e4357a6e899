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
        assert "billing is a consumer group with 1 members" in refused.json["reason"]
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
