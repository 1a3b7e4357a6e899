"""Topic `orders` and its subscription `billing`, on a real broker: what tests of subscriptions do with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from gateway.broker.subscriptions.partition import SubscriptionPartition
from tests.gateway.admin.conftest import Admin

COUNTERS = (
    "delivered", "redelivered", "acknowledged", "nacked", "rejected", "timedOut", "crashed", "buried", "dropped",
    "reconsumed",
)  # fmt: skip

Serve = Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]

EARLIEST = json.dumps({"ledgerId": -1, "entryId": -1, "partitionIndex": -1})
ONE, ALL = b"\x01", 1_000


class World:
    """An admin server's broker, as readers of lanes need it."""

    def __init__(self, admin: Admin) -> None:
        self.broker = admin.broker

    async def settled(self) -> None:
        await self.broker.write([])


async def made(admin: Admin, kind: str = "shared", count: int = 5) -> None:
    """Topic `orders` with records, and subscription `billing` that begins with the first."""
    await admin.plain("orders")
    await admin.produce("orders", 0, [f"m{n}".encode() for n in range(count)])
    answer = await admin.ask("PUT", f"P/orders/subscription/billing?type={kind}", EARLIEST)
    assert answer.status == 204, answer


def cursor_of(admin: Admin) -> SubscriptionPartition:
    found = admin.broker.subscriptions.get("billing", "orders")
    assert found is not None
    return found.partition(0)


async def take(admin: Admin, consumer: str, limit: int = ALL) -> list[int]:
    """The offsets that a consumer is given."""
    at = cursor_of(admin)
    at.attach(consumer)
    await admin.broker.write([])
    delivery = at.fetch(consumer, limit, 1 << 20, limit)
    if not isinstance(delivery, tuple):
        delivery = await delivery
    return [offset for first, last, _ in delivery.acquired for offset in range(first, last + 1)]


async def ack(admin: Admin, consumer: str, first: int, last: int, kind: int = 1) -> None:
    assert cursor_of(admin).acknowledge(consumer, [(first, last, bytes([kind]))]) == 0
    await admin.broker.write([])


async def stats(admin: Admin) -> dict[str, Any]:
    found: dict[str, Any] = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"]["billing"]
    return found


async def explain(admin: Admin, offset: int) -> dict[str, Any]:
    answer = await admin.ask("GET", f"P/orders/subscription/billing/explain?offset={offset}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found
