"""Where subscriptions stand in a partition, without loading those that nobody uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.subscriptions import rows
from gateway.broker.subscriptions.partition import SubscriptionPartition
from semantics.subscriptions.rows import RowError

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from store.api import Store


def start_of(
    store: Store, subscriptions: Subscriptions, row: SubscriptionRow, index: int, partition: int
) -> int:
    """The first offset that a subscription has open in a partition, `partition` by the store's id. Raises StoreError,
    RowError, KeyError.
    """
    subscription = subscriptions.in_use(row.group, row.topic_id)
    at = subscription.partitions.get(index) if subscription is not None else None
    if at is not None and at.cursor is not None:
        return at.cursor.start
    begin = store.log(partition).start_offset
    if at is not None and at.unsaved:
        # where it was sought to may be on its way to the store
        return begin
    stands = rows.stands(store, rows.prefix(row.id, partition))
    return max(stands.start, begin) if stands is not None else begin


NOBODY = (1 << 63) - 1
"""What a partition to which nobody subscribes has open."""


async def slowest(
    store: Store, subscriptions: Subscriptions, topic: Topic, index: int
) -> tuple[int, str | None]:
    """The first offset that any subscription has open in a partition, and one that has it. Others have their turn in
    between. Raises StoreError, KeyError.
    """
    number = topic.partitions[index]
    found: tuple[int, str | None] = NOBODY, None
    async for row in subscriptions.each_of_topic(topic.topic_id):
        try:
            start = start_of(store, subscriptions, row, index, number)
        except RowError:
            start = store.log(number).start_offset
        if start < found[0]:
            found = start, row.group
    return found


async def first_open(store: Store, subscriptions: Subscriptions, topic: Topic, index: int) -> int:
    """The same without who it is."""
    return (await slowest(store, subscriptions, topic, index))[0]


def first_open_in_use(partition: Partition) -> int:
    """The same of the subscriptions whose cursors are in memory, at once: none but these can be moved."""
    return min(
        [
            each.cursor.start
            for each in partition.watchers
            if isinstance(each, SubscriptionPartition) and each.cursor is not None
        ],
        default=NOBODY,
    )
