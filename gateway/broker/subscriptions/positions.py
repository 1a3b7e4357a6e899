"""Where a subscription stands, and moving it: what administrators ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.loading import until_loaded

if TYPE_CHECKING:
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.subscription import Subscription
    from semantics.subscriptions.cursor import Cursor


class Position(NamedTuple):
    """`start` is mark-delete + 1; `lag` how many records from there on are not settled."""

    start: int
    lag: int


def position(subscription: Subscription, index: int) -> Position:
    """Where it stands in one partition. Raises KafkaError."""
    return position_at(subscription.partition(index))


def position_at(at: SubscriptionPartition) -> Position:
    """The same by the cursor. Raises KafkaError."""
    cursor = at.ready()
    return Position(cursor.start, cursor.backlog(at.partition.high_watermark))


def move(targets: Iterable[tuple[SubscriptionPartition, int]], how: Callable[[Cursor, int], object]) -> None:
    """Move cursors, each by a number that `how` understands, in the open turn: all of them or none. What consumers
    hold of what was skipped or begins anew is theirs no more. Raises KafkaError; Loading.
    """
    found = [(at, at.movable(), target) for at, target in targets]
    for at, cursor, target in found:
        how(cursor, target)
        if at.partition.gate is not None:
            # a backlog may be larger now
            at.partition.gate.forget()
        at.moved()
        at.parked.serve_soon()
    for subscription in {at.subscription.id: at.subscription for at, _, _ in found}.values():
        subscription.cursors_moved()


def seek_all(targets: Iterable[tuple[SubscriptionPartition, int]]) -> None:
    """Begin anew at these offsets, or where the log begins or ends if they lie outside of it: what was settled from
    there on is delivered again. In the open turn. Raises KafkaError; Loading.
    """
    within: list[tuple[SubscriptionPartition, int]] = []
    for at, offset in targets:
        # then its partition is the one that is in charge
        at.ready()
        within.append((at, min(max(offset, at.partition.log_start), at.partition.high_watermark)))
    move(within, lambda cursor, offset: cursor.seek(offset))


async def seek(subscription: Subscription, offsets: Mapping[int, int]) -> None:
    """The same by partition. Returns when that is durable. Raises KafkaError, StoreError."""
    ats = [
        (await until_loaded(lambda index=index: subscription.partition(index)), offset)  # type: ignore[misc]
        for index, offset in offsets.items()
    ]
    await until_loaded(lambda: seek_all(ats))
    await subscription.node.write(())
