"""What the store keeps of dead letters: what became of them, by partition of the topic that they are in.

| family | key | value |
|---|---|---|
| letter | partition u32, number of the chunk u64 | the states of its letters: `semantics/console/letter_states.py` |

The rows go with the partition.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from semantics.console import letter_states
from semantics.console.letter_states import LetterStates
from store.api import Delete, Family, Put, Write

_KEY = struct.Struct(">IQ")
_PREFIX = struct.Struct(">I")


class Rows(Protocol):
    """A store, as far as it is read here."""

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]: ...


def load(rows: Rows, partition: int) -> LetterStates:
    """What is stored. `partition` is the store's id of it. Raises StoreError, ValueError."""
    return LetterStates(
        (_KEY.unpack(key)[1], value) for key, value in rows.scan(Family.LETTER, _PREFIX.pack(partition))
    )


def writes(partition: int, states: LetterStates, start: int) -> list[Write]:
    """What changed; what lies below `start`, where the log begins, is forgotten."""
    return [
        Delete(Family.LETTER, _KEY.pack(partition, number))
        if value is None
        else Put(Family.LETTER, _KEY.pack(partition, number), value)
        for number, value in states.writes(start)
    ]


def clipped(rows: Rows, partition: int, lost: Sequence[tuple[int, int]]) -> Iterable[Put | Delete]:
    """Of a log that has lost offsets from `first` to below `last`, for each: letters that take them are open."""
    for key, value in rows.scan(Family.LETTER, _PREFIX.pack(partition)):
        kept: bytes | None = value
        for first, last in lost:
            if kept is not None:
                kept = letter_states.clipped(_KEY.unpack(key)[1], kept, first, last)
        if kept is None:
            yield Delete(Family.LETTER, key)
        elif kept != value:
            yield Put(Family.LETTER, key, kept)
