"""Due times: in memory only the nearest, in rows all of them.

Memory holds every entry that is due before the horizon, and of what is due at or behind it only that there is more.
When memory runs low, `needs` says from which row on to scan.

Mending: the log lost its end while the rows did not (a power cut under `os`), and rows may name offsets that other
records will have. All rows are scanned once, and those offsets taken out, before anything new is read.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from semantics.subscriptions import rows
from semantics.subscriptions.chunks import MASK, SHIFT
from semantics.subscriptions.leases import pack, unpack
from semantics.subscriptions.rows import Row
from semantics.subscriptions.states import DueFrom

MOST = 32_768
"""runs kept in memory before the later half goes"""
FEW = MOST // 4
"""runs in memory below which more are loaded"""
ROWS_AT_ONCE = 256
RUNS_A_ROW = 512
POPPED = 1_024
"""runs that come due in one go, or those of one millisecond: others have their turn before the next"""


_ONE_RUN = 8
"""bytes of a row with one run"""


class _Group:
    """What is due at one millisecond."""

    __slots__ = ("firsts", "runs")

    def __init__(self) -> None:
        self.runs = array("Q")
        self.firsts = array("Q")
        """the second half of the keys of its rows"""


class DueTimes:
    """When which offsets are due, in wall ms."""

    __slots__ = ("_cut", "_gone", "_groups", "_heap", "_mended", "_pending", "_size", "horizon", "stored")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._groups: dict[int, _Group] = {}
        self._size = 0
        self._pending: dict[int, array[int]] = {}  # due -> runs that have no row yet
        self._gone: list[tuple[int, int]] = []  # keys of rows to delete
        self.horizon: tuple[int, int] | None = None
        """the key of the first row that is not in memory; None: all are"""
        self.stored = 0
        """how many rows there are"""
        # mending: offsets from `_cut` on are to be taken out, which is done before the key `_mended`
        self._cut: int | None = None
        self._mended = (0, 0)

    def add(self, due: int, first: int, length: int) -> None:
        """[first, first + length), of one chunk, is due then."""
        run = pack(first, length)
        pending = self._pending.get(due)
        if pending is None:
            pending = self._pending[due] = array("Q")
        pending.append(run)
        horizon = self.horizon
        if horizon is None or due < horizon[0] or (due == horizon[0] and horizon[1]):
            self._group(due).runs.append(run)
            self._size += 1
            if self._size > MOST:
                self._spill()

    def add_all(self, delayed: Iterable[tuple[int, int]]) -> None:
        """(offset, due) each, the offsets ascending."""
        found: dict[int, array[int]] = {}
        get = found.get
        for offset, due in delayed:
            runs = get(due)
            if runs is None:
                found[due] = array("Q", (offset << SHIFT,))
                continue
            last = runs[-1]
            if offset & MASK and (last >> SHIFT) + (last & MASK) + 1 == offset:
                runs[-1] = last + 1  # one longer
            else:
                runs.append(offset << SHIFT)
        horizon, pending, groups, heap = self.horizon, self._pending, self._groups, self._heap
        for due, runs in found.items():
            if horizon is None or due < horizon[0] or (due == horizon[0] and horizon[1]):
                group = groups.get(due)
                if group is None:
                    group = groups[due] = _Group()
                    group.runs = runs[:]
                    heappush(heap, due)
                else:
                    group.runs.extend(runs)
                self._size += len(runs)
            if due in pending:
                pending[due].extend(runs)
            else:
                pending[due] = runs
        if self._size > MOST:
            self._spill()

    def pop(self, wall: int) -> Iterator[int]:
        """The runs whose time has come, as many as make sense in one go: there are more while `next` is not later."""
        heap = self._heap
        left = POPPED
        while heap and heap[0] <= wall and left > 0:
            due = heappop(heap)
            group = self._groups.pop(due)
            left -= len(group.runs)
            self._size -= len(group.runs)
            self._pending.pop(due, None)
            self._gone.extend([(due, first) for first in group.firsts])
            yield from group.runs

    def next(self) -> int | None:
        """When the next is due, as far as one can say."""
        if self._heap:
            return self._heap[0]
        return self.horizon[0] if self.horizon is not None else None

    def mend(self, cut: int) -> None:
        """The log ends there."""
        self._cut = cut

    @property
    def mending(self) -> bool:
        return self._cut is not None

    @property
    def needs(self) -> DueFrom | None:
        """Where to scan on, when memory holds few and the rows more."""
        if self._cut is not None:
            return DueFrom(rows.due_key(*self._mended), ROWS_AT_ONCE)
        if self.horizon is None or self._size >= FEW:
            return None
        return DueFrom(rows.due_key(*self.horizon), ROWS_AT_ONCE)

    def loaded(self, found: Iterable[Row], complete: bool) -> None:
        """Rows from the horizon on, in the order of their keys. `complete`: there are no more."""
        if self._cut is not None:
            self._mend(found, self._cut, complete)
            return
        if self.horizon is None:
            return
        last: tuple[int, int] | None = None
        for _, key, value in found:
            if self._size >= MOST // 2:
                complete = False
                break
            due, first = last = rows.read_due_key(key)
            if last < self.horizon or value is None:
                continue
            group = self._group(due)
            if due == self.horizon[0] and first in group.firsts:
                continue  # it came in while the rows of this millisecond were only half loaded
            if len(value) == _ONE_RUN:
                # most, where due times lie scattered
                group.runs.append(int.from_bytes(value, "little"))
                self._size += 1
            else:
                runs = rows.read_runs(value)
                group.runs.extend(runs)
                self._size += len(runs)
            group.firsts.append(first)
        if complete:
            self.horizon = None
        elif last is not None:
            self.horizon = (last[0], last[1] + 1)

    def _mend(self, found: Iterable[Row], cut: int, complete: bool) -> None:
        for _, key, value in found:
            due, first = rows.read_due_key(key)
            self._mended = (due, first + 1)
            runs = rows.read_runs(value or b"")
            kept = array("Q")
            for run in runs:
                begin, length = unpack(run)
                if begin < cut:
                    kept.append(pack(begin, min(length, cut - begin)))
            if kept != runs:
                self._gone.append((due, first))
                if kept:
                    self._pending.setdefault(due, array("Q")).extend(kept)
        if complete:
            self._cut = None

    def of(self, offset: int) -> int | None:
        """When this one is due, if memory knows. Walks all of it: for people's questions."""
        for due in sorted(self._groups):
            for run in self._groups[due].runs:
                if run >> SHIFT <= offset <= (run >> SHIFT) + (run & MASK):
                    return due
        return None

    def writes(self) -> Iterator[Row]:
        """The rows that changed."""
        self.stored -= len(self._gone)
        for key in self._gone:
            yield Row(rows.RowKind.DUE, rows.due_key(*key), None)
        self._gone.clear()
        for due, runs in self._pending.items():
            group = self._groups.get(due)
            for at in range(0, len(runs), RUNS_A_ROW):
                some = runs[at : at + RUNS_A_ROW]
                first = some[0] >> SHIFT
                self.stored += 1
                if group is not None:
                    group.firsts.append(first)
                yield Row(rows.RowKind.DUE, rows.due_key(due, first), rows.runs(some))
        self._pending.clear()

    @property
    def changed(self) -> bool:
        return bool(self._gone or self._pending)

    def _group(self, due: int) -> _Group:
        group = self._groups.get(due)
        if group is None:
            group = self._groups[due] = _Group()
            heappush(self._heap, due)
        return group

    def _spill(self) -> None:
        """Forget the later half; their rows are written, or will be."""
        dues = sorted(self._heap)
        kept, size = [], 0
        for due in dues:
            size += len(self._groups[due].runs)
            if size > MOST // 2:
                self.horizon = (due, 0)
                break
            kept.append(due)
        for due in dues[len(kept) :]:
            self._size -= len(self._groups.pop(due).runs)
        self._heap = kept
