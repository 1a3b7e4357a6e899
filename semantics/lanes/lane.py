"""One lane: a log of deliveries with dense offsets, which of them are open, and what a commit does to them.

A delivery is *given* when a run is appended. It is *served* when it was sent to somebody. It is *open* until it is
acknowledged, failed, dead or taken back; then it is *closed* for good, for an offset is one delivery: what is to be
delivered again gets a new offset at the end. A closed delivery reads as before, so that [a, b) never changes; only one
that was taken back before anybody was to see it, because the client said that it goes back or skipped it, is *void*,
and reads pass over it.

`open` is the first open offset, and what OffsetFetch answers. Nothing here does I/O or knows the time.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from semantics.lanes.marks import Mark, Marks, MarksError, Verb, check
from semantics.lanes.ranges import Ranges
from semantics.lanes.runs import Run, runs_of
from semantics.lanes.window import LaneWindow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STATE = struct.Struct(">BQQQI3I")
_RANGE = struct.Struct(">QQ")
_SHARED, _KEYED = 1, 2


class LaneError(ValueError):
    """A lane's row that cannot be read."""


class Piece(NamedTuple):
    """Deliveries [begin, end) of a run."""

    run: Run
    begin: int
    end: int

    @property
    def number(self) -> int:
        return self.end - self.begin

    def ranges(self) -> list[tuple[int, int]]:
        """(first, last) in the source."""
        return self.run.ranges(self.begin, self.end)


class Settled(NamedTuple):
    """What follows for the records from a commit."""

    acked: list[Piece]
    marked: list[tuple[Piece, Mark]]
    """nacked, dead, or sent to the retry letter topic, as the mark says"""
    returned: list[Piece]
    """nobody was sent these: they are available again, as if they had not been given"""


class Ended(NamedTuple):
    """What the end of a consumer leaves: all of it is closed."""

    served: list[Piece]
    returned: list[Piece]


def by_source(pieces: Iterable[Piece]) -> dict[int, list[tuple[int, int]]]:
    """Source -> (first, last), ascending and disjoint; none touches the next."""
    found: dict[int, list[tuple[int, int]]] = {}
    for piece in pieces:
        found.setdefault(piece.run.source, []).extend(piece.ranges())
    for source, ranges in found.items():
        ranges.sort()
        joined = ranges[:1]
        for first, last in ranges[1:]:
            if first <= joined[-1][1] + 1:
                joined[-1] = joined[-1][0], max(last, joined[-1][1])
            else:
                joined.append((first, last))
        found[source] = joined
    return found


def columns(pieces: Iterable[Piece]) -> dict[int, NDArray[np.int64]]:
    """Source -> offsets, ascending: `by_source` for many that are not many in a row."""
    import numpy as np

    found: dict[int, list[NDArray[np.int64]]] = {}
    for run, begin, end in pieces:
        found.setdefault(run.source, []).append(run.column(begin, end))
    return {
        source: np.sort(np.concatenate(parts)) if len(parts) > 1 else parts[0]
        for source, parts in found.items()
    }


def parts(piece: Piece, held: list[tuple[int, int]]) -> Iterator[tuple[int, int, bool]]:
    """[begin, end) of a piece, in parts whose records are all among these ranges of its source, or none of them."""
    offsets = piece.run.offsets(piece.begin, piece.end)
    position = max(bisect_right(held, offsets[0], key=itemgetter(0)) - 1, 0)
    begin, before = piece.begin, False
    for number, offset in enumerate(offsets, piece.begin):
        while position < len(held) and held[position][1] < offset:
            position += 1
        there = position < len(held) and held[position][0] <= offset
        if there is not before and number > begin:
            yield begin, number, before
            begin = number
        before = there
    yield begin, piece.end, before


