"""Key_Shared: which records wait for their key, told from the planes of states and slots by columns.

Walk all pieces once with `see`, then ask of each piece which of it waits. A record waits that nobody has, and whose
slot has one in hand, or an earlier one in BACKOFF or DYING, whichever of these the subscription orders by; and each
whose slot nobody owns while others own theirs. One behind an earlier one that nobody has does not: there is nothing to
wait for but a consumer that asks. `looking.blocked` counts the same, and `look` says it of one record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np

from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.states import (
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    BURYING,
    DYING,
    NUMBER,
    UNREAD,
    Ordering,
    Piece,
    Reason,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOWHERE = np.iinfo(np.int64).max
_NONE = np.full(SLOTS, NOWHERE)
_NONE.setflags(write=False)

_CORRUPT = (DYING + NUMBER[Reason.CORRUPT], BURYING + NUMBER[Reason.CORRUPT])
_FAILED = np.array([BACKOFF <= code < UNREAD and code not in _CORRUPT for code in range(256)])
"""by state: in the way of later ones of its slot; what cannot be opened has no slot"""


class Heads:
    """By slot, what others wait for."""

    def __init__(
        self, ordering: Ordering, draining: Collection[int], owned: Iterable[tuple[int, int, str]]
    ) -> None:
        """`draining`: slots of which somebody has records who does not own them. `owned`: (start, end, whose)."""
        self._ordering = ordering
        self.in_hand = _NONE
        """the first offset in hand"""
        self.failed = _NONE
        """the first that failed, and is not delivered again or buried yet"""
        self._holds = np.zeros(SLOTS, np.bool_)
        self._holds[list(draining)] = ordering.draining
        ranges = list(owned)
        self._nobodys = np.full(SLOTS, bool(ranges))
        for start, end, _ in ranges:
            self._nobodys[start:end] = False

    def see(self, piece: Piece) -> None:
        """Once of each piece, ascending."""
        if piece.slots is None:
            return
        slots, states = _columns(piece)
        at = (states == ACQUIRED).nonzero()[0]
        self.in_hand = _first(self.in_hand, slots[at], at + piece.first)
        if self._ordering.in_hand:
            self._holds[slots[at]] = True
        if self._ordering.failed:
            at = _FAILED[states].nonzero()[0]
            self.failed = _first(self.failed, slots[at], at + piece.first)

    def blocked(self, piece: Piece) -> NDArray[np.intp]:
        """Which of a piece wait for their key: their places in it, ascending."""
        if piece.slots is None:
            return np.zeros(0, np.intp)
        slots, states = _columns(piece)
        at = (states == AVAILABLE).nonzero()[0]
        its = slots[at]
        offsets = at + piece.first
        waits = self._holds[its] | self._nobodys[its] | (self.failed[its] < offsets)
        found: NDArray[np.intp] = at[waits]
        return found

    def head(self, slot: int, offset: int) -> int | None:
        """What a record that waits does wait for; None for an owner of its slot."""
        failed = int(self.failed[slot])
        if failed < offset:
            return failed
        held = int(self.in_hand[slot])
        return held if self._holds[slot] and held != NOWHERE else None


def _first(
    known: NDArray[np.int64], slots: NDArray[np.uint16], offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Note these offsets, ascending, as the first of their slots, of which nothing is known yet. A table of 512 KiB is
    made when there is something to note: of most partitions there is nothing in two of three.
    """
    if not len(slots):
        return known
    if known is _NONE:
        known = _NONE.copy()
    new = known[slots] == NOWHERE
    # of those that write to one place the last one stays, which is the first here
    known[slots[new][::-1]] = offsets[new][::-1]
    return known


def _columns(piece: Piece) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Slots and states of what was read."""
    slots = np.frombuffer(piece.slots, np.uint16) if piece.slots is not None else np.zeros(0, np.uint16)
    return slots, np.frombuffer(piece.states, np.uint8)[: len(slots)]
