"""What `held.py` says of what lanes hold, for many single records at once: by columns, where lanes have an order.

The rule for each record is in `held.py` and `records.py`. Whatever is out of the ordinary is done as it is there.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from semantics.subscriptions import held
from semantics.subscriptions.acknowledging import accept
from semantics.subscriptions.chunks import MASK, SHIFT, SIZE, Chunk
from semantics.subscriptions.in_order import InOrder
from semantics.subscriptions.records import GONE, Records
from semantics.subscriptions.states import ACQUIRED, AVAILABLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST_BYTE = 255


def settle_many(records: Records, consumer: str, offsets: NDArray[np.int64], now: int, wall: int) -> None:
    """`held.settle`; `offsets` ascend, as everywhere here."""
    if not accept(records, consumer, offsets, offsets):
        # some of it is not as it was, or this is Shared
        held.settle(records, consumer, _ranges(offsets), now, wall)


def give_back_many(records: Records, consumer: str, offsets: NDArray[np.int64]) -> bool:
    """`Cursor.give_back`; False, and nothing is done, if that must be asked."""
    if not isinstance(records.keyed, InOrder):
        return False
    back = [_available(records, *found) for found in list(_held(records, consumer, offsets))]
    records.totals["delivered"] -= sum(map(len, back))
    if back:
        records.keyed.came_back(np.concatenate(back))
    return True


def crash_many(
    records: Records, consumer: str, offsets: NDArray[np.int64], most: int | None, wall: int
) -> None:
    """`held.crash`."""
    keyed = records.keyed
    if not isinstance(keyed, InOrder):
        held.crash(records, consumer, _ranges(offsets), most, wall)
        return
    limit = records.config.delivery_limit
    back: list[NDArray[np.int64]] = []
    for chunk, ats, ids in list(_held(records, consumer, offsets)):
        records.window.dirty.add(chunk.number)
        records.totals["crashed"] += len(ats)
        counts = np.zeros(len(ats), np.int64)
        if chunk.count is not None:
            counts[:] = _counts(chunk.count)[ats]
        then = counts + 1 if most is None else np.maximum(np.minimum(counts + 1, most), counts)
        odd = then > _LARGEST_BYTE
        if limit:
            odd |= then >= limit
        for at, lease_id in zip(ats[odd].tolist(), ids[odd].tolist(), strict=True):
            records.fail(chunk, at, at + 1, GONE, wall, most=most)
            records.leases.settle(records.leases.by_id[lease_id], 1)
        plain = ~odd
        if plain.any():
            if chunk.count is None:
                chunk.count = bytearray(SIZE)
            _counts(chunk.count)[ats[plain]] = then[plain]
            back.append(_available(records, chunk, ats[plain], ids[plain]))
    if back:
        keyed.came_back(np.concatenate(back))
    records.changed = True
    records.advance()


def _counts(counts: bytearray | array[int]) -> NDArray[np.uint8] | NDArray[np.uint16]:
    if isinstance(counts, bytearray):
        return np.frombuffer(counts, np.uint8)
    return np.frombuffer(counts, np.uint16)


def _held(
    records: Records, consumer: str, offsets: NDArray[np.int64]
) -> Iterator[tuple[Chunk, NDArray[np.int64], NDArray[np.uint32]]]:
    """What of these the consumer holds: places in a chunk, and the leases under which they are."""
    window, who = records.window, records.leases.consumers.get(consumer)
    if who is None or not len(offsets):
        return
    leases = np.array(list(who.leases), np.uint32)
    numbers, ats = offsets >> SHIFT, offsets & MASK
    for begin, end in pairwise([0, *((numbers[1:] != numbers[:-1]).nonzero()[0] + 1).tolist(), len(offsets)]):
        chunk = window.chunks.get(int(numbers[begin]))
        if chunk is None or chunk.lease is None:
            continue
        here = ats[begin:end]
        ids = np.frombuffer(chunk.lease, np.uint32)[here]
        its = (np.frombuffer(chunk.state, np.uint8)[here] == ACQUIRED) & np.isin(ids, leases)
        if its.any():
            yield chunk, here[its], ids[its]


def _available(
    records: Records, chunk: Chunk, ats: NDArray[np.int64], ids: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """These, ACQUIRED under such leases, are AVAILABLE: their offsets, which the dispatcher is to be told."""
    window = records.window
    window.n[ACQUIRED] -= len(ats)
    window.n[AVAILABLE] += len(ats)
    chunk.become_many(ats, AVAILABLE)
    chunk.let_go(len(ats))
    for lease_id, number in zip(*(each.tolist() for each in np.unique_counts(ids)), strict=True):
        records.leases.settle(records.leases.by_id[lease_id], number)
    return ats + chunk.base


def _ranges(offsets: NDArray[np.int64]) -> list[tuple[int, int]]:
    return [(offset, offset) for offset in offsets.tolist()]
