"""Producers that have been silent for producer.id.expiration.ms are forgotten, on partitions in use and on others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gateway.broker.producers import ProducerTable, expired
from store.api import Family, Write

if TYPE_CHECKING:
    from gateway.broker.clock_watch import ClockWatch
    from gateway.broker.node import Node

_ROWS = 2000
"""Rows looked at in one go."""


class ProducerExpiry:
    """`tables` gives those of the partitions in use: of these the rows alone are not the last word."""

    def __init__(self, node: Node, watch: ClockWatch, tables: Callable[[], Iterable[ProducerTable]]) -> None:
        self._node = node
        self._watch = watch
        self._tables = tables

    async def run(self) -> None:
        """Raises StoreError."""
        node = self._node
        if not self._watch.trusted:
            return
        before = node.clock.wall_ms() - node.settings.integer("producer.id.expiration.ms")
        writes: list[Write] = []
        in_use: set[int] = set()
        for table in self._tables():
            in_use.add(table.partition)
            writes += table.expire(before)
        for number, (key, value) in enumerate(node.store.scan(Family.DEDUP)):
            if int.from_bytes(key[:4], "big") not in in_use:
                writes += expired(key, value, before)
            if number % _ROWS == _ROWS - 1:
                await asyncio.sleep(0)
        if writes:
            await node.write(writes)
