"""When a message could first be delivered: when it was published, or when it is due, whichever comes later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from gateway.wire import delivery, records
from gateway.wire.batch import BatchError
from gateway.wire.unreadable import Unreadable
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.node import Node
    from gateway.broker.undelayed import Undelayed

KEPT = 50_000
"""Messages of which that is remembered; some 10 MB."""
OPENED = 64 * 1024
"""Bytes of a compressed batch, which may unfold to sixteen times as many: in larger ones nobody looks for delays."""
MANY = 5_000
"""Records of a batch: in larger ones nobody looks for delays either."""
BATCHES = 8
"""Batches of delayed messages that are looked at for the first that is not delayed."""
NEVER = -1

_CODEC_AT, _CODEC = 22, 0x07


class _Batch(NamedTuple):
    """Of the batch that holds an offset, or comes first behind it."""

    begin: int
    next: int
    published: int
    records: int
    delayed: Iterable[tuple[int, int]] = ()
    """(offset, due)"""


class FirstTimes:
    """Of a node. The first open message of a subscription mostly stays the first for long, and many have the same."""

    def __init__(self, node: Node, undelayed: Undelayed) -> None:
        self._node = node
        self._undelayed = undelayed
        self._known: dict[tuple[int, int, str], int] = {}

    async def published(self, partition: int, offset: int) -> int:
        """When the first message from an offset on was published: to who reads the log, whom no delay holds up. As
        `of_one`.
        """
        return await self._remembered(partition, offset, "published")

    async def of_one(self, partition: int, offset: int, *, retry: bool = False) -> int:
        """Of the message at an offset, in ms since 1970; NEVER where nobody can say. `partition` is the store's id,
        which never comes again; `retry`: it is one of a RETRY topic.
        """
        return await self._remembered(partition, offset, "retry" if retry else "one")

    async def of_all(self, partition: int, offset: int, *, retry: bool = False) -> int:
        """The earliest of all messages from an offset on, of which none was looked at. Behind BATCHES batches with
        nothing but delayed ones nobody looks.
        """
        return await self._remembered(partition, offset, "all retry" if retry else "all")

    async def _remembered(self, partition: int, offset: int, what: str) -> int:
        known = self._known.get((partition, offset, what))
        if known is not None:
            return known
        if what.startswith("all"):
            found, final = await self._earliest(partition, offset, "retry" in what)
        else:
            found = await self._time(partition, offset, what)
            final = found != NEVER
        # what could not be read may be another time; and behind delayed messages one may come that is not
        if final:
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[partition, offset, what] = found
        return found

    async def _time(self, partition: int, offset: int, what: str) -> int:
        found = await self._batch(partition, offset, what == "retry", delays=what != "published")
        if found is None:
            return NEVER
        first = max(offset, found.begin)
        due = next((due for at, due in found.delayed if at == first), NEVER)
        return max(found.published, due)

    async def _earliest(self, partition: int, offset: int, retry: bool) -> tuple[int, bool]:
        """(the time, whether it stays so whatever is published)."""
        earliest = NEVER
        for _ in range(BATCHES):
            found = await self._batch(partition, offset, retry)
            if found is None:
                return earliest, False
            first = max(offset, found.begin)
            dues = [max(due, found.published) for at, due in found.delayed if at >= first]
            # of some offsets there may be no record; a batch with more records than delays has one that is not delayed
            if len(dues) < min(found.next - first, found.records):
                dues.append(found.published)
            earliest = min(dues) if earliest == NEVER else min(earliest, *dues)
            if found.published in dues:
                break
            offset = found.next
        return earliest, True

    async def _batch(self, partition: int, offset: int, retry: bool, *, delays: bool = True) -> _Batch | None:
        try:
            log = self._node.store.log(partition)
            if offset >= log.end_offset:
                return None
            found = log.look(max(offset, log.start_offset), 1)
            buffers = found if isinstance(found, list) else await found
            if not buffers:
                return None
            batch = b"".join(buffers)
            header = records.header(batch)
        except (KeyError, IndexError, StoreError, BatchError):
            return None
        published = header.base_timestamp
        if published < 0:
            # it says nothing of when it was made
            published = next((each.created_at for each in log.segments() if each.next_offset > offset), NEVER)
        plain = _Batch(header.base_offset, header.next_offset, published, header.count)
        if not delays or header.count > MANY or (self._undelayed.since(partition) <= offset and not retry):
            return plain
        if batch[_CODEC_AT] & _CODEC and len(batch) > OPENED:
            return plain
        try:
            return plain._replace(delayed=delivery.scan(batch, retry=retry, limit=16 * OPENED).delayed)
        except Unreadable:
            return plain
