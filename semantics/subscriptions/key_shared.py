"""The Key_Shared dispatcher when it is not strict: a slot of keys belongs to one consumer, and is read in its order.

Every consumer has two queues of offsets that it may take, and takes the smallest first: what was read, which ascends by
itself, and a heap of what came back or had to wait. A record whose slot is busy is put aside (parked) when it is met,
and offered again when its slot is free.

A slot is busy
- while another consumer has records of it in hand. Such a slot is draining when its holder does not own it any more;
  then its owner waits (Pulsar, PIP-379);
- out of order allowed: never;
- strict: see strict.py.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from semantics.subscriptions.chunks import MASK, SHIFT, SIZE, Chunk, Window
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.leases import Lease, Leases
from semantics.subscriptions.owners import NOT_IN_THE_WAY, SEVERAL, Keyed, Owners, table
from semantics.subscriptions.states import ACQUIRED, AVAILABLE, BEFORE, DONE, Acquired, Draining, no_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_OF_CONCERN = re.compile(rb"[\x00\x01]+")  # AVAILABLE and ACQUIRED
_acquired = tuple.__new__  # half the time of calling the class


class KeyShared(Keyed):
    """Which consumer may take which offsets."""

    __slots__ = (
        "_fresh",
        "_holder",
        "_leases",
        "_more",
        "_ordered",
        "_parked",
        "_queues",
    )

    def __init__(self, window: Window, leases: Leases, config: SubscriptionConfig, read: int) -> None:
        super().__init__(window, read)
        self._leases = leases
        self._queues: list[list[int]] = [[]]
        self._fresh: list[deque[int]] = [deque()]
        # empty when out of order is allowed
        self._holder: dict[int, str] = {}
        """slot -> who has records of it in hand"""
        self._more: dict[int, int] = {}
        """slot -> how many, where it is more than one"""
        self._parked: dict[int, list[int]] = {}
        """slot -> heap of the offsets that wait for it"""
        self._ordered = not config.allow_out_of_order
        self.rebuild()

    # -- what may be taken -----------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Make the queues from the planes."""
        self._more, self._holder, self._parked = {}, {}, {}
        for place, queue in enumerate(self._queues):
            queue.clear()
            self._fresh[place].clear()
        self.queued = 0
        for number in sorted(self._window.chunks):
            chunk = self._window.chunks[number]
            if chunk.base >= self.read:
                break
            self._sort_in(chunk, 0, min(self.read - chunk.base, SIZE))
        self._since = {slot: since for slot, since in self._since.items() if slot in self._holder}

    def fed(self, first: int, end: int, slots: Sequence[int]) -> None:
        """[first, end) was read, and these are its slots."""
        owner, fresh = self._owners.places, self._fresh
        begin = first
        for chunk, at, stop in self._window.pieces(first, end):
            base = chunk.base
            some = slots[base + at - begin : base + stop - begin]
            chunk.slot_plane()[at:stop] = some if isinstance(some, array) else array("H", some)
            if chunk.state.count(AVAILABLE, at, stop) == stop - at:
                for offset, place in zip(
                    range(base + at, base + stop), map(owner.__getitem__, some), strict=True
                ):
                    fresh[place].append(offset)
                self.queued += stop - at
            else:
                self._sort_in(chunk, at, stop)
        self.read = end

    def _sort_in(self, chunk: Chunk, first: int, end: int) -> None:
        """Put what a chunk has where it belongs; nothing of it is anywhere yet."""
        owner, fresh, state, slots = self._owners.places, self._fresh, chunk.state, chunk.slot_plane()
        for at in (at for run in _OF_CONCERN.finditer(state, first, end) for at in range(*run.span())):
            code = state[at]
            if code == AVAILABLE:
                fresh[owner[slots[at]]].append(chunk.base + at)
                self.queued += 1
            elif self._ordered:
                slot = slots[at]
                name = self._leases.by_id[chunk.leases()[at]].consumer.name
                if slot in self._holder:
                    self._more[slot] = self._more.get(slot, 1) + 1
                if self._holder.setdefault(slot, name) != name:
                    self._holder[slot] = SEVERAL
                if name != self.owner_of(slot):
                    self._since.setdefault(slot, 0)

    def take(self, lease: Lease, room: int) -> list[Acquired]:
        """Up to `room` of its records for this lease's consumer, ascending."""
        name = lease.consumer.name
        place = self._owners.index.get(name)
        if place is None:
            return []
        queue, fresh, chunks = self._queues[place], self._fresh[place], self._window.chunks
        holder, more, parked = self._holder, self._more, self._parked
        ordered, lease_id, before = self._ordered, lease.id, BEFORE[ACQUIRED]
        taken: list[Acquired] = []
        runs = lease.runs
        left = room
        number = -1
        begin = end = tally = 0  # the run under way, which stays inside of a chunk
        # the end of this loop stands in strict.py, too: a function for it would be a call for each record
        while left:
            if fresh and (not queue or fresh[0] < queue[0]):
                offset = fresh.popleft()
            elif queue:
                offset = heappop(queue)
            else:
                break
            if offset >> SHIFT != number:
                number = offset >> SHIFT
                chunk = chunks[number]
                state, leases, slots, counts = chunk.state, chunk.leases(), chunk.slot_plane(), chunk.count
            at = offset & MASK
            slot = slots[at]
            if ordered:
                if slot not in holder:
                    holder[slot] = name
                elif holder[slot] == name:
                    more[slot] = more.get(slot, 1) + 1
                else:
                    parked.setdefault(slot, []).append(offset)
                    continue
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
        self._took(lease, room - left, room - left)
        return taken

    def has(self, consumer: str) -> bool:
        """There may be something for it."""
        place = self._owners.index.get(consumer)
        return place is not None and bool(self._fresh[place] or self._queues[place])

    # -- what happens to records -----------------------------------------------------------------------------

    def settled(self, chunk: Chunk, first: int, end: int) -> None:
        """[first, end) was ACQUIRED and is DONE. What was not read since a load has no slot yet."""
        end = min(end, self.read - chunk.base)
        if not self._ordered or first >= end:
            return
        slots = chunk.slot_plane()
        parked = self._parked
        if self._more or self._since:
            for slot in slots[first:end]:
                self._let_go(slot)
                if slot in parked:
                    self._unpark(slot)
            return
        holder = self._holder
        for at in range(first, end):
            slot = slots[at]
            del holder[slot]
            if slot in parked:
                self._unpark(slot)

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
        slots = chunk.slot_plane()
        owner, queues, parked = self._owners.places, self._queues, self._parked
        for at in range(first, end):
            slot = slots[at]
            if was == ACQUIRED and self._ordered:
                self._let_go(slot)
            if to == AVAILABLE:
                heappush(queues[owner[slot]], chunk.base + at)
                self.queued += 1
            elif slot in parked:
                self._unpark(slot)
        if to == AVAILABLE and self._ordered:
            for slot in set(slots[first:end]):
                if slot in parked:
                    self._unpark(slot)

    def entrusted(self, pieces: Sequence[tuple[Chunk, int, int]], trustee: str, now: int) -> None:
        """See `Keyed.entrusted`."""
        if not self._ordered:
            return
        moved: Counter[int] = Counter()
        for chunk, first, end in pieces:
            moved.update(chunk.slot_plane()[first : max(min(end, self.read - chunk.base), 0)])
        for slot, number in moved.items():
            all_of_it = number == self._more.get(slot, 1) or self._holder[slot] == trustee
            self._holder[slot] = trustee if all_of_it else SEVERAL
            self._since.setdefault(slot, now)

    def _let_go(self, slot: int) -> None:
        """One record of the slot is in nobody's hands any more."""
        left = self._more.get(slot, 1) - 1
        if left > 1:
            self._more[slot] = left
        elif left == 1:
            del self._more[slot]
        else:
            del self._holder[slot]
            self._since.pop(slot, None)

    def _unpark(self, slot: int) -> None:
        """Offer what waits for the slot, if that is free."""
        if slot in self._holder:
            return
        queue = self._queues[self._owners.places[slot]]
        for offset in self._parked.pop(slot):
            heappush(queue, offset)

    # -- who owns what ---------------------------------------------------------------------------------------

    def reassign(self, owners: Owners, now: int) -> None:
        """Slots have other owners from now on. What is in hand stays there."""
        self._owners = table(tuple(owners.ranges()))
        owner, names = self._owners.places, self._owners.names
        offsets = [offset for queue in (*self._fresh, *self._queues) for offset in queue]
        # the slot's holder may be its owner again
        offsets.extend(offset for waiting in self._parked.values() for offset in waiting)
        self._parked.clear()
        offsets.sort()
        fresh: list[deque[int]] = [deque() for _ in names]
        number = -1
        for offset in offsets:
            if offset >> SHIFT != number:
                number = offset >> SHIFT
                slots = self._window.chunks[number].slot_plane()
            fresh[owner[slots[offset & MASK]]].append(offset)
        self._fresh, self._queues = fresh, [[] for _ in names]
        self._since = {
            slot: self._since.get(slot, now)
            for slot, holder in self._holder.items()
            if names[owner[slot]] != holder
        }

    def adopt(self, owners: Owners, since: dict[int, int]) -> None:
        """Go on where another dispatcher of the same records was."""
        names = table(tuple(owners.ranges())).names
        self._fresh = [deque() for _ in names]
        self._queues = [[] for _ in names]
        super().adopt(owners, since)

    def holder_of(self, slot: int) -> str | None:
        """Who has records of the slot in hand."""
        return self._holder.get(slot)

    def blocked(self, offset: int, slot: int) -> str | None:
        """See `Keyed.blocked`."""
        owner = self.owner_of(slot)
        holder = self._holder.get(slot)
        if holder is not None and holder != owner:
            return (
                "several have records of its slot"
                if holder == SEVERAL
                else f"{holder} has a record of its slot"
            )
        return "nobody owns its slot" if self.nobodys(slot) else None

    def in_the_way(self) -> NDArray[np.int64] | None:
        """Of slots that another consumer than their owner has records of, 0."""
        busy = [slot for slot in self._since if self._holder.get(slot) != self.owner_of(slot)]
        if not busy:
            return None
        import numpy as np

        found = np.full(SLOTS, NOT_IN_THE_WAY, np.int64)
        found[busy] = 0
        return found

    def draining(self) -> list[Draining]:
        """The slots whose holder does not own them any more."""
        return [
            Draining(slot, self._holder[slot], self.owner_of(slot), since, self._more.get(slot, 1))
            for slot, since in sorted(self._since.items())
        ]

    def rest(self) -> None:
        """Nothing to free: there are no flags."""

    def relieve(self, ahead: int) -> None:
        """No deep slots here: a consumer may hold many records of a slot, so none waits for long."""
