"""What a dispatcher must know of a stored batch: slots of its keys, delays, tries. Scan for once, then remembered.

A batch that several subscriptions read is opened once for them all, as long as what was found is among the last
`cache_bytes`. Nothing is remembered of what costs nothing to find.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from gateway.wire import delivery
from gateway.wire.delivery import Scan
from semantics.subscriptions.hashing import slot_of

if TYPE_CHECKING:
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.reading import Stored

CACHE_BYTES = 16 * 1024 * 1024

_ENTRY_BYTES = 400


class Scanner:
    """One for all subscriptions."""

    def __init__(self, limit: int, cache_bytes: int = CACHE_BYTES) -> None:
        """`limit`: bytes that a batch may unfold to."""
        self._limit = limit
        self._room = cache_bytes
        self._slots = delivery.Slots(slot_of)
        self._found: OrderedDict[tuple[int, int, bool, bool], Scan] = OrderedDict()
        self.bytes = 0
        self.hits = self.misses = 0

    def look(self, at: SubscriptionPartition, batch: Stored, keys: bool) -> Scan:
        """Raises delivery.Unreadable."""
        key = (at.id, batch.base, keys, at.retries)
        known = self._found.get(key)
        if known is not None:
            self._found.move_to_end(key)
            self.hits += 1
            return known
        self.misses += 1
        found = self._open(batch, keys, at.retries)
        self._found[key] = found
        self.bytes += _cost(found)
        while self.bytes > self._room:
            _, old = self._found.popitem(last=False)
            self.bytes -= _cost(old)
        return found

    def _open(self, batch: Stored, keys: bool, retries: bool) -> Scan:
        slots = self._slots if keys else None
        return delivery.scan(batch.raw(), slots=slots, retry=retries, limit=self._limit)


def _cost(found: Scan) -> int:
    slots = 2 * len(found.slots) if found.slots is not None else 0
    return _ENTRY_BYTES + slots + 100 * (len(found.delayed) + len(found.reconsumed) + len(found.gaps))
