"""When a message could first be delivered: when it was published, or when it is due, whichever comes later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.wire import delivery, records
from gateway.wire.batch import BatchError
from gateway.wire.unreadable import Unreadable
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

KEPT = 50_000
"""Messages of which that is remembered; some 8 MB."""
OPENED = 64 * 1024
"""Bytes of a compressed batch, which may unfold to sixteen times as many: in larger ones nobody looks for delays."""
MANY = 5_000
"""Records of a batch: in larger ones nobody looks for delays either."""
NEVER = -1

_CODEC_AT, _CODEC = 22, 0x07


class FirstTimes:
    """Of a node. The first open message of a subscription mostly stays the first for long, and many have the same."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._known: dict[tuple[int, int], int] = {}

    async def of(self, partition: int, offset: int, *, retry: bool = False) -> int:
        """Of the first record from an offset on, in ms since 1970; NEVER where nobody can say. `partition` is the
        store's id, which never comes again; `retry`: it is one of a RETRY topic.
        """
        known = self._known.get((partition, offset))
        if known is None:
            known = await self._read(partition, offset, retry)
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[partition, offset] = known
        return known

    async def _read(self, partition: int, offset: int, retry: bool) -> int:
        broker = self._broker
        try:
            log = broker.store.log(partition)
            if offset >= log.end_offset:
                return NEVER
            found = log.read(max(offset, log.start_offset), 1)
            buffers = found if isinstance(found, list) else await found
            if not buffers:
                return NEVER
            batch = b"".join(buffers)
            header = records.header(batch)
        except (KeyError, IndexError, StoreError, BatchError):
            return NEVER
        published = header.base_timestamp
        if published < 0:
            # it says nothing of when it was made
            published = next((each.created_at for each in log.segments() if each.next_offset > offset), NEVER)
        if header.count > MANY or (broker.undelayed.since(partition) <= offset and not retry):
            return published
        if batch[_CODEC_AT] & _CODEC and len(batch) > OPENED:
            return published
        try:
            delays = delivery.scan(batch, retry=retry, limit=16 * OPENED).delayed
        except Unreadable:
            return published
        # of the one at the offset, or of the first behind it where there is none
        due = next((due for at, due in delays if at >= offset), None)
        first = next((at for at, _ in delays if at >= offset), -1)
        return (
            max(published, due) if due is not None and first == max(offset, header.base_offset) else published
        )
