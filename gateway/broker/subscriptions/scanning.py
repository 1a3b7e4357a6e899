"""What a dispatcher must know of a stored batch: slots of its keys, delays, tries. Looked for once, then remembered.

A batch that several subscriptions read is opened once for them all, as long as what was found is among the last
`cache_bytes`. Nothing is remembered of what costs nothing to find. Batches of Key_Shared stay open for a while, as far
as `opened_bytes` go: each of its consumers takes a few records of each. So do those with many delays, which are found
a part at a time: others are served in between. What would take the loop many milliseconds is opened in a thread.
Batches of which some records are sent now and some later, as they fall due, are in `kept.py`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gateway.broker.subscriptions.kept import Kept
from gateway.wire import delivery
from gateway.wire.delays import Delays, Finder
from gateway.wire.delivery import Opened, Scan, TooLarge, Unreadable
from gateway.wire.folded import Folded
from gateway.wire.searching import holds
from semantics.subscriptions.hashing import slot_of
from store.api import Buffer

if TYPE_CHECKING:
    from gateway.broker.subscriptions.stored import Stored
    from semantics.subscriptions.states import Acquired

CACHE_BYTES = 16 * 1024 * 1024
OPENED_BYTES = 24 * 1024 * 1024

PART = 1000
"""Delays that are found, and told to a cursor, in one go."""

AT_ONCE = 4 * 1024 * 1024
"""Bytes that a batch may unfold to on the loop: beyond, a thread opens it."""
LARGE = 512 * 1024
"""Compressed bytes from which on a thread opens a batch without a look at what it unfolds to."""
MANY_KEYS, MANY_TRIES = 10_000, 2_000
"""Records of a batch from which on a thread looks for all their keys, or at all their headers."""

_WORK = 4 * 1024 * 1024
"""Bytes that are unfolded in one turn of the loop to send records of batches: some milliseconds' work."""
_CUT = 16 * 1024
"""To make a batch of some records of one that is open takes as long as to unfold so many bytes."""

_ENTRY_BYTES = 400
# where each record ends, and when it was made
_RECORD_BYTES = 24
_WALK_BYTES = 64
"""To find where a record begins takes as long as to unfold so many bytes, or longer."""
_DELAY_BYTES = 24
_CODEC = 0x07

Key = tuple[int, int, bool, bool]
"""Partition, base offset, whether keys are asked for, whether it is a RETRY topic."""


class Scanned(Protocol):
    """Where a batch is read."""

    @property
    def id(self) -> int:
        """The store's id of the partition."""
        ...

    @property
    def retries(self) -> bool:
        """Whether it is a RETRY topic, whose records say how often they were tried."""
        ...


class Begun(NamedTuple):
    """A batch that was looked at; with many delays only at its first ones."""

    opened: Opened
    scan: Scan
    finder: Finder | None


