"""Key_Shared: which slots hold records up, and how many: counted by columns, the slots that hold up most first."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from semantics.subscriptions.hashing import SLOTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from semantics.console.blocking import Heads
    from semantics.subscriptions.states import Piece

STEP = 4
"""Pieces, of up to 1,024 offsets, between two stops."""


class Held(NamedTuple):
    """A slot that holds records up."""

    slot: int
    number: int
    oldest: int
    """the first record that waits"""
    head: int | None
    """what they wait for; None: for somebody to own the slot"""


class HeldUp(NamedTuple):
    """All slots that do."""

    slots: int
    number: int
    """how many records they hold up"""
    most: list[Held]


def held_up(pieces: Iterable[Piece], heads: Heads, most: int) -> Generator[None, None, HeldUp]:
    """Of ascending pieces: the `most` slots that hold up most."""
    tally = _Tally()
    for number, piece in enumerate(pieces, 1):
        if number % STEP == 0:
            tally.settle()
            yield
        at = heads.blocked(piece)
        if piece.slots is not None and len(at):
            tally.waiting.append((np.frombuffer(piece.slots, np.uint16)[at], at + piece.first))
    slots, counts, oldest = tally.end()
    order = np.lexsort((slots, -counts))[:most]
    found = [
        Held(slot, number, first, heads.head(slot, first))
        for slot, number, first in zip(
            slots[order].tolist(), counts[order].tolist(), oldest[order].tolist(), strict=True
        )
    ]
    return HeldUp(len(slots), int(counts.sum()), found)


_Found: TypeAlias = "tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]"
"""Slots, ascending; how many wait in each, and the first of these."""


class _Tally:
    """What waits by slot. Tables of all slots, of 512 KiB each, are made when a few pieces are not all there is."""

    def __init__(self) -> None:
        self.waiting: list[tuple[NDArray[np.uint16], NDArray[np.int64]]] = []
        """slots and offsets of some pieces, ascending"""
        self._first: _Found | None = None
        self._counts: NDArray[np.int64] | None = None
        # the first that waits, and one more: 0 is none
        self._oldest: NDArray[np.int64] | None = None

    def settle(self) -> None:
        """Count some pieces' together."""
        if not self.waiting:
            return
        slots, at, counts = np.unique(
            np.concatenate([slots for slots, _ in self.waiting]), return_index=True, return_counts=True
        )
        found = slots.astype(np.intp), counts, np.concatenate([offsets for _, offsets in self.waiting])[at]
        self.waiting.clear()
        if self._first is None:
            self._first = found
            return
        if self._counts is None:
            self._counts, self._oldest = np.zeros(SLOTS, np.int64), np.zeros(SLOTS, np.int64)
            self._add(self._first)
        self._add(found)

    def _add(self, found: _Found) -> None:
        assert self._counts is not None, "tables are there"
        assert self._oldest is not None
        slots, counts, offsets = found
        self._counts[slots] += counts
        new = self._oldest[slots] == 0
        self._oldest[slots[new]] = offsets[new] + 1

    def end(self) -> _Found:
        """Of all."""
        self.settle()
        if self._counts is not None and self._oldest is not None:
            slots = self._counts.nonzero()[0]
            return slots, self._counts[slots], self._oldest[slots] - 1
        nothing = np.zeros(0, np.int64)
        return self._first if self._first is not None else (np.zeros(0, np.intp), nothing, nothing)
