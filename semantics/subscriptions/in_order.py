"""The Key_Shared dispatcher of lanes: of a slot many records at a time to its owner, in their order.

A lane keeps the order of what it was given by itself, so its consumer may have many records of a slot in hand. What is
held back is what strict.py holds back: nothing of a slot is given behind a record of it that is in BACKOFF or DYING,
and nothing while another consumer has records of it in hand (then the slot is draining).

What must wait is put *aside*: it leaves its queue, and only the first offset of it is remembered, by slot. The planes
know the rest, and it is found there when the slot is free again. So a slot that is held up for long costs nothing while
it waits, however many records it has.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappush
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from semantics.subscriptions.chunks import MASK, SHIFT, SIZE, Chunk, Window
from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.leases import Lease, Leases
from semantics.subscriptions.owners import Owners
from semantics.subscriptions.slots import BLOCKED, DRAINING, PARKED, Queue, SlotQueues
from semantics.subscriptions.states import ACQUIRED, AVAILABLE, Acquired
from semantics.taken import Taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HELD_BACK = BLOCKED | DRAINING
_OF_CONCERN = re.compile(rb"[\x01\x04-\x06\x08\x09]+")  # ACQUIRED, BACKOFF, DYING without the CORRUPT
LEAST_SCANNED = 512
FETCHED = 4_096
"""Records that come back from the planes together"""


class InOrder(SlotQueues):
    """Which consumer may take which offsets."""

    __slots__ = ("_aside", "_back")

    def __init__(self, window: Window, leases: Leases, read: int) -> None:
        self._aside: dict[int, int] = {}
        """slot -> the first offset of it that is AVAILABLE and in no queue; from there on none is (PARKED)"""
        self._back: set[int] = set()
        """slots of which what is aside may be given again"""
        super().__init__(window, leases, read)

    # -- what may be taken -----------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Make the queues from the planes."""
        self._more, self._blocked, self._aside, self._back = {}, {}, {}, set()
        self._queues = [Queue() for _ in self._owners.names]
        self._marks = bytearray(SLOTS)
        since, self._since = self._since, {}
        self.queued = 0
        for number in sorted(self._window.chunks):
            chunk = self._window.chunks[number]
            if chunk.base >= self.read:
                break
            self._sort_in(chunk, 0, min(self.read - chunk.base, SIZE))
        self._since = {slot: since.get(slot, 0) for slot in self._since}

    def fed(self, first: int, end: int, slots: Sequence[int]) -> None:
        """[first, end) was read, and these are its slots."""
        if not self._marks:
            self._marks = bytearray(SLOTS)
        for chunk, at, stop in self._window.pieces(first, end):
            some = slots[chunk.base + at - first : chunk.base + stop - first]
            chunk.slot_plane()[at:stop] = some if isinstance(some, array) else array("H", some)
            self._sort_in(chunk, at, stop)
        self.read = end

    def _sort_in(self, chunk: Chunk, first: int, end: int) -> None:
        """Put what a chunk has where it belongs; nothing of it is anywhere yet, and nothing behind it."""
        state, slots = chunk.state, chunk.slot_plane()
        ats = (np.frombuffer(state, np.uint8)[first:end] == AVAILABLE).nonzero()[0] + first
        if len(ats):
            self._enqueue(ats + chunk.base, np.frombuffer(slots, np.uint16)[ats])
        for at in (at for run in _OF_CONCERN.finditer(state, first, end) for at in range(*run.span())):
            slot = slots[at]
            if state[at] != ACQUIRED:
                # ascending, so a heap
                self._blocked.setdefault(slot, []).append(chunk.base + at)
                self._marks[slot] |= BLOCKED
            elif slot in self._since:
                self._more[slot] += 1
            elif self._leases.by_id[chunk.leases()[at]].consumer.name != self.owner_of(slot):
                self._more[slot] = self._in_hand_of({slot}, chunk.base + at + 1)[slot]
                self._since[slot] = 0
                self._marks[slot] |= DRAINING

    def _enqueue(self, offsets: NDArray[np.int64], slots: NDArray[np.uint16]) -> None:
        """Ascending offsets, behind all others that were read, into the queues of their slots' owners."""
        if self._aside:
            # behind what is aside: the planes know them
            near = np.frombuffer(self._marks, np.uint8)[slots] & PARKED == 0
            offsets, slots = offsets[near], slots[near]
        self.queued += len(offsets)
        for place, some, its in self._by_owner(offsets, slots):
            queue = self._queues[place]
            queue.offsets.frombytes(some.tobytes())
            queue.slots.frombytes(its.tobytes())

    def _by_owner(
        self, offsets: NDArray[np.int64], slots: NDArray[np.uint16]
    ) -> list[tuple[int, NDArray[np.int64], NDArray[np.uint16]]]:
        """(place, offsets, slots) of each owner, in the order that they have."""
        if not len(offsets):
            return []
        places = np.frombuffer(self._owners.places, np.uint16)[slots]
        order = np.argsort(places, kind="stable")
        places, offsets, slots = places[order], offsets[order], slots[order]
        edges = [0, *((places[1:] != places[:-1]).nonzero()[0] + 1).tolist(), len(order)]
        return [(int(places[begin]), offsets[begin:end], slots[begin:end]) for begin, end in pairwise(edges)]

    def take(self, lease: Lease, room: int) -> list[Acquired]:
        """Up to `room` of its records for this lease's consumer, ascending."""
        offsets = self._taken(lease, room)
        return [] if offsets is None else self._hand_out(offsets, lease)

    def take_many(self, lease: Lease, room: int) -> Taken | None:
        """The same by columns, None for nothing."""
        offsets = self._taken(lease, room)
        return None if offsets is None else Taken(offsets, self._hand_over(offsets, lease)[2])

    def _taken(self, lease: Lease, room: int) -> NDArray[np.int64] | None:
        """Which they are; they are in no queue any more."""
        place = self._owners.index.get(lease.consumer.name)
        if place is None or room <= 0:
            return None
        if self._back:
            self._fetch()
        queue = self._queues[place]
        if not len(queue):
            return None
        offsets, slots = self._in_order(queue)
        marks = np.frombuffer(self._marks, np.uint8)
        total, left, scanned = len(offsets), room, 0
        chosen: list[NDArray[np.intp]] = []
        waiting: list[NDArray[np.intp]] = []
        while left and scanned < total:
            stop = min(scanned + max(left, LEAST_SCANNED), total)
            free = self._free(offsets[scanned:stop], slots[scanned:stop], marks)
            picks = free.nonzero()[0]
            if len(picks) > left:
                picks = picks[:left]
                stop = scanned + int(picks[-1]) + 1
                free = free[: stop - scanned]
            chosen.append(picks + scanned)
            if len(picks) < len(free):
                waiting.append((~free).nonzero()[0] + scanned)
            left -= len(picks)
            scanned = stop
        kept = slice(scanned, total)
        rest_offsets, rest_slots = offsets[kept], slots[kept]
        if waiting:
            put = np.concatenate(waiting)
            self._put_aside(offsets[put], slots[put])
            near = self._before_aside(rest_offsets, rest_slots)
            self.queued -= len(put) + len(rest_offsets) - int(near.sum())
            rest_offsets, rest_slots = rest_offsets[near], rest_slots[near]
        picks = np.concatenate(chosen)
        # new arrays: the old ones are looked into until this ends
        queue.offsets = array("q", rest_offsets.tobytes())
        queue.slots = array("H", rest_slots.tobytes())
        queue.head, queue.heap = 0, []
        if not len(picks):
            return None
        self._took(lease, len(picks), len(picks))
        found: NDArray[np.int64] = offsets[picks]
        return found

    def _free(
        self, offsets: NDArray[np.int64], slots: NDArray[np.uint16], marks: NDArray[np.uint8]
    ) -> NDArray[np.bool_]:
        """Which of these may be given."""
        found = marks[slots] & _HELD_BACK
        free: NDArray[np.bool_] = found == 0
        if self._blocked:
            # what lies before the record that is in the way goes before it
            for at in (found == BLOCKED).nonzero()[0].tolist():
                free[at] = offsets[at] < self._blocked[int(slots[at])][0]
        return free

    def _put_aside(self, offsets: NDArray[np.int64], slots: NDArray[np.uint16]) -> None:
        """These, ascending, cannot be given now."""
        its, firsts = np.unique(slots, return_index=True)
        for slot, offset in zip(its.tolist(), offsets[firsts].tolist(), strict=True):
            known = self._aside.get(slot)
            self._aside[slot] = offset if known is None or offset < known else known
            self._marks[slot] |= PARKED

    def _before_aside(self, offsets: NDArray[np.int64], slots: NDArray[np.uint16]) -> NDArray[np.bool_]:
        """Which of these are not aside by now."""
        near: NDArray[np.bool_] = np.frombuffer(self._marks, np.uint8)[slots] & PARKED == 0
        for at in (~near).nonzero()[0].tolist():
            near[at] = offsets[at] < self._aside[int(slots[at])]
        return near

    def _fetch(self) -> None:
        """Put what was aside, of slots that are free, into queues again: FETCHED records or a few more."""
        back = {slot: self._aside[slot] for slot in self._back}
        wanted = np.zeros(SLOTS, np.bool_)
        wanted[list(back)] = True
        first = min(back.values())
        offsets: list[NDArray[np.int64]] = []
        slots: list[NDArray[np.uint16]] = []
        number, reached = 0, self.read
        for chunk, at, stop in self._window.pieces(first, self.read):
            if number >= FETCHED:
                reached = chunk.base + at
                break
            if chunk.slots is None:
                continue
            its = np.frombuffer(chunk.slots, np.uint16)[at:stop]
            here = wanted[its] & (np.frombuffer(chunk.state, np.uint8)[at:stop] == AVAILABLE)
            ats = here.nonzero()[0]
            if len(ats):
                found = ats + (chunk.base + at)
                its = its[ats]
                behind = found >= np.array([back[slot] for slot in its.tolist()], np.int64)
                offsets.append(found[behind])
                slots.append(its[behind])
                number += len(offsets[-1])
        for slot in back:
            if reached < self.read:
                self._aside[slot] = max(reached, back[slot])
            else:
                del self._aside[slot]
                self._marks[slot] &= ~PARKED
        if reached >= self.read:
            self._back.clear()
        if offsets:
            self.queued += number
            for place, some, _ in self._by_owner(np.concatenate(offsets), np.concatenate(slots)):
                heap = self._queues[place].heap
                heap += some.tolist()
                heap.sort()

    def has(self, consumer: str) -> bool:
        """There may be something for it."""
        place = self._owners.index.get(consumer)
        if place is None:
            return False
        places = self._owners.places
        return len(self._queues[place]) > 0 or any(places[slot] == place for slot in self._back)

    # -- what happens to records -----------------------------------------------------------------------------

    def settled(self, chunk: Chunk, first: int, end: int) -> None:
        """[first, end) was ACQUIRED and is DONE."""
        if self._since:
            for slot in chunk.slot_plane()[first : self._reached(chunk, end)]:
                self._release(slot)

    def _reached(self, chunk: Chunk, end: int) -> int:
        """`end`, or what of it was read. After a load a lane holds more, of which no slot is known and none counted."""
        return min(end, max(self.read - chunk.base, 0))

    def settled_many(self, chunk: Chunk, ats: NDArray[np.int64]) -> None:
        """`settled` for single offsets of a chunk."""
        if self._since:
            ats = ats[ats < self._reached(chunk, SIZE)]
            for slot in np.frombuffer(chunk.slot_plane(), np.uint16)[ats].tolist():
                self._release(slot)

    def came_back(self, offsets: NDArray[np.int64]) -> None:
        """`moved` for single offsets, ascending, that were ACQUIRED and are AVAILABLE."""
        offsets = offsets[: np.searchsorted(offsets, self.read)]
        if not len(offsets):
            return
        if not self._marks:
            self._marks = bytearray(SLOTS)
        slots = np.concatenate(
            [
                np.frombuffer(self._window.chunks[int(some[0]) >> SHIFT].slot_plane(), np.uint16)[some & MASK]
                for some in np.split(offsets, (np.diff(offsets >> SHIFT) > 0).nonzero()[0] + 1)
            ]
        )
        if self._since:
            for slot in slots.tolist():
                self._release(slot)
        near = self._before_aside(offsets, slots)
        self.queued += int(near.sum())
        for place, some, _ in self._by_owner(offsets[near], slots[near]):
            heap = self._queues[place].heap
            heap += some.tolist()
            # of runs that ascend, which is quick
            heap.sort()

    def _release(self, slot: int) -> None:
        """One record of the slot is in nobody's hands any more; that matters where it drains."""
        if slot not in self._since:
            return
        self._more[slot] -= 1
        if not self._more[slot]:
            del self._more[slot], self._since[slot]
            self._marks[slot] &= ~DRAINING
            self._freed(slot)

    def _freed(self, slot: int) -> None:
        """Fetch what is aside of the slot, if it may be given."""
        mark = self._marks[slot]
        if mark & PARKED and not mark & DRAINING:
            if not mark & BLOCKED or self._aside[slot] < self._blocked[slot][0]:
                self._back.add(slot)
            else:
                self._back.discard(slot)

    def _offer(self, offset: int, slot: int) -> None:
        """It came back, or its time has come."""
        if self._marks[slot] & PARKED and offset >= self._aside[slot]:
            # the planes know it
            self.queued -= 1
        else:
            heappush(self._queues[self._owners.places[slot]].heap, offset)
        self._freed(slot)

    def rest(self) -> None:
        """Keep no flags while there is nothing to say."""
        if self._marks and not (self.queued or self._aside or self._blocked or self._since):
            self._marks = bytearray()

    def relieve(self, ahead: int) -> None:
        """What waits for long is aside, and does not count."""

    # -- who owns what ---------------------------------------------------------------------------------------

    def reassign(self, owners: Owners, now: int) -> None:
        """Slots have other owners from now on. What is in hand stays there."""
        since = self._since
        self._more = {}
        super().reassign(owners, now)
        for slot in since.keys() - self._since.keys():
            self._freed(slot)

    def _drain(self, since: dict[int, int], now: int) -> None:
        """See `SlotQueues._drain`. Of what was not read yet no slot is known."""
        places, index = np.frombuffer(self._owners.places, np.uint16), self._owners.index
        found: set[int] = set()
        for chunk, ats, slots in self._held(self.read):
            ids, which = np.unique(np.frombuffer(chunk.leases(), np.uint32)[ats], return_inverse=True)
            holders = [index.get(self._leases.by_id[each].consumer.name, -1) for each in ids.tolist()]
            found.update(slots[places[slots] != np.array(holders, np.int64)[which]].tolist())
        self._to_drain(found, since, now)

    def entrusted(self, pieces: Sequence[tuple[Chunk, int, int]], trustee: str, now: int) -> None:
        """See `Keyed.entrusted`."""
        slots = {
            slot
            for chunk, first, end in pieces
            for slot in chunk.slot_plane()[first : self._reached(chunk, end)]
        }
        self._to_drain(slots - self._since.keys(), {}, now)

    def _to_drain(self, slots: set[int], since: dict[int, int], now: int) -> None:
        """Others than their owners have records of these slots in hand. They are free when nobody has, their owners
        either: who released a record is not known.
        """
        if slots and not self._marks:
            self._marks = bytearray(SLOTS)
        for slot, number in self._in_hand_of(slots, self.read).items():
            self._more[slot] = number
            self._since[slot] = since.get(slot, now)
            self._marks[slot] |= DRAINING
            self._back.discard(slot)

    def _in_hand_of(self, slots: set[int], below: int) -> Counter[int]:
        """Of each slot how many records below an offset are in somebody's hands."""
        found: Counter[int] = Counter()
        if slots:
            wanted = np.zeros(SLOTS, np.bool_)
            wanted[list(slots)] = True
            for _, _, its in self._held(below):
                found.update(its[wanted[its]].tolist())
        return found

    def _held(self, below: int) -> Iterator[tuple[Chunk, NDArray[np.intp], NDArray[np.uint16]]]:
        """What is ACQUIRED below an offset, as places in a chunk, with slots."""
        for chunk in self._window.chunks.values():
            if chunk.held and chunk.base < below:
                ats = (np.frombuffer(chunk.state, np.uint8)[: below - chunk.base] == ACQUIRED).nonzero()[0]
                yield chunk, ats, np.frombuffer(chunk.slot_plane(), np.uint16)[ats]

    def holder_of(self, slot: int) -> str | None:
        """Who has records of the slot in hand."""
        return self._holders([slot]).get(slot)

    def _busy(self) -> NDArray[np.intp]:
        """Those that drain: of the others their owner may have many in hand."""
        return np.array(list(self._since), np.intp)

    def blocked(self, offset: int, slot: int) -> str | None:
        """See `Keyed.blocked`."""
        if slot in self._blocked and self._blocked[slot][0] < offset:
            return "an earlier record of its slot was nacked or is to be dead-lettered"
        if slot in self._since:
            return f"{self.holder_of(slot)} has a record of its slot"
        return "nobody owns its slot" if self.nobodys(slot) else None
