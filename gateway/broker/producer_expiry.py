"""Producers that have been silent for producer.id.expiration.ms are forgotten, on partitions in use and on others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from gateway.broker.loading import load
from gateway.broker.pages import Rows, each_page
from gateway.broker.producers import ProducerTable, expired
from store.api import Family, Write
from store.pending import Asking, drive
from store.scopes import of_key

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
        await self._write([each for table in self._tables() for each in table.expire(before)])

        def take(rows: Rows) -> Asking[bool]:
            yield self._delete([key for key, value in rows if expired(key, value, before)], before)
            return True

        rest = drive(each_page(node.store, Family.DEDUP, b"", take, _ROWS))
        if isinstance(rest, Awaitable):
            await rest

    async def _delete(self, keys: list[bytes], before: int) -> None:
        """Those rows of partitions that are not in use. A producer may have written since they were read: then the row
        is another, or its partition is in use, and a deletion that came behind would take what it is known by.
        """
        store = self._node.store
        while (loading := load(store, {of_key(Family.DEDUP, key) for key in self._unused(keys)})) is not None:
            await loading
        writes: list[Write] = []
        for key in self._unused(keys):
            value = store.get(Family.DEDUP, key)
            if value is not None:
                writes += expired(key, value, before)
        await self._write(writes)

    def _unused(self, keys: list[bytes]) -> list[bytes]:
        in_use = {table.partition for table in self._tables()}
        return [key for key in keys if int.from_bytes(key[:4], "big") not in in_use]

    async def _write(self, writes: list[Write]) -> None:
        if writes:
            await self._node.write(writes)
