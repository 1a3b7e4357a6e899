"""What a dispatcher must know of a stored batch: slots of its keys, delays, tries. Looked for once, then remembered.

A batch that several subscriptions read is opened once for them all, as long as what was found is among the last
`cache_bytes`. Nothing is remembered of what costs nothing to find. Batches of Key_Shared stay open for a while, as far
as `opened_bytes` go: each of its consumers takes a few records of each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.wire import delivery
from gateway.wire.delivery import Opened, Scan
from semantics.subscriptions.hashing import slot_of
from store.api import Buffer

if TYPE_CHECKING:
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.reading import Stored

CACHE_BYTES = 16 * 1024 * 1024
OPENED_BYTES = 24 * 1024 * 1024

_ENTRY_BYTES = 400
# where each record ends
_RECORD_BYTES = 48


class Scanner:
    """One for all subscriptions."""

    def __init__(self, limit: int, cache_bytes: int = CACHE_BYTES, opened_bytes: int = OPENED_BYTES) -> None:
        """`limit`: bytes that a batch may unfold to."""
        self._limit = limit
        self._room = cache_bytes
        self._opened: OrderedDict[tuple[int, int], Opened] = OrderedDict()
        self._opened_room = opened_bytes
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
        found = self._open(at, batch, keys)
        self._found[key] = found
        self.bytes += _cost(found)
        while self.bytes > self._room:
            _, old = self._found.popitem(last=False)
            self.bytes -= _cost(old)
        return found

    def subset(self, at: SubscriptionPartition, batch: Stored, ranges: Sequence[tuple[int, int]]) -> Buffer:
        """A batch of only these records: see `Opened.subset`. Raises delivery.Unreadable."""
        opened = self._opened.get((at.id, batch.base))
        if opened is None or opened.header.size != batch.size:
            return delivery.subset(batch.raw(), ranges, self._limit)
        return opened.subset(ranges)

    def _open(self, at: SubscriptionPartition, batch: Stored, keys: bool) -> Scan:
        if not keys:
            return delivery.scan(batch.raw(), retry=at.retries, limit=self._limit)
        # bytes of its own: what was read may be a large piece that this would keep
        opened = Opened(bytes(batch.raw()), self._limit)
        found = delivery.scan(opened, slots=self._slots, retry=at.retries)
        kept = self._opened
        before = kept.pop((at.id, batch.base), None)
        kept[at.id, batch.base] = opened
        self._opened_room -= _size(opened) - (_size(before) if before is not None else 0)
        while self._opened_room < 0:
            _, old = kept.popitem(last=False)
            self._opened_room += _size(old)
        return found


def _size(opened: Opened) -> int:
    return opened.header.size + len(opened.payload) + opened.header.count * _RECORD_BYTES + _ENTRY_BYTES


def _cost(found: Scan) -> int:
    slots = 2 * len(found.slots) if found.slots is not None else 0
    return _ENTRY_BYTES + slots + 100 * (len(found.delayed) + len(found.reconsumed) + len(found.gaps))
