"""Where a subscription stands, and moving it: what administrators ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.loading import until_loaded

if TYPE_CHECKING:
    from gateway.broker.subscriptions.subscription import Subscription


class Position(NamedTuple):
    """`start` is mark-delete + 1; `lag` how many records from there on are not settled."""

    start: int
    lag: int


def position(subscription: Subscription, index: int) -> Position:
    """Where it stands in one partition. Raises KafkaError."""
    at = subscription.partition(index)
    cursor = at.ready()
    return Position(cursor.start, cursor.backlog(at.partition.high_watermark))


async def seek(subscription: Subscription, offsets: Mapping[int, int]) -> None:
    """Begin anew at these offsets, by partition, or where the log begins or ends if they lie outside of it.

    What was settled from there on is delivered again. Returns when that is durable. Raises KafkaError, StoreError.
    """
    for index, offset in offsets.items():
        at = await until_loaded(lambda index=index: subscription.partition(index))  # type: ignore[misc]
        cursor = at.ready()
        cursor.seek(min(max(offset, at.partition.log_start), at.partition.high_watermark))
        at.touch()
    await subscription.node.write(())
