"""Subscriptions that nobody has used for so long are deleted: Pulsar's subscription expiration, of namespaces.

A subscription is used while it has consumers. How long it has had none is counted by a clock that nobody sets, and from
the gateway's start at the earliest.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.limited import Limited
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.node import Node
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.rows import SubscriptionRow

log = logging.getLogger("magnetar.subscriptions")


class SubscriptionExpiry:
    """A job of housekeeping."""

    def __init__(
        self,
        node: Node,
        *,
        catalog: Catalog,
        subscriptions: Subscriptions,
        limit_of: Callable[[Topic], int],
        delete: Callable[[Topic, SubscriptionRow], Awaitable[None]],
    ) -> None:
        """`limit_of` says for how long subscriptions of a topic may be unused, in ms, 0 for ever; `delete` deletes one,
        and raises KafkaError where it must not.
        """
        self._node = node
        self._limited = Limited(node, catalog, limit_of)
        self._subscriptions = subscriptions
        self._delete = delete
        # since when each has no consumers, by its id: monotonic ms
        self._unused: dict[int, int] = {}

    async def apply(self) -> None:
        """Delete those whose time is over."""
        seen: set[int] = set()
        async for topic, limit in self._limited.topics():
            try:
                await self._topic(topic, limit, seen)
            except (KafkaError, StoreError) as error:
                log.info(
                    "expiration of subscriptions is put off",
                    extra={"topic": topic.name, "reason": str(error)},
                )
        self._unused = {number: since for number, since in self._unused.items() if number in seen}

    async def _topic(self, topic: Topic, limit: int, seen: set[int]) -> None:
        now = self._node.clock.monotonic_ms()
        expired: list[SubscriptionRow] = []
        async for row in self._subscriptions.each_of_topic(topic.topic_id):
            seen.add(row.id)
            if self._used(row):
                self._unused.pop(row.id, None)
            elif now - self._unused.setdefault(row.id, now) >= limit:
                expired.append(row)
        for row in expired:
            if self._used(row):
                # somebody has come while others were deleted
                continue
            await self._delete(topic, row)
            log.info(
                "a subscription was deleted that nobody has used",
                extra={"topic": topic.name, "subscription": row.group, "minutes": limit // 60_000},
            )

    def _used(self, row: SubscriptionRow) -> bool:
        configs = self._subscriptions.configs
        # its retries are read by whom it is read by
        return configs.base_of(row) is not None or configs.consumers(row) > 0
