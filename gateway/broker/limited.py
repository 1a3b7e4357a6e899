"""The topics that have a limit of some kind, for jobs of housekeeping: no walk through a million of which none has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.node import Node
    from gateway.config import Settings

_SLICE = 100
"""Topics that are looked at before others have their turn."""


class Limited:
    """`limit_of` says what the limit of a topic is, 0 for none."""

    def __init__(self, node: Node, catalog: Catalog, limit_of: Callable[[Topic], int]) -> None:
        self._node = node
        self._catalog = catalog
        self._limit_of = limit_of
        # what there was (versions of catalog and namespaces, the settings) when no topic had one
        self._without: tuple[int, int, Settings] | None = None

    async def topics(self) -> AsyncIterator[tuple[Topic, int]]:
        """Each with its limit; no queue topics, which are views of others."""
        now = self._catalog.version, self._catalog.namespaces.version, self._node.settings
        if now == self._without:
            return
        found = False
        count = 0
        async for topic in self._catalog.every():
            count += 1
            if count % _SLICE == 0:
                await asyncio.sleep(0)
            limit = self._limit_of(topic)
            if limit and topic.queue is None:
                found = True
                yield topic, limit
        self._without = None if found else now
