"""Deep slots: those with so many waiting records that they would fill the look-ahead alone.

Strict Key_Shared has one record of a slot in hand at a time. Where a key has more traffic than that allows, its
records pile up, and if all of them counted nothing would be read for anybody else. So of a slot with far more waiting
records than others only the first few stay parked. The rest is in no queue: the planes know its states and slots
anyway, and it is found there when its turn comes. Records in no queue do not count in the look-ahead.

Of a DEEP slot, `border` divides what is AVAILABLE: what lies before it is in a queue or parked (`near`), and what lies
behind it is in neither (`far`). While nothing of the slot is in hand something of it is near.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.slots import DEEP, PARKED, DeepSlot, Queue, SlotQueues
from semantics.subscriptions.states import AVAILABLE, Deep

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEPT = 8
"""Records of a deep slot that stay parked, and that come back from the planes together"""
SHARE = 64
"""A slot may have one in this many of all waiting records"""
LEAST_GROWN = 1_024
"""Records that must join the waiting ones before slots are checked again"""


class DeepSlots(SlotQueues):
    """How slots become deep, and how their records come back."""

    __slots__ = ()

    def relieve(self, ahead: int) -> None:
        """More than `ahead` records wait: make the slots deep that have most of them."""
        if self._grown >= min(LEAST_GROWN, ahead // 2) and self._grown * 8 >= self.queued:
            # without those that sank the share of another may be too large
            while self._sink() and self.queued >= ahead:
                pass

    def _sink(self) -> bool:
        """Check all waiting records. A slot becomes deep if it has more of them than twice what comes back at once,
        and more than its share of all or more than twice as many as others. Returns whether one did.
        """
        import numpy as np

        self._grown = 0
        for queue in self._queues:
            if queue.heap or queue.head:
                self._merge(queue)
        planes = [np.frombuffer(queue.slots, np.uint16)[queue.head :] for queue in self._queues]
        slots = np.sort(np.concatenate(planes), kind="stable")
        del planes  # while they are looked into, arrays do not grow
        several = 1 + int(np.count_nonzero(slots[1:] != slots[:-1])) + len(self._parked)
        most = max(2 * KEPT, min(2 * self.queued // several, self.queued // SHARE))
        found = set(slots[most:][slots[most:] == slots[:-most]].tolist())
        found.update([slot for slot, heap in self._parked.items() if len(heap) > most])
        if not found:
            return False
        chosen = np.zeros(SLOTS, np.bool_)
        chosen[list(found)] = True
        waiting: dict[int, list[int]] = {slot: sorted(self._parked.pop(slot, ())) for slot in found}
        for queue in self._queues:
            self._take_out(queue, chosen, waiting)
        for slot, offsets in waiting.items():
            self._deepen(slot, offsets)
        return True

    def _merge(self, queue: Queue) -> None:
        """Sort the records that came back or were parked into the queue."""
        offsets, slots = self._in_order(queue)
        queue.offsets, queue.slots = array("q", offsets.tobytes()), array("H", slots.tobytes())
        queue.head, queue.heap = 0, []

    def _take_out(self, queue: Queue, chosen: NDArray[np.bool_], into: dict[int, list[int]]) -> None:
        """Put what a queue has of the chosen slots into these lists, which stay ascending."""
        import numpy as np

        slots = np.frombuffer(queue.slots, np.uint16)
        out = chosen[slots]
        if not out.any():
            return
        offsets = np.frombuffer(queue.offsets, np.int64)
        for offset, slot in zip(offsets[out].tolist(), slots[out].tolist(), strict=True):
            into[slot].append(offset)
        stay = ~out
        queue.offsets, queue.slots = array("q", offsets[stay].tobytes()), array("H", slots[stay].tobytes())

    def _deepen(self, slot: int, waiting: list[int]) -> None:
        """Of a slot of which these wait, more than KEPT, and nothing is in a queue or parked by now."""
        waiting.sort()
        far = len(waiting) - KEPT
        deep = self._deep.get(slot)
        if deep is None:
            deep = self._deep[slot] = DeepSlot()
            self.queued -= len(waiting)
        deep.border = waiting[KEPT]
        deep.near = KEPT
        deep.far += far
        self._parked[slot] = waiting[:KEPT]
        self._marks[slot] |= DEEP | PARKED
        self._freed(slot)

    def _refill(self, slot: int) -> None:
        """Nothing of a DEEP slot is near: park the next ones."""
        import numpy as np

        deep = self._deep[slot]
        number = min(KEPT, deep.far)
        found: list[int] = []
        for chunk, at, stop in self._window.pieces(deep.border, self.read) if number else ():
            if chunk.slots is None:
                continue
            here = np.frombuffer(chunk.slots, np.uint16)[at:stop] == slot
            here &= np.frombuffer(chunk.state, np.uint8)[at:stop] == AVAILABLE
            ats = here.nonzero()[0][: number - len(found)]
            found += [chunk.base + at + each for each in ats.tolist()]
            if len(found) == number:
                break
        assert len(found) == number, (
            f"slot {slot}: {deep.far} lie behind {deep.border}, {len(found)} were found"
        )
        deep.near += number
        deep.far -= number
        if found:
            deep.border = found[-1] + 1
            self._parked[slot] = found
            self._marks[slot] |= PARKED
        if not deep.far:
            del self._deep[slot]
            self._marks[slot] &= ~DEEP
            self.queued += deep.near
            self._grown += deep.near

    def _shallow(self, slots: NDArray[np.uint16]) -> NDArray[np.intp]:
        """Which of these, just read, are not of DEEP slots; the others are counted."""
        import numpy as np

        deep = np.frombuffer(self._marks, np.uint8)[slots] & DEEP != 0
        its, numbers = np.unique(slots[deep], return_counts=True)
        for slot, number in zip(its.tolist(), numbers.tolist(), strict=True):
            self._deep[slot].far += number
        rest: NDArray[np.intp] = (~deep).nonzero()[0]
        return rest

    def _near_gone(self, slots: NDArray[np.uint16]) -> int:
        """One of each of these slots was taken: of how many that are DEEP."""
        import numpy as np

        deep = slots[np.frombuffer(self._marks, np.uint8)[slots] & DEEP != 0].tolist()
        for slot in deep:
            self._deep[slot].near -= 1
        return len(deep)

    def blocked(self, offset: int, slot: int) -> str | None:
        """See `Keyed.blocked`."""
        return self._how_deep(super().blocked(offset, slot), offset, slot)

    def behind(self, offset: int, slot: int) -> str | None:
        """See `Keyed.behind`."""
        return self._how_deep(super().behind(offset, slot), offset, slot)

    def _how_deep(self, reason: str | None, offset: int, slot: int) -> str | None:
        """A reason, with how many are before it."""
        if reason is None or slot not in self._deep or offset < self._deep[slot].border:
            return reason
        import numpy as np

        earlier = 0
        for chunk, at, stop in self._window.pieces(self._window.start, offset):
            if chunk.slots is not None:
                here = np.frombuffer(chunk.slots, np.uint16)[at:stop] == slot
                here &= np.frombuffer(chunk.state, np.uint8)[at:stop] == AVAILABLE
                earlier += int(np.count_nonzero(here))
        return f"{reason}; {earlier} earlier records of it wait"

    def deep(self) -> list[Deep]:
        """The slots that are deep now."""
        return [
            Deep(slot, self.owner_of(slot), each.near + each.far) for slot, each in sorted(self._deep.items())
        ]
