"""The strict Key_Shared dispatcher: of the records of a slot one at a time, in their order.

Every consumer has a queue: offsets with their slots, ascending, and a heap of what came back or had to wait. It takes
the smallest first of which the slot is free. A slot is busy while a record of it is ACQUIRED, and for every record
behind one that is in BACKOFF or DYING. What cannot be opened has no key that anybody knows, and is in nobody's way.

What is true of a slot is a byte of flags in a table of 65,536, so that many records are decided at once: their flags
are looked up, those that are free and the first of their slot are taken, and what is left stays in the queue, to be
looked at again. Few records are cheaper one by one. Both ways give the same, and what the one leaves the other takes
up. A record that is met one by one and finds its slot busy is put aside (parked) until its slot is free; so is what is
looked at again and again in vain.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from heapq import heappop, heappush, heappushpop
from itertools import pairwise
from typing import TYPE_CHECKING

from semantics.subscriptions.chunks import MASK, SHIFT, SIZE, Chunk, Window
from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.leases import Lease, Leases, held
from semantics.subscriptions.owners import SEVERAL, Owners, Table, table
from semantics.subscriptions.states import (
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    BURYING,
    DONE,
    DYING,
    NUMBER,
    UNREAD,
    Acquired,
    Draining,
    Reason,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# numpy is imported where it is used: it takes 20 MB, and whoever has no Key_Shared does not need it

FEW = 64
"""So many records at most are decided one by one"""
SPARSE = 16
"""Of so many that were looked at together one at least must be taken, or the others are parked"""
LEAST_SCANNED = 512
_FARTHEST = 1 << 53
"""Offsets from here on are decided one by one: runs of them do not fit into 64 bits"""

HELD, BLOCKED, PARKED, CROWDED, DRAINING, WAITING = (1 << bit for bit in range(6))
"""Flags of a slot: a record of it is ACQUIRED; one is in BACKOFF or DYING; some are parked; more than one is ACQUIRED,
from when that was allowed; its holder does not own it any more; some were looked at together and left in the queue"""
_BUSY = HELD | BLOCKED

_OF_CONCERN = re.compile(rb"[\x00\x01\x04-\x06\x08\x09]+")  # all but DONE, DELAYED, UNREAD, and the CORRUPT
_CORRUPT = (DYING + NUMBER[Reason.CORRUPT], BURYING + NUMBER[Reason.CORRUPT])
_BLOCKS = bytes(BACKOFF <= code < UNREAD and code not in _CORRUPT for code in range(256))
"""state -> whether later records of its slot wait for it: what is CORRUPT has no slot"""
_acquired = tuple.__new__  # half the time of calling the class


@lru_cache(maxsize=1)
def _scratch() -> NDArray[np.int32]:
    """slot -> a number that is written before it is read."""
    import numpy as np

    return np.zeros(SLOTS, np.int32)


class Queue:
    """What one consumer may take when its slots are free."""

    __slots__ = ("head", "heap", "offsets", "slots", "tried")

    def __init__(self) -> None:
        self.offsets = array("q")
        """ascending, from `head` on, with their slots"""
        self.slots = array("H")
        self.head = 0
        self.heap: list[int] = []
        """what came back or was parked"""
        self.tried = False
        """all of it was looked at, and no slot of it has become free since"""

    def add(self, offset: int, slot: int) -> None:
        """Behind all others that were read."""
        self.offsets.append(offset)
        self.slots.append(slot)
        self.tried = False

    def cut(self) -> None:
        """Forget what lies before the head, now and then."""
        if 2 * self.head > len(self.offsets) and (self.head > 1024 or self.head == len(self.offsets)):
            del self.offsets[: self.head], self.slots[: self.head]
            self.head = 0

    def __len__(self) -> int:
        return len(self.offsets) - self.head + len(self.heap)


class Strict:
    """Which consumer may take which offsets."""

    __slots__ = (
        "_blocked",
        "_leases",
        "_marks",
        "_more",
        "_owners",
        "_parked",
        "_queues",
        "_since",
        "_window",
        "queued",
        "read",
    )

    def __init__(self, window: Window, leases: Leases, read: int) -> None:
        self._window = window
        self._leases = leases
        self.read = read
        """offsets from here on were not read: their slots are not known"""
        self._owners: Table = table(())
        self._queues = [Queue()]
        self._marks = bytearray()
        """flags by slot; nothing while there is nothing to say of any"""
        self._more: dict[int, int] = {}
        """CROWDED slot -> how many are ACQUIRED"""
        self._blocked: dict[int, list[int]] = {}
        """BLOCKED slot -> heap of offsets in BACKOFF or DYING; others may be among them, but are never the first"""
        self._parked: dict[int, list[int]] = {}
        """PARKED slot -> heap of the offsets that wait for it"""
        self._since: dict[int, int] = {}
        """DRAINING slot -> since when"""
        self.queued = 0
        """offsets in queues and parked: what the look-ahead bounds"""
        self.rebuild()

    # -- what may be taken -----------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Make the queues from the planes."""
        self._more, self._blocked, self._parked = {}, {}, {}
        self._queues = [Queue() for _ in self._owners.names]
        self._marks = bytearray()
        self.queued = 0
        for number in sorted(self._window.chunks):
            chunk = self._window.chunks[number]
            if chunk.base >= self.read:
                break
            self._sort_in(chunk, 0, min(self.read - chunk.base, SIZE))
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
            self.queued += stop - at
            if stop - at > FEW:
                self._deal(base + at, plane)
                continue
            queues, places = self._queues, self._owners.places
            for offset, slot in enumerate(plane, base + at):
                queues[places[slot]].add(offset, slot)
        self.read = end

    def _deal(self, first: int, plane: array[int]) -> None:
        """Offsets from `first` on, behind all others, into the queues of their slots' owners."""
        import numpy as np

        slots = np.frombuffer(plane, np.uint16)
        places = np.frombuffer(self._owners.places, np.uint16)[slots]
        order = np.argsort(places, kind="stable")
        places = places[order]
        edges = [0, *(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist(), len(plane)]
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
        places, queues = self._owners.places, self._queues
        for at in (at for run in _OF_CONCERN.finditer(state, first, end) for at in range(*run.span())):
            if not marks:
                marks = self._marks = bytearray(SLOTS)
            code, slot = state[at], slots[at]
            if code == AVAILABLE:
                queues[places[slot]].add(chunk.base + at, slot)
                self.queued += 1
            elif code == ACQUIRED:
                if marks[slot] & HELD:
                    self._more[slot] = self._more.get(slot, 1) + 1
                    marks[slot] |= CROWDED
                marks[slot] |= HELD
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
        if number > FEW and room > FEW and self.read < _FARTHEST:
            return self._take_many(queue, lease, room)
        offsets, all_slots, heap, head = queue.offsets, queue.slots, queue.heap, queue.head
        chunks, marks, blocked = self._window.chunks, self._marks, self._blocked
        lease_id = lease.id
        taken: list[Acquired] = []
        runs = lease.runs
        left = room
        last_number = -1
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
            marks[slot] = mark | HELD
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
        self._took(lease, room - left)
        return taken

    def _took(self, lease: Lease, number: int) -> None:
        lease.remaining += number
        self.queued -= number
        n = self._window.n
        n[AVAILABLE] -= number
        n[ACQUIRED] += number

    def _park(self, offset: int, slot: int) -> None:
        if slot in self._parked:
            heappush(self._parked[slot], offset)
        else:
            self._parked[slot] = [offset]
            self._marks[slot] |= PARKED

    def _take_many(self, queue: Queue, lease: Lease, room: int) -> list[Acquired]:
        """`take` for many at once: the same records."""
        import numpy as np

        offsets = np.frombuffer(queue.offsets, np.int64)[queue.head :]
        slots = np.frombuffer(queue.slots, np.uint16)[queue.head :]
        if queue.heap:
            slot_of = self._slot_of
            queue.heap.sort()
            offsets = np.concatenate((offsets, np.array(queue.heap, np.int64)))
            slots = np.concatenate((slots, np.array([slot_of(each) for each in queue.heap], np.uint16)))
            # two ascending runs: the stable sort merges them
            order = np.argsort(offsets, kind="stable")
            offsets, slots = offsets[order], slots[order]
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
        picks = np.concatenate(chosen)
        kept = np.ones(total, np.bool_)
        kept[picks] = False
        if scanned >= LEAST_SCANNED and len(picks) * SPARSE < scanned:
            again = np.flatnonzero(kept[:scanned])
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
        self._took(lease, room - left)
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
            for at in np.flatnonzero(found == BLOCKED).tolist():
                free[at] = offsets[at] < self._blocked[int(slots[at])][0]
        picks = np.flatnonzero(free)
        some = slots[picks]
        number = np.arange(len(picks), dtype=np.int32)
        scratch = _scratch()
        # of those that write to one place the last one stays, which is the first here
        scratch[some[::-1]] = number[::-1]
        found_first: NDArray[np.intp] = picks[scratch[some] == number]
        return found_first

    def _hand_out(self, offsets: NDArray[np.int64], lease: Lease) -> list[Acquired]:
        """These, ascending, are ACQUIRED under the lease from now on."""
        import numpy as np

        numbers = offsets >> SHIFT
        breaks = np.empty(len(offsets), np.bool_)
        breaks[0] = True
        np.not_equal(numbers[1:], numbers[:-1], out=breaks[1:])
        edges = [*np.flatnonzero(breaks).tolist(), len(offsets)]
        ats = offsets & MASK
        counts: NDArray[np.int64] | None = None
        for begin, end in pairwise(edges):
            chunk = self._window.chunks[int(numbers[begin])]
            here = ats[begin:end]
            np.frombuffer(chunk.state, np.uint8)[here] = ACQUIRED
            np.frombuffer(chunk.leases(), np.uint32)[here] = lease.id
            chunk.held += end - begin
            if chunk.count is not None:
                if counts is None:
                    counts = np.zeros(len(offsets), np.int64)
                kind = np.uint8 if isinstance(chunk.count, bytearray) else np.uint16
                counts[begin:end] = np.frombuffer(chunk.count, kind)[here]
        breaks[1:] |= offsets[1:] != offsets[:-1] + 1
        if counts is not None:
            breaks[1:] |= counts[1:] != counts[:-1]
        starts = np.flatnonzero(breaks)
        firsts = offsets[starts]
        lasts = offsets[np.append(starts[1:], len(offsets)) - 1]
        lease.runs.frombytes((firsts << SHIFT | (lasts - firsts)).tobytes())
        tallies = [0] * len(starts) if counts is None else counts[starts].tolist()
        return [
            _acquired(Acquired, each) for each in zip(firsts.tolist(), lasts.tolist(), tallies, strict=True)
        ]

    def has(self, consumer: str) -> bool:
        """There may be something for it."""
        place = self._owners.index.get(consumer)
        if place is None:
            return False
        queue = self._queues[place]
        return not queue.tried and len(queue) > 0

    # -- what happens to records -----------------------------------------------------------------------------

    def settled(self, chunk: Chunk, first: int, end: int) -> None:
        """[first, end) was ACQUIRED and is DONE."""
        slots, marks = chunk.slot_plane(), self._marks
        for at in range(first, end):
            slot = slots[at]
            if marks[slot] == HELD:
                marks[slot] = 0
            else:
                self._release(slot)
                self._freed(slot)

    def settled_many(self, chunk: Chunk, ats: NDArray[np.int64]) -> None:
        """`settled` for single offsets of a chunk."""
        import numpy as np

        slots = np.frombuffer(chunk.slot_plane(), np.uint16)[ats]
        marks = np.frombuffer(self._marks, np.uint8)
        found = marks[slots]
        plain = found & ~np.uint8(HELD | WAITING) == 0
        if plain.all():
            marks[slots] = 0
        else:
            marks[slots[plain]] = 0
            for slot in slots[~plain].tolist():
                self._release(slot)
                self._freed(slot)
        waiting = slots[plain & (found != HELD)]
        if len(waiting):
            # whoever owns them has something to look at again
            places = np.frombuffer(self._owners.places, np.uint16)[waiting]
            for place in set(places.tolist()):
                self._queues[place].tried = False

    def moved(self, chunk: Chunk, first: int, end: int, was: int, to: int) -> None:
        """[first, end) was in one state and is in another."""
        end = min(end, self.read - chunk.base)
        if first >= end:
            return
        if was == ACQUIRED and to == DONE:
            self.settled(chunk, first, end)
            return
        if was == AVAILABLE:
            raise AssertionError("what nobody has taken is in a queue, and stays there")
        if not self._marks:
            self._marks = bytearray(SLOTS)
        slots, marks = chunk.slot_plane(), self._marks
        for at in range(first, end):
            slot, offset = slots[at], chunk.base + at
            if was == ACQUIRED:
                self._release(slot)
            elif was >= BACKOFF and marks[slot] & BLOCKED:
                self._unblock(slot)
            if to == AVAILABLE:
                self.queued += 1
                self._offer(offset, slot)
                continue
            if _BLOCKS[to]:
                if slot in self._blocked:
                    heappush(self._blocked[slot], offset)
                else:
                    self._blocked[slot] = [offset]
                    marks[slot] |= BLOCKED
            self._freed(slot)

    def _unblock(self, slot: int) -> None:
        """Something of the slot is in nobody's way any more: let the first that still is be the first."""
        blocking, chunks = self._blocked[slot], self._window.chunks
        while blocking:
            chunk = chunks.get(blocking[0] >> SHIFT)
            if chunk is not None and _BLOCKS[chunk.state[blocking[0] & MASK]]:
                return
            heappop(blocking)
        del self._blocked[slot]
        self._marks[slot] &= ~BLOCKED

    def _release(self, slot: int) -> None:
        """One record of the slot is in nobody's hands any more."""
        mark = self._marks[slot]
        if mark & CROWDED:
            left = self._more[slot] - 1
            if left > 1:
                self._more[slot] = left
            else:
                del self._more[slot]
                self._marks[slot] = mark & ~CROWDED
            return
        self._marks[slot] = mark & ~(HELD | DRAINING)
        if mark & DRAINING:
            del self._since[slot]

    def _freed(self, slot: int) -> None:
        """Offer what waits for the slot, if that is free."""
        mark = self._marks[slot]
        if mark & HELD or not mark & (WAITING | PARKED):
            return
        queue = self._queues[self._owners.places[slot]]
        if mark & WAITING:
            self._marks[slot] = mark & ~WAITING
            queue.tried = False
        if not mark & PARKED:
            return
        waiting = self._parked[slot]
        if mark & BLOCKED and self._blocked[slot][0] < waiting[0]:
            return
        heappush(queue.heap, heappop(waiting))
        queue.tried = False
        if not waiting:
            del self._parked[slot]
            self._marks[slot] &= ~PARKED

    def _offer(self, offset: int, slot: int) -> None:
        """Into the queue of the slot's owner: this, or the earliest that is parked for the slot."""
        if self._marks[slot] & PARKED:
            offset = heappushpop(self._parked[slot], offset)
        queue = self._queues[self._owners.places[slot]]
        heappush(queue.heap, offset)
        queue.tried = False

    def rest(self) -> None:
        """Keep no flags while there is nothing to say: a table for each of thousands of idle partitions is much."""
        if self._marks and not (self.queued or self._blocked or self._window.n[ACQUIRED]):
            self._marks = bytearray()

    # -- who owns what ---------------------------------------------------------------------------------------

    def reassign(self, owners: Owners, now: int) -> None:
        """Slots have other owners from now on. What is in hand stays there."""
        self._owners = table(tuple(owners.ranges()))
        names, places = self._owners.names, self._owners.places
        waiting = [each for queue in self._queues for each in self._waiting(queue)]
        waiting.sort()
        self._queues = [Queue() for _ in names]
        for offset, slot in waiting:
            self._queues[places[slot]].add(offset, slot)
        before, self._since = self._since, {}
        for slot in before:
            self._marks[slot] &= ~DRAINING
        for slot, holder in self._in_hand().items():
            if names[places[slot]] != holder:
                self._since[slot] = before.get(slot, now)
                self._marks[slot] |= DRAINING

    def adopt(self, owners: Owners, since: dict[int, int]) -> None:
        """Go on where another dispatcher of the same records was."""
        self._owners = table(tuple(owners.ranges()))
        self._since = dict(since)
        self.rebuild()

    @property
    def since(self) -> dict[int, int]:
        """Draining slot -> since when."""
        return self._since

    def ranges(self) -> Iterable[tuple[int, int, str]]:
        """Who owns what, as a selector says it."""
        return self._owners.ranges()

    def _waiting(self, queue: Queue) -> list[tuple[int, int]]:
        """What is in a queue as (offset, slot)."""
        found = list(zip(queue.offsets[queue.head :], queue.slots[queue.head :], strict=True))
        return found + [(offset, self._slot_of(offset)) for offset in queue.heap]

    def _slot_of(self, offset: int) -> int:
        return self._window.chunks[offset >> SHIFT].slot_plane()[offset & MASK]

    def _in_hand(self) -> dict[int, str]:
        """Slot -> who has records of it in hand. Nothing keeps that: it is asked for when owners change, and by
        people.
        """
        found: dict[int, str] = {}
        for lease in self._leases.by_id.values():
            name = lease.consumer.name
            for chunk, first, end in held(self._window, lease):
                for slot in chunk.slot_plane()[first:end]:
                    if found.setdefault(slot, name) != name:
                        found[slot] = SEVERAL
        return found

    def owner_of(self, slot: int) -> str | None:
        return self._owners.owner_of(slot)

    def holder_of(self, slot: int) -> str | None:
        """Who has records of the slot in hand."""
        return self._in_hand().get(slot) if self._marks and self._marks[slot] & HELD else None

    def blocked(self, offset: int, slot: int) -> str | None:
        """Why a record that nobody has is not given to its slot's owner: a sentence, or None. For people."""
        if slot in self._blocked and self._blocked[slot][0] < offset:
            return "an earlier record of its slot was nacked or is to be dead-lettered"
        holder = self.holder_of(slot)
        if holder is not None:
            return (
                "several have records of its slot"
                if holder == SEVERAL
                else f"{holder} has a record of its slot"
            )
        place = self._owners.places[slot]
        if not place:
            return "nobody owns its slot"
        earlier = any(other < offset for other in self._parked.get(slot, ())) or any(
            other < offset and its == slot for other, its in self._waiting(self._queues[place])
        )
        return "an earlier record of its slot goes first" if earlier else None

    def draining(self) -> list[Draining]:
        """The slots whose holder does not own them any more."""
        if not self._since:
            return []
        holders = self._in_hand()
        return [
            Draining(slot, holders[slot], self.owner_of(slot), since, self._more.get(slot, 1))
            for slot, since in sorted(self._since.items())
        ]
