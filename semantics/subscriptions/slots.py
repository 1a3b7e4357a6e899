"""What is true of slots under strict Key_Shared, and what becomes of it when something happens to their records.

A slot is busy while a record of it is ACQUIRED, and for every record behind one that is in BACKOFF or DYING. What
cannot be opened has no known keys, and blocks no slot. Offsets of DEEP slots do not count in `queued`. What is taken:
see strict.py.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Sequence
from heapq import heappop, heappush, heappushpop
from itertools import pairwise
from typing import TYPE_CHECKING

from semantics.subscriptions.chunks import MASK, SHIFT, Chunk, Window
from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.leases import Lease, Leases, held
from semantics.subscriptions.owners import NOT_IN_THE_WAY, SEVERAL, Keyed, Owners, table
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

HELD, BLOCKED, PARKED, CROWDED, DRAINING, WAITING, DEEP = (1 << bit for bit in range(7))
"""Flags of a slot: a record of it is ACQUIRED; one is in BACKOFF or DYING; some are parked; more than one is ACQUIRED,
from when that was allowed; its holder does not own it any more; some were looked at together and left in the queue;
most of what waits of it is in the planes only (deep.py)"""

_CORRUPT = (DYING + NUMBER[Reason.CORRUPT], BURYING + NUMBER[Reason.CORRUPT])
_BLOCKS = bytes(BACKOFF <= code < UNREAD and code not in _CORRUPT for code in range(256))
"""state -> whether later records of its slot wait for it: what is CORRUPT has no slot"""


_acquired = tuple.__new__  # half the time of calling the class


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


class DeepSlot:
    """What waits of a DEEP slot: see deep.py."""

    __slots__ = ("border", "far", "near")

    def __init__(self) -> None:
        self.border = 0
        """the first offset of which nothing is in a queue or parked"""
        self.near = self.far = 0
        """how many are AVAILABLE before the border, and from it on"""


class SlotQueues(Keyed):
    """Flags of slots, the queues of their owners, and who waits for what."""

    __slots__ = (
        "_blocked",
        "_deep",
        "_grown",
        "_leases",
        "_marks",
        "_more",
        "_parked",
        "_queues",
    )

    def __init__(self, window: Window, leases: Leases, read: int) -> None:
        super().__init__(window, read)
        self._leases = leases
        self._queues = [Queue()]
        self._marks = bytearray()
        """flags by slot; nothing while there is nothing to say of any"""
        self._more: dict[int, int] = {}
        """CROWDED slot -> how many are ACQUIRED"""
        self._blocked: dict[int, list[int]] = {}
        """BLOCKED slot -> heap of offsets in BACKOFF or DYING; others may be among them, but are never the first"""
        self._parked: dict[int, list[int]] = {}
        """PARKED slot -> heap of the offsets that wait for it"""
        self._deep: dict[int, DeepSlot] = {}
        self._grown = 0
        """how many joined them since it was last looked which slots are to be DEEP"""
        self.rebuild()

    def _refill(self, slot: int) -> None:
        """Nothing of a DEEP slot is near: park the next ones."""
        raise NotImplementedError

    def _park(self, offset: int, slot: int) -> None:
        if slot in self._parked:
            heappush(self._parked[slot], offset)
        else:
            self._parked[slot] = [offset]
            self._marks[slot] |= PARKED

    # -- many at once ----------------------------------------------------------------------------------------

    def _in_order(self, queue: Queue) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
        """All of a queue, ascending: offsets and slots. While these are looked into, it cannot grow."""
        import numpy as np

        offsets = np.frombuffer(queue.offsets, np.int64)[queue.head :]
        slots = np.frombuffer(queue.slots, np.uint16)[queue.head :]
        if not queue.heap:
            return offsets, slots
        slot_of = self._slot_of
        queue.heap.sort()
        offsets = np.concatenate((offsets, np.array(queue.heap, np.int64)))
        slots = np.concatenate((slots, np.array([slot_of(each) for each in queue.heap], np.uint16)))
        # two ascending runs: the stable sort merges them
        order = np.argsort(offsets, kind="stable")
        return offsets[order], slots[order]

    def _hand_out(self, offsets: NDArray[np.int64], lease: Lease) -> list[Acquired]:
        """These, ascending, are ACQUIRED under the lease from now on."""
        firsts, lasts, counts, starts = self._hand_over(offsets, lease)
        tallies = [0] * len(starts) if counts is None else counts[starts].tolist()
        return [
            _acquired(Acquired, each) for each in zip(firsts.tolist(), lasts.tolist(), tallies, strict=True)
        ]

    def _hand_over(
        self, offsets: NDArray[np.int64], lease: Lease
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None, NDArray[np.intp]]:
        """The same: where runs begin and end, how often each of the offsets failed (None: none has), and the numbers of
        those with which runs begin.
        """
        import numpy as np

        numbers = offsets >> SHIFT
        breaks = np.empty(len(offsets), np.bool_)
        breaks[0] = True
        np.not_equal(numbers[1:], numbers[:-1], out=breaks[1:])
        edges = [*breaks.nonzero()[0].tolist(), len(offsets)]
        ats = offsets & MASK
        counts: NDArray[np.int64] | None = None
        for begin, end in pairwise(edges):
            chunk = self._window.chunks[int(numbers[begin])]
            here = ats[begin:end]
            chunk.become_many(here, ACQUIRED)
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
        starts = breaks.nonzero()[0]
        firsts = offsets[starts]
        lasts = offsets[np.append(starts[1:], len(offsets)) - 1]
        lease.runs.frombytes((firsts << SHIFT | (lasts - firsts)).tobytes())
        return firsts, lasts, counts, starts

    # -- what happens to records -----------------------------------------------------------------------------

    def settled(self, chunk: Chunk, first: int, end: int) -> None:
        """[first, end) was ACQUIRED and is DONE. A lane may hold what was not read since a load: it has no slot yet."""
        slots, marks = chunk.slot_plane(), self._marks
        for at in range(first, min(end, self.read - chunk.base)):
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
                if not marks[slot] & DEEP:
                    self.queued += 1
                    self._grown += 1
                elif offset < self._deep[slot].border:
                    self._deep[slot].near += 1
                else:
                    self._deep[slot].far += 1
                    self._freed(slot)
                    continue
                self._offer(offset, slot)
                continue
            if _BLOCKS[to]:
                if slot in self._blocked:
                    heappush(self._blocked[slot], offset)
                else:
                    self._blocked[slot] = [offset]
                    marks[slot] |= BLOCKED
            self._freed(slot)

    def entrusted(self, pieces: Sequence[tuple[Chunk, int, int]], trustee: str, now: int) -> None:
        """See `Keyed.entrusted`."""
        for chunk, first, end in pieces:
            for slot in chunk.slot_plane()[first : max(min(end, self.read - chunk.base), 0)]:
                self._since.setdefault(slot, now)
                self._marks[slot] |= DRAINING

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
        if mark & HELD or not mark & (WAITING | PARKED | DEEP):
            return
        if mark & DEEP and not self._deep[slot].near:
            self._refill(slot)
            mark = self._marks[slot]
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
        if self._marks and not (self.queued or self._deep or self._blocked or self._window.n[ACQUIRED]):
            self._marks = bytearray()

    # -- who owns what ---------------------------------------------------------------------------------------

    def reassign(self, owners: Owners, now: int) -> None:
        """Slots have other owners from now on. What is in hand stays there."""
        self._owners = table(tuple(owners.ranges()))
        places = self._owners.places
        waiting = [each for queue in self._queues for each in self._waiting(queue)]
        waiting.sort()
        self._queues = [Queue() for _ in self._owners.names]
        for offset, slot in waiting:
            self._queues[places[slot]].add(offset, slot)
        before, self._since = self._since, {}
        for slot in before:
            self._marks[slot] &= ~DRAINING
        self._drain(before, now)

    def _drain(self, since: dict[int, int], now: int) -> None:
        """Find the slots of which others than their owner have records in hand; `since` says of some from when on."""
        names, places = self._owners.names, self._owners.places
        for slot, holder in self._in_hand().items():
            if names[places[slot]] != holder:
                self._since[slot] = since.get(slot, now)
                self._marks[slot] |= DRAINING

    def _waiting(self, queue: Queue) -> list[tuple[int, int]]:
        """What is in a queue as (offset, slot)."""
        found = list(zip(queue.offsets[queue.head :], queue.slots[queue.head :], strict=True))
        return found + [(offset, self._slot_of(offset)) for offset in queue.heap]

    def _in_hand(self) -> dict[int, str]:
        """Slot -> who has records of it in hand, of what was read. Nothing keeps that: it is asked for when owners
        change, and by people.
        """
        found: dict[int, str] = {}
        for lease in self._leases.by_id.values():
            name = lease.consumer.name
            for chunk, first, end in held(self._window, lease):
                # what is held again since a load has no slot before it was read
                for slot in chunk.slot_plane()[first : max(min(end, self.read - chunk.base), 0)]:
                    if found.setdefault(slot, name) != name:
                        found[slot] = SEVERAL
        return found

    def held_up(self) -> set[int]:
        """Slots whose next record is not given to their owner: they drain, or an earlier one was nacked or dies."""
        return super().held_up() | self._blocked.keys()

    def holder_of(self, slot: int) -> str | None:
        """Who has records of the slot in hand."""
        return self._holders([slot]).get(slot) if self._marks and self._marks[slot] & HELD else None

    def _holders(self, slots: Collection[int]) -> dict[int, str]:
        """The same as `_in_hand` of these slots alone: the planes are looked through, and no lease record by record."""
        import numpy as np

        wanted = np.zeros(SLOTS, np.bool_)
        wanted[list(slots)] = True
        found: dict[int, str] = {}
        for chunk in self._window.chunks.values():
            if not chunk.held or chunk.base >= self.read:
                continue
            states = np.frombuffer(chunk.state, np.uint8)[: self.read - chunk.base]
            ats = (states == ACQUIRED).nonzero()[0]
            its = np.frombuffer(chunk.slot_plane(), np.uint16)[ats]
            ats = ats[wanted[its]]
            leases = chunk.leases()
            for slot, lease in {(chunk.slot_plane()[at], leases[at]) for at in ats.tolist()}:
                name = self._leases.by_id[lease].consumer.name
                if found.setdefault(slot, name) != name:
                    found[slot] = SEVERAL
        return found

    def blocked(self, offset: int, slot: int) -> str | None:
        """See `Keyed.blocked`."""
        if slot in self._blocked and self._blocked[slot][0] < offset:
            return "an earlier record of its slot was nacked or is to be dead-lettered"
        holder = self.holder_of(slot)
        if holder is not None:
            return (
                "several have records of its slot"
                if holder == SEVERAL
                else f"{holder} has a record of its slot"
            )
        return "nobody owns its slot" if self.nobodys(slot) else None

    def behind(self, offset: int, slot: int) -> str | None:
        """See `Keyed.behind`: one at a time is given of a slot."""
        earlier = any(other < offset for other in self._parked.get(slot, ())) or self._has_before(
            self._queues[self._owners.places[slot]], slot, offset
        )
        return "an earlier record of its slot goes first" if earlier else None

    def in_the_way(self) -> NDArray[np.int64] | None:
        """Of slots of which a record is in somebody's hands, 0; of those with one in BACKOFF or DYING, its offset."""
        if not self._marks:
            return None
        import numpy as np

        found = np.full(SLOTS, NOT_IN_THE_WAY, np.int64)
        for slot, heap in self._blocked.items():
            found[slot] = heap[0]
        found[self._busy()] = 0
        return found

    def _busy(self) -> NDArray[np.intp]:
        """The slots of which nothing is given to anybody."""
        import numpy as np

        return (np.frombuffer(self._marks, np.uint8) & HELD).nonzero()[0]

    def _has_before(self, queue: Queue, slot: int, offset: int) -> bool:
        """Whether something of a slot lies in a queue before an offset."""
        import numpy as np

        end = bisect_left(queue.offsets, offset, queue.head)
        if bool((np.frombuffer(queue.slots, np.uint16)[queue.head : end] == slot).any()):
            return True
        return any(other < offset and self._slot_of(other) == slot for other in queue.heap)

    def draining(self) -> list[Draining]:
        """The slots whose holder does not own them any more."""
        if not self._since:
            return []
        holders = self._holders(self._since)
        return [
            Draining(slot, holders[slot], self.owner_of(slot), since, self._more.get(slot, 1))
            for slot, since in sorted(self._since.items())
        ]
