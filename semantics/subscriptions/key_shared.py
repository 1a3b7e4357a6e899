"""The Key_Shared dispatcher: a slot of keys belongs to one consumer, and its records are given in their order.

Every consumer has two queues of offsets that it may take, and takes the smallest first: what was read, which ascends by
itself, and a heap of what came back or had to wait. A record whose slot is taken is put aside (parked) when it is met,
and offered again when its slot is free: under `strict` the smallest of the slot alone, since only one can be in hand.

A slot is busy
- strict: while a record of it is ACQUIRED: nothing else of it is given, to nobody; and for every record behind one
  that is in BACKOFF or DYING. What cannot be opened has no key that anybody knows, and is in nobody's way;
- not strict (Pulsar): while another consumer has records of it in hand. Such a slot is draining when its holder does
  not own it any more; then its owner waits (PIP-379);
- out of order allowed: never.
"""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from heapq import heappop, heappush, heappushpop
from typing import Protocol

from semantics.subscriptions.chunks import MASK, SHIFT, SIZE, Chunk, Window
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.leases import Lease, Leases
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

SLOTS = 65_536

_OF_CONCERN = re.compile(rb"[\x00\x01\x04-\x06\x08\x09]+")  # all but DONE, DELAYED, UNREAD, and the CORRUPT
_CORRUPT = (DYING + NUMBER[Reason.CORRUPT], BURYING + NUMBER[Reason.CORRUPT])
_BLOCKS = bytes(BACKOFF <= code < UNREAD and code not in _CORRUPT for code in range(256))
"""state -> whether, under strict, later records of its slot wait for it: what is CORRUPT has no slot"""
_acquired = tuple.__new__  # half the time of calling the class

SEVERAL = "\0several"
"""the holder of a slot of which more than one consumer has records, from when out of order was allowed"""


class Owners(Protocol):
    """Who owns which slots: what a selector says of itself."""

    def ranges(self) -> Iterable[tuple[int, int, str]]:
        """(start, end, consumer), half-open, of 65,536 slots; what is not covered is nobody's."""
        ...


@lru_cache(maxsize=64)
def _table(
    ranges: tuple[tuple[int, int, str], ...],
) -> tuple[array[int], tuple[str | None, ...], dict[str, int]]:
    """Slot -> a place, place -> consumer, consumer -> place; place 0 is nobody's. Never changed, so that the partitions
    of a subscription share it.
    """
    owner = array("H", bytes(2 * SLOTS))
    names: list[str | None] = [None]
    index: dict[str, int] = {}
    for start, end, name in ranges:
        place = index.get(name)
        if place is None:
            place = index[name] = len(names)
            names.append(name)
        owner[start:end] = array("H", (place,)) * (end - start)
    return owner, tuple(names), index


