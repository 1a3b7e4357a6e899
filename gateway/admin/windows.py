"""The windows of a Shared or Key_Shared subscription, as those verbs use them that look into them: what waits for its
key, and records of batches, some at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from gateway.admin.exchange import RefusedError
from gateway.admin.messages import Stored
from gateway.admin.places import cursor_of, indexes_of, named_subscription
from gateway.admin.slices import arrays_ready
from gateway.broker.errors import KafkaError
from gateway.wire import records
from gateway.wire.batch import BatchError
from store.api import Corrupt, StoreError

if TYPE_CHECKING:
    from gateway.admin.exchange import Call
    from gateway.admin.places import Named
    from gateway.admin.slices import Pace
    from gateway.broker.broker import Broker
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.console.blocking import Heads
    from semantics.subscriptions.cursor import Cursor

FEW_RECORDS = 300
FEW_BYTES = 64 * 1024
"""A batch that has more is opened in a thread."""


class Place(NamedTuple):
    """Where a page begins: partition and offset."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}.{self.offset}"


def place_of(text: str) -> Place:
    """As a page says it in `next`. Refuses what is none with 400."""
    if not text:
        return Place(0, 0)
    index, _, offset = text.partition(".")
    for each in (index, offset):
        if not (each.isascii() and each.isdigit() and len(each) <= 19):
            raise RefusedError(400, f"The parameter after is what a page says as next; not {text[:40]!r}.")
    return Place(int(index), int(offset))


async def shared(broker: Broker, call: Call) -> Named:
    """The subscription that the path names. Refuses with 412 one of a consumer group, which has no such window."""
    at = await named_subscription(broker, call)
    if not at.shared:
        raise RefusedError(
            412,
            f"{at.name} is a consumer group: what it has not committed is its backlog, and no message has a state of"
            " its own. This is for Shared and Key_Shared subscriptions.",
        )
    found = broker.subscriptions.by_id(at.name, at.found.topic.topic_id)
    if found is not None and found.config.subscription.type == "key_shared":
        await arrays_ready()
    return at


async def partitions(broker: Broker, at: Named, call: Call, pace: Pace) -> list[SubscriptionPartition]:
    """Those that are looked at: all, or the one that the path or the query names. What is not in memory is read."""
    indexes = indexes_of(at.found)
    if call.query.get("partition", "") != "":
        index = call.whole_number("partition", 0, len(at.found.topic.partitions) - 1)
        indexes = [index] if index in indexes else []
    found: list[SubscriptionPartition] = []
    for index in indexes:
        found.append(cursor_of(broker, at, index))
        await pace.rest()
    return found


async def heads_of(cursor: Cursor, pace: Pace) -> Heads | None:
    """What records of keys wait for; None where nothing waits for a key."""
    if cursor.config.type != "key_shared":
        return None
    await arrays_ready()
    # it brings numpy along, which others need not
    from semantics.console.blocking import Heads

    heads = Heads(cursor.ordering, cursor.draining_slots(), cursor.owned())
    for piece in cursor.planes(cursor.start, cursor.known):
        heads.see(piece)
        await pace.rest()
    return heads


def _by_offset(batch: bytes, base: int, limit: int, last: int | None) -> dict[int, Stored]:
    """The records of a batch, those up to an offset delta. Raises BatchError."""
    return {
        base + each.offset_delta: Stored(base + each.offset_delta, base, each)
        for each in records.records(batch, limit, last)
    }


class Batches:
    """Records of one partition by offset; the last batch is remembered, with `alone` up to what was asked for."""

    def __init__(self, broker: Broker, partition: Partition, pace: Pace, *, alone: bool = False) -> None:
        self._alone = alone
        self._limit = broker.decompression_limit
        self._partition = partition
        self._pace = pace
        self._records: dict[int, Stored] = {}
        self.first = self.next = -1
        """[first, next) is the batch that is at hand"""

    @property
    def some(self) -> bool:
        """Whether the batch at hand has records."""
        return bool(self._records)

    async def at(self, offset: int) -> Stored | None:
        """The record at an offset; None where there is none, or where it cannot be read."""
        if not self.first <= offset < self.next:
            await self._open(offset)
        return self._records.get(offset)

    async def _open(self, offset: int) -> None:
        partition = self._partition
        self._records, self.first, self.next = {}, offset, offset + 1
        if not partition.log_start <= offset < partition.high_watermark:
            return
        try:
            found = partition.read(offset, 1)
            if not isinstance(found, list):
                found = await found
                self._pace.waited()
            batch = b"".join(found)
            header = records.header(batch)
            batch = batch[: header.size]
            base = header.base_offset
            self.first, self.next = base, base + header.last_offset_delta + 1
            last = None
            if self._alone:
                last, self.next = offset - base, offset + 1
            if header.attributes & 0x20:
                return
            if header.codec or header.count > FEW_RECORDS or header.size > FEW_BYTES:
                # few compressed bytes may unfold to many
                opened = await asyncio.to_thread(_by_offset, batch, base, self._limit, last)
                self._pace.waited()
            else:
                opened = _by_offset(batch, base, self._limit, last)
        except (IndexError, Corrupt, BatchError, StoreError, KafkaError):
            # `topics explain` of the record says what is wrong with it
            return
        self._records = opened
        await self._pace.rest()
