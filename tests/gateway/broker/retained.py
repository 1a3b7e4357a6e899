"""Subscribed topics of which each record is a segment, and what retention has left of them."""

from __future__ import annotations

from typing import Any

from gateway.broker.subscriptions.partition import SubscriptionPartition
from semantics.retention import Hold
from tests.gateway.broker.subscriptions.world import Headers, World

SMALL = {"internal__segment__bytes": "150"}
"""A record of 100 bytes is a segment."""


DAY = 86_400_000


def later(world: World, ms: int) -> Headers:
    return [("pulsar-deliver-at", b"%d" % (world.clock.wall_ms() + ms))]


async def put(world: World, count: int = 1, headers: Headers | None = None, **options: Any) -> None:
    for _ in range(count):
        await world.produce(b"x" * 100, headers=headers, **options)


def span(world: World, topic: str = "t") -> tuple[int, int]:
    found = world.broker.catalog.get(topic)
    assert found is not None
    log = world.broker.log_of(found, 0)
    return log.start_offset, log.end_offset


async def idle(world: World) -> None:
    """Nothing is in memory that nobody uses."""
    for _ in range(4):
        await world.settled()
        world.broker.subscriptions.release_idle()
    assert list(world.broker.subscriptions.live()) == []


async def subscribed(world: World, *, kind: str = "shared", **configs: str) -> SubscriptionPartition:
    await world.topic("t", 1, **SMALL, **configs)
    await world.configure("g", pulsar__subscription__type=kind, pulsar__nack__delay__ms="9000")
    return await world.subscribe()


def kept(world: World) -> tuple[int, list[Hold]] | None:
    found = list(world.broker.retention.kept.values())
    assert len(found) <= 1
    return (found[0].records, list(found[0].holds)) if found else None
