"""Readahead for logs that are read in small steps outside the tail cache: the next steps need no read.

A step there costs some 20 us (a row of the index, a system call, headers, a check), whatever its size. So for a walk
more is read in one go. For single places it is not, and not for larger steps: to come to the next takes as long.
"""

from __future__ import annotations

from bisect import bisect_right

from store import batch
from store.api import Buffer

SMALL = 8 * 1024
"""Reads of no more bytes than this are steps."""
BYTES = 64 * 1024
_NEAR = 4096
"""Offsets between two steps of a walk, at most."""
_STEPS = 3
"""This many steps in a row are a walk."""
_MOST = 64
"""Windows in memory, over all logs: 4 MiB."""

_STEP = batch.STEP


class ReadaheadWindow:
    """Batches that were checked, the last perhaps cut off. Where each begins is found as far as somebody walked."""

    __slots__ = ("_bases", "_data", "_positions", "_walked")

    def __init__(self, data: Buffer, offset: int) -> None:
        """`data`: what a read for `offset` gave."""
        self._data = memoryview(data)
        base, length, _ = _STEP.unpack_from(self._data)
        # the offset may lie in a gap
        self._bases = [min(base, offset)]
        self._positions = [0]
        # where the first batch begins that nobody came to
        self._walked = length + batch.LENGTH_OVERHEAD

    def read(
        self, offset: int, max_bytes: int, whole_first: bool, short: bool = False
    ) -> list[Buffer] | None:
        """As `Log.read`; None when not all of that is here. `short`: what is here is all there is."""
        data = self._data
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            return None
        position, end = self._positions[index], len(data)
        while True:
            if position + _STEP.size > end:
                return None
            base, length, delta = _STEP.unpack_from(data, position)
            following = position + length + batch.LENGTH_OVERHEAD
            if following > end:
                return None
            if position == self._walked:
                self._bases.append(base)
                self._positions.append(position)
                self._walked = following
            if base + delta >= offset:
                break
            position = following
        if following - position > max_bytes:
            return [data[position:following]] if whole_first else []
        if position + max_bytes > end and not short:
            return None
        return [data[position : position + max_bytes]]


class Readahead:
    """The windows of all logs, by partition; the least recently used goes first."""

    __slots__ = ("_steps", "_windows")

    def __init__(self) -> None:
        self._windows: dict[int, ReadaheadWindow] = {}
        # where the last step was that found no window, and how many came one behind the other
        self._steps: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._windows)

    def read(self, partition: int, offset: int, max_bytes: int, whole_first: bool) -> list[Buffer] | None:
        """A step of a walk; None when it must be read."""
        window = self._windows.get(partition)
        if window is None:
            return None
        found = window.read(offset, max_bytes, whole_first)
        if found is not None:
            del self._windows[partition]
            self._windows[partition] = window
        return found

    def walks(self, partition: int, offset: int) -> bool:
        """Whether this step comes shortly behind others: then more is read than is asked for."""
        steps = self._steps
        before, count = steps.pop(partition, (offset, 0))
        if len(steps) >= _MOST:
            del steps[next(iter(steps))]
        count = count + 1 if before <= offset <= before + _NEAR else 1
        steps[partition] = offset, count
        return count >= _STEPS

    def keep(self, partition: int, window: ReadaheadWindow) -> None:
        windows = self._windows
        windows.pop(partition, None)
        if len(windows) >= _MOST:
            del windows[next(iter(windows))]
        windows[partition] = window

    def forget(self, partition: int) -> None:
        """The log is gone."""
        self._windows.pop(partition, None)
        self._steps.pop(partition, None)
