"""Key_Shared: which slots hold records up, and how many: counted by columns, the slots that hold up most first."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, NamedTuple

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
    counts = np.zeros(SLOTS, np.int64)
    # the first that waits, and one more: 0 is none
    oldest = np.zeros(SLOTS, np.int64)
    waiting: list[NDArray[np.uint16]] = []
    for number, piece in enumerate(pieces, 1):
        if number % STEP == 0:
            _tally(counts, waiting)
            yield
        at = heads.blocked(piece)
        if piece.slots is None or not len(at):
            continue
        slots = np.frombuffer(piece.slots, np.uint16)[at]
        waiting.append(slots)
        new = oldest[slots] == 0
        # of those that write to one place the last one stays, which is the first here
        oldest[slots[new][::-1]] = (at[new] + (piece.first + 1))[::-1]
    _tally(counts, waiting)
    some = counts.nonzero()[0]
    order = np.lexsort((some, -counts[some]))[:most]
    found = [
        Held(slot, number, first, heads.head(slot, first))
        for slot, number, first in zip(
            some[order].tolist(),
            counts[some[order]].tolist(),
            (oldest[some[order]] - 1).tolist(),
            strict=True,
        )
    ]
    return HeldUp(len(some), int(counts.sum()), found)


def _tally(counts: NDArray[np.int64], waiting: list[NDArray[np.uint16]]) -> None:
    """Count some pieces' slots together."""
    if waiting:
        slots, numbers = np.unique(np.concatenate(waiting), return_counts=True)
        counts[slots] += numbers
        waiting.clear()
