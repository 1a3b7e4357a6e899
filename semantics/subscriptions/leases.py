"""Who holds what until when.

A lease is what one poll gave to one consumer: runs of offsets that run out together. An acknowledgement does not
change the runs: the planes know which records a lease still holds, and the lease counts them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from semantics.subscriptions.chunks import SHIFT, SIZE, Chunk, Window
from semantics.subscriptions.states import ACQUIRED

_ID_BITS = 32
_IDS = (1 << _ID_BITS) - 1

UNSENT = 1 << 62
"""The deadline of a lease that has not begun, as the answer that carries its records waits for something; or that does
not run out.
"""


class Consumer:
    """A member with an open session."""

    __slots__ = ("in_hand", "last", "leases", "name", "since")

    def __init__(self, name: str, since: int) -> None:
        self.name = name
        self.since = since
        self.leases: dict[int, Lease] = {}
        self.last: Lease | None = None
        """its latest lease: records given in the same millisecond join it"""
        self.in_hand = 0
        """how many records it holds: what remains of its leases"""


class Lease:
    """Records of one consumer that run out together."""

    __slots__ = ("consumer", "deadline", "id", "remaining", "runs")

    def __init__(self, lease_id: int, consumer: Consumer, deadline: int) -> None:
        self.id = lease_id
        self.consumer = consumer
        self.deadline = deadline
        self.remaining = 0
        self.runs = array("Q")
        """what it was given: `pack(first offset, length)`, none over the edge of a chunk"""


def pack(first: int, length: int) -> int:
    """A run inside of one chunk as one number: offset and length - 1."""
    return first << SHIFT | (length - 1)


def unpack(run: int) -> tuple[int, int]:
    """(first offset, length)"""
    return run >> SHIFT, (run & (SIZE - 1)) + 1


class Leases:
    """The consumers that are attached, all leases that still hold something, and the order in which they run out."""

    __slots__ = ("_heap", "_last_id", "by_id", "consumers")

    def __init__(self) -> None:
        self.consumers: dict[str, Consumer] = {}
        self.by_id: dict[int, Lease] = {}
        self._heap: list[int] = []  # deadline and id in one number
        self._last_id = 0

    def attach(self, name: str, now: int) -> None:
        """The consumer may hold something."""
        if name not in self.consumers:
            self.consumers[name] = Consumer(name, now)

    def open(self, consumer: Consumer, deadline: int) -> Lease:
        """A lease to put runs into. It counts once something was added to `remaining`."""
        last = consumer.last
        if last is not None and last.deadline == deadline and last.remaining:
            return last
        lease = self._new(consumer, deadline)
        heap = self._heap
        heappush(heap, deadline << _ID_BITS | lease.id)
        if len(heap) > 64 and len(heap) > 4 * len(self.by_id):
            self._heap = [
                one.deadline << _ID_BITS | one.id for one in self.by_id.values() if one.deadline != UNSENT
            ]
            heapify(self._heap)
        return lease

    def open_ended(self, consumer: Consumer) -> Lease:
        """The same, and it does not run out."""
        last = consumer.last
        return last if last is not None and last.remaining else self._new(consumer, UNSENT)

    def _new(self, consumer: Consumer, deadline: int) -> Lease:
        lease_id = self._last_id
        while True:
            lease_id = (lease_id + 1) & _IDS
            if lease_id and lease_id not in self.by_id:
                break
        self._last_id = lease_id
        lease = Lease(lease_id, consumer, deadline)
        self.by_id[lease_id] = consumer.leases[lease_id] = consumer.last = lease
        return lease

    def withhold(self, lease: Lease) -> None:
        """It does not run out before it was given another deadline: `shorten`."""
        lease.deadline = UNSENT

    def shorten(self, lease: Lease, deadline: int) -> None:
        """It runs out sooner."""
        lease.deadline = deadline
        heappush(self._heap, deadline << _ID_BITS | lease.id)

    def close(self, lease: Lease) -> None:
        """It is over, with what is left of it."""
        lease.consumer.in_hand -= lease.remaining
        del self.by_id[lease.id]
        del lease.consumer.leases[lease.id]
        if lease.consumer.last is lease:
            lease.consumer.last = None

    def settle(self, lease: Lease, number: int) -> None:
        """So many of its records are no longer its own."""
        lease.remaining -= number
        lease.consumer.in_hand -= number
        if not lease.remaining:
            self.close(lease)

    def expired(self, now: int) -> Iterator[Lease]:
        """The leases that ran out, which the caller closes."""
        heap = self._heap
        while heap and heap[0] >> _ID_BITS <= now:
            lease = self.by_id.get(heappop(heap) & _IDS)
            if lease is not None and lease.deadline <= now:
                yield lease

    def next_deadline(self) -> int | None:
        """When the next lease runs out."""
        heap = self._heap
        while heap:
            lease = self.by_id.get(heap[0] & _IDS)
            if lease is not None and lease.deadline == heap[0] >> _ID_BITS:
                return lease.deadline
            heappop(heap)
        return None

    def forget(self) -> None:
        """Nobody holds anything any more."""
        for who in self.consumers.values():
            who.leases.clear()
            who.last = None
            who.in_hand = 0
        self.by_id.clear()
        self._heap.clear()

    def recount(self, window: Window, below: int) -> None:
        """Offsets below were settled over the heads of their holders."""
        for lease in list(self.by_id.values()):
            if any(run >> SHIFT < below for run in lease.runs):
                # an offset may have been given under it twice
                before = lease.remaining
                lease.remaining = len(
                    {chunk.base + at for chunk, first, end in held(window, lease) for at in range(first, end)}
                )
                lease.consumer.in_hand += lease.remaining - before
                if not lease.remaining:
                    self.close(lease)


def held(window: Window, lease: Lease) -> Iterator[tuple[Chunk, int, int]]:
    """What the lease still holds, as runs in chunks."""
    chunks = window.chunks
    for run in lease.runs:
        first, length = unpack(run)
        chunk = chunks.get(first >> SHIFT)
        if chunk is not None:
            at = first - chunk.base
            for begin, end in chunk.held_runs(at, at + length, lease.id):
                yield chunk, begin, end


def held_by(
    window: Window, leases: Leases, consumer: str, ranges: Iterable[tuple[int, int]]
) -> Iterator[tuple[Chunk, int, int, Lease]]:
    """What of (first, last) a consumer holds: [first, end) of a chunk, under one lease. The states may be changed
    while this runs.
    """
    who = leases.consumers.get(consumer)
    if who is None:
        return
    for first, last in ranges:
        for chunk, at, stop in list(window.pieces(first, last + 1)):
            while at < stop:
                at = chunk.state.find(ACQUIRED, at, stop)
                if at < 0:
                    break
                lease = leases.by_id[chunk.leases()[at]]
                if lease.consumer is not who:
                    at += 1
                    continue
                begin, at = next(chunk.held_runs(at, stop, lease.id))
                yield chunk, begin, at, lease
