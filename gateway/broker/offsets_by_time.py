"""From a timestamp to an offset: the index finds the batch, the batch's records tell the rest."""

from __future__ import annotations

import asyncio
import struct
from functools import partial
from typing import TYPE_CHECKING

from gateway.wire import records
from store.api import Corrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.broker.partition import Partition
    from store.api import Buffer

_BASE_EPOCH = struct.Struct(">qii")

Found = tuple[int, int, int]
"""timestamp in ms, offset, leader epoch."""

IN_A_THREAD = 5_000
"""A batch of more records is gone through in a thread: it takes longer than the event loop may be held up."""


async def first_at_or_after(partition: Partition, timestamp: int, limit: int, begin: int = 0) -> Found | None:
    """The first record stamped `timestamp` (ms) or later, from offset `begin` on. Raises BatchError, StoreError."""
    offset = begin
    while True:
        try:
            found = partition.log.batch_at_or_after(timestamp, offset)
            batch = _joined(found if isinstance(found, list) else await found)
        except Corrupt as error:
            if not partition.skips_damage:
                raise
            partition.unreadable(error)
            offset = error.next_offset
            continue
        if batch is None:
            return None
        first = max(begin, partition.log_start)
        answer = await _seen(batch, partial(_first, batch, first, timestamp, limit))
        if answer is not None:
            return answer
        await asyncio.sleep(0)
        # What matched lies below where we begin, in a batch that reaches beyond it: look at what follows it.
        offset = records.header(batch).next_offset
        if offset >= partition.high_watermark:
            return None


async def largest(partition: Partition, limit: int) -> Found | None:
    """The first record that has the largest timestamp of the log. Raises BatchError, StoreError."""
    found = partition.log.max_timestamp_batch()
    batch = _joined(found if isinstance(found, list) else await found)
    if batch is None:
        return None
    return await _seen(batch, partial(_largest, batch, partition.log_start, limit))


async def _seen(batch: bytes, look: Callable[[], Found | None]) -> Found | None:
    """What `look` finds in the batch; a large one is unfolded while others get their turn."""
    if records.header(batch).count > IN_A_THREAD:
        return await asyncio.to_thread(look)
    return look()


def _first(batch: bytes, begin: int, timestamp: int, limit: int) -> Found | None:
    base_offset, _, epoch = _BASE_EPOCH.unpack_from(batch)
    for delta, stamp, _ in records.skim(batch, limit):
        if stamp >= timestamp and base_offset + delta >= begin:
            return stamp, base_offset + delta, epoch
    return None


def _largest(batch: bytes, log_start: int, limit: int) -> Found | None:
    base_offset, _, epoch = _BASE_EPOCH.unpack_from(batch)
    best: tuple[int, int] | None = None
    for delta, stamp, _ in records.skim(batch, limit):
        if base_offset + delta >= log_start and (best is None or stamp > best[0]):
            best = stamp, delta
    return None if best is None else (best[0], base_offset + best[1], epoch)


def _joined(buffers: list[Buffer]) -> bytes | None:
    if not buffers:
        return None
    first = buffers[0]
    return first if len(buffers) == 1 and isinstance(first, bytes) else b"".join(buffers)
