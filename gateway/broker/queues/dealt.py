"""Batches that were cut for all lanes at once, and wait for their lanes to ask.

Of a stored batch each lane of Key_Shared has a few records. Who asks first has it cut for all (`gateway.wire.dealing`),
since most of what that costs does not grow with the number of lanes, and since nobody then reads and walks the batch
again. What was made for a lane goes when the lane has had it; what is too much goes before, the oldest first, and is
cut anew from the log for whoever asks then.

What lies here is never what is right or wrong: whoever takes a part holds its offsets against what the lane was given.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.wire.dealing import Dealt

ROOM = 32 * 1024 * 1024
_PART_BYTES = 300
"""what a part takes beside its batch"""


class _Batch:
    """What was made of one."""

    __slots__ = ("left", "name", "parts")

    def __init__(self, name: tuple[int, int], parts: Sequence[Dealt]) -> None:
        self.name = name
        self.parts = [(part.place, part.first) for part in parts]
        self.left = len(parts)


Waiting = dict[int, tuple["Dealt", _Batch]]
"""First offset -> what begins there, and the batch that it is of"""


class DealtBatches:
    """For all lanes of a node. A source is the store's id of a partition."""

    __slots__ = ("_batches", "_parts", "room")

    def __init__(self, room: int = ROOM) -> None:
        """`room`: bytes."""
        self.room = room
        """bytes that may still come"""
        self._parts: dict[tuple[int, int], Waiting] = {}
        """(source, place) -> what waits for it"""
        # (source, base offset) -> a batch of which parts are here, the oldest first
        self._batches: OrderedDict[tuple[int, int], _Batch] = OrderedDict()

    def waiting(self, source: int, place: int) -> Waiting:
        """What waits for a lane. To be read only."""
        return self._parts.get((source, place)) or {}

    def has(self, source: int, base: int) -> bool:
        """Whether something of a batch is here."""
        return (source, base) in self._batches

    def add(self, source: int, base: int, parts: Sequence[Dealt]) -> None:
        """What was made of a batch."""
        name = source, base
        self._drop(name)
        if not parts:
            return
        batch = self._batches[name] = _Batch(name, parts)
        for part in parts:
            self._parts.setdefault((source, part.place), {})[part.first] = part, batch
            self.room -= len(part.batch) + _PART_BYTES
        while self.room < 0 and len(self._batches) > 1:
            self._drop(next(iter(self._batches)))

    def taken(self, source: int, place: int, firsts: Iterable[int]) -> None:
        """A lane has had what begins at these offsets. Nobody asks for it again, as a rule."""
        waiting = self._parts[source, place]
        for first in firsts:
            part, batch = waiting.pop(first)
            self.room += len(part.batch) + _PART_BYTES
            batch.left -= 1
            if not batch.left:
                self._batches.pop(batch.name, None)
        if not waiting:
            del self._parts[source, place]

    def _drop(self, name: tuple[int, int]) -> None:
        batch = self._batches.pop(name, None)
        if batch is None:
            return
        for place, first in batch.parts:
            if first in self.waiting(name[0], place):
                self.taken(name[0], place, (first,))
