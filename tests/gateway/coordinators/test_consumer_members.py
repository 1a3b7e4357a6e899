"""Static members of consumer groups, and members that subscribe with regular expressions."""

from __future__ import annotations

import pytest

from gateway.coordinators.codes import Code
from gateway.coordinators.consumer_events import Beat, TopicView
from tests.gateway.coordinators.consumer_bench import SESSION, ConsumerBench, T, U, parts


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


class TestStaticMembers:
    def test_one_that_comes_back_has_what_it_had(self, bench: ConsumerBench) -> None:
        bench.beat("s1", 0, "t", instance="i")
        bench.beat("b", 0, "t")
        bench.beat("s1", 1)
        bench.settle("s1", "b")
        before = frozenset(bench.group.members["s1"].assigned)
        assert bench.leave("s1", -2, "i") == Beat(Code.NONE, None, "s1", -2)
        assert bench.beat("b", 2).assignment is None, "nobody else gets it meanwhile"
        answer = bench.beat("s2", 0, "t", instance="i")
        assert (answer.error, answer.epoch, answer.assignment) == (Code.NONE, 2, before)
        assert bench.group.epoch == 2
        assert (bench.state, list(bench.group.members)) == ("Stable", ["b", "s2"])
        assert bench.beat("s1", 2).error == Code.UNKNOWN_MEMBER_ID

    def test_one_that_does_not_come_back_is_out(self, bench: ConsumerBench) -> None:
        bench.beat("s", 0, "t", instance="i")
        bench.leave("s", -2, "i")
        bench.pass_time(SESSION)
        assert bench.state == "Empty"
        assert bench.group.static == {}

    def test_an_instance_that_is_there(self, bench: ConsumerBench) -> None:
        bench.beat("s1", 0, "t", instance="i")
        assert bench.beat("s2", 0, "t", instance="i") == Beat(
            Code.UNRELEASED_INSTANCE_ID,
            "Static member s2 with instance id i cannot join the group because the instance id is owned by s1 member.",
        )

    def test_the_one_whose_place_was_taken(self, bench: ConsumerBench) -> None:
        bench.beat("s1", 0, "t", instance="i")
        bench.leave("s1", -2, "i")
        bench.beat("s2", 0, "t", instance="i")
        fenced = Beat(Code.FENCED_INSTANCE_ID, "Static member s1 with instance id i was fenced by member s2.")
        assert bench.beat("s1", 1, instance="i") == fenced
        assert bench.leave("s1", -1, "i") == fenced

    def test_an_instance_that_there_is_not(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        assert bench.beat("a", 1, instance="x") == Beat(Code.UNKNOWN_MEMBER_ID, "Instance id x is unknown.")

    def test_while_it_is_away_its_old_epoch_is_worth_nothing(self, bench: ConsumerBench) -> None:
        bench.beat("s", 0, "t", instance="i")
        bench.leave("s", -2, "i")
        assert bench.beat("s", 1, instance="i").error == Code.FENCED_MEMBER_EPOCH

    def test_a_member_that_becomes_one(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, "t")
        assert bench.beat("a", 0, "t", instance="i").assignment == parts(T)
        assert (list(bench.group.members), bench.group.static) == (["a"], {"i": "a"})
        bench.crash()
        assert bench.beat("a", 2, instance="i").error == Code.NONE


class TestPatterns:
    def test_with_a_name_beside_it(self, bench: ConsumerBench) -> None:
        answer = bench.beat("a", 0, "u", pattern="t.?")
        assert answer.assignment == parts(T) | parts(U)
        late = TopicView(b"l" * 16, 1)
        bench.change(tt=late)
        assert bench.beat("a", 1).assignment == parts(T) | parts(U) | parts(late)
        assert bench.group.subscribed() == {"t", "tt", "u"}

    def test_another_one_is_another_subscription(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, pattern="t")
        answer = bench.beat("a", 1, pattern="u", owned=parts(T))
        assert (answer.epoch, answer.assignment) == (1, frozenset())
        assert bench.beat("a", 1, owned=()).assignment == parts(U)
        assert bench.group.patterns() == {"u"}

    def test_over_a_crash_and_when_its_member_goes(self, bench: ConsumerBench) -> None:
        bench.beat("a", 0, pattern="t")
        bench.beat("b", 0, "u")
        bench.settle("a", "b")
        bench.crash()
        assert bench.group.subscribed() == {"t", "u"}, "before it has seen the catalog again"
        assert bench.beat("a", 2).epoch == 2
        bench.leave("a")
        assert (bench.group.subscribed(), bench.group.patterns()) == ({"u"}, frozenset())
