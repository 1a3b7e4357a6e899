"""What a lane gives: runs of deliveries that are of one source, one after the other, with dense offsets of their own.

A run is a pointer: the delivery at lane offset `at + i` is of the record at the i-th of its source offsets. These
ascend; where they leave some out, `steps` says how many, a byte for each delivery but the last. So a batch that goes
out whole costs 19 bytes whatever it holds, and one that is cut a byte a record more.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from semantics.taken import Taken

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RUN = struct.Struct(">IQIHB")
_STEPS, _AHEAD = 1, 2
_LARGEST_STEP = 255
_PAGE = 256
MOST_FAILED = 2**16 - 1
_RUN_WEIGHT = 180
"""bytes in memory of a run without its steps"""


class RunError(ValueError):
    """A row of runs that cannot be read."""


class Run:
    """Deliveries [at, end) of records of one source."""

    __slots__ = ("_sums", "ahead", "at", "count", "failed", "first", "source", "steps")

    def __init__(
        self,
        at: int,
        source: int,
        first: int,
        count: int,
        failed: int,
        steps: bytes | None,
        ahead: bool = False,
    ) -> None:
        self.at = at
        self.source = source
        """the store's id of the partition that the records are in"""
        self.first = first
        """the source offset of the first"""
        self.count = count
        self.failed = failed
        """deliveries of each of them that had failed before"""
        self.steps = steps
        """how many source offsets lie between each and the next; None where there are none"""
        self.ahead = ahead
        """given for a question after the end of the lane, and not to who fetches"""
        # what the steps come to before each page of them, once somebody has asked
        self._sums: list[int] | None = None

    @property
    def end(self) -> int:
        """The lane offset behind it."""
        return self.at + self.count

    @property
    def last(self) -> int:
        """The source offset of the last."""
        return self.first + self.count - 1 + (sum(self.steps) if self.steps else 0)

    @property
    def weight(self) -> int:
        """Bytes that it takes in memory, on the whole."""
        return _RUN_WEIGHT + (len(self.steps) if self.steps else 0)

    def offsets(self, begin: int, end: int) -> Sequence[int]:
        """The source offsets of the deliveries [begin, end), which lie within it."""
        skipped, length, steps = begin - self.at, end - begin, self.steps
        if steps is None:
            return range(self.first + skipped, self.first + skipped + length)
        first = self.first + skipped + self._stepped(skipped, steps)
        return [
            offset + number
            for number, offset in enumerate(accumulate(steps[skipped : skipped + length - 1], initial=first))
        ]

    def _stepped(self, number: int, steps: bytes) -> int:
        """What the first so many steps come to. Who names many deliveries of a long run asks for each."""
        if number <= _PAGE:
            return sum(steps[:number])
        if self._sums is None:
            pages = (sum(steps[at : at + _PAGE]) for at in range(0, len(steps), _PAGE))
            self._sums = list(accumulate(pages, initial=0))
        page = number // _PAGE
        return self._sums[page] + sum(steps[page * _PAGE : number])

    def column(self, begin: int, end: int) -> NDArray[np.int64]:
        """The same by columns, for many."""
        import numpy as np

        skipped, length, steps = begin - self.at, end - begin, self.steps
        if steps is None:
            return np.arange(self.first + skipped, self.first + skipped + length)
        found = np.empty(length, np.int64)
        found[0] = self.first + skipped + self._stepped(skipped, steps)
        found[1:] = np.frombuffer(steps, np.uint8)[skipped : skipped + length - 1]
        found[1:] += 1
        return np.cumsum(found, out=found)

    def ranges(self, begin: int, end: int) -> list[tuple[int, int]]:
        """`offsets` as (first, last)."""
        if self.steps is None:
            first = self.first + begin - self.at
            return [(first, first + end - begin - 1)]
        found: list[tuple[int, int]] = []
        first = last = -2
        for offset in self.offsets(begin, end):
            if offset != last + 1:
                if last >= 0:
                    found.append((first, last))
                first = offset
            last = offset
        found.append((first, last))
        return found

    def __repr__(self) -> str:
        return f"<Run [{self.at}, {self.end}) of {self.source} from {self.first} to {self.last}, failed {self.failed}>"


def runs_of(at: int, source: int, acquired: Sequence[tuple[int, int, int]], ahead: bool = False) -> list[Run]:
    """Ascending (first, last, failed) of a source as runs from lane offset `at` on."""
    if isinstance(acquired, Taken):
        return _of_columns(at, source, acquired, ahead)
    found: list[Run] = []
    steps: list[bytes] = []
    begin, before, tally, count = acquired[0][0], acquired[0][0] - 1, acquired[0][2], 0

    def close() -> None:
        joined = b"".join(steps)
        steps.clear()
        found.append(
            Run(at, source, begin, count, min(tally, MOST_FAILED), joined if any(joined) else None, ahead)
        )

    for first, last, failed in acquired:
        step = first - before - 1
        if step > _LARGEST_STEP or failed != tally:
            close()
            at += count
            begin, tally, count, step = first, failed, 0, -1
        if count:
            steps.append(step.to_bytes())
        steps.append(bytes(last - first))
        count += last - first + 1
        before = last
    close()
    return found


def _of_columns(at: int, source: int, taken: Taken, ahead: bool) -> list[Run]:
    import numpy as np

    offsets, failed = taken.offsets, taken.failed
    steps = offsets[1:] - offsets[:-1] - 1
    breaks = steps > _LARGEST_STEP
    if failed is not None:
        breaks |= failed[1:] != failed[:-1]
    edges = [0, *(breaks.nonzero()[0] + 1).tolist(), len(offsets)]
    said = (steps & _LARGEST_STEP).astype(np.uint8).tobytes()
    found: list[Run] = []
    for begin, end in pairwise(edges):
        its = said[begin : end - 1]
        count = 0 if failed is None else min(int(failed[begin]), MOST_FAILED)
        found.append(
            Run(at + begin, source, int(offsets[begin]), end - begin, count, its if any(its) else None, ahead)
        )
    return found


def encode(runs: Sequence[Run]) -> bytes:
    """Runs that follow each other, as one row; its key says where the first begins."""
    parts: list[bytes] = []
    for run in runs:
        flags = (_STEPS if run.steps is not None else 0) | (_AHEAD if run.ahead else 0)
        parts.append(_RUN.pack(run.source, run.first, run.count, run.failed, flags))
        if run.steps is not None:
            parts.append(run.steps)
    return b"".join(parts)


def decode(at: int, value: bytes) -> Iterator[Run]:
    """The runs of a row whose first begins at lane offset `at`. Raises RunError."""
    position = 0
    while position < len(value):
        try:
            source, first, count, failed, flags = _RUN.unpack_from(value, position)
        except struct.error:
            raise RunError(f"A row of runs ends within one, at byte {position}.") from None
        position += _RUN.size
        steps: bytes | None = None
        if flags & _STEPS:
            steps = value[position : position + count - 1]
            position += count - 1
            if len(steps) != count - 1:
                raise RunError("A row of runs ends within the steps of one.")
        if not count or flags & ~(_STEPS | _AHEAD):
            raise RunError(f"A run of {count} deliveries with flags {flags} is unknown.")
        yield Run(at, source, first, count, failed, steps, bool(flags & _AHEAD))
        at += count