class Lane:
    """See the module."""

    __slots__ = (
        "_ahead",
        "_ats",
        "_before",
        "_seen",
        "_shown",
        "_void",
        "closed",
        "end",
        "open",
        "runs",
        "served",
        "shared",
        "start",
        "weight",
        "window",
    )

    def __init__(self, start: int = 0) -> None:
        self.start = start
        """the first offset that can be read"""
        self.open = start
        """the first open offset, or `end`"""
        self.end = start
        """the offset that the next delivery gets"""
        self.shared = True
        """what is open was given without regard to keys"""
        self.runs: list[Run] = []
        self.weight = 0
        """bytes that they take in memory, on the whole"""
        self._ats: list[int] = []
        # behind the last run that was given ahead
        self._ahead = start
        self.closed = Ranges()
        """at or above `open`"""
        self.served = Ranges()
        """at or above `open`, since the gateway started"""
        # what is open below that may have been served before the gateway started, to the consumer that has it still
        self._before = start
        # at or above `open`: what may have been sent to somebody, whoever that was
        self._shown = Ranges()
        # at or above `open`, of what was given ahead: what was served, for good
        self._seen = Ranges()
        self._void = Ranges()
        self.window = LaneWindow()

    @property
    def opened(self) -> int:
        """How many deliveries are open."""
        return self.end - self.open - self.closed.total

    # -- given and served ------------------------------------------------------------------------------------

    def give(self, source: int, acquired: Sequence[tuple[int, int, int]], ahead: bool = False) -> list[Run]:
        """New deliveries of (first, last, failed) of a source, ascending. `ahead`: to nobody who fetches yet."""
        runs = runs_of(self.end, source, acquired, ahead)
        self.runs += runs
        self._ats += [run.at for run in runs]
        self.weight += sum([run.weight for run in runs])
        self.end = runs[-1].end
        if ahead:
            self._ahead = self.end
        return runs

    def shown(self, begin: int, end: int) -> bool:
        """[begin, end) is about to be sent. Whether the lane's row is to say so, before it is: some of it was given
        ahead, and is open.
        """
        news = False
        for run, first, stop in self.pieces(max(begin, self.open), end):
            if run.ahead and next(self._seen.outside(first, stop), None) is not None:
                self._seen.add(first, stop)
                news = True
        return news

    def serve(self, begin: int, end: int) -> None:
        """[begin, end), which is `shown`, is sent to somebody."""
        for sent in (self.served, self._shown):
            sent.add(max(begin, self.open), min(end, self.end))

    def pieces(self, begin: int, end: int) -> Iterator[Piece]:
        """The runs of [begin, end), as far as there are any. Whoever asks may wait between two of them, and the lane be
        given more or forget some meanwhile.
        """
        at = max(bisect_right(self._ats, begin) - 1, 0)
        while at < len(self.runs):
            run = self.runs[at]
            if run.at >= end:
                return
            first, stop = max(begin, run.at), min(end, run.end)
            if first < stop:
                yield Piece(run, first, stop)
            if at < len(self.runs) and self.runs[at] is run:
                at += 1
            else:
                at = bisect_left(self._ats, run.end)

    def readable(self, begin: int, end: int) -> Iterator[Piece]:
        """The same without what is void."""
        while begin < end and (found := next(self._void.outside(begin, end), None)) is not None:
            first, begin = found
            yield from self.pieces(first, begin)

    def whole(self, begin: int, end: int) -> bool:
        """Whether nothing of [begin, end) is void."""
        return not len(self._void) or next(self._void.within(begin, end), None) is None

    def open_ranges(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """What of [begin, end) is open."""
        return self.closed.outside(max(begin, self.open), min(end, self.end))

    def closed_of(self, mark: Mark) -> Iterator[Piece]:
        """What is named and was done with before, as far as it is not forgotten; without what nobody was to see."""
        begin, end = mark.first, min(mark.last + 1, self.end)
        for first, stop in chain(self.open_ranges(begin, end), ((end, end),)):
            yield from self.readable(begin, first)
            begin = stop

    # -- what a client says ----------------------------------------------------------------------------------

    def commit(self, offset: int, marks: Marks, now: int, *, member: bool = True) -> Settled:
        """A commit of `offset` by a member of the group, or by somebody who is none. Raises MarksError, and nothing is
        taken: offsets or names that were not given, or, by no member, a jump over what nobody was sent.
        """
        if offset > self.end:
            raise MarksError(f"Offset {offset} was not given to anybody yet: the next one is {self.end}.")
        check(marks, offset, self.end)
        skipped = Ranges()
        for begin, end in self.open_ranges(self.open, offset):
            for first, stop in self._unsent(begin, end):
                skipped.add(first, stop)
        if skipped.total and not member:
            raise MarksError(
                f"Offset {next(iter(skipped))[0]} lies below the committed {offset} and was not sent to anybody yet. "
                "To skip what is there, clear the subscription's backlog."
            )
        for mark in marks.named:
            if mark.verb is Verb.ACK and next(self._open_and_unsent(mark.first, mark.last + 1), None):
                raise MarksError(f"Of {mark.first} to {mark.last} something was not sent to anybody yet.")
        named: list[tuple[Piece, Mark]] = []
        rest = Ranges()
        for begin, end in self.open_ranges(self.open, offset):
            rest.add(begin, end)
        for begin, end in skipped:
            rest.remove(begin, end)
        for mark in marks.named:
            for first, stop in list(self.open_ranges(mark.first, mark.last + 1)):
                for begin, end in list(skipped.outside(first, stop)):
                    named += [(piece, mark) for piece in self.pieces(begin, end)]
                    rest.remove(begin, end)
        acked = [piece for begin, end in rest for piece in self.pieces(begin, end)]
        acked += [piece for piece, mark in named if mark.verb is Verb.ACK]
        marked = [(piece, mark) for piece, mark in named if mark.verb is not Verb.ACK]
        returned = [piece for begin, end in skipped for piece in self.pieces(begin, end)]
        # what was given record by record has a run for each: they are closed together
        for begin, end in list(rest):
            self.close(begin, end)
        for piece, _ in named:
            self.close(piece.begin, piece.end)
        for begin, end in list(skipped):
            self.void(begin, end)
        done = sum([piece.number for piece in acked]) + sum([piece.number for piece, _ in marked])
        self.window.acked(done, not self.opened, now)
        return Settled(acked, marked, returned)

    def _unsent(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """What of [begin, end) was never sent to anybody; after a restart, of what was given ahead."""
        for run, first, stop in self.pieces(begin, min(end, self._ahead)):
            yield from (self._seen if run.ahead else self._shown).outside(first, stop)
        yield from self._shown.outside(max(begin, self._ahead), end)

    def _open_and_unsent(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        for first, stop in self.open_ranges(begin, end):
            yield from self._unsent(first, stop)

    # -- the end of deliveries -------------------------------------------------------------------------------

    def close(self, begin: int, end: int) -> None:
        """[begin, end) is not open any more."""
        self.closed.add(max(begin, self.open), end)
        self.open = self.closed.reach(self.open)
        self.closed.remove(0, self.open)
        self.served.remove(0, self.open)
        self._shown.remove(0, self.open)
        self._seen.remove(0, self.open)

    def void(self, begin: int, end: int) -> None:
        """[begin, end) is taken back, and not read any more."""
        self._void.add(begin, end)
        self.close(begin, end)

    def unsent_and_open(self, begin: int) -> Iterator[tuple[int, int]]:
        """What lies at `begin` or above and was sent to nobody ever."""
        for first, stop in self.open_ranges(begin, self.end):
            yield from self._shown.outside(first, stop)

    def sent_and_open(self) -> Iterator[tuple[int, int]]:
        """What somebody may be working on."""
        for begin, end in self.served:
            yield from self.open_ranges(begin, end)

    @property
    def in_hand(self) -> int:
        """How many deliveries its consumer may be working on."""
        served = sum(end - begin for begin, end in self.sent_and_open())
        for begin, end in self.open_ranges(self.open, self._before):
            served += sum(stop - first for first, stop in self.served.outside(begin, end))
        return served

    def follow(self, before: Lane, *, stored: bool) -> None:
        """It was loaded in the place of `before`: what was served is known. `stored`: all of that is; else what is open
        now may have been closed there, and been served before.
        """
        for begin, end in before.served:
            for first, stop in list(self.open_ranges(begin, end)):
                self.served.add(first, stop)
        if stored:
            self._before = min(before._before, self.end)
            self._shown = Ranges()
            for begin, end in before._shown:
                self._shown.add(max(begin, self.open), min(end, self.end))

    def let_go(self) -> None:
        """Its consumer has it no more, and with it what it was served before the gateway started."""
        self._before = self.start

    def first_sent(self) -> Piece | None:
        """The first of what somebody may be working on: what was in work when the consumer left."""
        found = next(self.sent_and_open(), None)
        return None if found is None else next(self.pieces(found[0], found[0] + 1))

    def end_all(self) -> Ended:
        """Its consumer is gone: all that is open is closed, and is to be delivered anew."""
        served = [piece for begin, end in list(self.sent_and_open()) for piece in self.pieces(begin, end)]
        returned = [
            piece
            for begin, end in list(self.open_ranges(self.open, self.end))
            for first, stop in list(self.served.outside(begin, end))
            for piece in self.pieces(first, stop)
        ]
        self.close(self.open, self.end)
        return Ended(served, returned)

    def trim(self, before: int) -> None:
        """Forget what lies below `before`, as far as it is closed."""
        self.start = max(self.start, min(before, self.open))
        keep = 0
        while keep < len(self.runs) and self.runs[keep].end <= self.start:
            keep += 1
        self.weight -= sum([run.weight for run in self.runs[:keep]])
        del self.runs[:keep], self._ats[:keep]
        self._void.remove(0, self.start)

    def crowded(self, weight: int, voids: int) -> int:
        """Up to where it is to forget, so that its runs have no more than this weight, and no more ranges are void, for
        these are in its row. What is open stays.
        """
        before, excess = self.start, self.weight - weight
        for run in self.runs:
            if excess <= 0 or run.end > self.open:
                break
            excess -= run.weight
            before = run.end
        if (many := len(self._void) - voids) > 0:
            before = max(before, next(islice(self._void, many - 1, None))[1])
        return min(before, self.open)

    # -- its row ---------------------------------------------------------------------------------------------

    def state(self) -> bytes:
        """What its runs do not say, as a row."""
        sets = (self.closed, self._seen, self._void)
        form = _SHARED if self.shared else _KEYED
        head = _STATE.pack(form, self.start, self.open, self.end, self.window.size, *map(len, sets))
        return b"".join([head, *(_RANGE.pack(*each) for ranges in sets for each in ranges)])

    @classmethod
    def load(cls, state: bytes, runs: Iterable[Run]) -> Lane:
        """From its row, and its runs, ascending. Raises LaneError."""
        try:
            version, start, first_open, end, size, *lengths = _STATE.unpack_from(state)
        except struct.error:
            raise LaneError(f"A lane's row of {len(state)} bytes is unknown.") from None
        if version not in (_SHARED, _KEYED) or len(state) != _STATE.size + sum(lengths) * _RANGE.size:
            raise LaneError(f"A lane's row of {len(state)} bytes that begins with {version} is unknown.")
        lane = cls(start)
        lane.shared = version == _SHARED
        lane.open, lane.end = first_open, end
        lane._before = end
        lane._shown.add(first_open, end)
        lane.window.size = size
        ranges = _RANGE.iter_unpack(state[_STATE.size :])
        for found, length in zip((lane.closed, lane._seen, lane._void), lengths, strict=True):
            for _ in range(length):
                found.add(*next(ranges))
        for run in runs:
            if run.end > start:
                lane.runs.append(run)
                lane._ats.append(run.at)
                lane.weight += run.weight
                if run.ahead:
                    lane._ahead = run.end
        if not start <= first_open <= end or (lane.runs and lane.runs[-1].end > end):
            raise LaneError(f"A lane of [{start}, {end}) that is open from {first_open} on, with other runs.")
        return lane
