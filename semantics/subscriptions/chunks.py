"""The planes: what is known of the offsets [start, known), 1,024 to a chunk.

A chunk has a byte of state for each offset, and further planes only while they are needed: leases while something of
it is acquired, counts once something failed, slots under Key_Shared. A chunk that is DONE throughout goes: into the
ranges of full chunks, or under `start`. Runs of one state are found and filled at C speed (a slice, a regular
expression over bytes); nothing is kept by record.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING

from semantics.subscriptions.states import AVAILABLE, DONE, UNREAD, check

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHIFT = 10
SIZE = 1 << SHIFT
MASK = SIZE - 1

FILL = [bytes([code]) * SIZE for code in range(256)]
"""state -> a chunk full of it, to slice from"""

KIND = bytes(min(code, 5) if code < 5 else 5 for code in range(256))
"""state -> the counter it belongs to: the dying ones have one together"""

AVAILABLE_RUN = re.compile(rb"\x00+")
DONE_RUN = re.compile(rb"\x02+")
DYING_RUN = re.compile(rb"\x05+|\x06+|\x07+")
BURYING_RUN = re.compile(rb"\x08+|\x09+|\x0a+")
HELD_RUN = re.compile(rb"[\x01\x03-\x0a]")
"""what retention does not take"""
DELAYED_RUN = re.compile(rb"\x03+")
BACKOFF_RUN = re.compile(rb"\x04+")
DUE_RUN = re.compile(rb"\x03+|\x04+")
NOT_DONE_RUN = re.compile(rb"[^\x02]+")
NOT_SETTLED_RUN = re.compile(rb"[\x00\x03\x04]+")
DELIVERABLE_RUN = re.compile(rb"[\x00\x04]+")

_DONE = FILL[DONE]
_A_DONE = bytes((DONE,))
_TRUE = bytes(code != 0 for code in range(256))
_IS_AVAILABLE = bytes(code == AVAILABLE for code in range(256))
_NO_LEASES = array("I", bytes(4 * SIZE))
_NO_SLOTS = array("H", bytes(2 * SIZE))
LARGEST_COUNT = 65535
FARTHEST = 1 << 53
"""Runs of offsets from here on do not fit into 64 bits"""


class Chunk:
    """The planes of 1,024 offsets."""

    __slots__ = (
        "base",
        "count",
        "doomed",
        "held",
        "hot",
        "lease",
        "low",
        "number",
        "slots",
        "state",
        "stored",
        "undone",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.base = number << SHIFT
        self.state = bytearray(FILL[UNREAD])
        self.undone = SIZE
        """offsets that are not DONE"""
        self.held = 0
        """offsets that are ACQUIRED"""
        self.lease: array[int] | None = None
        """who has it: true only where the state is ACQUIRED"""
        self.count: bytearray | array[int] | None = None
        """failed deliveries; two bytes each once one byte is not enough"""
        self.slots: array[int] | None = None
        # of the Shared dispatcher: it knows of available ones here, at or behind `low`
        self.hot = False
        self.low = 0
        self.doomed = False
        """known to have something to bury"""
        self.stored = False
        """there is a row of it"""

    def become(self, first: int, end: int, to: int) -> None:
        """[first, end) is in this state from now on, as the table allows. The caller has seen to all else."""
        assert check(self.state[first:end], to)
        self.state[first:end] = FILL[to][: end - first]

    def become_many(self, ats: NDArray[np.int64], to: int) -> None:
        """`become` for single offsets of the chunk."""
        import numpy as np

        plane = np.frombuffer(self.state, np.uint8)
        assert check(plane[ats].tobytes(), to)
        plane[ats] = to

    def leases(self) -> array[int]:
        """The plane of leases, made when it is first needed."""
        if self.lease is None:
            self.lease = _NO_LEASES[:]
        return self.lease

    def slot_plane(self) -> array[int]:
        if self.slots is None:
            self.slots = _NO_SLOTS[:]
        return self.slots

    def let_go(self, number: int) -> None:
        """So many are no longer ACQUIRED."""
        self.held -= number
        if not self.held:
            self.lease = None

    def set_count(self, first: int, end: int, count: int) -> None:
        """[first, end) of this chunk failed `count` times."""
        counts = self.count
        if counts is None:
            counts = self.count = bytearray(SIZE)
        if count > 255 and isinstance(counts, bytearray):
            counts = self.count = array("H", list(counts))
        count = min(count, LARGEST_COUNT)
        if end - first == 1:
            counts[first] = count
            return
        for at in range(first, end):
            counts[at] = count

    def count_runs(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """[first, end) of this chunk as (first, end, count)."""
        counts = self.count
        if counts is None:
            yield first, end, 0
            return
        while first < end:
            count = counts[first]
            at = first + 1
            while at < end and counts[at] == count:
                at += 1
            yield first, at, count
            first = at

    def failed_and_available(self) -> int:
        """How many failed before and are AVAILABLE."""
        counts = self.count
        if counts is None:
            return 0
        failed = counts.translate(_TRUE) if isinstance(counts, bytearray) else bytes(map(bool, counts))
        both = int.from_bytes(failed, "little") & int.from_bytes(
            self.state.translate(_IS_AVAILABLE), "little"
        )
        return both.bit_count()

    def held_runs(self, first: int, end: int, lease_id: int) -> Iterator[tuple[int, int]]:
        """What of [first, end) is ACQUIRED under this lease. The state may be changed while this runs."""
        state, leases = self.state, self.lease
        if leases is None:
            return
        while first < end:
            first = state.find(1, first, end)
            if first < 0:
                return
            if leases[first] != lease_id:
                first += 1
                continue
            at = first + 1
            while at < end and state[at] == 1 and leases[at] == lease_id:
                at += 1
            yield first, at
            first = at


class Window:
    """The offsets [start, known). Whatever lies before is settled, whatever comes behind was never looked at."""

    __slots__ = (
        "by_end",
        "by_start",
        "chunks",
        "dirty",
        "done",
        "gone",
        "known",
        "left",
        "log_runs",
        "logged",
        "logs",
        "loose",
        "n",
        "start",
        "stored_ranges",
        "touched_ranges",
        "woken",
    )

    def __init__(self, start: int) -> None:
        self.start = start
        """mark-delete + 1: open, or `known`"""
        self.known = start
        self.n = [0] * 6
        """state -> how many of the window are in it; DONE is not counted"""
        self.chunks: dict[int, Chunk] = {}
        # ranges of full chunks beyond start, in numbers of chunks: start -> end, and the other way round
        self.by_start: dict[int, int] = {}
        self.by_end: dict[int, int] = {}
        # what the rows do not say yet
        self.dirty: set[int] = set()
        self.loose: set[int] = set()
        """chunks of which something became DONE, and that need no row if a log says so: see recovery.py"""
        self.done = array("Q")
        """what became DONE, as runs"""
        self.logged: set[int] = set()
        """chunks that were loose when a log was written, and have had no row since"""
        self.logs = self.log_runs = 0
        """how many logs there are, and runs in them"""
        self.gone: set[int] = set()
        self.left: set[int] = set()
        """chunks that are no longer here, whether they had a row or not"""
        self.woken: set[int] = set()
        """chunks whose rows may call DELAYED what is AVAILABLE by now: their due rows stay until they are written"""
        self.touched_ranges: set[int] = set()
        self.stored_ranges: set[int] = set()

    def chunk_of(self, offset: int) -> Chunk:
        """The chunk of a known or the next unknown offset, made when it is not there."""
        number = offset >> SHIFT
        chunk = self.chunks.get(number)
        if chunk is None:
            chunk = self.chunks[number] = Chunk(number)
            settled = self.start - chunk.base
            if settled > 0:
                chunk.become(0, settled, DONE)
                chunk.undone -= settled
        return chunk

    def state_of(self, offset: int) -> int:
        """The code of a record's state."""
        if offset >= self.known:
            return UNREAD
        chunk = self.chunks.get(offset >> SHIFT) if offset >= self.start else None
        return DONE if chunk is None else chunk.state[offset & MASK]

    def failures(self, offset: int) -> int:
        """How often a record has failed, 0 when it is DONE."""
        chunk = self.chunks.get(offset >> SHIFT)
        return 0 if chunk is None or chunk.count is None else chunk.count[offset & MASK]

    def pieces(self, first: int, end: int) -> Iterator[tuple[Chunk, int, int]]:
        """[first, end) cut by chunks, without the full ones."""
        first = max(first, self.start)
        end = min(end, self.known)
        while first < end:
            number = first >> SHIFT
            at = first & MASK
            stop = min(at + end - first, SIZE)
            chunk = self.chunks.get(number)
            if chunk is not None:
                yield chunk, at, stop
                first += stop - at
            else:
                first = max(self.by_start.get(number, number + 1), number + 1) << SHIFT

    def runs(self, first: int, end: int, pattern: re.Pattern[bytes]) -> Iterator[tuple[Chunk, int, int]]:
        """What of [first, end) has the states of the pattern. The states may be changed while this runs."""
        for chunk, at, stop in self.pieces(first, end):
            while at < stop:
                found = pattern.search(chunk.state, at, stop)
                if found is None:
                    break
                begin, at = found.span()
                yield chunk, begin, at

    def extend(self, end: int) -> None:
        """[known, end) is AVAILABLE."""
        first = self.known
        self.n[AVAILABLE] += end - first
        self.known = end
        while first < end:
            chunk = self.chunk_of(first)
            at = first & MASK
            stop = min(at + end - first, SIZE)
            chunk.become(at, stop, AVAILABLE)
            first += stop - at

    def leap(self, end: int) -> tuple[int, int] | None:
        """[known, end) holds nothing: whole chunks of it are DONE without being made, however many a header claims.

        Answers where they begin and end, None when there are none. Before them [known, begin) is AVAILABLE now; behind
        them `known` ends.
        """
        begin, stop = -(-self.known >> SHIFT), end >> SHIFT
        if begin >= stop:
            return None
        self.extend(begin << SHIFT)
        self.known = stop << SHIFT
        self._join(begin, stop)
        return begin << SHIFT, stop << SHIFT

    def nothing(self, first: int, end: int) -> None:
        """[first, end) holds nothing to deliver: what of it is not settled, and in nobody's hands, is DONE. `first` is
        not beyond `known`.
        """
        spans: tuple[tuple[int, int], ...] = ((first, end),)
        if end > self.known:
            leapt = self.leap(end)
            if leapt is not None:
                spans = ((first, leapt[0]), (leapt[1], end))
            self.extend(end)
        for begin, last in spans:
            for chunk, at, stop in self.runs(begin, last, NOT_SETTLED_RUN):
                self.settle(chunk, at, stop)

    def settle(self, chunk: Chunk, first: int, end: int) -> None:
        """[first, end) of the chunk, in whichever states, is DONE, and is counted as that. It is in nobody's hands."""
        self.tally(chunk, first, end, -1)
        assert check(chunk.state[first:end], DONE)
        self.finish(chunk, first, end)

    def finish(self, chunk: Chunk, first: int, end: int) -> None:
        """[first, end) of the chunk, in whichever states, becomes DONE. The caller has seen to the counters."""
        number = end - first
        # Here the table is asked by the models only (checked.py). An acknowledgement has just seen that all of it is
        # ACQUIRED, and to ask again is 2 % of what a record of Shared costs the gateway. Other callers ask themselves.
        if number == 1:
            chunk.state[first] = DONE
        else:
            chunk.state[first:end] = _DONE[:number]
        counts = chunk.count
        if counts is not None:
            for at in range(first, end):
                counts[at] = 0
        if chunk.base < FARTHEST:
            self.loose.add(chunk.number)
            self.done.append(chunk.base + first << SHIFT | number - 1)
        else:
            self.dirty.add(chunk.number)
        chunk.undone -= number
        if not chunk.undone:
            self.close(chunk)
        elif chunk.base + first == self.start:
            self.start = chunk.base + end

    def finish_many(self, chunk: Chunk, ats: NDArray[np.int64]) -> None:
        """`finish` for single offsets of the chunk."""
        import numpy as np

        chunk.become_many(ats, DONE)
        counts = chunk.count
        if counts is not None:
            np.frombuffer(counts, np.uint8 if isinstance(counts, bytearray) else np.uint16)[ats] = 0
        if chunk.base < FARTHEST:
            self.loose.add(chunk.number)
            self.done.frombytes((ats + chunk.base << SHIFT).tobytes())
        else:
            self.dirty.add(chunk.number)
        chunk.undone -= len(ats)
        if not chunk.undone:
            self.close(chunk)

    def close(self, chunk: Chunk) -> None:
        """The chunk is DONE throughout: it joins the full ranges, which `advance` passes over."""
        self.forget(chunk)
        self._join(chunk.number, chunk.number + 1)

    def _join(self, first: int, end: int) -> None:
        """The chunks from first to below end are full."""
        before = self.by_end.pop(first, None)
        if before is not None:
            first = before
        behind = self.by_start.pop(end, None)
        if behind is not None:
            self.touched_ranges.add(end)
            end = behind
        self.by_start[first] = end
        self.by_end[end] = first
        self.touched_ranges.add(first)

    def forget(self, chunk: Chunk) -> None:
        """The chunk and its row are not needed any more."""
        del self.chunks[chunk.number]
        self.dirty.discard(chunk.number)
        self.loose.discard(chunk.number)
        self.logged.discard(chunk.number)
        self.woken.discard(chunk.number)
        self.left.add(chunk.number)
        if chunk.stored:
            self.gone.add(chunk.number)

    def drop_range(self, first: int) -> int:
        """A full range lies below start now. Its end, as a number of a chunk."""
        end = self.by_start.pop(first)
        del self.by_end[end]
        self.touched_ranges.add(first)
        return end

    def advance(self) -> bool:
        """Move start to the first open offset. Whether it moved."""
        begin = start = self.start
        while start < self.known:
            chunk = self.chunks.get(start >> SHIFT)
            if chunk is None:
                start = self.drop_range(start >> SHIFT) << SHIFT
                continue
            done = DONE_RUN.match(chunk.state, start & MASK)
            if done is None:
                break
            start = chunk.base + done.end()
        self.start = start
        return start != begin

    def trim(self, to: int) -> None:
        """Everything below `to` is settled, whatever it was."""
        for first in [first for first in self.by_start if first << SHIFT < to]:
            end = self.drop_range(first)
            if end << SHIFT > to:
                to = end << SHIFT
        for chunk, at, stop in list(self.pieces(self.start, to)):
            self.tally(chunk, at, stop, -1)
            if stop == SIZE:
                self.forget(chunk)
            else:
                open_before = stop - at - chunk.state.count(DONE, at, stop)
                chunk.let_go(chunk.state.count(1, at, stop))
                if open_before:
                    chunk.undone -= open_before
                    # some of it may be DONE before
                    assert check(chunk.state[at:stop].replace(_A_DONE, b""), DONE)
                    chunk.state[at:stop] = FILL[DONE][: stop - at]
                    self.dirty.add(chunk.number)
                    if not chunk.undone:
                        # what lies behind it in the chunk was settled before
                        self.close(chunk)
        if to > self.known:
            # the chunk in which reading goes on is made anew
            last = self.chunks.get(self.known >> SHIFT)
            if last is not None:
                self.forget(last)
            self.known = to
        self.start = max(self.start, to)
        self.advance()

    def tally(self, chunk: Chunk, first: int, end: int, sign: int) -> None:
        """Put [first, end) of a chunk into the counters (1), or take it out (-1)."""
        for code in set(chunk.state[first:end]):
            if code not in (DONE, UNREAD):
                self.n[KIND[code]] += sign * chunk.state.count(code, first, end)
