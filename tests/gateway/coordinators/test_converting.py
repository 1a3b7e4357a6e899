"""A classic group that becomes a consumer group, and a consumer group that becomes a classic one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.coordinators import consumer_metadata, group_rows
from gateway.coordinators.classic_events import HandOver, Tick
from gateway.coordinators.classic_group import ClassicGroup
from gateway.coordinators.codes import Code
from gateway.coordinators.consumer_events import TopicView
from gateway.coordinators.consumer_member import Classic
from gateway.coordinators.consumer_state import Limits
from gateway.coordinators.converting import CannotConvert, downgraded, may_downgrade, names_in, upgraded
from gateway.coordinators.group_rows import ClassicRow, Kind, MemberRow, State
from gateway.coordinators.mixed_group import MixedGroup
from gateway.coordinators.reconciling import MemberState
from tests.gateway.coordinators.mixed_bench import (
    PREFIX,
    REBALANCE,
    SESSION,
    WORDING,
    ClassicClient,
    MixedBench,
    NewClient,
    metadata,
)

T, U = TopicView(b"t" * 16, 4), TopicView(b"u" * 16, 2)
TOPICS = {PREFIX + "t": T, PREFIX + "u": U}
COOPERATIVE = "cooperative-sticky"
NO_LIMIT = Limits().max_size


def member(
    name: str,
    assigned: Mapping[str, list[int]],
    owned: set[tuple[str, int]] | None = None,
    *,
    instance: str | None = None,
    said: bytes | None = None,
) -> MemberRow:
    said = metadata(["t"], owned or ()) if said is None else said
    has = consumer_metadata.assignment(3, assigned.items()) if assigned else b""
    return MemberRow(name, instance, "c", "/h", SESSION, REBALANCE, [(COOPERATIVE, said)], has)


def row(*members: MemberRow, generation: int = 7, kind: str = "consumer", **said: Any) -> ClassicRow:
    whole = {"protocol_name": COOPERATIVE, "leader": None, **said}
    return ClassicRow(
        group_rows.VERSION, Kind.CLASSIC, State.STABLE, 5, kind, generation, members=list(members), **whole
    )


def up(its: ClassicRow, topics: Mapping[str, TopicView] = TOPICS) -> MixedGroup:
    group, members = upgraded(its, topics, WORDING, NO_LIMIT)
    return MixedGroup.load("g", group, members, Limits(), SESSION, 0, WORDING)


class TestUp:
    def test_members_go_on_where_they_are(self) -> None:
        group = up(row(member("a", {"t": [0, 1]}, instance="i"), member("b", {"t": [2, 3]})))
        assert (group.epoch, group.assignment_epoch, group.state) == (7, 7, State.STABLE)
        a = group.members["a"]
        assert (a.epoch, a.instance_id, a.rebalance_timeout) == (7, "i", REBALANCE)
        assert a.classic == Classic(SESSION, ((COOPERATIVE, metadata(["t"])),))
        assert a.assigned == {(T.topic_id, 0): 7, (T.topic_id, 1): 7}
        assert a.names == (PREFIX + "t",)
        assert group.owner((T.topic_id, 3)) == "b"
        assert group.static == {"i": "a"}

    def test_who_joined_first_is_before_the_others_there_and_back(self) -> None:
        group = up(row(member("b", {}), member("a", {}), member("c", {})))
        joined = {name: each.joined for name, each in group.members.items()}
        # before all who join from now on
        assert joined["b"] < joined["a"] < joined["c"] < group.epoch
        assert [each.member_id for each in downgraded(group).members] == ["b", "a", "c"]

    def test_what_somebody_said_that_it_still_has_is_its_own(self) -> None:
        """In the middle of a rebalance nobody is assigned anything, and cooperative members keep what they had."""
        group = up(row(member("a", {}, {("t", 0)}), member("b", {"t": [1]}, {("t", 2)})))
        assert group.owner((T.topic_id, 0)) == "a"
        assert (group.owner((T.topic_id, 1)), group.owner((T.topic_id, 2))) == ("b", "b")

    def test_topics_and_partitions_that_there_are_not(self) -> None:
        its = row(member("a", {"t": [0, 9], "gone": [0]}, said=metadata(["t", "gone"])))
        assert names_in(its, WORDING) == {PREFIX + "t", PREFIX + "gone"}
        group = up(its)
        assert group.members["a"].assigned == {(T.topic_id, 0): 7}
        assert group.members["a"].names == (PREFIX + "gone", PREFIX + "t")

    def test_nobody_is_left(self) -> None:
        group = up(row(generation=0))
        assert (group.state, group.epoch) == (State.EMPTY, 1)

    @pytest.mark.parametrize(
        ("its", "why"),
        [
            (row(kind="connect"), "no consumers"),
            (row(member("a", {}, said=b"?")), "cannot be read"),
            (row(member("a", {"t": [0]}), member("b", {"t": [0]})), "several members"),
            (row(member("a", {}), member("b", {}), member("c", {})), "group.consumer.max.size=2"),
        ],
    )
    def test_what_cannot_be(self, its: ClassicRow, why: str) -> None:
        with pytest.raises(CannotConvert, match=why):
            upgraded(its, TOPICS, WORDING, 2)

    def test_what_other_clients_say_is_not_read(self) -> None:
        """Connect has metadata of its own."""
        with pytest.raises(CannotConvert, match="no consumers"):
            names_in(row(member("a", {}, said=b"?"), kind="connect"), WORDING)

    def test_those_who_have_no_answer_to_their_first_join_are_no_members_yet(self) -> None:
        bench = MixedBench()
        bench.change(t=T)
        client = ClassicClient(bench, "m", ["t"], eager=True)
        everybody(bench, client)
        assert isinstance(bench.group, ClassicGroup)
        assert len(bench.group.roster) == 1
        assert bench.group.handed_over().members == []
        bench.send(HandOver())
        assert [answer.error for _, answer in bench.answers] == [Code.REBALANCE_IN_PROGRESS]


class TestDown:
    def test_not_as_long_as_somebody_speaks_the_new_protocol_or_is_behind(self) -> None:
        group = up(row(member("a", {"t": [0]}), member("b", {"t": [1]})))
        assert may_downgrade(group)
        b = group.members["b"]
        b.classic, said = None, b.classic
        assert not may_downgrade(group)
        b.classic, b.current = said, b.current._replace(epoch=8)
        assert not may_downgrade(group)
        assert not may_downgrade(up(row()))

    def test_a_row_from_which_a_consumer_group_was_made_comes_back(self) -> None:
        its = row(member("a", {"t": [0, 1]}, instance="i"), member("b", {"t": [2]}))
        its.state = State.PREPARING_REBALANCE
        assert downgraded(up(its)) == its

    def test_what_somebody_is_to_give_up_is_its_own_still(self) -> None:
        group = up(row(member("a", {"t": [0]})))
        a = group.members["a"]
        a.current = a.current._replace(state=MemberState.UNREVOKED, revoking={(T.topic_id, 3): 7})
        (found,) = downgraded(group).members
        assert found.assignment == consumer_metadata.assignment(3, [("t", [0, 3])])

    def test_the_protocol_is_one_that_all_speak(self) -> None:
        a, b = member("a", {}), member("b", {})
        a.protocols.insert(0, ("range", metadata(["t"])))
        assert downgraded(up(row(a, b))).protocol_name == COOPERATIVE


class TestOfRealClients:
    """One of each protocol: the one of the new protocol comes, and goes."""

    @staticmethod
    def roll(*, eager: bool) -> tuple[MixedBench, ClassicClient, NewClient]:
        bench = MixedBench()
        bench.change(t=T)
        old, new = ClassicClient(bench, "o", ["t"], eager=eager), NewClient(bench, "n", ["t"])
        everybody(bench, old)
        bench.pass_time(0)
        everybody(bench, old)
        assert len(old.uses) == 4
        return bench, old, new

    @pytest.mark.parametrize("eager", [True, False])
    def test_there_and_back(self, eager: bool) -> None:
        bench, old, new = self.roll(eager=eager)
        generation = old.generation
        everybody(bench, new)
        assert bench.types == [Kind.CLASSIC, Kind.CONSUMER]
        assert not new.uses, "the other has it all still"
        for _ in range(4):
            everybody(bench, old, new)
        assert (len(old.uses), len(new.uses)) == (2, 2)
        assert old.generation > generation
        new.leave()
        assert bench.types == [Kind.CLASSIC, Kind.CONSUMER, Kind.CLASSIC]
        assert old.member_id, "it is a member all the while"
        for _ in range(4):
            everybody(bench, old)
        assert len(old.uses) == 4
        assert bench.state == "Stable"

    def test_a_crash_right_after_it_became_classic_again(self) -> None:
        """What the one that left had is nobody's yet: a rebalance is under way, and goes on."""
        bench, old, new = self.roll(eager=True)
        for _ in range(4):
            everybody(bench, new, old)
        new.leave()
        bench.crash()
        assert bench.state == "PreparingRebalance"
        for _ in range(4):
            everybody(bench, old)
        assert len(old.uses) == 4

    def test_what_is_nobodys_is_somebodys_when_one_takes_anothers_place(self) -> None:
        """Then nobody is new, and what one that is gone had must be shared out all the same."""
        bench = MixedBench()
        bench.change(t=T)
        old = [ClassicClient(bench, name, ["t"], eager=True, instance=name) for name in "ij"]
        for _ in range(4):
            everybody(bench, *old)
            bench.pass_time(0)
        assert [len(each.uses) for each in old] == [2, 2]
        old[1].leave()
        assert bench.state == "PreparingRebalance"
        new = NewClient(bench, "n", ["t"], "i")
        for _ in range(2):
            everybody(bench, new)
        assert len(new.uses) == 4

    def test_who_never_joins_the_first_rebalance_is_out(self) -> None:
        its = row(member("a", {"t": [0]}), member("b", {"t": [1]}))
        its.state = State.PREPARING_REBALANCE
        group = ClassicGroup.load("g", its, MixedBench().classic_limits, 0, WORDING)
        assert group.next_due() == min(SESSION, REBALANCE)
        for each in group.roster:
            each.deadline = 10 * REBALANCE
        group.step(Tick(), REBALANCE, 0)
        assert group.state is State.EMPTY

    def test_without_downgrade_it_stays_a_consumer_group(self) -> None:
        bench, old, new = self.roll(eager=False)
        bench.downgrade = False
        for _ in range(4):
            everybody(bench, new, old)
        new.leave()
        for _ in range(4):
            everybody(bench, old)
        assert bench.types[-1] is Kind.CONSUMER
        assert len(old.uses) == 4


def everybody(bench: MixedBench, *clients: ClassicClient | NewClient) -> None:
    for client in clients:
        client.settle_up()
        client.beat()
        while bench.answers:
            token, answer = bench.answers.popleft()
            if token is not None:
                token.answered(answer)
