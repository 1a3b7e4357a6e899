"""The lanes of a subscription under consumers that crash, leave, hang and are slow: who dies, and who must not."""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush

import pytest

from semantics.lanes.lane import Lane
from semantics.lanes.lanes import Lanes
from semantics.lanes.marks import Marks

LIMIT = 5


class Source:
    """One partition, as a cursor of Shared deals it: what came back first, and each record to one lane at a time."""

    def __init__(self, records: int) -> None:
        self.failed = [0] * records
        self.state = ["available"] * records
        self.heap = list(range(records))
        self.dead: list[int] = []

    def poll(self, limit: int) -> list[tuple[int, int, int]]:
        taken: list[tuple[int, int, int]] = []
        while self.heap and len(taken) < limit:
            offset = heappop(self.heap)
            self.state[offset] = "held"
            taken.append((offset, offset, self.failed[offset]))
        return taken

    def settle(self, ranges: list[tuple[int, int]]) -> None:
        for first, last in ranges:
            for offset in range(first, last + 1):
                assert self.state[offset] == "held"
                self.state[offset] = "done"

    def back(self, ranges: list[tuple[int, int]], *, failed: bool, most: int | None) -> None:
        for first, last in ranges:
            for offset in range(first, last + 1):
                assert self.state[offset] == "held"
                if failed:
                    count = self.failed[offset] + 1
                    self.failed[offset] = (
                        count if most is None else min(count, max(most, self.failed[offset]))
                    )
                if LIMIT and self.failed[offset] >= LIMIT:
                    self.state[offset] = "dead"
                    self.dead.append(offset)
                else:
                    self.state[offset] = "available"
                    heappush(self.heap, offset)


class Member:
    """A client that fetches all it can, works in order, and commits what it has done each so often."""

    def __init__(self, name: str, lanes: list[int], rate: float, commit_each: float) -> None:
        self.name, self.lanes = name, lanes
        self.per_tick = rate
        self.commit_each = commit_each
        self.begin()

    def begin(self) -> None:
        self.credit = 0.0
        self.work: list[tuple[int, int, int]] = []
        self.at = 0
        self.done: dict[int, int] = {}
        self.ready = 0.0
        self.next_commit = self.commit_each


class World:
    """Ticks of 100 ms."""

    def __init__(self, records: int, lanes: int, members: list[Member]) -> None:
        self.source = Source(records)
        self.lanes = Lanes([Lane() for _ in range(lanes)], LIMIT, shared=True)
        self.members = members
        for member in members:
            self.join(member)
        self.now = 0
        self.served = 0
        self.crashes = 0

    def join(self, member: Member) -> None:
        member.begin()
        for number in member.lanes:
            self.lanes.owners[number] = member.name

    def fetch(self, member: Member) -> None:
        for number in member.lanes:
            lane = self.lanes.lanes[number]
            room = self.lanes.room(number)
            if not room:
                continue
            taken = self.source.poll(room)
            self.lanes.polled(number, [(1, taken)])
            if not taken:
                continue
            begin = lane.end
            lane.give(1, taken)
            lane.serve(begin, lane.end)
            self.served += len(taken)
            member.work += [
                (number, at, offset)
                for piece in lane.pieces(begin, lane.end)
                for at, offset in enumerate(piece.run.offsets(piece.begin, piece.end), piece.begin)
            ]

    def commit(self, member: Member) -> None:
        for number, offset in member.done.items():
            settled = self.lanes.commit(number, offset, Marks(), self.now)
            for piece in settled.acked:
                self.source.settle(piece.ranges())
        member.done = {}

    def crash(self, member: Member) -> None:
        self.crashes += 1
        crash = self.lanes.crash(member.name, lambda source, offset: self.source.failed[offset])
        for _, piece, most in crash.failed:
            self.source.back(piece.ranges(), failed=True, most=most)
        for _, piece in crash.returned:
            self.source.back(piece.ranges(), failed=False, most=None)

    def tick(self, kills: Callable[[int], bool], dead_for: float = 10.0) -> None:
        self.now += 100
        for member in self.members:
            if member.ready > self.now:
                continue
            if not any(self.lanes.owners[number] == member.name for number in member.lanes):
                self.join(member)
            self.fetch(member)
            member.credit = min(member.credit + member.per_tick, max(member.per_tick, 1))
            while member.credit >= 1 and member.at < len(member.work):
                number, at, offset = member.work[member.at]
                if kills(offset):
                    self.crash(member)
                    member.ready = self.now + dead_for * 1_000
                    break
                member.at += 1
                member.done[number] = max(member.done.get(number, 0), at + 1)
                member.credit -= 1
            else:
                member.next_commit -= 0.1
                if member.next_commit <= 0:
                    member.next_commit = member.commit_each
                    self.commit(member)

    def run(self, kills: Callable[[int], bool], ticks: int) -> None:
        for _ in range(ticks):
            self.tick(kills)
            if all(state in ("done", "dead") for state in self.source.state):
                return
        raise AssertionError(f"open after {ticks} ticks: {self.source.state.count('available')} available")