class KeyShared:
    """Which consumer may take which offsets."""

    __slots__ = (
        "_blocked",
        "_fresh",
        "_holder",
        "_index",
        "_leases",
        "_more",
        "_names",
        "_ordered",
        "_owner",
        "_parked",
        "_queues",
        "_since",
        "_strict",
        "_window",
        "queued",
        "read",
    )

    def __init__(self, window: Window, leases: Leases, config: SubscriptionConfig, read: int) -> None:
        self._window = window
        self._leases = leases
        self.read = read
        """offsets from here on were not read: their slots are not known"""
        self._owner, self._names, self._index = _table(())
        self._queues: list[list[int]] = [[]]
        self._fresh: list[deque[int]] = [deque()]
        # empty when out of order is allowed
        self._holder: dict[int, str] = {}
        """slot -> who has records of it in hand"""
        self._more: dict[int, int] = {}
        """slot -> how many, where it is more than one: under strict next to never"""
        self._blocked: dict[int, list[int]] = {}
        """strict: slot -> heap of offsets in BACKOFF or DYING; others may be among them, but are never the first"""
        self._parked: dict[int, list[int]] = {}
        """slot -> heap of the offsets that wait for it"""
        self._since: dict[int, int] = {}
        """draining slot -> since when"""
        self.queued = 0
        """offsets in queues and parked: what the look-ahead bounds"""
        self.reconfigure(config)

    # -- what may be taken -----------------------------------------------------------------------------------

    def reconfigure(self, config: SubscriptionConfig) -> None:
        """Sort everything in the window anew by the rules of this config."""
        self._ordered = not config.allow_out_of_order
        self._strict = config.strict and self._ordered
        self.rebuild()

    def rebuild(self) -> None:
        """Make the queues from the planes."""
        self._more, self._holder, self._blocked, self._parked = {}, {}, {}, {}
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
        owner, fresh = self._owner, self._fresh
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
        owner, fresh, state, slots = self._owner, self._fresh, chunk.state, chunk.slot_plane()
        for at in (at for run in _OF_CONCERN.finditer(state, first, end) for at in range(*run.span())):
            code = state[at]
            if code == AVAILABLE:
                fresh[owner[slots[at]]].append(chunk.base + at)
                self.queued += 1
            elif code == ACQUIRED:
                if self._ordered:
                    slot = slots[at]
                    name = self._leases.by_id[chunk.leases()[at]].consumer.name
                    if slot in self._holder:
                        self._more[slot] = self._more.get(slot, 1) + 1
                    if self._holder.setdefault(slot, name) != name:
                        self._holder[slot] = SEVERAL
            elif self._strict:
                # ascending, so a heap
                self._blocked.setdefault(slots[at], []).append(chunk.base + at)

    def take(self, lease: Lease, room: int) -> list[Acquired]:
        """Up to `room` of its records for this lease's consumer, ascending."""
        name = lease.consumer.name
        place = self._index.get(name)
        if place is None:
            return []
        queue, fresh, chunks = self._queues[place], self._fresh[place], self._window.chunks
        holder, more, blocked, parked = self._holder, self._more, self._blocked, self._parked
        ordered, strict, lease_id = self._ordered, self._strict, lease.id
        taken: list[Acquired] = []
        runs = lease.runs
        left = room
        number = -1
        begin = end = tally = 0  # the run under way, which stays inside of a chunk
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
            if strict:
                if slot in holder or (slot in blocked and blocked[slot][0] < offset):
                    if slot in parked:
                        heappush(parked[slot], offset)
                    else:
                        parked[slot] = [offset]
                    continue
                holder[slot] = name
            elif ordered:
                if slot not in holder:
                    holder[slot] = name
                elif holder[slot] == name:
                    more[slot] = more.get(slot, 1) + 1
                else:
                    parked.setdefault(slot, []).append(offset)
                    continue
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
        number = room - left
        lease.remaining += number
        self.queued -= number
        self._window.n[AVAILABLE] -= number
        self._window.n[ACQUIRED] += number
        return taken

    def has(self, consumer: str) -> bool:
        """There may be something for it."""
        place = self._index.get(consumer)
        return place is not None and bool(self._fresh[place] or self._queues[place])

    # -- what happens to records -----------------------------------------------------------------------------

    def settled(self, chunk: Chunk, first: int, end: int) -> None:
        """[first, end) was ACQUIRED and is DONE."""
        if not self._ordered:
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
        slots = chunk.slot_plane()
        for at in range(first, end):
            slot = slots[at]
            if was == ACQUIRED:
                if self._ordered:
                    self._let_go(slot)
            elif was >= BACKOFF and slot in self._blocked:
                self._unblock(slot)
            if to == AVAILABLE:
                self._offer(chunk.base + at, slot)
                self.queued += 1
                continue
            if was == AVAILABLE:
                raise AssertionError("what nobody has taken is in a queue, and stays there")
            if self._strict and _BLOCKS[to]:
                if slot in self._blocked:
                    heappush(self._blocked[slot], chunk.base + at)
                else:
                    self._blocked[slot] = [chunk.base + at]
            if slot in self._parked:
                self._unpark(slot)
        if to == AVAILABLE and self._ordered and not self._strict:
            for slot in set(slots[first:end]):
                if slot in self._parked:
                    self._unpark(slot)

    def _unblock(self, slot: int) -> None:
        """Something of the slot is in nobody's way any more: let the first that still is be the first."""
        blocking, chunks = self._blocked[slot], self._window.chunks
        while blocking:
            chunk = chunks.get(blocking[0] >> SHIFT)
            if chunk is not None and _BLOCKS[chunk.state[blocking[0] & MASK]]:
                return
            heappop(blocking)
        del self._blocked[slot]

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

    def _offer(self, offset: int, slot: int) -> None:
        """Into the queue of the slot's owner; under strict, the earliest that waits for the slot instead."""
        if self._strict and slot in self._parked:
            offset = heappushpop(self._parked[slot], offset)
        heappush(self._queues[self._owner[slot]], offset)

    def _unpark(self, slot: int) -> None:
        """Offer what waits for the slot, if that is free."""
        if slot in self._holder:
            return
        waiting = self._parked[slot]
        if slot in self._blocked and self._blocked[slot][0] < waiting[0]:
            return
        queue = self._queues[self._owner[slot]]
        if self._strict:
            heappush(queue, heappop(waiting))
            if not waiting:
                del self._parked[slot]
            return
        del self._parked[slot]
        for offset in waiting:
            heappush(queue, offset)

    # -- who owns what ---------------------------------------------------------------------------------------

    def reassign(self, owners: Owners, now: int) -> None:
        """Slots have other owners from now on. What is in hand stays there."""
        owner, names, index = _table(tuple(owners.ranges()))
        offsets = [offset for queue in (*self._fresh, *self._queues) for offset in queue]
        if not self._strict:
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
        self._owner, self._names, self._index = owner, names, index
        self._fresh, self._queues = fresh, [[] for _ in names]
        self._since = {
            slot: self._since.get(slot, now)
            for slot, holder in self._holder.items()
            if names[owner[slot]] != holder
        }

    def owner_of(self, slot: int) -> str | None:
        return self._names[self._owner[slot]]

    def holder_of(self, slot: int) -> str | None:
        """Who has records of the slot in hand."""
        return self._holder.get(slot)

    def blocked(self, offset: int, slot: int) -> str | None:
        """Why a record that nobody has is not given to its slot's owner: a sentence, or None. For people."""
        owner = self.owner_of(slot)
        if slot in self._blocked and self._blocked[slot][0] < offset:
            return "an earlier record of its slot was nacked or is to be dead-lettered"
        holder = self._holder.get(slot)
        if holder is not None and (self._strict or holder != owner):
            return (
                "several have records of its slot"
                if holder == SEVERAL
                else f"{holder} has a record of its slot"
            )
        if owner is None:
            return "nobody owns its slot"
        place = self._owner[slot]
        waiting = (*self._fresh[place], *self._queues[place], *self._parked.get(slot, ()))
        if any(other < offset and self._slot_of(other) == slot for other in waiting):
            return "an earlier record of its slot goes first"
        return None

    def _slot_of(self, offset: int) -> int:
        return self._window.chunks[offset >> SHIFT].slot_plane()[offset & MASK]

    def draining(self) -> list[Draining]:
        """The slots whose holder does not own them any more."""
        return [
            Draining(slot, self._holder[slot], self.owner_of(slot), since, self._more.get(slot, 1))
            for slot, since in sorted(self._since.items())
        ]

    def ranges(self) -> Iterable[tuple[int, int, str]]:
        """Who owns what, as a selector says it."""
        owner = self._owner
        start = 0
        for slot in range(1, SLOTS + 1):
            if slot == SLOTS or owner[slot] != owner[start]:
                name = self._names[owner[start]]
                if name is not None:
                    yield start, slot, name
                start = slot
