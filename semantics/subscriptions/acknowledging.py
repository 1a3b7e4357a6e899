"""Acknowledgements: a call is checked as a whole before anything of it is done, so all of it is taken or nothing.

`wrong` checks what is said by itself, and `check` whether the consumer holds what it speaks of. Each rule is in one of
them.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from semantics.subscriptions.chunks import FILL, MASK, SHIFT, SIZE, Chunk, Window
from semantics.subscriptions.leases import Consumer, Lease, Leases
from semantics.subscriptions.records import NACKED, Records
from semantics.subscriptions.slots import SlotQueues
from semantics.subscriptions.states import ACQUIRED, Reason, Refusal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""acknowledge types of KIP-932 and KIP-1222"""

Piece = tuple[Chunk, int, int, Lease, int]
"""[first, end) of a chunk is held under this lease, and this is said about it"""

_SINGLE = frozenset((b"\x00", b"\x01", b"\x02", b"\x03"))
"""One type for a whole range, and none that may be refused."""
_SAME_TYPE = re.compile(rb"(.)\1*", re.DOTALL)


def acknowledge(
    records: Records,
    consumer: str,
    batches: Sequence[tuple[int, int, bytes]],
    now: int,
    wall: int,
    most: int = RENEW,
    known: int | None = None,
) -> Refusal | None:
    """Do what the batches say, or nothing of it: see `Cursor.acknowledge`. They must end before `known`, which is
    the offset where the dispatcher stands unless the caller knows better.
    """
    window, leases, keyed, totals = records.window, records.leases, records.keyed, records.totals
    who = leases.consumers.get(consumer)
    refused = wrong(batches, most)
    if refused is not None:
        return refused
    pieces = check(window, records.read if known is None else known, leases, who, batches)
    if isinstance(pieces, Refusal):
        return pieces
    accepted = 0
    for chunk, first, end, lease, kind in pieces:
        number = end - first
        if kind <= ACCEPT:
            accepted += number
            chunk.held -= number
            if not chunk.held:
                chunk.lease = None
            window.finish(chunk, first, end)
            if keyed is not None:
                keyed.settled(chunk, first, end)
        elif kind == RELEASE:
            totals["nacked"] += number
            records.fail(chunk, first, end, NACKED, wall)
        elif kind == REJECT:
            totals["rejected"] += number
            for at, stop, count in chunk.count_runs(first, end):
                chunk.set_count(at, stop, count + 1)
                records.doom(chunk, at, stop, ACQUIRED, Reason.REJECTED)
        elif not records.renew(chunk, first, end, lease, now):
            continue
        leases.settle(lease, number)
    if accepted:
        window.n[ACQUIRED] -= accepted
        totals["acknowledged"] += accepted
        records.changed = True
    records.advance()
    return None


def accept(records: Records, consumer: str, firsts: NDArray[np.int64], lasts: NDArray[np.int64]) -> bool:
    """`acknowledge` for many ranges that are accepted; False, and nothing is done, if it must be asked."""
    window, leases, keyed = records.window, records.leases, records.keyed
    who = leases.consumers.get(consumer)
    if who is None or not isinstance(keyed, SlotQueues):
        return False
    checked = check_many(window, records.read, leases, who, firsts, lasts)
    if checked is None:
        return False
    pieces, held_by = checked
    accepted = 0
    for chunk, ats in pieces:
        accepted += len(ats)
        chunk.let_go(len(ats))
        window.finish_many(chunk, ats)
        keyed.settled_many(chunk, ats)
    for lease_id, number in held_by.items():
        leases.settle(leases.by_id[lease_id], number)
    window.n[ACQUIRED] -= accepted
    records.totals["acknowledged"] += accepted
    records.changed = True
    records.advance()
    return True


def wrong(batches: Sequence[tuple[int, int, bytes]], most: int = RENEW) -> Refusal | None:
    """What is wrong with batches by themselves, whatever becomes of the records that they name; the first of it.

    INVALID_REQUEST: they do not ascend, or one does not name a single type for all of its offsets or one for each, or a
    type above `most`. INVALID_RECORD_STATE: two meet in an offset, which the first of them has settled, as in Kafka.
    """
    before = -1
    for first, last, types in batches:
        if not before < first <= last or types not in _SINGLE:  # what is not most of them
            if first > last or first < before:
                return Refusal.INVALID_REQUEST
            if first == before:
                return Refusal.INVALID_RECORD_STATE
            if len(types) != 1 and (not types or len(types) != last - first + 1):
                return Refusal.INVALID_REQUEST
            if max(types) > most:
                return Refusal.INVALID_REQUEST
        before = last
    return None


