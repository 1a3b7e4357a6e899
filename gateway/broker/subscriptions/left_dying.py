"""What was dying when the gateway stopped is buried when it starts again, whoever uses its subscription or not.

Rows of cursors say how many records are dying, so one walk over those finds them, a page at a time, and only cursors
that have some are loaded: one after the other, each when the one before is done. A cursor with something to bury stays
in memory until that is done: see `SubscriptionPartition.release`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.loading import load
from gateway.broker.subscriptions import rows
from semantics.subscriptions.rows import RowError, stands
from store.api import Durability, StoreError, of_partition

if TYPE_CHECKING:
    from gateway.broker.node import Node
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.broker.topic_runtime import TopicRuntime

log = logging.getLogger("magnetar.subscriptions")

PAGE = 500
"""Rows looked at in one go: about a millisecond."""
MOST = 10_000
"""Cursors that are seen to in one round."""
LOOKS, _LOOK_SECONDS = 500, 0.01
"""So often, and so far apart, the next looks whether a burial that waits for a disk is over; then it begins."""


class LeftDying:
    """`bury` once, when the gateway has started. `topic_by_id` makes a topic ready for use."""

    def __init__(
        self, node: Node, subscriptions: Subscriptions, topic_by_id: Callable[[bytes], TopicRuntime | None]
    ) -> None:
        self._node = node
        self._subscriptions = subscriptions
        self._topic_by_id = topic_by_id

    async def bury(self) -> int:
        """Begin the burials of all subscriptions: how many cursors it were. Raises StoreError."""
        count = 0
        behind: bytes | None = None
        while True:
            found, behind = await self._dying(behind)
            if found:
                count += await self._bury(found)
            if behind is None:
                return count

    async def _dying(self, behind: bytes | None) -> tuple[dict[int, list[int]], bytes | None]:
        """Cursors that have something dying, behind a key: {subscription: [partition]} by the store's ids, and where to
        look on, None at the end.
        """
        found: dict[int, list[int]] = {}
        count = 0
        while True:
            page = await rows.page_of_stands(self._node.store, behind, PAGE)
            for subscription, partition, value in page:
                try:
                    counts = stands(value).counts
                except RowError as error:
                    log.error("the cursor of subscription %d cannot be read: %s", subscription, error)
                    continue
                if counts is not None and counts.dying:
                    found.setdefault(subscription, []).append(partition)
                    count += 1
            if len(page) < PAGE:
                return found, None
            behind = rows.prefix(*page[-1][:2])
            if count >= MOST:
                return found, behind
            await asyncio.sleep(0)

    async def _bury(self, found: dict[int, list[int]]) -> int:
        count = 0
        async for row in self._subscriptions.every():
            for partition in found.pop(row.id, ()):
                try:
                    count += await self._one(row, partition)
                except (KafkaError, StoreError) as error:
                    log.warning("what is dying of group %s on %s stays so: %s", row.group, row.topic, error)
            if not found:
                break
        return count

    async def _one(self, row: SubscriptionRow, partition: int) -> bool:
        """See to one cursor; whether there is one."""
        runtime = self._topic_by_id(row.topic_id)
        if runtime is None or partition not in runtime.topic.partitions:
            return False
        subscription = self._subscriptions.by_id(row.group, row.topic_id)
        if subscription is None:
            return False
        loading = load(self._node.store, (of_partition(partition),))
        if loading is not None:
            await loading
        at = subscription.partition(runtime.topic.partitions.index(partition))
        # in memory, it buries with the next turn
        at.ready()
        await self._node.write((), Durability.OS)
        for _ in range(LOOKS):
            if not at.burying:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        return True
