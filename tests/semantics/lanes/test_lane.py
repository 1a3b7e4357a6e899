"""A lane against a model that has one entry for each offset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semantics.lanes.lane import Lane, LaneError, Piece, by_source, columns
from semantics.lanes.marks import Mark, Marks, MarksError, Verb, parse
from semantics.lanes.runs import Run, decode, encode
from tests.examples import examples

NOW = 1_000


def given_lane(number: int, source: int = 1, *, ahead: bool = False) -> Lane:
    """A lane that has given records 100, 101 … of a source, and sent them, unless it was `ahead`."""
    lane = Lane()
    lane.give(source, [(100, 99 + number, 0)], ahead)
    if not ahead:
        lane.serve(0, number)
    return lane


def said(text: str) -> Marks:
    marks = parse(text)
    assert marks is not None
    return marks


def records(pieces: Iterable[Piece]) -> list[tuple[int, int]]:
    return [
        (source, offset)
        for source, ranges in by_source(pieces).items()
        for first, last in ranges
        for offset in range(first, last + 1)
    ]


def test_by_columns_it_is_the_same() -> None:
    lane = Lane()
    lane.give(1, [(10, 12, 0), (20, 20, 0)])
    lane.give(2, [(7, 7, 0)])
    lane.give(1, [(3, 4, 1), (600, 600, 1), (602, 602, 1)])
    pieces = list(lane.pieces(1, 8))
    found = {source: offsets.tolist() for source, offsets in columns(pieces).items()}
    assert found == {1: [3, 4, 11, 12, 20, 600], 2: [7]}


def test_a_commit_acknowledges_what_lies_below() -> None:
    lane = given_lane(10)
    settled = lane.commit(4, Marks(), NOW)
    assert records(settled.acked) == [(1, 100), (1, 101), (1, 102), (1, 103)]
    assert (settled.marked, settled.returned) == ([], [])
    assert (lane.open, lane.opened) == (4, 6)
    # once more, and one that comes late
    for offset in (4, 2, 0):
        assert lane.commit(offset, Marks(), NOW).acked == []
    assert lane.open == 4


def test_what_is_named_is_not_acknowledged() -> None:
    lane = given_lane(10)
    settled = lane.commit(6, said("ack1;n:500=1,3;d=4;a=8;r=0"), NOW)
    assert records(settled.acked) == [(1, 102), (1, 105), (1, 108)]
    assert [(piece.ranges(), mark.verb, mark.delay_ms) for piece, mark in settled.marked] == [
        ([(100, 100)], Verb.RETRY, None),
        ([(101, 101)], Verb.NACK, 500),
        ([(103, 103)], Verb.NACK, 500),
        ([(104, 104)], Verb.DEAD, None),
    ]
    assert (lane.open, lane.opened) == (6, 3)
    # what was named is closed: the same commit again, as after a rebalance, does nothing
    again = lane.commit(6, said("ack1;n:500=1,3;d=4;a=8;r=0"), NOW)
    assert (again.acked, again.marked) == ([], [])
    # the one above is not acknowledged twice
    assert records(lane.commit(10, Marks(), NOW).acked) == [(1, 106), (1, 107), (1, 109)]


def test_acknowledged_above_the_committed_offset_moves_what_is_told() -> None:
    lane = given_lane(10)
    lane.commit(2, said("ack1;a=2-4"), NOW)
    assert lane.open == 5


@pytest.mark.parametrize(
    ("offset", "metadata"),
    [(11, "ack1;"), (4, "ack1;n=4"), (4, "ack1;a=3"), (4, "ack1;a=10"), (10, "ack1;n=3-10")],
)
def test_what_cannot_be_followed_changes_nothing(offset: int, metadata: str) -> None:
    lane = given_lane(10)
    before = lane.state()
    with pytest.raises(MarksError):
        lane.commit(offset, said(metadata), NOW)
    assert lane.state() == before


def test_what_was_given_ahead_is_not_acknowledged_by_a_jump() -> None:
    lane = given_lane(10, ahead=True)
    assert lane.shown(0, 3)
    assert not lane.shown(0, 3)
    lane.serve(0, 3)
    # not a member: refused, since it acknowledges what nobody has seen
    with pytest.raises(MarksError, match="clear the subscription's backlog"):
        lane.commit(5, Marks(), NOW, member=False)
    assert records(lane.commit(3, Marks(), NOW, member=False).acked) == [(1, 100), (1, 101), (1, 102)]
    with pytest.raises(MarksError, match="not sent"):
        lane.commit(3, said("ack1;a=5"), NOW)
    # a member that begins at the end has skipped them: they come again
    settled = lane.commit(6, Marks(), NOW)
    assert settled.acked == []
    assert records(settled.returned) == [(1, 103), (1, 104), (1, 105)]
    assert lane.open == 6
    assert [(piece.begin, piece.end) for piece in lane.readable(0, 10)] == [(0, 3), (6, 10)]


def test_what_a_fetch_had_no_room_for_is_not_acknowledged_by_a_jump() -> None:
    lane = Lane()
    lane.give(1, [(100, 109, 0)])
    lane.serve(0, 3)
    with pytest.raises(MarksError, match="Offset 3 lies below the committed 10 and was not sent"):
        lane.commit(10, Marks(), NOW, member=False)
    settled = lane.commit(10, Marks(), NOW)
    assert records(settled.acked) == [(1, 100), (1, 101), (1, 102)]
    assert records(settled.returned) == [(1, offset) for offset in range(103, 110)]


def test_what_was_served_ahead_is_known_after_a_restart() -> None:
    lane = given_lane(10, ahead=True)
    assert lane.shown(0, 10)
    lane.serve(0, 10)
    again = Lane.load(lane.state(), lane.runs)
    assert again.first_sent() is None
    assert len(records(again.commit(10, Marks(), NOW, member=False).acked)) == 10


def test_a_row_says_whether_keys_counted_when_it_was_given() -> None:
    lane = given_lane(3)
    for shared in (True, False):
        lane.shared = shared
        assert Lane.load(lane.state(), lane.runs).shared is shared


def test_after_a_restart_only_what_was_given_ahead_is_known_to_be_unsent() -> None:
    lane = given_lane(4)
    lane.give(1, [(200, 203, 0)], True)
    lane.give(1, [(300, 303, 0)])
    lane = Lane.load(lane.state(), lane.runs)
    with pytest.raises(MarksError, match="Offset 4 lies below the committed 12 and was not sent"):
        lane.commit(12, Marks(), NOW, member=False)
    settled = lane.commit(12, Marks(), NOW)
    assert records(settled.acked) == [(1, offset) for offset in (*range(100, 104), *range(300, 304))]
    assert records(settled.returned) == [(1, offset) for offset in range(200, 204)]


def test_what_was_given_ahead_may_be_with_somebody_as_soon_as_its_row_says_so() -> None:
    lane = given_lane(4, ahead=True)
    assert lane.shown(0, 4)
    # the store has it, and whoever sends it has not said so yet
    assert len(records(lane.commit(4, Marks(), NOW).acked)) == 4


def test_a_commit_of_many_runs_closes_what_it_does_not_name_and_what_it_names() -> None:
    lane = Lane()
    for number in range(10):
        lane.give(1, [(2 * number, 2 * number, 0)])
    lane.serve(0, 10)
    settled = lane.commit(6, said("ack1;n=2;a=8"), NOW)
    assert records(settled.acked) == [(1, 2 * number) for number in (0, 1, 3, 4, 5, 8)]
    assert [(records([piece]), mark.verb) for piece, mark in settled.marked] == [([(1, 4)], Verb.NACK)]
    assert (lane.open, lane.opened) == (6, 3)
    assert list(lane.open_ranges(0, 10)) == [(6, 8), (9, 10)]


def test_what_is_named_and_was_done_with_before() -> None:
    lane = Lane()
    for number in range(10):
        lane.give(1, [(2 * number, 2 * number, 0)])
    lane.serve(0, 10)
    lane.commit(3, said("ack1;n=1;a=5-6"), NOW)
    found = [records(lane.closed_of(mark)) for mark in said("ack1;n=0-1,+2*2;a=6-20").named]
    assert found == [[(1, 0), (1, 2)], [], [(1, 12)]]
    lane.trim(2)
    assert records(lane.closed_of(said("ack1;n=0-2").named[0])) == [(1, 4)]


def test_the_end_of_a_consumer_closes_all_and_says_what_was_served() -> None:
    lane = Lane()
    lane.give(1, [(100, 109, 0)])
    lane.serve(0, 6)
    lane.commit(2, said("ack1;a=4"), NOW)
    ended = lane.end_all()
    assert records(ended.served) == [(1, 102), (1, 103), (1, 105)]
    assert records(ended.returned) == [(1, 106), (1, 107), (1, 108), (1, 109)]
    assert (lane.open, lane.end, lane.opened) == (10, 10, 0)
    # it reads as before
    assert [(piece.begin, piece.end) for piece in lane.readable(0, 10)] == [(0, 10)]
    # a late commit of who was lost finds nothing of its own
    assert lane.commit(8, Marks(), NOW).acked == []


def test_the_first_in_work_is_the_first_open_that_was_served() -> None:
    lane = Lane()
    lane.give(1, [(100, 109, 0)])
    assert lane.first_sent() is None
    lane.serve(2, 5)
    lane.commit(1, Marks(), NOW)
    piece = lane.first_sent()
    assert piece is not None
    assert piece.ranges() == [(102, 102)]


def test_what_was_trimmed_is_not_there() -> None:
    lane = given_lane(10)
    lane.give(2, [(7, 9, 1)])
    lane.trim(5)
    assert (lane.start, [run.source for run in lane.runs]) == (0, [1, 2])
    lane.commit(11, Marks(), NOW)
    lane.trim(10)
    assert (lane.start, [run.source for run in lane.runs]) == (10, [2])
    # nothing that is open goes
    lane.trim(13)
    assert (lane.start, [run.source for run in lane.runs]) == (11, [2])


def test_who_waits_between_two_runs_misses_none_when_others_are_forgotten() -> None:
    lane = Lane()
    for number in range(12):
        lane.give(1, [(10 * number, 10 * number + 1, 0)])
    lane.void(15, 16)
    lane.commit(8, Marks(), NOW)
    found = lane.readable(8, 24)
    assert next(found).begin == 8
    lane.trim(8)
    assert [(piece.begin, piece.end) for piece in found] == [
        (10, 12),
        (12, 14),
        (14, 15),
        *((at, at + 2) for at in range(16, 24, 2)),
    ]


def test_its_row_stays_small_whatever_is_taken_back_or_given_ahead() -> None:
    lane = Lane()
    for number in range(300):
        lane.give(1, [(3 * number, 3 * number + 2, 0)], ahead=number % 2 == 0)
        lane.shown(3 * number, 3 * number + 3)
        lane.serve(3 * number, 3 * number + 3)
        lane.void(3 * number + 1, 3 * number + 2)
        lane.commit(3 * number + 3, Marks(), NOW)
        lane.trim(lane.crowded(1 << 20, 20))
    assert len(lane.state()) < 500
    assert lane.start == 3 * 279 + 2
    assert [(piece.begin, piece.end) for piece in lane.readable(897, 900)] == [(897, 898), (899, 900)]
    # who reads again what is settled is no news
    assert not lane.shown(840, 900)
    # what is open stays
    lane.give(1, [(10_000, 10_002, 0)])
    lane.trim(lane.crowded(0, 0))
    assert (lane.start, len(lane.runs)) == (900, 1)


@pytest.mark.parametrize("state", [b"", b"\1", b"\3" + bytes(40), Lane().state() + b"\0"])
def test_a_row_that_is_not_whole_is_refused(state: bytes) -> None:
    with pytest.raises(LaneError):
        Lane.load(state, [])


def test_runs_beyond_what_the_row_says_are_refused() -> None:
    with pytest.raises(LaneError):
        Lane.load(Lane().state(), [Run(0, 1, 5, 3, 0, None)])


@dataclass
class Entry:
    source: int
    offset: int
    failed: int
    ahead: bool
    state: str = "open"
    served: bool = False
    seen: bool = False


class Model(RuleBasedStateMachine):
    """Every rule does the same to a lane and to a list of entries."""

    @initialize()
    def begin(self) -> None:
        self.lane = Lane()
        self.entries: list[Entry] = []
        self.next = 0
        self.trimmed = 0

    def entry_range(self, begin: int, end: int) -> list[Entry]:
        return self.entries[begin:end]

    @rule(
        source=st.integers(1, 2),
        parts=st.lists(
            st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 1)), min_size=1, max_size=3
        ),
        ahead=st.booleans(),
    )
    def give(self, source: int, parts: list[tuple[int, int, int]], ahead: bool) -> None:
        acquired = []
        for gap, length, failed in parts:
            first = self.next + gap
            self.next = first + length
            acquired.append((first, self.next - 1, failed))
            self.entries += [Entry(source, offset, failed, ahead) for offset in range(first, self.next)]
        self.lane.give(source, acquired, ahead)

    @rule(data=st.data())
    def serve(self, data: st.DataObject) -> None:
        begin = data.draw(st.integers(self.trimmed, len(self.entries)))
        end = data.draw(st.integers(begin, len(self.entries)))
        # what is settled below says nothing any more
        told = self.entries[max(begin, self.first_open()) : end]
        unseen = any(entry.ahead and not entry.seen for entry in told)
        assert self.lane.shown(begin, end) == unseen
        self.lane.serve(begin, end)
        for entry in self.entries[begin:end]:
            entry.served = entry.seen = True

    @rule(data=st.data(), member=st.booleans())
    def commit(self, data: st.DataObject, member: bool) -> None:
        offset = data.draw(st.integers(0, len(self.entries) + 1))
        places = st.integers(0, max(len(self.entries) - 1, 0))
        named = data.draw(st.dictionaries(places, st.sampled_from(tuple(Verb)), max_size=4))
        marks = Marks(tuple(Mark(at, at, verb) for at, verb in sorted(named.items())))
        entries = self.entries
        below = [entry for entry in entries[:offset] if entry.state == "open"]
        unseen = [entry for entry in below if not entry.seen]
        wrong = offset > len(entries) or any(
            at >= len(entries) or (at < offset if verb is Verb.ACK else at >= offset)
            for at, verb in named.items()
        )
        wrong = wrong or (bool(unseen) and not member)
        wrong = wrong or any(
            verb is Verb.ACK and entries[at].state == "open" and not entries[at].seen
            for at, verb in named.items()
            if at < len(entries)
        )
        if wrong:
            before = self.lane.state()
            with pytest.raises(MarksError):
                self.lane.commit(offset, marks, NOW, member=member)
            assert self.lane.state() == before
            return
        settled = self.lane.commit(offset, marks, NOW, member=member)
        acked, marked, returned = set(), set(), set()
        for at, entry in enumerate(entries):
            if entry.state != "open":
                continue
            if at < offset and not entry.seen:
                returned.add((entry.source, entry.offset))
                entry.state = "void"
            elif at in named and named[at] is not Verb.ACK:
                marked.add((entry.source, entry.offset, named[at]))
                entry.state = "closed"
            elif at < offset or at in named:
                acked.add((entry.source, entry.offset))
                entry.state = "closed"
        assert set(records(settled.acked)) == acked
        assert set(records(settled.returned)) == returned
        assert {
            (piece.run.source, offset, mark.verb)
            for piece, mark in settled.marked
            for first, last in piece.ranges()
            for offset in range(first, last + 1)
        } == marked

    @rule()
    def end(self) -> None:
        ended = self.lane.end_all()
        assert set(records(ended.served)) == {
            (entry.source, entry.offset) for entry in self.entries if entry.state == "open" and entry.served
        }
        assert set(records(ended.returned)) == {
            (entry.source, entry.offset)
            for entry in self.entries
            if entry.state == "open" and not entry.served
        }
        for entry in self.entries:
            if entry.state == "open":
                entry.state = "closed"

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def void(self, data: st.DataObject) -> None:
        begin = data.draw(st.integers(self.trimmed, len(self.entries)))
        assume(begin < len(self.entries) and self.entries[begin].state == "open")
        self.lane.void(begin, begin + 1)
        self.entries[begin].state = "void"

    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        before = data.draw(st.integers(0, len(self.entries)))
        self.lane.trim(before)
        self.trimmed = max(self.trimmed, min(before, self.first_open()))

    @rule()
    def restart(self) -> None:
        again = [run for run in self.lane.runs for run in decode(run.at, encode([run]))]
        self.lane = Lane.load(self.lane.state(), again)
        for entry in self.entries:
            entry.served = False
            # it is not known, but of what was given ahead
            entry.seen = entry.seen or not entry.ahead

    def first_open(self) -> int:
        return next((at for at, entry in enumerate(self.entries) if entry.state == "open"), len(self.entries))

    @invariant()
    def is_the_same(self) -> None:
        lane, entries = self.lane, self.entries
        assert lane.end == len(entries)
        assert lane.open == self.first_open()
        assert lane.opened == sum(entry.state == "open" for entry in entries)
        assert lane.start == self.trimmed
        read = [
            (at, piece.run.source, offset, piece.run.failed)
            for piece in lane.readable(lane.start, lane.end)
            for at, offset in enumerate(piece.run.offsets(piece.begin, piece.end), piece.begin)
        ]
        assert read == [
            (at, entry.source, entry.offset, entry.failed)
            for at, entry in enumerate(entries)
            if at >= lane.start and entry.state != "void"
        ]
        assert [at for begin, end in lane.sent_and_open() for at in range(begin, end)] == [
            at for at, entry in enumerate(entries) if entry.state == "open" and entry.served
        ]


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
