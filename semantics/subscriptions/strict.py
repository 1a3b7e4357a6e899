"""The strict Key_Shared dispatcher: of the records of a slot one at a time, in their order.

Every consumer has a queue: offsets with their slots, ascending, and a heap of what came back or had to wait. It takes
the smallest first of which the slot is free. A slot is busy while a record of it is ACQUIRED, and for every record
behind one that is in BACKOFF or DYING. A batch that cannot be opened has no known keys, so its records block no slot.

What is true of a slot is a byte of flags in a table of 65,536, so that many records are decided at once: their flags
are looked up, those that are free and the first of their slot are taken, and what is left stays in the queue, to be
looked at again. Few records are cheaper one by one. Both ways give the same records and use the same tables, so each
can go on where the other stopped. A record that is met one by one and finds its slot busy is put aside (parked) until
its slot is free; so is what is looked at again and again in vain.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from functools import lru_cache
from heapq import heappop
from itertools import pairwise
from typing import TYPE_CHECKING

from semantics.subscriptions.chunks import FARTHEST, MASK, SHIFT, SIZE, Chunk
from semantics.subscriptions.deep import DeepSlots
from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.leases import Lease
from semantics.subscriptions.slots import (
    BLOCKED,
    CROWDED,
    DEEP,
    DRAINING,
    HELD,
    WAITING,
    Queue,
)
from semantics.subscriptions.states import (
    ACQUIRED,
    AVAILABLE,
    BEFORE,
    Acquired,
    no_line,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# numpy is imported where it is used: it takes 20 MB, and whoever has no Key_Shared does not need it

FEW = 64
"""Up to this many records are decided one by one"""
SPARSE = 16
"""At least one in this many of the records looked at together must be taken; otherwise the others are parked"""
LEAST_SCANNED = 512

_BUSY = HELD | BLOCKED

_OF_CONCERN = re.compile(rb"[\x00\x01\x04-\x06\x08\x09]+")  # all but DONE, DELAYED, UNREAD, and the CORRUPT
_NOT_AVAILABLE = re.compile(rb"[\x01\x04-\x06\x08\x09]+")  # of these
_MANY = 16_384
"""When queues are rebuilt: records put into them before slots are checked for becoming DEEP"""
_acquired = tuple.__new__  # half the time of calling the class


@lru_cache(maxsize=1)
def _scratch() -> NDArray[np.int32]:
    """slot -> a number that is written before it is read."""
    import numpy as np

    return np.zeros(SLOTS, np.int32)


class Strict(DeepSlots):
    """Which consumer may take which offsets."""

    __slots__ = ()

    # -- what may be taken -----------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Make the queues from the planes."""
        self._more, self._blocked, self._parked, self._deep = {}, {}, {}, {}
        self._queues = [Queue() for _ in self._owners.names]
        self._marks = bytearray()
        self.queued = self._grown = 0
        for number in sorted(self._window.chunks):
            chunk = self._window.chunks[number]
            if chunk.base >= self.read:
                break
            self._sort_in(chunk, 0, min(self.read - chunk.base, SIZE))
            if self._grown >= _MANY:
                self._sink()
        since, self._since = self._since, {}
        for slot, when in since.items():
            if self._marks and self._marks[slot] & HELD:
                self._since[slot] = when
                self._marks[slot] |= DRAINING

    def fed(self, first: int, end: int, slots: Sequence[int]) -> None:
        """[first, end) was read, and these are its slots."""
        if not self._marks:
            self._marks = bytearray(SLOTS)
        begin = first
        for chunk, at, stop in self._window.pieces(first, end):
            base = chunk.base
            some = slots[base + at - begin : base + stop - begin]
            plane = some if isinstance(some, array) else array("H", some)
            chunk.slot_plane()[at:stop] = plane
            if chunk.state.count(AVAILABLE, at, stop) < stop - at:
                self._sort_in(chunk, at, stop)
                continue
            if stop - at > FEW:
                self._deal(base + at, plane)
                continue
            for offset, slot in enumerate(plane, base + at):
                self._add(offset, slot)
        self.read = end

    def _add(self, offset: int, slot: int) -> None:
        """Behind all others that were read."""
        if self._marks[slot] & DEEP:
            self._deep[slot].far += 1
            return
        self.queued += 1
        self._grown += 1
        self._queues[self._owners.places[slot]].add(offset, slot)

    def _deal(self, first: int, plane: array[int], some: NDArray[np.intp] | None = None) -> None:
        """Offsets from `first` on (or some of them), behind all others, into the queues of their slots' owners."""
        import numpy as np

        slots = np.frombuffer(plane, np.uint16)
        if self._deep:
            if some is None:
                some = self._shallow(slots)
            else:
                some = some[self._shallow(slots[some])]
            if not len(some):
                return
        places = np.frombuffer(self._owners.places, np.uint16)[slots if some is None else slots[some]]
        order = np.argsort(places, kind="stable")
        places = places[order]
        if some is not None:
            order = some[order]
        number = len(order)
        self.queued += number
        self._grown += number
        edges = [0, *((places[1:] != places[:-1]).nonzero()[0] + 1).tolist(), number]
        slots = slots[order]
        offsets = order + first
        for begin, end in pairwise(edges):
            queue = self._queues[places[begin]]
            queue.offsets.frombytes(offsets[begin:end].tobytes())
            queue.slots.frombytes(slots[begin:end].tobytes())
            queue.tried = False

    def _sort_in(self, chunk: Chunk, first: int, end: int) -> None:
        """Put what a chunk has where it belongs; nothing of it is anywhere yet."""
        state, slots, marks = chunk.state, chunk.slot_plane(), self._marks
        concern = _OF_CONCERN
        if state.count(AVAILABLE, first, end) > FEW:
            import numpy as np

            if not marks:
                marks = self._marks = bytearray(SLOTS)
            ats = (np.frombuffer(state, np.uint8)[first:end] == AVAILABLE).nonzero()[0]
            self._deal(chunk.base + first, slots[first:end], ats)
            concern = _NOT_AVAILABLE
        for at in (at for run in concern.finditer(state, first, end) for at in range(*run.span())):
            if not marks:
                marks = self._marks = bytearray(SLOTS)
            code, slot = state[at], slots[at]
            if code == AVAILABLE:
                self._add(chunk.base + at, slot)
            elif code == ACQUIRED:
                if marks[slot] & HELD:
                    self._more[slot] = self._more.get(slot, 1) + 1
                    marks[slot] |= CROWDED
                marks[slot] |= HELD
                if self._leases.by_id[chunk.leases()[at]].consumer.name != self.owner_of(slot):
                    self._since.setdefault(slot, 0)
                    marks[slot] |= DRAINING
            else:
                # ascending, so a heap
                self._blocked.setdefault(slot, []).append(chunk.base + at)
                marks[slot] |= BLOCKED

    def take(self, lease: Lease, room: int) -> list[Acquired]:
        """Up to `room` of its records for this lease's consumer, ascending."""
        place = self._owners.index.get(lease.consumer.name)
        if place is None or (queue := self._queues[place]).tried:
            return []
        number = len(queue)
        if not number:
            return []
        if number > FEW and room > FEW and self.read < FARTHEST:
            return self._take_many(queue, lease, room)
        offsets, all_slots, heap, head = queue.offsets, queue.slots, queue.heap, queue.head
        chunks, marks, blocked = self._window.chunks, self._marks, self._blocked
        lease_id, before = lease.id, BEFORE[ACQUIRED]
        taken: list[Acquired] = []
        runs = lease.runs
        left = room
        last_number = -1
        deep = 0
        length = len(offsets)
        begin = end = tally = 0  # the run under way, which stays inside of a chunk
        while left:
            if head < length and (not heap or offsets[head] < heap[0]):
                offset = offsets[head]
                slot = all_slots[head]
                head += 1
            elif heap:
                offset = heappop(heap)
                slot = -1
            else:
                break
            if offset >> SHIFT != last_number:
                last_number = offset >> SHIFT
                chunk = chunks[last_number]
                state, leases, counts = chunk.state, chunk.leases(), chunk.count
            at = offset & MASK
            if slot < 0:
                slot = chunk.slot_plane()[at]
            mark = marks[slot]
            if mark & _BUSY and (mark & HELD or blocked[slot][0] < offset):
                self._park(offset, slot)
                continue
            if mark & DEEP:
                self._deep[slot].near -= 1
                deep += 1
            marks[slot] = mark | HELD
            assert state[at] in before, no_line(state[at], ACQUIRED)
            state[at] = ACQUIRED
            leases[at] = lease_id
            chunk.held += 1
            left -= 1
            count = counts[at] if counts is not None else 0
            if offset == end and count == tally and at:
                end += 1
                continue
            if end:
                taken.append(_acquired(Acquired, (begin, end - 1, tally)))
                runs.append(begin << SHIFT | (end - 1 - begin))
            begin, end, tally = offset, offset + 1, count
        if end:
            taken.append(Acquired(begin, end - 1, tally))
            runs.append(begin << SHIFT | (end - 1 - begin))
        queue.head = head
        queue.cut()
        self._took(lease, room - left, room - left - deep)
        return taken

    def _take_many(self, queue: Queue, lease: Lease, room: int) -> list[Acquired]:
        """`take` for many at once: the same records."""
        import numpy as np

        offsets, slots = self._in_order(queue)
        marks = np.frombuffer(self._marks, np.uint8)
        total = len(offsets)
        chosen: list[NDArray[np.intp]] = []
        left, scanned = room, 0
        while left and scanned < total:
            stop = min(scanned + max(4 * left, LEAST_SCANNED), total)
            picks = self._free(offsets[scanned:stop], slots[scanned:stop], marks)
            if len(picks) > left:
                picks = picks[:left]
                stop = scanned + int(picks[-1]) + 1
            picks = picks + scanned
            marks[slots[picks]] |= HELD
            chosen.append(picks)
            left -= len(picks)
            scanned = stop
        picks = np.concatenate(chosen) if len(chosen) > 1 else chosen[0]
        kept = np.ones(total, np.bool_)
        kept[picks] = False
        if scanned >= LEAST_SCANNED and len(picks) * SPARSE < scanned:
            again = kept[:scanned].nonzero()[0]
            for offset, slot in zip(offsets[again].tolist(), slots[again].tolist(), strict=True):
                self._park(offset, slot)
            kept[:scanned] = False
        rest = slots[kept]
        if left:
            queue.tried = True
            marks[rest] |= WAITING
        # new arrays: the old ones are looked into until this ends
        queue.offsets = array("q", offsets[kept].tobytes())
        queue.slots = array("H", rest.tobytes())
        queue.head = 0
        queue.heap = []
        if left == room:
            return []
        number = room - left
        self._took(lease, number, number - self._near_gone(slots[picks]) if self._deep else number)
        return self._hand_out(offsets[picks], lease)

    def _free(
        self, offsets: NDArray[np.int64], slots: NDArray[np.uint16], marks: NDArray[np.uint8]
    ) -> NDArray[np.intp]:
        """Which of these may be taken together: of every slot that is free the first."""
        import numpy as np

        found = marks[slots] & _BUSY
        free = found == 0
        if self._blocked:
            # what lies before the record that is in the way goes before it
            for at in (found == BLOCKED).nonzero()[0].tolist():
                free[at] = offsets[at] < self._blocked[int(slots[at])][0]
        picks = free.nonzero()[0]
        some = slots[picks]
        number = np.arange(len(picks), dtype=np.int32)
        scratch = _scratch()
        # of those that write to one place the last one stays, which is the first here
        scratch[some[::-1]] = number[::-1]
        found_first: NDArray[np.intp] = picks[scratch[some] == number]
        return found_first

    def has(self, consumer: str) -> bool:
        """There may be something for it."""
        place = self._owners.index.get(consumer)
        if place is None:
            return False
        queue = self._queues[place]
        return not queue.tried and len(queue) > 0
