"""`stats-internal` and `info-internal` tell where the subscriptions of a topic stand, on a real broker."""

from __future__ import annotations

from typing import Any

from tests.gateway.admin.billing import EARLIEST, Serve, ack, made, take
from tests.gateway.admin.conftest import Admin


async def cursors(admin: Admin, name: str = "orders") -> dict[str, Any]:
    found: dict[str, Any] = (await admin.ask("GET", f"P/{name}/internalStats")).json["cursors"]
    return found


def test_a_cursor_says_what_is_acknowledged_and_how_far_it_has_read(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        await admin.produce("orders", 0, [b"a"])
        await admin.produce("orders", 0, [b"b"])
        ledger = (await admin.ask("GET", "P/orders/internalStats")).json["ledgers"][0]["ledgerId"]
        fresh = (await cursors(admin))["billing"]
        assert (fresh["markDeletePosition"], fresh["readPosition"]) == (f"{ledger}:-1", f"{ledger}:0")
        assert (fresh["individuallyDeletedMessages"], fresh["active"]) == ("[]", False)
        assert await take(admin, "c1", 5) == [0, 1, 2, 3, 4]
        # half of the first entry, and the second
        await ack(admin, "c1", 1, 3)
        found = (await cursors(admin))["billing"]
        assert (found["markDeletePosition"], found["readPosition"]) == (f"{ledger}:-1", f"{ledger}:3")
        assert found["individuallyDeletedMessages"] == f"[({ledger}:0‥{ledger}:1]]"
        assert found["totalNonContiguousDeletedMessagesRange"] == 1
        assert (found["state"], found["active"]) == ("Open", True)
        assert found["magnetar"]["acknowledgedBeyond"] == [[1, 3]]
        await ack(admin, "c1", 0, 0)
        found = (await cursors(admin))["billing"]
        assert (found["markDeletePosition"], found["individuallyDeletedMessages"]) == (f"{ledger}:1", "[]")
        assert found["magnetar"]["markDeleteOffset"] == 3

    serve(test)


def test_a_consumer_group_has_a_cursor_without_holes(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        for value in (b"x", b"y"):
            await admin.produce("orders", 1, [value])
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 204
        await admin.commit("readers", "orders", 1, 1)
        each = (await admin.ask("GET", "P/orders/partitioned-internalStats")).json["partitions"]
        (first, second) = each.values()
        assert first["cursors"].keys() == {"billing"}
        assert first["cursors"]["billing"]["markDeletePosition"] == "-1:-1"
        ledger = second["ledgers"][0]["ledgerId"]
        assert second["cursors"]["readers"]["markDeletePosition"] == f"{ledger}:0"
        assert second["cursors"]["readers"]["readPosition"] == f"{ledger}:1"
        assert second["cursors"]["billing"]["readPosition"] == f"{ledger}:0"

    serve(test)


def test_what_only_the_disk_knows_is_left_out(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=5)
        assert await take(admin, "c1", 5) == [0, 1, 2, 3, 4]
        await ack(admin, "c1", 2, 2)
        subscription = admin.broker.subscriptions.get("billing", "orders")
        assert subscription is not None
        subscription.partition(0).cursor = None
        found = (await cursors(admin))["billing"]
        assert found["state"] == "NoLedger"
        assert "individuallyDeletedMessages" not in found
        assert found["magnetar"]["markDeleteOffset"] == -1

    serve(test)


def test_info_says_what_is_kept_of_a_cursor(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=2)
        assert (await admin.ask("PUT", "P/orders/properties", '{"team": "billing"}')).status == 204
        assert await take(admin, "c1", 2) == [0, 1]
        await ack(admin, "c1", 0, 1)
        found = (await admin.ask("GET", "P/orders/internal-info")).json
        ledger = found["ledgers"][0]["ledgerId"]
        assert found["cursors"] == {
            "billing": {"markDelete": {"ledgerId": ledger, "entryId": 0}, "properties": {}}
        }
        assert found["properties"] == {"team": "billing"}

    serve(test)
