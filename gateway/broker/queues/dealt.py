"""Batches that were cut for all lanes at once, and wait for their lanes to ask.

Of a stored batch each lane of Key_Shared has a few records. Who asks first has it cut for all (`gateway.wire.dense`),
since most of what that costs does not grow with the number of lanes, and since nobody then reads and walks the batch
again. What was made for a lane goes when the lane has had it; what is too much goes before, the oldest first, and is
cut anew from the log for whoever asks then.

What lies here is never what is right or wrong: whoever takes a part holds its offsets against what the lane was given.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.wire.dense import Dealt

ROOM = 32 * 1024 * 1024
_PART_BYTES = 300
"""what a part takes beside its batch"""


class DealtBatches:
    """For all lanes of a node. A source is the store's id of a partition."""

    __slots__ = ("_batches", "_parts", "room")

    def __init__(self, room: int = ROOM) -> None:
        """`room`: bytes."""
        self.room = room
        """bytes that may still come"""
        # (source, place, first offset) -> what begins there, and the base offset of its batch
        self._parts: dict[tuple[int, int, int], tuple[Dealt, int]] = {}
        # (source, base offset) -> keys of the parts of it that are here
        self._batches: OrderedDict[tuple[int, int], set[tuple[int, int, int]]] = OrderedDict()

    def find(self, source: int, place: int, offset: int) -> Dealt | None:
        """What begins at an offset of a source for a place."""
        found = self._parts.get((source, place, offset))
        return found[0] if found is not None else None

    def has(self, source: int, base: int) -> bool:
        """Whether something of a batch is here."""
        return (source, base) in self._batches

    def add(self, source: int, base: int, parts: Iterable[Dealt]) -> None:
        """What was made of a batch."""
        self._drop((source, base))
        keys = self._batches[source, base] = set()
        for part in parts:
            key = source, part.place, part.first
            keys.add(key)
            self._parts[key] = part, base
            self.room -= len(part.batch) + _PART_BYTES
        while self.room < 0 and len(self._batches) > 1:
            self._drop(next(iter(self._batches)))

    def taken(self, source: int, place: int, offset: int) -> None:
        """Nobody asks for this one again, as a rule."""
        key = source, place, offset
        part, base = self._parts.pop(key)
        self.room += len(part.batch) + _PART_BYTES
        left = self._batches[source, base]
        left.remove(key)
        if not left:
            del self._batches[source, base]

    def _drop(self, batch: tuple[int, int]) -> None:
        for key in self._batches.pop(batch, ()):
            part, _ = self._parts.pop(key)
            self.room += len(part.batch) + _PART_BYTES
