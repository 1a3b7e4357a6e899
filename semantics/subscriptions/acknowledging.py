"""What a consumer says about records, checked before anything of it is done: all of a call is taken or nothing."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence

from semantics.subscriptions.chunks import FILL, MASK, SHIFT, SIZE, Chunk, Window
from semantics.subscriptions.leases import Consumer, Lease, Leases
from semantics.subscriptions.states import ACQUIRED, Refusal

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""acknowledge types of KIP-932 and KIP-1222"""

Piece = tuple[Chunk, int, int, Lease, int]
"""[first, end) of a chunk is held under this lease, and this is said about it"""

_SAME_TYPE = re.compile(rb"(.)\1*", re.DOTALL)


def check(
    window: Window,
    known: int,
    leases: Leases,
    consumer: Consumer | None,
    batches: Sequence[tuple[int, int, bytes]],
) -> list[Piece] | Refusal:
    """Which held records the batches name. What lies below the window's start is passed over, as in Kafka.

    INVALID_REQUEST: batches that overlap, go back or beyond `known`, or have wrong types; it wins over
    INVALID_RECORD_STATE: some record is not in this consumer's hands.
    """
    pieces: list[Piece] = []
    chunks, by_id, start = window.chunks, leases.by_id, window.start
    before = number = -1
    chunk: Chunk | None = None
    for first, last, types in batches:
        if not before < first <= last < known or not types:
            return Refusal.INVALID_REQUEST
        before = last
        kind = types[0]
        if kind > RENEW or len(types) != 1:
            if len(types) != last - first + 1 or max(types) > RENEW:
                return Refusal.INVALID_REQUEST
            if types.count(kind) != len(types):
                mixed = check(window, known, leases, consumer, _split(first, types))
                if isinstance(mixed, Refusal):
                    return _refused(batches, known)
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
                return _refused(batches, known)
            at = first & MASK
            if first == last:  # most of them, under Key_Shared
                if state[at] != ACQUIRED or (lease := by_id[plane[at]]).consumer is not consumer:
                    return _refused(batches, known)
                pieces.append((chunk, at, at + 1, lease, kind))
                break
            stop = at + last - first + 1
            if stop > SIZE:
                stop = SIZE
            first += stop - at
            while at < stop:
                lease_id = plane[at]
                if state[at] != ACQUIRED or (lease := by_id[lease_id]).consumer is not consumer:
                    return _refused(batches, known)
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


def _split(first: int, types: bytes) -> list[tuple[int, int, bytes]]:
    """A batch with a type for each offset -> batches with one type."""
    return [
        (first + found.start(), first + found.end() - 1, found.group(1))
        for found in _SAME_TYPE.finditer(types)
    ]


def _refused(batches: Sequence[tuple[int, int, bytes]], known: int) -> Refusal:
    """Some record is not held; but were the batches well-formed?"""
    return Refusal.INVALID_REQUEST if any(_malformed(batches, known)) else Refusal.INVALID_RECORD_STATE


def _malformed(batches: Sequence[tuple[int, int, bytes]], known: int) -> Iterator[bool]:
    before = -1
    for first, last, types in batches:
        yield last < first or first <= before or last >= known
        yield len(types) not in (1, last - first + 1) or max(types) > RENEW
        before = last
