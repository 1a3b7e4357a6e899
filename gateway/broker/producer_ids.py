"""Producer ids: handed out from blocks that were reserved durably, so that none is ever given twice."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING

from store.api import Durability, Family, Put

if TYPE_CHECKING:
    from gateway.broker.node import Node

_KEY = b"next-producer-id"
BLOCK = 1000


class ProducerIds:
    """Ids below the durable mark and above what the last start may have used."""

    def __init__(self, node: Node) -> None:
        self._node = node
        raw = node.store.get(Family.META, _KEY)
        self._next = self._end = struct.unpack(">Q", raw)[0] if raw else 0
        self._lock = asyncio.Lock()

    async def allocate(self) -> int:
        """A producer id nobody has had. Raises StoreError when no block can be reserved."""
        async with self._lock:
            if self._next == self._end:
                end = self._end + BLOCK
                # Synced whatever the policy is: an id given twice would make two producers one.
                await self._node.write([Put(Family.META, _KEY, struct.pack(">Q", end))], Durability.FSYNC)
                self._end = end
            producer_id = self._next
            self._next += 1
            return producer_id
