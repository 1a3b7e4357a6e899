"""A log of a store under test loses some of its batches, as compaction does it."""

from __future__ import annotations

from collections.abc import Callable

from store import batch
from store.api import Log, Put, SegmentInfo, Store, Swap
from store.rewriting import Rewritten, SegmentWriter
from tests.store.making import content, write

Keep = Callable[[int], bool]
"""Which batches stay, by base offset. The last one of a log stays always."""


def closed(log: Log) -> list[SegmentInfo]:
    """The segments that take no more."""
    return [each for each in log.segments() if not each.active]


async def rewritten(
    store: Store, partition: int, segments: list[SegmentInfo], keep: Keep
) -> Rewritten | None:
    """What stays of these segments, in a file."""
    log = store.log(partition)
    data = await content(log, max(log.start_offset, segments[0].base_offset))
    end = segments[-1].next_offset
    kept = [
        data[at : at + size]
        for at, size, base, following in batch.walk(data)
        if base < end and (keep(base) or following == log.end_offset)
    ]
    if not kept:
        return None
    (place,) = await store.reserve(partition, [batch.base_offset(kept[0])])
    writer = SegmentWriter(place, segments[0].created_at)
    for each in kept:
        found = log.position_of(batch.base_offset(each))
        writer.add(each, found.ledger, found.entry)
    return writer.finish()


async def swap_of(store: Store, partition: int, segments: list[SegmentInfo], keep: Keep) -> Swap:
    """The write that has them lose the others."""
    new = await rewritten(store, partition, segments, keep)
    return Swap(partition, tuple((each.base_offset, each.number) for each in segments), new)


async def clean(store: Store, partition: int, keep: Keep, *beside: Put) -> None:
    """All closed segments become one."""
    segments = closed(store.log(partition))
    await write(store, await swap_of(store, partition, segments, keep), *beside)
