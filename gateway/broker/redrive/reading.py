"""Letters read from their topic, a batch at a time, with turns for others between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from gateway.broker.redrive.letter import dead_letter
from gateway.wire import records
from gateway.wire.batch import CONTROL, TRANSACTIONAL, BatchError
from store.api import Corrupt

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.node import Delivering
    from semantics.console.letter_filter import DeadLetter

STRETCH = 256 * 1024
"""Bytes that are read in one go."""
AT_ONCE = 64 * 1024
"""Bytes of a batch that is taken apart on the loop; a thread does larger ones."""
SLICE_S = 0.002
"""The longest that a walk over letters goes on before others have their turn."""
PIECE = 100
"""Letters that are given at once."""


Turn: TypeAlias = Callable[[], Awaitable[None]]
"""How others are given their turn."""


async def others() -> None:
    """All that is ready has its turn."""
    await asyncio.sleep(0)


class Pause:
    """Gives others their turn when it has gone on for SLICE_S."""

    __slots__ = ("_since", "_turn")

    def __init__(self, turn: Turn = others) -> None:
        self._turn = turn
        self._since = time.perf_counter()

    @property
    def due(self) -> bool:
        return time.perf_counter() - self._since > SLICE_S

    async def __call__(self) -> None:
        if self.due:
            await self._turn()
            self._since = time.perf_counter()


async def read(
    node: Delivering, partition: Partition, start: int, end: int, turn: Turn = others
) -> AsyncIterator[tuple[list[DeadLetter], int, int]]:
    """(some letters, the offset behind them, bytes that were read for them) of [start, end), in their order. What
    cannot be read, or is gone meanwhile, is passed over. Raises StoreError, KafkaError.
    """
    offset = max(start, partition.log_start)
    end = min(end, partition.last_stable_offset)
    pause = Pause(turn)
    while offset < end:
        try:
            found = partition.read(offset, STRETCH)
            data = b"".join(found if isinstance(found, list) else await found)
        except Corrupt as error:
            offset = max(error.next_offset, offset + 1)
            continue
        except IndexError:
            # retention has taken it meanwhile: what lies behind is there
            offset = max(partition.log_start, offset + 1)
            await pause()
            continue
        before, size = offset, 0
        for position, header in records.batches(data):
            base, behind = header.base_offset, header.base_offset + header.last_offset_delta + 1
            if behind <= offset or base >= end:
                continue
            size += header.size
            opened = []
            if not header.attributes & CONTROL and not _aborted(partition, header):
                opened = await _opened(node, data[position : position + header.size], header)
            # all at once is a stretch of its own for large batches
            for first in range(0, len(opened), PIECE):
                letters = [
                    dead_letter(partition.index, base + each.offset_delta, *each[1:])
                    for each in opened[first : first + PIECE]
                    if offset <= base + each.offset_delta < end
                ]
                if letters:
                    yield letters, letters[-1].offset + 1, size
                    size = 0
            offset = behind
            yield [], min(offset, end), size
            size = 0
            await pause()
        if offset == before:
            return
        await turn()


async def _opened(node: Delivering, batch: bytes, header: records.Header) -> list[records.Record]:
    """The records of a batch, none of one that cannot be opened."""
    try:
        if len(batch) <= AT_ONCE and not header.codec:
            return records.records(batch, node.decompression_limit)
        # what a compressed one unfolds to is not known
        return await node.loop.run_in_executor(
            None, partial(records.records, batch, node.decompression_limit)
        )
    except BatchError:
        return []


def _aborted(partition: Partition, header: records.Header) -> bool:
    """Whether a batch is of a transaction that was aborted."""
    if not header.attributes & TRANSACTIONAL:
        return False
    base, behind = header.base_offset, header.base_offset + header.last_offset_delta + 1
    return any(
        each.producer_id == header.producer_id and each.first <= base < each.marker
        for each in partition.transacting.aborted.over(base, behind)
    )
