"""What became of the dead letters of one partition: the cursor of our own that every dead letter topic has.

| state | the letter |
|---|---|
| OPEN | nobody has done anything with it |
| REPLAYED | was sent again |
| DISCARDED | is not wanted: it stays in the topic until retention takes it |
| EDITED | was sent again with an edit |

A letter that was settled once stays so. The states of CHUNK letters are one row: a byte each up to the last that is not
OPEN. It is no subscription: it holds nothing up, retention and time to live do not ask it, and what retention takes it
forgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

OPEN, REPLAYED, DISCARDED, EDITED = range(4)

NAMES = ("open", "replayed", "discarded", "edited")
"""By state."""

CHUNK = 1024
"""Letters of a row."""

_VERSION = 1


class LetterStates:
    """Offsets are those of the dead letter topic's partition."""

    __slots__ = ("_changed", "_chunks")

    def __init__(self, rows: Iterable[tuple[int, bytes]] = ()) -> None:
        """`rows`: (number of the chunk, its value). Raises ValueError for a row that this version does not know."""
        self._chunks: dict[int, bytearray] = {}
        self._changed: set[int] = set()
        for number, value in rows:
            self._chunks[number] = bytearray(_read(value))

    def of(self, offset: int) -> int:
        """The state of a letter."""
        chunk = self._chunks.get(offset // CHUNK)
        at = offset % CHUNK
        return chunk[at] if chunk is not None and at < len(chunk) else OPEN

    def settle(self, offsets: Iterable[int], state: int) -> list[int]:
        """These letters are in that state now: those of them that were OPEN. The others stay what they are."""
        taken: list[int] = []
        for offset in offsets:
            number, at = divmod(offset, CHUNK)
            chunk = self._chunks.setdefault(number, bytearray())
            if at >= len(chunk):
                chunk.extend(bytes(at + 1 - len(chunk)))
            if chunk[at] == OPEN:
                chunk[at] = state
                taken.append(offset)
                self._changed.add(number)
        return taken

    def next_open(self, offset: int, end: int) -> int:
        """The first OPEN letter from `offset` on, `end` where there is none before it."""
        while offset < end:
            number, at = divmod(offset, CHUNK)
            chunk = self._chunks.get(number)
            if chunk is None or at >= len(chunk):
                return offset
            found = chunk.find(OPEN, at)
            if found >= 0:
                return min(number * CHUNK + found, end)
            if len(chunk) < CHUNK:
                return min(number * CHUNK + len(chunk), end)
            offset = (number + 1) * CHUNK
        return end

    def counts(self, start: int, end: int) -> list[int]:
        """How many letters of [start, end) are in each state."""
        found = [0] * len(NAMES)
        for number, chunk in self._chunks.items():
            first = number * CHUNK
            begin, stop = max(start - first, 0), min(end - first, len(chunk))
            if begin < stop:
                for state in range(REPLAYED, len(NAMES)):
                    found[state] += chunk.count(state, begin, stop)
        found[OPEN] = max(0, end - start) - sum(found)
        return found

    def writes(self, start: int) -> Iterator[tuple[int, bytes | None]]:
        """Rows that changed since the last call; None for one that lies below `start`, where retention took all."""
        for number in [each for each in self._chunks if (each + 1) * CHUNK <= start]:
            del self._chunks[number]
            self._changed.discard(number)
            yield number, None
        for number in sorted(self._changed):
            yield number, bytes([_VERSION]) + bytes(self._chunks[number])
        self._changed.clear()


def clipped(number: int, value: bytes, first: int, last: int) -> bytes | None:
    """A row whose letters from `first` to below `last` are lost, and whose offsets others will take; None for a row
    with nothing in it. Raises ValueError.
    """
    states = bytearray(_read(value))
    begin = number * CHUNK
    for at in range(max(first - begin, 0), min(last - begin, len(states))):
        states[at] = OPEN
    kept = bytes(states).rstrip(b"\0")
    return bytes([_VERSION]) + kept if kept else None


def _read(value: bytes) -> bytes:
    if (
        not value
        or value[0] != _VERSION
        or len(value) > CHUNK + 1
        or (len(value) > 1 and max(value[1:]) > EDITED)
    ):
        raise ValueError("a row with states of dead letters that this version does not know")
    return value[1:]