class Scanner:
    """One for all subscriptions."""

    def __init__(
        self,
        limit: int,
        cache_bytes: int = CACHE_BYTES,
        opened_bytes: int = OPENED_BYTES,
        kept: Kept | None = None,
    ) -> None:
        """`limit`: bytes that a batch may unfold to."""
        self._limit = limit
        self._room = cache_bytes
        self._opened: OrderedDict[tuple[int, int], Opened] = OrderedDict()
        self._opened_bytes = self._opened_room = opened_bytes
        # partition -> base offsets of the batches that are open, ascending
        self._bases: dict[int, list[int]] = {}
        self._slots = delivery.Slots(slot_of)
        self._found: OrderedDict[Key, Scan | Unreadable] = OrderedDict()
        # of those with more delays than were looked for
        self._finders: dict[Key, Finder] = {}
        # one at a time: each may take the limit
        self._thread = asyncio.Lock()
        # batches that are asked for scattered records
        self.kept = kept if kept is not None else Kept()
        self.bytes = 0
        self.hits = self.misses = 0
        # how often a batch was opened to send some of its records
        self.openings = 0
        # work of that kind since others had their turn, in bytes
        self._work = 0
        # True while `_rest` is on its way
        self._resting = False

    def look(self, at: Scanned, batch: Stored, keys: bool, first: int = 0, wall: int = 0) -> Scan:
        """What it says of its records. Delays that are over at `wall` may be left out, and are known up to some offset
        beyond `first`: see Scan.reached. Raises Unreadable.
        """
        key = (at.id, batch.base, keys, at.retries)
        known = self._found.get(key)
        if known is None:
            known = self._begin_now(key, batch, wall, self._limit)
        else:
            self._found.move_to_end(key)
            self.hits += 1
        if isinstance(known, Unreadable):
            raise type(known)(str(known))
        if known.reached is not None and first >= known.reached:
            return self._go_on(key, known, batch, first, wall)
        return known

    def at_hand(self, at: Scanned, batch: Stored, keys: bool, first: int, wall: int) -> bool:
        """Whether `look` takes no more than some milliseconds; else wait for `prepare` before."""
        key = (at.id, batch.base, keys, at.retries)
        known = self._found.get(key)
        compressed = batch.attributes & _CODEC
        if known is not None:
            return (
                isinstance(known, Unreadable)
                or known.reached is None
                or first < known.reached
                or key[:2] in self._opened
                or not compressed
            )
        if (keys and batch.count > MANY_KEYS) or (at.retries and batch.count > MANY_TRIES):
            return False
        if not compressed or self._limit <= AT_ONCE:
            return True
        if batch.size > LARGE:
            return False
        # Few bytes may be many, and there is no telling before.
        return not isinstance(self._begin_now(key, batch, wall, AT_ONCE), TooLarge)

    async def prepare(self, at: Scanned, batch: Stored, keys: bool, wall: int) -> list[Buffer]:
        """Look at it in a thread, for the next `look` of it. Gives nothing."""
        key = (at.id, batch.base, keys, at.retries)
        # what was read may be a large piece that this would keep
        raw = bytes(batch.raw())
        async with self._thread:
            if key not in self._found or key in self._finders:
                run = asyncio.get_running_loop().run_in_executor
                begun = await run(None, self._begin, raw, keys, at.retries, wall, self._limit)
                if key in self._finders and isinstance(begun, Begun):
                    self._keep_open(key, begun.opened)
                else:
                    self._keep(key, begun)
        return []

    def subset(self, at: Scanned, batch: Stored, ranges: Sequence[tuple[int, int]]) -> Buffer:
        """A batch of only these records: see `Opened.subset`. One that unfolds to very much stays as it is. Raises
        Unreadable.
        """
        key = (at.id, batch.base)
        opened = self._opened.get(key)
        if opened is not None and opened.header.size == batch.size:
            return opened.subset(ranges)
        known = self.kept.find(key, batch.size)
        if isinstance(known, Folded):
            part = known.part(ranges)
        else:
            self.openings += 1
            try:
                opened = Opened(batch.raw(), min(self._limit, AT_ONCE), known)
            except TooLarge:
                self._work += AT_ONCE
                return batch.raw()
            self._work += len(opened.payload) + (opened.header.count * _WALK_BYTES if known is None else 0)
            part = opened.part(ranges)
            if known is None:
                self.kept.keep(key, opened)
        self.kept.sent(key, sum([last - first for first, last in ranges]) + len(ranges))
        return batch.raw() if part is None else part

    def holding(self, at: Scanned, offset: int) -> Opened | None:
        """The batch that holds an offset, if it is open."""
        bases = self._bases.get(at.id)
        place = bisect_right(bases, offset) if bases is not None else 0
        if place and bases is not None:
            opened = self._opened[at.id, bases[place - 1]]
            if offset <= opened.header.last_offset:
                return opened
        return self.kept.holding(at.id, offset)

    def kept_bytes(self) -> tuple[int, int, int, int]:
        """Bytes of what was found, of open batches, of those kept for scattered records; openings for these."""
        return self.bytes, self._opened_bytes - self._opened_room, self.kept.bytes, self.openings

    def cut(self, opened: Opened, ranges: Sequence[Acquired]) -> Buffer:
        """A batch of only these records of one that is open. Raises Unreadable."""
        self._work += _CUT
        return opened.cut(ranges)

    def spent(self) -> bool:
        """Whether so much was unfolded in this turn of the loop that others have theirs before there is more of it."""
        if self._work and not self._resting:
            self._resting = True
            asyncio.get_running_loop().call_soon(self._rest)
        return self._work >= _WORK

    def _rest(self) -> None:
        """Others have had their turn."""
        self._work = 0
        self._resting = False

    # -- looking --------------------------------------------------------------------------------------------------

    def _begin(self, raw: Buffer, keys: bool, retries: bool, wall: int, limit: int) -> Begun | Unreadable:
        """Open a batch and look at it. In a thread, too: nothing is changed but the memory of keys."""
        slots = self._slots if keys else None
        finder: Finder | None = None
        try:
            opened = Opened(raw, limit)
            if retries or opened.header.count <= PART or not holds(opened.payload, delivery.DELAY_MARK):
                return Begun(opened, delivery.scan(opened, slots=slots, retry=retries), None)
            scan = delivery.scan(opened, slots=slots, delays=False)
            if scan.gaps:
                return Begun(opened, scan._replace(delayed=delivery.scan(opened).delayed), None)
            finder, delays = Finder(opened.header), Delays()
            finder.more(opened.payload, delays, PART, wall)
        except Unreadable as error:
            return error
        scan = scan._replace(delayed=delays, reached=None if finder.done else finder.reached)
        return Begun(opened, scan, None if finder.done else finder)

    def _begin_now(self, key: Key, batch: Stored, wall: int, limit: int) -> Scan | Unreadable:
        self.misses += 1
        _, _, keys, retries = key
        # bytes of its own, if they are kept: what was read may be a large piece that this would keep
        begun = self._begin(bytes(batch.raw()) if keys else batch.raw(), keys, retries, wall, limit)
        if isinstance(begun, TooLarge) and limit < self._limit:
            return begun
        if isinstance(begun, Begun) and begun.finder is not None and not keys:
            begun.opened.batch = bytes(begun.opened.batch)
        return self._keep(key, begun)

    def _go_on(self, key: Key, known: Scan, batch: Stored, first: int, wall: int) -> Scan:
        """Find the delays of the next part."""
        finder = self._finders[key]
        opened = self._opened.get(key[:2])
        try:
            if opened is None:
                opened = Opened(bytes(batch.raw()), self._limit)
                self._keep_open(key, opened)
            before = len(known.delayed)
            while first >= finder.reached and not finder.done:
                finder.more(opened.payload, known.delayed, PART, wall)
        except Unreadable as error:
            self._forget(key)
            self._keep(key, error)
            raise
        self.bytes += (len(known.delayed) - before) * _DELAY_BYTES
        known = known._replace(reached=None if finder.done else finder.reached)
        self._found[key] = known
        if finder.done:
            del self._finders[key]
        self._shrink()
        return known

    # -- remembering ----------------------------------------------------------------------------------------------

    def _keep(self, key: Key, begun: Begun | Unreadable) -> Scan | Unreadable:
        if key in self._found:
            self._forget(key)
        found = begun.scan if isinstance(begun, Begun) else begun
        self._found[key] = found
        self.bytes += _cost(found)
        if isinstance(begun, Begun):
            if begun.finder is not None:
                self._finders[key] = begun.finder
            if begun.finder is not None or key[2]:
                self._keep_open(key, begun.opened)
        self._shrink()
        return found

    def _keep_open(self, key: Key, opened: Opened) -> None:
        kept = self._opened
        before = kept.pop(key[:2], None)
        kept[key[:2]] = opened
        if before is None:
            insort(self._bases.setdefault(key[0], []), key[1])
        self._opened_room -= _size(opened) - (_size(before) if before is not None else 0)
        while self._opened_room < 0 and len(kept) > 1:
            (partition, base), old = kept.popitem(last=False)
            self._opened_room += _size(old)
            bases = self._bases[partition]
            del bases[bisect_left(bases, base)]
            if not bases:
                del self._bases[partition]

    def _shrink(self) -> None:
        # the last one is in use
        while self.bytes > self._room and len(self._found) > 1:
            self._forget(next(iter(self._found)))

    def _forget(self, key: Key) -> None:
        self.bytes -= _cost(self._found.pop(key))
        self._finders.pop(key, None)


def _size(opened: Opened) -> int:
    return opened.header.size + len(opened.payload) + opened.header.count * _RECORD_BYTES + _ENTRY_BYTES


def _cost(found: Scan | Unreadable) -> int:
    if isinstance(found, Unreadable):
        return _ENTRY_BYTES
    slots = 2 * len(found.slots) if found.slots is not None else 0
    others = 100 * (len(found.reconsumed) + len(found.gaps))
    return _ENTRY_BYTES + slots + _DELAY_BYTES * len(found.delayed) + others
