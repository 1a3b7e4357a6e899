"""What a dispatcher has given by columns: many records that are not many in a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from semantics.subscriptions.states import Acquired

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Taken(Sequence[Acquired]):
    """Offsets, ascending, and how often each has failed before (None: none of them has). To whoever is in no hurry it
    is the ranges that a dispatcher gives else.
    """

    __slots__ = ("_ranges", "failed", "offsets")

    def __init__(self, offsets: NDArray[np.int64], failed: NDArray[np.int64] | None = None) -> None:
        self.offsets = offsets
        self.failed = failed
        self._ranges: list[Acquired] | None = None

    @classmethod
    def of(cls, ranges: Sequence[Acquired]) -> Taken | None:
        """What these ranges say; None when there are none."""
        if not ranges:
            return None
        import numpy as np

        return cls(
            np.array([offset for first, last, _ in ranges for offset in range(first, last + 1)], np.int64),
            np.array([count for first, last, count in ranges for _ in range(first, last + 1)], np.int64),
        )

    @property
    def records(self) -> int:
        """How many there are."""
        return len(self.offsets)

    def behind(self, other: Taken) -> Taken:
        """These and then the other's, which lie behind them."""
        import numpy as np

        failed: NDArray[np.int64] | None = None
        if self.failed is not None or other.failed is not None:
            failed = np.concatenate(
                [
                    each.failed if each.failed is not None else np.zeros(each.records, np.int64)
                    for each in (self, other)
                ]
            )
        return Taken(np.concatenate((self.offsets, other.offsets)), failed)

    def _listed(self) -> list[Acquired]:
        if self._ranges is None:
            found: list[Acquired] = []
            failed = [0] * self.records if self.failed is None else self.failed.tolist()
            for offset, count in zip(self.offsets.tolist(), failed, strict=True):
                if found and found[-1].last == offset - 1 and found[-1][2] == count:
                    found[-1] = Acquired(found[-1].first, offset, count)
                else:
                    found.append(Acquired(offset, offset, count))
            self._ranges = found
        return self._ranges

    def __bool__(self) -> bool:
        return len(self.offsets) > 0

    def __len__(self) -> int:
        return len(self._listed())

    @overload
    def __getitem__(self, index: int) -> Acquired: ...

    @overload
    def __getitem__(self, index: slice) -> list[Acquired]: ...

    def __getitem__(self, index: int | slice) -> Acquired | list[Acquired]:
        return self._listed()[index]


def number_of(acquired: Sequence[tuple[int, int, int]]) -> int:
    """How many records (first, last, failed) are, by columns or not."""
    if isinstance(acquired, Taken):
        return acquired.records
    return sum([last - first for first, last, _ in acquired]) + len(acquired)
