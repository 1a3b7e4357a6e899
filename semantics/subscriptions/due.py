"""Due times: in memory only the nearest, in rows all of them.

There are two kinds. What backs off is kept by the millisecond: its row goes in the commit that wakes it. What is
delayed comes in bundles, for due times may lie scattered over all batches: a bundle has the delayed offsets of one
chunk that are due in one bucket of 256 ms. Its row goes when its bucket is over, and only with or after the row of its
chunk that says what became of them: to wake a record writes nothing. So a bundle may name offsets that were woken
before. It wakes only those that are DELAYED, and an offset becomes DELAYED only once.

Memory holds every entry whose row lies before the horizon, and of the rows at or behind it only that there are more.
When memory runs low, or the horizon's time has come, `needs` says from which row on to scan.

Mending: the log lost its end while the rows did not (a power cut under `os`), and rows may name offsets that other
records will have. All rows are scanned once, and those offsets taken out, before anything new is read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from semantics.subscriptions import rows
from semantics.subscriptions.chunks import MASK, SHIFT
from semantics.subscriptions.leases import pack, unpack
from semantics.subscriptions.rows import BUCKET_BITS, BUNDLE, RUN_MASK, CursorRow
from semantics.subscriptions.states import DueFrom

MOST = 32_768
"""runs kept in memory before the later half goes"""
FEW = MOST // 4
"""runs in memory below which more are loaded"""
CROWDED = 4 * MOST
"""with this many runs in memory nothing more is loaded, even if it is due"""
ROWS_AT_ONCE = 256
RUNS_A_ROW = 512
POPPED = 1_024
"""runs that come due in one go, or those of one millisecond: others have their turn before the next"""
LINGERING = 4_096
"""finished bundles that may wait for the rows of their chunks; above that these rows are written for them"""

_IN_BUCKET = (1 << BUCKET_BITS) - 1


class Popped(NamedTuple):
    """Runs whose time has come."""

    runs: array[int]
    """of what backs off; and of what is delayed in rows of old"""
    delayed: array[int]
    """some were woken before, perhaps"""


class _Group:
    """What is due at one millisecond, but for bundles."""

    __slots__ = ("firsts", "runs")

    def __init__(self) -> None:
        self.runs = array("Q")
        self.firsts = array("Q")
        """the second half of the keys of its rows"""


class DueTimes:
    """The due times of offsets, in wall ms."""

    __slots__ = (
        "_buckets",
        "_bundles",
        "_cut",
        "_delayed",
        "_ends",
        "_gone",
        "_groups",
        "_heap",
        "_lingering",
        "_mended",
        "_pending",
        "_size",
        "_wall",
        "horizon",
        "lingering",
        "stored",
    )

    def __init__(self) -> None:
        # of what is in memory: when something is due, and what
        self._heap: list[int] = []
        self._groups: dict[int, _Group] = {}
        self._delayed: dict[int, array[int]] = {}
        self._size = 0
        # the keys of the bundles in memory: bucket -> second halves; and a heap of the buckets
        self._buckets: dict[int, array[int]] = {}
        self._ends: list[int] = []
        # bundles whose bucket is over, by chunk: to delete when that is written
        self._lingering: dict[int, list[tuple[int, int]]] = {}
        self.lingering = 0
        """how many those are"""
        # what has no row yet: due -> runs, key -> entries
        self._pending: dict[int, array[int]] = {}
        self._bundles: dict[tuple[int, int], array[int]] = {}
        self._gone: list[tuple[int, int]] = []  # keys of rows to delete
        self._wall = 0  # of the last `pop`
        self.horizon: tuple[int, int] | None = None
        """the key of the first row that is not in memory; None: all are"""
        self.stored = 0
        """how many rows there are"""
        # mending: offsets from `_cut` on are to be taken out, which is done before the key `_mended`
        self._cut: int | None = None
        self._mended = (0, 0)

    # -- what is added -----------------------------------------------------------------------------------------

    def add(self, due: int, first: int, length: int) -> None:
        """[first, first + length), of one chunk, backs off until then."""
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
        """(offset, due) of what is delayed, the offsets ascending and never named before."""
        number = -1
        here: dict[int, array[int]] = {}
        for offset, due in delayed:
            if offset >> SHIFT != number:
                self._take_in_all(number, here)
                number = offset >> SHIFT
                here = {}
            entry = (due & _IN_BUCKET) << 2 * SHIFT | (offset & MASK) << SHIFT
            entries = here.get(due >> BUCKET_BITS)
            if entries is None:
                here[due >> BUCKET_BITS] = array("I", (entry,))
                continue
            last = entries[-1]
            if entry == (last & ~MASK) + ((last & MASK) + 1 << SHIFT):
                entries[-1] = last + 1  # one longer
            else:
                entries.append(entry)
        self._take_in_all(number, here)
        if self._size > MOST:
            self._spill()

    def _take_in_all(self, number: int, bundles: dict[int, array[int]]) -> None:
        """New bundles of a chunk, by bucket."""
        horizon = self.horizon
        for bucket, entries in bundles.items():
            first = (number << SHIFT | (entries[0] >> SHIFT) & MASK) | BUNDLE
            key = (bucket << BUCKET_BITS, first)
            self._bundles[key] = entries
            if horizon is None or key < horizon:
                self._take_in(key, entries)

    def _take_in(self, key: tuple[int, int], entries: array[int]) -> None:
        """A bundle, into memory."""
        begin, first = key
        bucket = begin >> BUCKET_BITS
        keys = self._buckets.get(bucket)
        if keys is None:
            keys = self._buckets[bucket] = array("Q")
            heappush(self._ends, bucket)
        keys.append(first)
        self._size += len(entries)
        high = (first & ~BUNDLE) >> SHIFT << 2 * SHIFT
        delayed = self._delayed
        for entry in entries:
            due = begin + (entry >> 2 * SHIFT)
            runs = delayed.get(due)
            if runs is None:
                delayed[due] = array("Q", (high | entry & RUN_MASK,))
                if due not in self._groups:
                    heappush(self._heap, due)
            else:
                runs.append(high | entry & RUN_MASK)

    def _group(self, due: int) -> _Group:
        group = self._groups.get(due)
        if group is None:
            group = self._groups[due] = _Group()
            if due not in self._delayed:
                heappush(self._heap, due)
        return group

    def _spill(self) -> None:
        """Forget the later half; their rows are written, or will be. Whole buckets, and none that has begun."""
        size = cut = 0
        for due in sorted(self._heap):
            size += self._size_at(due)
            if size > MOST // 2:
                cut = due
                break
        cut = max(cut >> BUCKET_BITS, (self._wall >> BUCKET_BITS) + 1) << BUCKET_BITS
        if self.horizon is None or (cut, 0) < self.horizon:
            self.horizon = (cut, 0)
        for due in self._heap:
            if due >= cut:
                self._size -= self._size_at(due)
                self._groups.pop(due, None)
                self._delayed.pop(due, None)
        self._heap = [due for due in self._heap if due < cut]
        heapify(self._heap)
        for bucket in self._ends:
            if bucket >= cut >> BUCKET_BITS:
                del self._buckets[bucket]
        self._ends = list(self._buckets)
        heapify(self._ends)
        if self.lingering:
            # only when the clock was set back: these are loaded again, and must not be deleted twice
            for number, keys in list(self._lingering.items()):
                kept = [key for key in keys if key[0] < cut]
                self.lingering -= len(keys) - len(kept)
                self._lingering[number] = kept
                if not kept:
                    del self._lingering[number]

    def _size_at(self, due: int) -> int:
        return (len(self._groups[due].runs) if due in self._groups else 0) + len(self._delayed.get(due, ()))

    # -- what is due -------------------------------------------------------------------------------------------

    def pop(self, wall: int) -> Popped:
        """What is due by then, up to a bound: there is more while `next` is not later."""
        self._wall = wall
        heap = self._heap
        popped = Popped(array("Q"), array("Q"))
        left = POPPED
        while heap and heap[0] <= wall and left > 0:
            due = heappop(heap)
            left -= self._size_at(due)
            group = self._groups.pop(due, None)
            if group is not None:
                self._size -= len(group.runs)
                self._pending.pop(due, None)
                self._gone.extend([(due, first) for first in group.firsts])
                popped.runs.extend(group.runs)
            delayed = self._delayed.pop(due, None)
            if delayed is not None:
                self._size -= len(delayed)
                popped.delayed.extend(delayed)
        return popped

    def over(self, woken: Collection[int]) -> bool:
        """What was popped is AVAILABLE: see which buckets are over. Their bundles go; those of chunks of which
        records woke and no row says so yet (`woken`) with the next row of these. Whether there is something to write.
        """
        ends, heap, lingering = self._ends, self._heap, self._lingering
        changed = False
        while ends and (ends[0] + 1) << BUCKET_BITS <= self._wall + 1:
            if heap and heap[0] >> BUCKET_BITS <= ends[0]:
                break
            bucket = heappop(ends)
            begin = bucket << BUCKET_BITS
            for first in self._buckets.pop(bucket):
                number = (first & ~BUNDLE) >> SHIFT
                if number in woken:
                    lingering.setdefault(number, []).append((begin, first))
                    self.lingering += 1
                else:
                    self._remove((begin, first))
                    changed = True
        return changed or self.lingering > LINGERING

    def next(self) -> int | None:
        """The earliest time at which something may be due."""
        found = self._heap[0] if self._heap else None
        if self._ends:
            end = ((self._ends[0] + 1) << BUCKET_BITS) - 1
            found = end if found is None or end < found else found
        if self.horizon is not None and (found is None or (self.horizon[0] < found and self._size < CROWDED)):
            return self.horizon[0]
        return found

    def of(self, offset: int) -> int | None:
        """When this one is due, if memory knows. Walks all of it: for people's questions."""
        for due in sorted(self._heap):
            runs = [*(self._groups[due].runs if due in self._groups else ()), *self._delayed.get(due, ())]
            for run in runs:
                if run >> SHIFT <= offset <= (run >> SHIFT) + (run & MASK):
                    return due
        return None

    def forget(self, ranges: Sequence[tuple[int, int]]) -> None:
        """What backs off of (first, last), ascending, waits no more: it goes, and its rows with it, as far as memory
        knows of it. Walks all of that: for what people do.
        """
        firsts = [first for first, _ in ranges]
        low, high = firsts[0], ranges[-1][1]
        for due, group in list(self._groups.items()):
            kept = array("Q")
            cut = False
            for run in group.runs:
                first, length = unpack(run)
                if first > high or first + length <= low:
                    kept.append(run)
                    continue
                end = first + length
                for begin, last in ranges[max(bisect_right(firsts, first) - 1, 0) :]:
                    if begin >= end:
                        break
                    if last < first:
                        continue
                    cut = True
                    if first < begin:
                        kept.append(pack(first, begin - first))
                    first = last + 1
                if first < end:
                    kept.append(pack(first, end - first))
            if not cut:
                continue
            self._size += len(kept) - len(group.runs)
            self._gone.extend([(due, first) for first in group.firsts])
            self._pending.pop(due, None)
            if kept:
                group.runs, group.firsts = kept, array("Q")
                self._pending[due] = kept[:]
            else:
                # the heap may go on naming this time
                del self._groups[due]

    def known(self) -> Iterator[tuple[int, int, int]]:
        """(due, first, length) of all that memory knows. It may be changed while this runs."""
        for due, group in list(self._groups.items()):
            for run in group.runs:
                yield due, *unpack(run)
        for due, some in list(self._delayed.items()):
            for run in some:
                yield due, *unpack(run)

    def of_all(self, offsets: Collection[int]) -> dict[int, int]:
        """When these are due, of those that memory knows. Walks all of it once."""
        found: dict[int, int] = {}
        wanted = sorted(offsets)
        if not wanted:
            return found
        low, high = (wanted[0] >> SHIFT) - 1 << 2 * SHIFT, wanted[-1] + 1 << SHIFT
        kept = [(due, group.runs) for due, group in self._groups.items()]
        for due, runs in (*kept, *self._delayed.items()):
            for run in runs:
                # most are of other chunks
                if low < run < high:
                    first, length = unpack(run)
                    for offset in wanted[bisect_left(wanted, first) : bisect_left(wanted, first + length)]:
                        found[offset] = min(due, found.get(offset, due))
        return found

    # -- rows --------------------------------------------------------------------------------------------------

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
        if self.horizon is None or self._size >= self._wanted(self.horizon[0], FEW):
            return None
        return DueFrom(rows.due_key(*self.horizon), ROWS_AT_ONCE)

    def _wanted(self, due: int, ahead: int) -> int:
        """Up to how many runs in memory a row with this key is loaded."""
        return CROWDED if due <= self._wall else ahead

    def loaded(self, found: Iterable[CursorRow], complete: bool) -> None:
        """Rows from the horizon on, in the order of their keys. `complete`: there are no more."""
        if self._cut is not None:
            self._mend(found, self._cut, complete)
            return
        if self.horizon is None:
            return
        last: tuple[int, int] | None = None
        for _, raw, value in found:
            key = due, first = rows.read_due_key(raw)
            if self._size >= self._wanted(due, MOST // 2):
                self.horizon = max(self.horizon, key)
                return
            last = key
            if last < self.horizon or value is None:
                continue
            if first & BUNDLE:
                self._take_in(key, rows.read_bundle(value))
                continue
            group = self._group(due)
            if due == self.horizon[0] and first in group.firsts:
                continue  # it came in while the rows of this millisecond were only half loaded
            runs = rows.read_runs(value)
            group.runs.extend(runs)
            self._size += len(runs)
            group.firsts.append(first)
        if complete:
            self.horizon = None
        elif last is not None:
            self.horizon = (last[0], last[1] + 1)

    def _mend(self, found: Iterable[CursorRow], cut: int, complete: bool) -> None:
        for _, raw, value in found:
            key = due, first = rows.read_due_key(raw)
            self._mended = (due, first + 1)
            kept: list[tuple[int, int]] = []
            whole = True
            for at, run in rows.due_runs(raw, value or b""):
                begin, length = unpack(run)
                if begin < cut:
                    kept.append((at, pack(begin, min(length, cut - begin))))
                whole = whole and begin + length <= cut
            if whole:
                continue
            self._gone.append(key)
            if kept and first & BUNDLE:
                self._bundles[key] = array(
                    "I", [(at - due) << 2 * SHIFT | run & RUN_MASK for at, run in kept]
                )
            elif kept:
                self._pending.setdefault(due, array("Q")).extend([run for _, run in kept])
        if complete:
            self._cut = None

    def said(self, chunks: Iterable[int]) -> None:
        """The rows of these chunks are written, or deleted, in the same commit."""
        lingering = self._lingering
        if lingering:
            for number in lingering.keys() & chunks:
                gone = lingering.pop(number)
                self.lingering -= len(gone)
                for key in gone:
                    self._remove(key)

    def idle(self) -> None:
        """Nothing waits, and the rows of all chunks say so in the same commit: no bundle that is known is needed."""
        if not (self._buckets or self._lingering):
            return
        self.said(list(self._lingering))
        for bucket, firsts in self._buckets.items():
            for first in firsts:
                self._remove((bucket << BUCKET_BITS, first))
        self._buckets, self._ends, self._delayed = {}, [], {}
        self._size = sum([len(group.runs) for group in self._groups.values()])
        self._heap = sorted(self._groups)

    def _remove(self, key: tuple[int, int]) -> None:
        """A bundle is not needed any more."""
        if self._bundles.pop(key, None) is None:
            self._gone.append(key)

    @property
    def awaited(self) -> Collection[int]:
        """Chunks to write now, since too many bundles wait for their rows."""
        return self._lingering.keys() if self.lingering > LINGERING else ()

    def writes(self) -> Iterator[CursorRow]:
        """The rows that changed."""
        kind = rows.RowKind.DUE
        self.stored -= len(self._gone)
        for key in self._gone:
            yield CursorRow(kind, rows.due_key(*key), None)
        self._gone.clear()
        for due, runs in self._pending.items():
            group = self._groups.get(due)
            for at in range(0, len(runs), RUNS_A_ROW):
                some = runs[at : at + RUNS_A_ROW]
                first = some[0] >> SHIFT
                self.stored += 1
                if group is not None:
                    group.firsts.append(first)
                yield CursorRow(kind, rows.due_key(due, first), rows.runs(some))
        self._pending.clear()
        self.stored += len(self._bundles)
        for key, entries in self._bundles.items():
            yield CursorRow(kind, rows.due_key(*key), rows.bundle(entries))
        self._bundles.clear()

    @property
    def changed(self) -> bool:
        return bool(self._gone or self._pending or self._bundles)
