"""Where subscriptions stand in a partition, without loading those that nobody uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.subscriptions import rows

if TYPE_CHECKING:
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
    stands = rows.stands(store, rows.prefix(row.id, partition))
    return max(stands.start, begin) if stands is not None else begin
