"""What the dispatcher is told of stored batches: which records there are, when they are due, which are dead already."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from semantics.subscriptions.chunks import AVAILABLE_RUN, FILL, MASK, SHIFT
from semantics.subscriptions.records import Records
from semantics.subscriptions.states import AVAILABLE, BEFORE, DELAYED, DONE, Batch, no_line


def feed(records: Records, batches: Sequence[Batch], wall: int) -> None:
    """Look at stored batches, ascending: see `Cursor.feed`."""
    if records.due.mending:
        raise RuntimeError("The due rows must be mended first: needs_due, due_loaded.")
    window, keyed = records.window, records.keyed
    position = records.read
    plain = position
    # Key_Shared: the slots of batches that lie one behind the other are told together
    slots = array("H")
    for batch in batches:
        first, end, its, delayed, dead, skip = batch
        if end <= position:
            continue
        if first > position or skip or delayed or dead or keyed is not None:
            _take_in(records, plain, position)
            if first > position:
                _tell(records, position, slots)
                _nothing(records, position, first)
                position = first
            if skip:
                _tell(records, position, slots)
                _nothing(records, position, end)
            else:
                known = max(window.known, position)
                if end > known:
                    window.extend(end)
                for begin, last, reason in dead:
                    for chunk, at, stop in window.runs(max(begin, position), last + 1, AVAILABLE_RUN):
                        records.doom(chunk, at, stop, AVAILABLE, reason)
                if delayed:
                    _delay(records, delayed, known, wall)
                if records.shared is not None:
                    records.shared.fed(position, end)
                elif its is None:
                    slots.extend(bytes(end - position))
                else:
                    slots.extend(its if first == position else its[position - first :])
            position = plain = end
        else:
            position = end
        records.read = position
    records.read = position
    if keyed is not None:
        _tell(records, position, slots)
    else:
        _take_in(records, plain, position)
    records.advance()
    records.pass_over_settled()


def _take_in(records: Records, first: int, end: int) -> None:
    """Shared: [first, end) is AVAILABLE and nothing more is to be said of it."""
    if first < end:
        records.window.extend(end)
        if records.shared is not None:
            records.shared.fed(first, end)


def _tell(records: Records, end: int, slots: array[int]) -> None:
    """Key_Shared: what was read up to `end`, and not told yet, has these slots, which are told now."""
    if records.keyed is not None and slots:
        records.keyed.fed(end - len(slots), end, slots)
        del slots[:]


def _nothing(records: Records, first: int, end: int) -> None:
    """There is nothing to deliver in [first, end)."""
    records.window.nothing(first, end)
    records.changed = True
    if records.keyed is not None:
        records.keyed.read = max(records.keyed.read, end)


def _delay(records: Records, delayed: Iterable[tuple[int, int]], known: int, wall: int) -> None:
    """(offset, due) each, ascending: those from `known` on are just read and AVAILABLE, and due later."""
    early = 0 if records.config.strict_delay else records.config.tick_ms
    window = records.window
    later: list[tuple[int, int]] = []
    number = -1
    state = bytearray()
    for offset, due in delayed:
        due -= early
        if due <= wall or offset < known:
            continue
        if offset >> SHIFT != number:
            number = offset >> SHIFT
            chunk = window.chunks.get(number)
            if chunk is None:
                # all of it died just now, and nobody wants the dead
                state = bytearray(FILL[DONE])
            else:
                state = chunk.state
                window.dirty.add(number)
        at = offset & MASK
        if state[at] == AVAILABLE:
            assert state[at] in BEFORE[DELAYED], no_line(state[at], DELAYED)
            state[at] = DELAYED
            later.append((offset, due))
    if later:
        window.n[AVAILABLE] -= len(later)
        window.n[DELAYED] += len(later)
        records.due.add_all(later)
        records.changed = True
