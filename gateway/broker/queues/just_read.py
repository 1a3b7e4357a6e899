"""Batches that were read to be given to a lane, for the fetch that asks for them a moment later: they are read once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import cast

from store.api import Buffer

ROOM = 16 * 1024 * 1024
LEAST = 64 * 1024
"""Bytes below which to keep something takes as long as to read it once more."""

Read = tuple[int, Sequence[Buffer]]
"""Whole batches one after the other: the offset that the first begins with, and their bytes"""


class JustRead:
    """One for all lanes of a node: what was kept last stays, as far as there is room."""

    __slots__ = ("_kept", "_room")

    def __init__(self, room: int = ROOM) -> None:
        """`room`: bytes."""
        # by partition and offset: what was read, and the bytes that it keeps in memory
        self._kept: OrderedDict[tuple[int, int], tuple[Sequence[Buffer], int]] = OrderedDict()
        self._room = room

    def keep(self, source: int, read: Iterable[Read]) -> None:
        """Batches of a partition, all of whose records were given to one lane."""
        for first, buffers in read:
            if sum(map(len, buffers)) < LEAST:
                continue
            # a part keeps the whole
            size = sum([memoryview(cast("bytes", memoryview(each).obj)).nbytes for each in buffers])
            self._drop((source, first))
            self._kept[source, first] = buffers, size
            self._room -= size
        while self._room < 0:
            self._drop(next(iter(self._kept)))

    def take(self, source: int, first: int, room: int) -> Sequence[Buffer] | None:
        """What was kept of a partition from this offset on, if it has no more than `room` bytes. It is found once."""
        found = self._drop((source, first))
        return found if found is not None and sum(map(len, found)) <= room else None

    def _drop(self, key: tuple[int, int]) -> Sequence[Buffer] | None:
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self._room += found[1]
        return found[0]
