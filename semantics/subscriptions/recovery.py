"""A cursor's window written to rows, and restored from them within the bounds of the log.

If acknowledgements are scattered over many chunks, these are not all written for one record each: one row, a log,
lists the offsets that became DONE. From time to time all chunks that logs name are written and the logs deleted. DONE
is final, so a log and the row of a chunk may both say it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from semantics.subscriptions import rows
from semantics.subscriptions.chunks import FILL, MASK, NOT_DONE_RUN, SHIFT, SIZE, Chunk, Window
from semantics.subscriptions.due import DueTimes
from semantics.subscriptions.rows import CursorRow, RowError, RowKind
from semantics.subscriptions.states import AVAILABLE, DONE, UNREAD

FEW = 8
"""Up to this many chunks are written rather than logged"""
LOGGED = 16_384
"""runs in logs from which on these chunks are written"""
LOGS = 128
"""or so many logs"""


class Recovered(NamedTuple):
    window: Window
    due: DueTimes
    changed: bool
    """the rows must say something else from now on"""
    expired: int
    """how many open records retention has taken"""


def recover(found: Iterable[CursorRow], log_start: int, log_end: int) -> Recovered:
    """What was acquired is AVAILABLE; all else is as it was. Raises RowError."""
    position: tuple[int, int, int, bool] | None = None
    expired = 0
    ranges: list[tuple[int, int]] = []
    chunks: dict[int, bytes] = {}
    logs: list[tuple[int, bytes]] = []
    due_rows: list[CursorRow] = []
    for row in found:
        if row.value is None:
            raise RowError("A row without a value cannot be loaded.")
        if row.kind is RowKind.COUNT:
            chunks[rows.read_number(row.key)] = row.value
        elif row.kind is RowKind.ACK:
            number = rows.read_number(row.key)
            if number & rows.LOG:
                logs.append((number & ~rows.LOG, row.value))
            else:
                ranges.append((number, rows.read_number(row.value)))
        elif row.kind is RowKind.DUE:
            due_rows.append(row)
        else:
            position = rows.read_cursor(row.value)
            expired = rows.stands(row.value).expired
    if position is None:
        raise RowError("The subscription has no row that says where it begins.")
    start, known, stored, mending = position
    lost = log_end < known
    known = min(known, log_end)
    window = _window(min(start, known), known, ranges, chunks)
    if logs:
        for number, value in logs:
            window.logs = max(window.logs, number + 1)
            _settle(window, rows.read_runs(value))
        # these chunks are written now, and the logs go
        window.dirty |= window.loose
        window.loose.clear()
        window.done = array("Q")
        window.advance()
    due = DueTimes()
    due.stored = stored
    if stored:
        due.horizon = (0, 0)
        if lost or mending:
            due.mend(known)
        if due_rows:
            due_rows.sort(key=lambda row: row.key)
            due.loaded(due_rows, complete=True)
    if log_start > window.start:
        window.trim(log_start)
        lost = True
    changed = lost or mending or due.changed
    changed = changed or bool(window.gone or window.dirty or window.touched_ranges or logs)
    return Recovered(window, due, changed, expired)


def _window(start: int, known: int, ranges: list[tuple[int, int]], values: dict[int, bytes]) -> Window:
    """The window of these rows. What they say of offsets from `known` on is forgotten: the log lost its end."""
    window = Window(start)
    window.known = known
    settled = -1
    for first, end in ranges:
        if first & MASK or end & MASK or first >= end:
            raise RowError(f"[{first}, {end}) is no range of whole chunks.")
        window.stored_ranges.add(first >> SHIFT)
        if end > known:
            window.touched_ranges.add(first >> SHIFT)
            if first < known:
                settled = known >> SHIFT
            end = known & ~MASK
        if end <= max(first, start):
            window.touched_ranges.add(first >> SHIFT)
            continue
        window.by_start[first >> SHIFT] = end >> SHIFT
        window.by_end[end >> SHIFT] = first >> SHIFT
    for number in _open_numbers(window):
        value = values.pop(number, None)
        chunk = Chunk(number) if value is None else rows.read_chunk(number, value)
        if value is None:
            chunk.state = bytearray(FILL[DONE if number == settled else AVAILABLE])
        below, beyond = start - chunk.base, known - chunk.base
        if below > 0:
            chunk.state[:below] = FILL[DONE][:below]
        if beyond < SIZE:
            counts = chunk.count
            if any(chunk.state[beyond:]) or (counts is not None and any(counts[beyond:])):
                if value is not None:
                    window.dirty.add(number)
                for at in range(beyond, SIZE if counts is not None else 0):
                    chunk.set_count(at, at + 1, 0)
            chunk.state[beyond:] = FILL[UNREAD][beyond:]
        if number == settled:
            window.dirty.add(number)
        chunk.undone = SIZE - chunk.state.count(DONE)
        window.chunks[number] = chunk
        window.tally(chunk, 0, SIZE, 1)
        if not chunk.undone:
            window.close(chunk)
    window.gone.update(values)
    window.advance()
    return window


def _settle(window: Window, runs: array[int]) -> None:
    """What a log says."""
    for run in runs:
        first = run >> SHIFT
        for chunk, at, stop in window.runs(first, first + (run & MASK) + 1, NOT_DONE_RUN):
            window.tally(chunk, at, stop, -1)
            window.finish(chunk, at, stop)


def _open_numbers(window: Window) -> Iterator[int]:
    """The chunks of the window that are not full."""
    number = window.start >> SHIFT
    last = (window.known - 1) >> SHIFT if window.known > window.start else number - 1
    for first in [*sorted(window.by_start), last + 1]:
        yield from range(number, min(first, last + 1))
        number = max(number, window.by_start.get(first, 0))


def window_rows(window: Window) -> Iterator[CursorRow]:
    """The rows of chunks and full ranges that changed since this was asked last."""
    if window.gone:
        for number in sorted(window.gone):
            yield CursorRow(RowKind.COUNT, rows.number_key(number), None)
        window.gone.clear()
    yield from _log_rows(window)
    if window.dirty:
        for number in sorted(window.dirty):
            chunk = window.chunks[number]
            value = rows.chunk(chunk, window.start)
            if value is not None or chunk.stored:
                chunk.stored = value is not None
                yield CursorRow(RowKind.COUNT, rows.number_key(number), value)
        window.logged -= window.dirty
        window.woken -= window.dirty
        window.dirty.clear()
    window.left.clear()
    if not window.touched_ranges:
        return
    for first in sorted(window.touched_ranges):
        end = window.by_start.get(first)
        key = rows.number_key(first << SHIFT)
        if end is not None:
            window.stored_ranges.add(first)
            yield CursorRow(RowKind.ACK, key, rows.number_key(end << SHIFT))
        elif first in window.stored_ranges:
            window.stored_ranges.remove(first)
            yield CursorRow(RowKind.ACK, key, None)
    window.touched_ranges.clear()


def choose(window: Window) -> None:
    """Before the rows are asked for: which chunks get one. Those where something became DONE and nothing else happened
    are only logged, if they are many.
    """
    fresh = window.loose - window.dirty
    if len(fresh) <= FEW:
        window.dirty |= window.loose
        if len(window.logged) <= FEW:
            # so few are left that they need no logs any more
            window.dirty |= window.logged
    elif window.logs < LOGS and window.log_runs + len(window.done) <= LOGGED:
        window.logged |= fresh
        window.loose.clear()
        return
    else:
        window.dirty |= window.loose
        window.dirty |= window.logged
    window.loose.clear()
    window.done = array("Q")


def _log_rows(window: Window) -> Iterator[CursorRow]:
    if window.logs and window.logged <= window.dirty:
        for number in range(window.logs):
            yield CursorRow(RowKind.ACK, rows.number_key(rows.LOG | number), None)
        window.logs = window.log_runs = 0
    if window.done:
        yield CursorRow(RowKind.ACK, rows.number_key(rows.LOG | window.logs), rows.runs(window.done))
        window.logs += 1
        window.log_runs += len(window.done)
        window.done = array("Q")
