"""The consumer group's table, row by row: what an event does in a state, and what each heartbeat is answered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.coordinators import consumer_rows, group_rows
from gateway.coordinators.classic_events import Delete, Plain
from gateway.coordinators.codes import Code
from gateway.coordinators.consumer_events import Beat, TopicView
from gateway.coordinators.consumer_group import WAITING_MS, ConsumerGroup
from gateway.coordinators.consumer_state import Limits
from gateway.coordinators.group_rows import Kind, RowError, State
from store.api import Delete as DeleteRow
from store.api import DeleteRange, Family, Put
from tests.gateway.coordinators.consumer_bench import (
    INTERVAL,
    REBALANCE,
    SESSION,
    ConsumerBench,
    T,
    U,
    parts,
)


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


def two(bench: ConsumerBench) -> None:
    """Two members of t, settled at epoch 2."""
    bench.beat("a", 0, "t")
    bench.beat("b", 0, "t")
    bench.settle("a", "b")


def reconciling(bench: ConsumerBench) -> None:
    """b has joined, and a has not given up what b is to get."""
    bench.beat("a", 0, "t")
    bench.beat("b", 0, "t")


def assigning(bench: ConsumerBench) -> None:
    two(bench)
    bench.leave("b")


def empty(bench: ConsumerBench) -> None:
    bench.beat("a", 0, "t")
    bench.leave("a")


def grow(bench: ConsumerBench) -> None:
    bench.change(t=T._replace(partitions=6))
    bench.beat("a", bench.group.members["a"].epoch)


def released(bench: ConsumerBench) -> None:
    """a gives up what it must, and both are told."""
    bench.beat("a", 1)
    for name in "abab":
        member = bench.group.members[name]
        bench.beat(name, member.epoch, owned=frozenset(member.assigned))


def static_away(bench: ConsumerBench) -> None:
    bench.leave("s", -2, "i")


def static(bench: ConsumerBench) -> None:
    bench.beat("s", 0, "t", instance="i")


ROWS: list[
    tuple[str, Callable[[ConsumerBench], None], str, Callable[[ConsumerBench], object], str, int | None]
] = [
    ("a member joins", empty, "Empty", lambda b: b.beat("a", 0, "t"), "Stable", 1),
    ("another joins", two, "Stable", lambda b: b.beat("c", 0, "t"), "Reconciling", 1),
    ("one subscribes differently", two, "Stable", lambda b: b.beat("a", 2, "t", "u"), "Reconciling", 1),
    (
        "one asks for another assignor",
        two,
        "Stable",
        lambda b: b.beat("a", 2, assignor="range"),
        "Reconciling",
        1,
    ),
    ("a topic grew", two, "Stable", grow, "Reconciling", 1),
    ("another joins meanwhile", reconciling, "Reconciling", lambda b: b.beat("c", 0, "t"), "Reconciling", 1),
    ("the last reaches its target", reconciling, "Reconciling", released, "Stable", 0),
    ("a member leaves", two, "Stable", lambda b: b.leave("a"), "Assigning", 1),
    ("a member leaves meanwhile", reconciling, "Reconciling", lambda b: b.leave("b"), "Assigning", 1),
    ("all are silent", two, "Stable", lambda b: b.pass_time(SESSION), "Empty", 1),
    ("a heartbeat", assigning, "Assigning", lambda b: b.beat("a", 2), "Stable", 0),
    ("a static member is away", static, "Stable", static_away, "Reconciling", 0),
    ("the last leaves", assigning, "Assigning", lambda b: b.leave("a"), "Empty", 1),
    ("deleted", empty, "Empty", lambda b: b.send(Delete(None)), "Dead", None),
]


@pytest.mark.parametrize(
    ("given", "before", "event", "after", "grows"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_row_of_the_table(
    bench: ConsumerBench,
    given: Callable[[ConsumerBench], None],
    before: str,
    event: Callable[[ConsumerBench], object],
    after: str,
    grows: int | None,
) -> None:
    given(bench)
    assert bench.state == before
    epoch = bench.group.epoch
    event(bench)
    assert bench.state == after
    if grows is None:
        assert (Family.GROUP, b"g") not in bench.rows
    else:
        assert bench.group.epoch == epoch + grows
        row = consumer_rows.group(bench.rows[Family.GROUP, b"g"])
        assert (State(row.state).shown, row.epoch) == (after, bench.group.epoch)


class TestJoining:
    def test_the_first_gets_everything_at_once(self, bench: ConsumerBench) -> None:
        assert bench.beat("a", 0, "t", "missing") == Beat(Code.NONE, None, "a", 1, INTERVAL, parts(T))
        assert set(bench.rows) == {(Family.GROUP, b"g"), (Family.MEMBER, b"\0\0\0\1ga")}

    def test_the_second_waits_until_the_first_has_given_up_its_half(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        joined = bench.beat("b", 0, "t")
        assert (joined.epoch, joined.assignment) == (2, frozenset())
        assert joined.heartbeat_interval == WAITING_MS, "it asks again soon"
        told = bench.beat("a", 1)
        assert told.epoch == 1, "it stays where it is until it has given up"
        assert told.assignment is not None
        assert len(told.assignment) == 2
        assert bench.beat("a", 1, owned=parts(T)).assignment is None
        assert bench.beat("b", 2).assignment is None, "it still has what b is to get"
        assert bench.beat("a", 1, owned=told.assignment) == Beat(Code.NONE, None, "a", 2, INTERVAL, None)
        assert bench.beat("b", 2) == Beat(Code.NONE, None, "b", 2, INTERVAL, parts(T) - told.assignment)
        assert bench.state == "Stable"

    def test_again_is_told_again(self, bench: ConsumerBench) -> None:
        first = bench.beat("a", 0, "t")
        assert bench.beat("a", 0, "t") == first
        assert bench.group.epoch == 1

    def test_one_that_begins_anew_has_given_up_all(self, bench: ConsumerBench) -> None:
        """Kafka fences it as long as its old session lasts."""
        two(bench)
        before = bench.group.members["a"].assigned
        answer = bench.beat("a", 0, "t")
        assert (answer.error, answer.epoch, answer.assignment) == (Code.NONE, 2, frozenset(before))
        assert bench.group.epoch == 2

    def test_no_room(self) -> None:
        bench = ConsumerBench(Limits(2))
        bench.beat("a", 0, "t", instance="i")
        bench.beat("b", 0, "t")
        full = Beat(
            Code.GROUP_MAX_SIZE_REACHED, "The consumer group has reached its maximum capacity of 2 members."
        )
        assert bench.beat("c", 0, "t") == full
        assert bench.beat("b", 0, "t").error == Code.NONE
        bench.leave("a", -2, "i")
        assert bench.beat("c", 0, "t", instance="i").error == Code.NONE, "it takes somebody's place"

    def test_an_assignor_that_there_is_not(self, bench: ConsumerBench) -> None:
        assert bench.beat("a", 0, "t", assignor="sticky") == Beat(
            Code.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor sticky is not supported. Supported assignors: uniform, range, failover.",
        )
        assert bench.state == "Empty"

    def test_the_assignor_that_most_ask_for(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t", assignor="range")
        assert bench.group.assignor == "range"
        bench.beat("b", 0, "t", assignor="uniform")
        assert bench.group.assignor == "uniform", "as many: the node's order decides"
        bench.beat("c", 0, "t", assignor="range")
        assert bench.group.assignor == "range"

    def test_failover_has_standbys_and_another_priority_is_another_assignment(
        self, bench: ConsumerBench
    ) -> None:
        bench.beat("a", 0, "t", client="a", assignor="failover")
        bench.beat("b", 0, "t", client="b", rack="priority=1")
        bench.settle("a", "b")
        assert bench.group.members["a"].assigned.keys() == parts(T)
        assert not bench.group.members["b"].assigned
        # it goes behind b
        bench.beat("a", 2, "t", client="a", owned=parts(T), rack="priority=2")
        bench.settle("a", "b")
        assert bench.group.members["b"].assigned.keys() == parts(T)
        assert not bench.group.members["a"].assigned

    def test_a_node_without_the_default(self) -> None:
        bench = ConsumerBench(Limits(assignors=("range",)))
        bench.beat("a", 0, "t")
        assert bench.group.assignor == "range"


def test_the_first_epoch_of_all_is_kafkas() -> None:
    group = ConsumerGroup("g", Limits(), 0)
    assert (group.epoch, group.assignment_epoch) == (1, 1)


class TestManyMembers:
    """An assignment stands for a ms here for each member and partition."""

    @pytest.fixture
    def bench(self) -> ConsumerBench:
        return ConsumerBench(Limits(a_ms=1))

    def test_those_that_join_meanwhile_wait_for_one_assignment(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        for name in "bc":
            answer = bench.beat(name, 0, "t")
            assert (answer.epoch, answer.assignment, answer.heartbeat_interval) == (
                1,
                frozenset(),
                WAITING_MS,
            )
        assert (bench.state, bench.group.epoch, bench.group.assignment_epoch) == ("Assigning", 3, 1)
        assert bench.beat("a", 1).epoch == 1
        bench.pass_time(5)
        bench.beat("b", 1)
        assert (bench.state, bench.group.assignment_epoch) == ("Reconciling", 3)
        bench.settle("a", "b", "c")

    def test_whatever_else_happens_waits_for_nothing(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t", "u")
        bench.beat("b", 0, "t")
        assert bench.beat("a", 1, "t", owned=parts(T) | parts(U)).assignment is not None
        assert bench.group.assignment_epoch == bench.group.epoch == 3


class TestEpochs:
    def test_nothing_new(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        assert bench.beat("a", 1) == Beat(Code.NONE, None, "a", 1, INTERVAL, None)
        assert bench.writes == []

    def test_whoever_says_all_is_told_all(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        assert bench.beat("a", 1, "t", owned=parts(T)).assignment == parts(T)
        assert bench.writes == []

    def test_a_stranger(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        unknown = Beat(Code.UNKNOWN_MEMBER_ID, "Member x is not a member of group g.")
        assert bench.beat("x", 1) == unknown
        assert bench.leave("x") == unknown

    def test_above_what_it_was_told(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        assert bench.beat("a", 5) == Beat(
            Code.FENCED_MEMBER_EPOCH,
            "The consumer group member has a greater member epoch (5) than the one known by the group coordinator (1). "
            "The member must abandon all its partitions and rejoin.",
        )

    def test_the_one_before_with_what_it_has(self, bench: ConsumerBench) -> None:
        """The answer that told the new epoch may have been lost."""
        bench.beat("a", 0, "t")
        bench.beat("a", 1, "t", "u", owned=parts(T))
        answer = bench.beat("a", 1, "t", "u", owned=parts(T))
        assert (answer.error, answer.epoch) == (Code.NONE, 2)
        assert answer.assignment == parts(T) | parts(U)

    @pytest.mark.parametrize("owned", [None, parts(U, 1)])
    def test_the_one_before_with_what_it_has_not(
        self, bench: ConsumerBench, owned: frozenset[tuple[bytes, int]] | None
    ) -> None:
        bench.beat("a", 0, "u")
        bench.change(u=U._replace(partitions=1))
        bench.beat("a", 1, owned=parts(U, 0))
        assert bench.group.members["a"].epoch == 2
        assert bench.beat("a", 1, owned=owned) == Beat(
            Code.FENCED_MEMBER_EPOCH,
            "The consumer group member has a smaller member epoch (1) than the one known by the group coordinator (2). "
            "The member must abandon all its partitions and rejoin.",
        )

    def test_refused_ones_are_no_sign_of_life(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        bench.pass_time(SESSION - 1)
        bench.beat("a", 99)
        bench.pass_time(1)
        assert bench.state == "Empty"


class TestTopics:
    def test_made_later(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t", "late")
        late = TopicView(b"l" * 16, 1)
        bench.change(late=late)
        assert bench.beat("a", 1) == Beat(Code.NONE, None, "a", 2, INTERVAL, parts(T) | parts(late))

    def test_others_do_not_matter(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        bench.change(other=TopicView(b"o" * 16, 1))
        assert bench.beat("a", 1).epoch == 1
        assert bench.writes == []

    def test_deleted_ones_are_given_up(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t", "u")
        bench.change(u=None)
        assert bench.beat("a", 1) == Beat(Code.NONE, None, "a", 1, INTERVAL, parts(T))
        assert bench.beat("a", 1, owned=parts(T)).epoch == 2
        assert bench.state == "Stable"

    def test_unsubscribed_ones_are_given_up(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t", "u")
        assert bench.beat("a", 1, "t", owned=parts(T) | parts(U)).assignment == parts(T)
        assert bench.group.subscribed() == {"t"}


class TestLeaving:
    def test_by_itself(self, bench: ConsumerBench) -> None:
        two(bench)
        assert bench.leave("a") == Beat(Code.NONE, None, "a", -1)
        assert bench.beat("b", 2).assignment == parts(T)

    def test_the_silent_are_out_after_their_session(self, bench: ConsumerBench) -> None:
        two(bench)
        bench.pass_time(SESSION - 1)
        bench.beat("b", 2)
        bench.pass_time(1)
        assert list(bench.group.members) == ["b"]
        assert bench.beat("b", 2).assignment == parts(T)
        assert bench.beat("a", 2).error == Code.UNKNOWN_MEMBER_ID

    def test_several_at_once_are_one_epoch(self, bench: ConsumerBench) -> None:
        for name in "abc":
            bench.beat(name, 0, "t")
        epoch = bench.group.epoch
        bench.pass_time(SESSION)
        assert (bench.state, bench.group.epoch) == ("Empty", epoch + 1)

    def test_whoever_does_not_give_up_in_time_is_out(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t", timeout=20_000)
        bench.beat("b", 0, "t")
        bench.beat("a", 1, owned=parts(T))
        bench.pass_time(19_999)
        bench.beat("a", 1, owned=parts(T))
        assert "a" in bench.group.members
        bench.pass_time(1)
        assert list(bench.group.members) == ["b"]
        assert bench.beat("b", 2).assignment == parts(T)

    def test_whoever_gives_up_in_time_stays(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t", timeout=20_000)
        bench.beat("b", 0, "t")
        kept = bench.beat("a", 1, owned=parts(T)).assignment
        assert kept is not None
        bench.beat("a", 1, owned=kept)
        bench.pass_time(20_000)
        assert "a" in bench.group.members


class TestCommits:
    def code(self, bench: ConsumerBench, member: str, epoch: int, *indexes: int, old: bool = False) -> int:
        code: int = bench.group.check_commit(member, epoch, lambda: parts(T, *indexes), old=old)
        return code

    def test_by_nobody_only_while_nobody_is_there(self, bench: ConsumerBench) -> None:
        assert self.code(bench, "", -1) == Code.NONE
        bench.beat("a", 0, "t")
        assert self.code(bench, "", -1) == Code.UNKNOWN_MEMBER_ID
        assert self.code(bench, "x", 1) == Code.UNKNOWN_MEMBER_ID

    def test_by_a_member(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        assert self.code(bench, "a", 1) == Code.NONE
        assert self.code(bench, "a", 2) == Code.STALE_MEMBER_EPOCH
        assert self.code(bench, "a", 1, old=True) == Code.UNSUPPORTED_VERSION

    def test_with_an_older_epoch_for_what_it_has_had_since_then(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        bench.beat("b", 0, "t")
        kept = bench.beat("a", 1).assignment
        assert kept is not None
        bench.beat("a", 1, owned=kept)
        mine, others = sorted(index for _, index in kept), [index for _, index in parts(T) - kept]
        assert self.code(bench, "a", 1, *mine) == Code.NONE
        assert self.code(bench, "a", 1, *others) == Code.STALE_MEMBER_EPOCH
        bench.beat("b", 2)
        assert self.code(bench, "b", 1, *others) == Code.STALE_MEMBER_EPOCH, "it was given them in epoch 2"

    def test_while_it_still_has_what_it_is_to_give_up(self, bench: ConsumerBench) -> None:
        reconciling(bench)
        bench.beat("a", 1)
        assert self.code(bench, "a", 1) == Code.NONE

    def test_what_is_asked_for_by_whom(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        fetch = bench.group.check_fetch
        assert fetch(None, -1) == fetch("", -1) == fetch("a", 1) == Code.NONE
        assert fetch("x", 1) == Code.UNKNOWN_MEMBER_ID
        assert fetch("a", 0) == fetch("a", 2) == Code.STALE_MEMBER_EPOCH


class TestAdministrators:
    def test_deleted_with_its_offsets_when_empty(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        assert bench.send(Delete(None)) == Plain(Code.NON_EMPTY_GROUP)
        bench.leave("a")
        assert bench.send(Delete(None)) == Plain(Code.NONE)
        assert [type(write) for write in bench.writes] == [DeleteRow, DeleteRange]

    def test_of_the_dead_nobody_hears(self, bench: ConsumerBench) -> None:
        empty(bench)
        bench.send(Delete(None))
        assert bench.beat("a", 0, "t").error == Code.COORDINATOR_NOT_AVAILABLE
        assert bench.leave("a").error == Code.COORDINATOR_NOT_AVAILABLE
        assert bench.send(Delete(None)) == Plain(Code.GROUP_ID_NOT_FOUND)
        assert bench.writes == []


class TestRestarts:
    def test_members_go_on_and_notice_nothing(self, bench: ConsumerBench) -> None:
        two(bench)
        bench.crash()
        for name in "ab":
            assert bench.beat(name, 2) == Beat(Code.NONE, None, name, 2, INTERVAL, None)
            assert bench.writes == []

    def test_in_the_middle_of_a_rebalance(self, bench: ConsumerBench) -> None:
        reconciling(bench)
        kept = bench.beat("a", 1).assignment
        assert kept is not None
        bench.crash()
        assert bench.beat("b", 2).assignment is None, "a has not given up yet"
        bench.beat("a", 1, owned=kept)
        bench.crash()
        assert bench.beat("b", 2).assignment == parts(T) - kept

    def test_the_absent_are_out_after_a_session(self, bench: ConsumerBench) -> None:
        two(bench)
        bench.crash()
        bench.pass_time(SESSION - 1)
        bench.beat("a", 2)
        bench.pass_time(1)
        assert list(bench.group.members) == ["a"]

    def test_the_time_to_give_up_begins_anew(self, bench: ConsumerBench) -> None:
        reconciling(bench)
        bench.beat("a", 1)
        bench.pass_time(30_000)
        bench.beat("b", 2)
        bench.crash()
        for _ in range(2):
            bench.pass_time(REBALANCE // 2 - 1)
            bench.beat("a", 1)
            bench.beat("b", 2)
        assert "a" in bench.group.members
        bench.pass_time(2)
        assert "a" not in bench.group.members

    def test_what_each_write_is(self, bench: ConsumerBench) -> None:
        """A join writes the members whose targets change, and the group."""
        bench.beat("a", 0, "t")
        bench.beat("b", 0, "t")
        written = [write.key for write in bench.writes if isinstance(write, Put)]
        assert sorted(written) == [b"\0\0\0\1ga", b"\0\0\0\1gb", b"g"]

    def test_a_damaged_row_says_so(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        with pytest.raises(RowError, match="cannot be read"):
            consumer_rows.group(bench.rows[Family.GROUP, b"g"][:-1])
        with pytest.raises(RowError, match="cannot be read"):
            consumer_rows.member(bench.rows[Family.MEMBER, b"\0\0\0\1ga"][:-1])

    def test_a_row_of_a_newer_version_says_so(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        row = bench.group.members["a"].row()
        row.version = 2
        with pytest.raises(RowError, match="version 2"):
            consumer_rows.member(group_rows.put_member("g", "a", row).value)

    def test_the_head_of_the_row_says_what_it_is(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        head = group_rows.head(bench.rows[Family.GROUP, b"g"])
        assert (head.kind, head.state, head.protocol_type) == (Kind.CONSUMER, State.STABLE, "consumer")