@pytest.mark.parametrize("commit_each", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("poisons", [{500}, {100, 101, 3_000}])
@pytest.mark.parametrize(("lanes", "members"), [(1, 1), (4, 1), (4, 2), (8, 4)])
def test_a_poisonous_record_dies_and_takes_no_neighbour_with_it(
    poisons: set[int], commit_each: float, lanes: int, members: int
) -> None:
    each = lanes // members
    world = World(
        6_000,
        lanes,
        [
            Member(f"m{number}", list(range(number * each, (number + 1) * each)), 100, commit_each)
            for number in range(members)
        ],
    )
    world.run(lambda offset: offset in poisons, 40_000)
    assert sorted(world.source.dead) == sorted(poisons)
    # proven: each of them had its last delivery by itself, and not sooner
    assert world.crashes >= LIMIT


def test_a_member_that_dies_each_minute_kills_nothing_and_gets_on() -> None:
    world = World(30_000, 4, [Member("m", [0, 1, 2, 3], 10, 5.0)])
    last = 0

    def kills(offset: int) -> bool:
        nonlocal last
        if world.now - last >= 60_000:
            last = world.now
            return True
        return False

    # at full speed it would take 300 s
    world.run(kills, 9_000)
    assert world.source.dead == []
    assert world.crashes > 5


def test_a_slow_member_hoards_little() -> None:
    """One record a second: a window of 64. Ten a second: twice what it does between two commits."""
    world = World(10_000, 2, [Member("a", [0], 0.1, 5.0), Member("b", [1], 1, 5.0)])
    for _ in range(600):
        world.tick(lambda offset: False)
    assert world.lanes.lanes[0].opened <= 64
    assert world.lanes.lanes[1].opened <= 110


def test_a_quick_member_gets_on() -> None:
    world = World(100_000, 1, [Member("m", [0], 2_000, 5.0)])
    for _ in range(350):
        world.tick(lambda offset: False)
    # 35 s, of which it could have worked all the time: 700,000
    assert world.source.state.count("done") > 90_000


def test_one_that_leaves_at_a_record_leaves_at_it_five_times_at_most() -> None:
    """Its window is full of others, so the record counts up to the last delivery, and is given alone then."""
    world = World(10, 2, [Member("m", [0, 1], 10, 5.0)])
    lanes, source, (member,) = world.lanes, world.source, world.members
    for times in range(LIMIT):
        world.join(member)
        world.fetch(member)
        assert sum(lane.opened for lane in lanes.lanes) == (10 if times < LIMIT - 1 else 1)
        leave = lanes.leave("m", lambda _, offset: source.failed[offset])
        for number, piece, most in leave.failed:
            [(offset, _)] = piece.ranges()
            assert offset == 0
            source.failed[0] += 1
            if times == LIMIT - 1:
                assert most is None
                lanes.lanes[number].close(piece.begin, piece.end)
                return
            assert most == LIMIT - 1
        for _, piece in leave.returned:
            source.back(piece.ranges(), failed=False, most=None)
    raise AssertionError("it is alive")


def test_lanes_of_others_are_left_alone_by_a_crash() -> None:
    lanes = Lanes([Lane(), Lane()], LIMIT, shared=False)
    for number, lane in enumerate(lanes.lanes):
        lane.give(1, [(number * 10, number * 10 + 4, 0)])
        lane.serve(0, 3)
    lanes.owners = ["a", "b"]
    crash = lanes.crash("a", lambda source, offset: 0)
    assert [(each.piece.ranges(), each.most) for each in crash.failed] == [([(0, 2)], LIMIT - 1)]
    assert [piece.ranges() for _, piece in crash.returned] == [[(3, 4)]]
    assert lanes.lanes[1].opened == 5
    assert lanes.owners == [None, "b"]
    # Key_Shared: what is suspect is of the lane
    assert lanes.suspects(0).number == 3
    assert lanes.suspects(1).number == 0
    assert lanes.room(1) == 64 - 5


def test_suspects_that_do_not_come_hold_nobody_up() -> None:
    lanes = Lanes([Lane()], LIMIT, shared=True)
    lane = lanes.lanes[0]
    lane.give(1, [(0, 0, 0)])
    lane.serve(0, 1)
    lanes.owners[0] = "m"
    lanes.crash("m", lambda source, offset: LIMIT - 2)
    # it was skipped by an administrator meanwhile
    assert (lanes.suspects(0).number, lanes.room(0)) == (1, 1)
    lanes.polled(0, [(1, [(1, 5, 0)])])
    assert lanes.suspects(0).number == 0
    assert lanes.room(0) == 64


def test_random_crashes_leave_no_record_behind() -> None:
    dice = random.Random(7)
    world = World(3_000, 6, [Member(f"m{at}", [at * 2, at * 2 + 1], 20, 1.0) for at in range(3)])
    world.run(lambda offset: dice.random() < 0.002, 100_000)
    assert world.source.state.count("done") + len(world.source.dead) == 3_000


@pytest.mark.parametrize("how", ["crash", "leave"])
def test_what_was_served_before_a_restart_is_in_hand_still(how: str) -> None:
    """A client keeps its place when the gateway starts anew, and all that it has fetched."""
    before = Lane()
    before.give(1, [(0, 4, 0)])
    before.serve(0, 5)
    lane = Lane.load(before.state(), before.runs)
    lanes = Lanes([lane], LIMIT, shared=True)
    lanes.owners[0] = "m"
    # its last delivery, and not by itself
    lane.give(1, [(5, 5, LIMIT - 1)])
    lane.serve(5, 6)
    found = (lanes.crash if how == "crash" else lanes.leave)("m", lambda source, offset: LIMIT - 1).failed
    assert [(each.piece.ranges(), each.most) for each in found] == [([(5, 5)], LIMIT - 1)]


def test_what_was_served_to_another_before_a_restart_is_in_nobodys_hands() -> None:
    before = Lane()
    before.give(1, [(0, 0, LIMIT - 1)])
    before.serve(0, 1)
    lane = Lane.load(before.state(), before.runs)
    lanes = Lanes([lane, Lane()], LIMIT, shared=True)
    lanes.owners = ["m", "n"]
    assert lanes.leave("m", lambda source, offset: 0).failed == []
    lanes.owners = ["n", "n"]
    lane.give(1, [(1, 1, 0)])
    lane.serve(0, 1)
    lanes.lanes[1].give(1, [(9, 9, 0)])
    crash = lanes.crash("n", lambda source, offset: LIMIT - 1)
    assert [each.most for each in crash.failed] == [None]


def test_nobody_waits_for_a_suspect_on_a_lane_that_is_not_read_unless_it_is_in_somebodys_hands() -> None:
    read = {0, 1}
    lanes = Lanes([Lane(), Lane()], 2, shared=False, reads=read.__contains__)
    lanes.lanes[0].give(1, [(0, 1, 0)])
    lanes.lanes[0].serve(0, 2)
    lanes.owners = ["m", "m"]
    lanes.crash("m", lambda source, offset: 0)
    lanes.owners = ["n", "n"]
    assert [lanes.room(number) for number in (0, 1)] == [1, 0]
    read.discard(0)
    assert lanes.room(1) == 64
    lanes.lanes[0].give(1, [(0, 0, 1)])
    lanes.lanes[0].serve(2, 3)
    assert lanes.room(1) == 0
