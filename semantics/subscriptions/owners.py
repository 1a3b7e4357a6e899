"""Who owns which slots, as the dispatchers of Key_Shared keep it: a table of 65,536 places. And what the two of them
have in common.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from semantics.subscriptions.chunks import MASK, SHIFT, Chunk, Window
from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.leases import Lease
from semantics.subscriptions.states import ACQUIRED, AVAILABLE, Acquired
from semantics.taken import Taken

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEVERAL = "\0several"
"""the holder of a slot of which more than one consumer has records, from when out of order was allowed"""


class Owners(Protocol):
    """Who owns which slots: what a selector says of itself."""

    def ranges(self) -> Iterable[tuple[int, int, str]]:
        """(start, end, consumer), half-open, of 65,536 slots; what is not covered is nobody's."""
        ...


class Table:
    """Slot -> a place, place -> consumer, consumer -> place; place 0 is nobody's. Never changed, so that the
    partitions of a subscription share it.
    """

    __slots__ = ("_ranges", "_unowned", "index", "names", "places")

    def __init__(self, ranges: Iterable[tuple[int, int, str]]) -> None:
        self.places = array("H", bytes(2 * SLOTS))
        names: list[str | None] = [None]
        self.index: dict[str, int] = {}
        for start, end, name in ranges:
            place = self.index.get(name)
            if place is None:
                place = self.index[name] = len(names)
                names.append(name)
            self.places[start:end] = array("H", (place,)) * (end - start)
        self.names = tuple(names)
        self._ranges: tuple[tuple[int, int, str], ...] | None = None
        self._unowned: NDArray[np.intp] | None = None

    def owner_of(self, slot: int) -> str | None:
        return self.names[self.places[slot]]

    def unowned(self) -> NDArray[np.intp] | None:
        """The slots that nobody owns while others own theirs; None for none."""
        if self._unowned is None:
            import numpy as np

            free = (np.frombuffer(self.places, np.uint16) == 0).nonzero()[0]
            self._unowned = free if len(self.names) > 1 else free[:0]
        return self._unowned if len(self._unowned) else None

    def ranges(self) -> tuple[tuple[int, int, str], ...]:
        """As a selector says it. Found once: pages ask for it of each partition."""
        if self._ranges is None:
            import numpy as np

            places = np.frombuffer(self.places, np.uint16)
            borders = [0, *((places[1:] != places[:-1]).nonzero()[0] + 1).tolist(), SLOTS]
            self._ranges = tuple(
                (start, end, name)
                for start, end in pairwise(borders)
                if (name := self.names[self.places[start]]) is not None
            )
        return self._ranges


@lru_cache(maxsize=64)
def table(ranges: tuple[tuple[int, int, str], ...]) -> Table:
    """The table of these ranges, one for all who ask."""
    return Table(ranges)


NOT_IN_THE_WAY = (1 << 63) - 1


class Keyed:
    """A dispatcher whose records go to the owners of their slots."""

    __slots__ = ("_owners", "_since", "_window", "queued", "read")

    def __init__(self, window: Window, read: int) -> None:
        self._window = window
        self.read = read
        """offsets from here on were not read: their slots are not known"""
        self._owners = table(())
        self._since: dict[int, int] = {}
        """draining slot -> since when"""
        self.queued = 0
        """offsets that wait in queues or parked: what the look-ahead bounds"""

    def rebuild(self) -> None:
        """Make the queues from the planes."""
        raise NotImplementedError

    def held_up(self) -> set[int]:
        """Slots whose next record is not given to their owner: they drain."""
        return set(self._since)

    def take(self, lease: Lease, room: int) -> list[Acquired]:
        """Up to `room` of its records for this lease's consumer, ascending."""
        raise NotImplementedError

    def take_many(self, lease: Lease, room: int) -> Taken | None:
        """The same by columns, None for nothing."""
        return Taken.of(self.take(lease, room))

    def adopt(self, owners: Owners, since: dict[int, int]) -> None:
        """Go on where another dispatcher of the same records was."""
        self._owners = table(tuple(owners.ranges()))
        self._since = dict(since)
        self.rebuild()

    def _took(self, lease: Lease, number: int, queued: int) -> None:
        """`number` records are ACQUIRED under the lease; `queued` of them counted in the look-ahead."""
        lease.remaining += number
        lease.consumer.in_hand += number
        self.queued -= queued
        n = self._window.n
        n[AVAILABLE] -= number
        n[ACQUIRED] += number

    def entrusted(self, pieces: Sequence[tuple[Chunk, int, int]], trustee: str, now: int) -> None:
        """[first, end) of chunks are in the hands of a trustee now, who owns no slot: what was read of them drains."""
        raise NotImplementedError

    @property
    def since(self) -> dict[int, int]:
        """Draining slot -> since when."""
        return self._since

    def owner_of(self, slot: int) -> str | None:
        return self._owners.owner_of(slot)

    def place_of(self, consumer: str) -> int:
        """A number for who owns slots, as `places` has it; 0 for who owns none."""
        return self._owners.index.get(consumer, 0)

    def places(self, slots: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Of each of these slots whose it is; 0 for nobody's."""
        import numpy as np

        return np.frombuffer(self._owners.places, np.uint16)[slots]

    def ranges(self) -> Iterable[tuple[int, int, str]]:
        """Who owns what, as a selector says it."""
        return self._owners.ranges()

    def blocked(self, offset: int, slot: int) -> str | None:
        """Why a record that nobody has is not given to its slot's owner, whatever that asks for: a sentence, or None.
        For people.
        """
        raise NotImplementedError

    def behind(self, offset: int, slot: int) -> str | None:
        """Why one that is not blocked is not the next of its slot: a sentence, or None. For people."""
        return None

    def nobodys(self, slot: int) -> bool:
        """Whether nobody owns a slot while others own theirs."""
        return len(self._owners.names) > 1 and not self._owners.places[slot]

    def unowned(self) -> NDArray[np.intp] | None:
        """The slots that nobody owns while others own theirs; None for none."""
        return self._owners.unowned()

    def in_the_way(self) -> NDArray[np.int64] | None:
        """Of each slot the first offset from which on nothing of it is given to its owner, since other records of it
        are in the way; NOT_IN_THE_WAY of the others. None where that is so of all.
        """
        raise NotImplementedError

    def _slot_of(self, offset: int) -> int:
        return self._window.chunks[offset >> SHIFT].slot_plane()[offset & MASK]