def check(
    window: Window,
    known: int,
    leases: Leases,
    consumer: Consumer | None,
    batches: Sequence[tuple[int, int, bytes]],
) -> list[Piece] | Refusal:
    """Which held records the batches name, of which nothing is `wrong`. What lies below the window's start is passed
    over, as in Kafka.

    INVALID_REQUEST: they go beyond `known`; it wins over INVALID_RECORD_STATE: some record is not in this consumer's
    hands.
    """
    pieces: list[Piece] = []
    if batches and batches[-1][1] >= known:
        return Refusal.INVALID_REQUEST
    chunks, by_id, start = window.chunks, leases.by_id, window.start
    number = -1
    chunk: Chunk | None = None
    for first, last, types in batches:
        kind = types[0]
        if len(types) != 1 and types.count(kind) != len(types):
            mixed = check(window, known, leases, consumer, _split(first, types))
            if isinstance(mixed, Refusal):
                return mixed
            pieces += mixed
            continue
        if first < start:
            if last < start:
                continue
            first = start
        while first <= last:
            if first >> SHIFT != number:
                number = first >> SHIFT
                chunk = chunks.get(number)
                if chunk is not None:
                    state, plane = chunk.state, chunk.lease
            if chunk is None or plane is None:
                return Refusal.INVALID_RECORD_STATE
            at = first & MASK
            if first == last:  # most of them, under Key_Shared
                if state[at] != ACQUIRED or (lease := by_id[plane[at]]).consumer is not consumer:
                    return Refusal.INVALID_RECORD_STATE
                pieces.append((chunk, at, at + 1, lease, kind))
                break
            stop = at + last - first + 1
            if stop > SIZE:
                stop = SIZE
            first += stop - at
            while at < stop:
                lease_id = plane[at]
                if state[at] != ACQUIRED or (lease := by_id[lease_id]).consumer is not consumer:
                    return Refusal.INVALID_RECORD_STATE
                length = stop - at
                if (
                    length > 8
                    and state.startswith(FILL[ACQUIRED][:length], at)
                    and plane[at:stop] == array("I", (lease_id,)) * length
                ):
                    end = stop
                else:
                    end = at + 1
                    while end < stop and plane[end] == lease_id and state[end] == ACQUIRED:
                        end += 1
                pieces.append((chunk, at, end, lease, kind))
                at = end
    return pieces


def check_many(
    window: Window,
    known: int,
    leases: Leases,
    consumer: Consumer,
    firsts: NDArray[np.int64],
    lasts: NDArray[np.int64],
) -> tuple[list[tuple[Chunk, NDArray[np.int64]]], dict[int, int]] | None:
    """`check` for many ranges that are accepted: their offsets by chunk, and how many of which lease.

    None when anything at all is wrong or out of the ordinary: `wrong` and `check` know what.
    """
    import numpy as np

    more = lasts - firsts
    if firsts[0] < window.start or lasts[-1] >= known or more.min() < 0 or (firsts[1:] <= lasts[:-1]).any():
        return None
    # they ascend within what is known, so nothing overflows
    number = len(firsts)
    total = int(more.sum()) + number
    if total > window.n[ACQUIRED]:
        return None
    offsets = firsts
    if total > number:
        before = np.cumsum(more + 1) - (more + 1)
        offsets = np.repeat(firsts - before, more + 1) + np.arange(total)
    numbers = offsets >> SHIFT
    pieces: list[tuple[Chunk, NDArray[np.int64]]] = []
    held: dict[int, int] = {}
    ats = offsets & MASK
    for begin, end in pairwise([0, *((numbers[1:] != numbers[:-1]).nonzero()[0] + 1).tolist(), total]):
        chunk = window.chunks.get(int(numbers[begin]))
        if chunk is None or chunk.lease is None:
            return None
        here = ats[begin:end]
        if (np.frombuffer(chunk.state, np.uint8)[here] != ACQUIRED).any():
            return None
        ids = np.frombuffer(chunk.lease, np.uint32)[here]
        if (ids == ids[0]).all():
            # as they were given
            held[int(ids[0])] = held.get(int(ids[0]), 0) + end - begin
        else:
            for lease_id, count in zip(*(each.tolist() for each in np.unique_counts(ids)), strict=True):
                held[lease_id] = held.get(lease_id, 0) + count
        pieces.append((chunk, here))
    if any(leases.by_id[lease_id].consumer is not consumer for lease_id in held):
        return None
    return pieces, held


def _split(first: int, types: bytes) -> list[tuple[int, int, bytes]]:
    """A batch with a type for each offset -> batches with one type."""
    return [
        (first + found.start(), first + found.end() - 1, found.group(1))
        for found in _SAME_TYPE.finditer(types)
    ]
