"""What one fetch acquires for who keeps it, and reads it when a client asks: in the place of an `Answer`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.broker.subscriptions.stored import Stored
    from semantics.subscriptions.states import Acquired
    from semantics.taken import Taken
    from store.api import Buffer


class Sized(Protocol):
    """Who reads knows how large records are."""

    @property
    def record_bytes(self) -> float: ...


class Pointers:
    """The ranges acquired, ascending, and about how many bytes they have."""

    __slots__ = ("_sized", "acquired", "buffers", "read", "size")

    def __init__(self, sized: Sized) -> None:
        self._sized = sized
        self.buffers: Sequence[Buffer] = ()
        self.read: list[tuple[int, list[Buffer]]] = []
        """whole batches that were read for it and are all its own: their first offset, and their bytes"""
        self.acquired: list[Acquired] = []
        self.size = 0

    def add(self, acquired: Acquired, pieces: Sequence[tuple[Buffer, int, int]], size: int) -> None:
        """See `Answer.add`."""
        self.acquired.append(acquired)
        self.read.append((acquired.first, [memoryview(buffer)[begin:end] for buffer, begin, end in pieces]))
        self.size += size

    def from_opened(self, ranges: list[Acquired]) -> int:
        """All of them, wherever they lie: nothing is read for them now."""
        records = sum([last - first for first, last, _ in ranges]) + len(ranges)
        self.acquired += ranges
        self.size += int(records * self._sized.record_bytes)
        ranges.clear()
        return records

    def assemble(self, stored: list[Stored], ranges: list[Acquired]) -> int:
        """The same."""
        return self.from_opened(ranges)

    @property
    def given(self) -> Sequence[Acquired]:
        """All that was acquired."""
        return self.acquired

    def clear(self) -> None:
        """It was given back."""
        self.acquired.clear()
        self.read.clear()


class Columns(Pointers):
    """The same of many single records, by columns: what `take` was told."""

    __slots__ = ("_taken",)

    def __init__(self, sized: Sized) -> None:
        super().__init__(sized)
        self._taken: Taken | None = None

    @property
    def given(self) -> Sequence[Acquired]:
        """All that was acquired."""
        return self._taken or ()

    def take(self, taken: Taken | None) -> int:
        """What lies behind all before. How many records."""
        if not taken:
            return 0
        self._taken = self._taken.behind(taken) if self._taken else taken
        self.size += int(taken.records * self._sized.record_bytes)
        return taken.records

    def clear(self) -> None:
        """It was given back."""
        self._taken = None
