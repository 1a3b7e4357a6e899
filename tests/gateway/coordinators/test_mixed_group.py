"""A consumer group with members of the classic protocol: its table, row by row, and what keeps whom out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from gateway.coordinators import subscription
from gateway.coordinators.classic_events import (
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    Leaver,
    Left,
    Sync,
)
from gateway.coordinators.codes import Code
from gateway.coordinators.consumer_events import Beat, TopicView
from gateway.coordinators.consumer_state import Limits
from gateway.coordinators.group_rows import Kind
from gateway.coordinators.mixed_group import MixedGroup
from gateway.coordinators.reconciling import MemberState
from tests.gateway.coordinators.mixed_bench import REBALANCE, SESSION, MixedBench, NewClient, metadata

T = TopicView(b"t" * 16, 4)
RANGE = "range"


class Mixed(MixedBench):
    """With a member `n` of the new protocol, which has all four partitions of t in epoch 2."""

    def __init__(self, **said: Any) -> None:
        super().__init__(**said)
        self.change(t=T)
        self.n = self.new("n")

    def new(self, name: str, instance: str | None = None) -> NewClient:
        client = NewClient(self, name, ["t"], instance)
        self.told(client)
        return client

    def told(self, client: NewClient) -> Beat:
        """A heartbeat with all that it has; it gives up what it is told to."""
        client.settle_up()
        client.beat()
        return self.tell(client)

    def tell(self, client: NewClient) -> Beat:
        _, answer = self.answers.pop()
        found: Beat = answer
        client.answered(found)
        return found

    def join(
        self,
        member: str = "",
        owned: Collection[int] = (),
        *,
        new: str = "c",
        instance: str | None = None,
        protocols: Collection[str] = (RANGE,),
        kind: str = subscription.CONSUMER,
        topics: Collection[str] = ("t",),
        id_required: bool = False,
    ) -> JoinAnswer:
        has = [("t", index) for index in owned]
        spoken = tuple((name, metadata(topics, has)) for name in protocols)
        event = Join(
            None,
            member,
            new,
            instance,
            "client",
            "/h",
            SESSION,
            REBALANCE,
            kind,
            spoken,
            id_required=id_required,
        )
        self.classic(event, topics, has)
        _, answer = self.answers.pop()
        found: JoinAnswer = answer
        return found

    def sync(
        self, member: str, generation: int, protocol: str | None = RANGE, instance: str | None = None
    ) -> Any:
        """The error, or the partitions of t."""
        self.classic(Sync(None, member, generation, instance, subscription.CONSUMER, protocol))
        _, answer = self.answers.pop()
        return answer.error or subscription.assignment(answer.assignment).get("t", [])

    def heartbeat(self, member: str, generation: int, instance: str | None = None) -> int:
        self.classic(Heartbeat(None, member, generation, instance))
        _, answer = self.answers.pop()
        return int(answer.error)

    def leave(self, *leavers: Leaver) -> tuple[Left, ...]:
        self.classic(Leave(None, leavers))
        _, answer = self.answers.pop()
        members: tuple[Left, ...] = answer.members
        return members

    def where(self, member: str) -> tuple[int, MemberState]:
        group = self.mixed
        assert group is not None
        current = group.members[member].current
        return current.epoch, current.state

    @property
    def epoch(self) -> int:
        assert isinstance(self.group, MixedGroup)
        return self.group.epoch


@pytest.fixture
def bench() -> Mixed:
    return Mixed()


def at_its_target(bench: Mixed) -> int:
    """c has two partitions, and so has n."""
    bench.join()
    bench.told(bench.n)
    bench.told(bench.n)
    generation = bench.join("c").generation
    assert bench.where("c") == (generation, MemberState.STABLE)
    return generation


def behind(bench: Mixed) -> int:
    """Another has joined."""
    generation = at_its_target(bench)
    bench.new("m")
    return generation


def unrevoked(bench: Mixed) -> int:
    """It has joined since, with all that it has, and is to give up one."""
    generation = behind(bench)
    assert bench.join("c", bench_has(bench)).generation == generation
    assert bench.where("c") == (generation, MemberState.UNREVOKED)
    return generation


def bench_has(bench: Mixed) -> list[int]:
    group = bench.mixed
    assert group is not None
    current = group.members["c"].current
    return sorted(index for _, index in (*current.assigned, *current.revoking))


def waiting(bench: Mixed) -> int:
    """n has not given up what c is to get."""
    generation = bench.join().generation
    assert bench.where("c") == (generation, MemberState.UNRELEASED)
    return generation


def all_free(bench: Mixed) -> int:
    generation = waiting(bench)
    bench.told(bench.n)
    bench.told(bench.n)
    return generation


def modern(bench: Mixed) -> int:
    bench.new("c")
    return bench.epoch


def nobody(bench: Mixed) -> int:
    return bench.epoch


SAME, NEXT = "the same generation", "the next one"

ROWS: dict[str, tuple[Callable[[Mixed], int], str | Code, int | Code, Code]] = {
    "at its target": (at_its_target, SAME, 2, Code.NONE),
    "behind": (behind, NEXT, Code.REBALANCE_IN_PROGRESS, Code.REBALANCE_IN_PROGRESS),
    "to give up partitions": (unrevoked, SAME, 1, Code.REBALANCE_IN_PROGRESS),
    "others still have some": (waiting, SAME, 0, Code.NONE),
    "all of it is free": (all_free, SAME, 0, Code.REBALANCE_IN_PROGRESS),
    "one of the new protocol": (
        modern,
        Code.UNKNOWN_MEMBER_ID,
        Code.UNKNOWN_MEMBER_ID,
        Code.UNKNOWN_MEMBER_ID,
    ),
    "none": (nobody, NEXT, Code.UNKNOWN_MEMBER_ID, Code.UNKNOWN_MEMBER_ID),
}


class TestTable:
    @pytest.mark.parametrize("row", ROWS)
    def test_join(self, bench: Mixed, row: str) -> None:
        given, then, _, _ = ROWS[row]
        generation = given(bench)
        owned = bench_has(bench) if row == "to give up partitions" else ()
        answer = bench.join("c", owned)
        if isinstance(then, Code):
            assert answer.error == then
            return
        assert answer == JoinAnswer(Code.NONE, "c", answer.generation, "consumer", RANGE)
        assert answer.generation == (generation if then == SAME else bench.epoch)
        assert (answer.generation > generation) == (then == NEXT)

    @pytest.mark.parametrize("row", ROWS)
    def test_sync(self, bench: Mixed, row: str) -> None:
        given, _, then, _ = ROWS[row]
        found = bench.sync("c", given(bench))
        if isinstance(then, Code):
            assert found == then
        else:
            assert len(found) == then

    @pytest.mark.parametrize("row", ROWS)
    def test_heartbeat(self, bench: Mixed, row: str) -> None:
        given, _, _, then = ROWS[row]
        assert bench.heartbeat("c", given(bench)) == then


class TestFences:
    def test_another_generation(self, bench: Mixed) -> None:
        generation = at_its_target(bench)
        for other in (generation - 1, generation + 1):
            assert bench.heartbeat("c", other) == Code.ILLEGAL_GENERATION
            assert bench.sync("c", other) == Code.ILLEGAL_GENERATION

    def test_another_protocol(self, bench: Mixed) -> None:
        generation = at_its_target(bench)
        assert bench.sync("c", generation, "sticky") == Code.INCONSISTENT_GROUP_PROTOCOL
        assert bench.sync("c", generation, None) == [2, 3]

    def test_a_protocol_that_not_all_speak(self, bench: Mixed) -> None:
        bench.join(protocols=("sticky", RANGE))
        assert bench.join(new="d", protocols=("other",)).error == Code.INCONSISTENT_GROUP_PROTOCOL
        assert bench.join(new="d", kind="connect").error == Code.INCONSISTENT_GROUP_PROTOCOL
        assert bench.join(new="d", protocols=(RANGE,)).error == Code.NONE
        assert bench.join(new="e", protocols=("sticky",)).error == Code.INCONSISTENT_GROUP_PROTOCOL

    def test_no_room(self) -> None:
        bench = Mixed(limits=Limits(2))
        assert bench.join().error == Code.NONE
        assert bench.join(new="d").error == Code.GROUP_MAX_SIZE_REACHED
        assert bench.join("c").error == Code.NONE

    def test_an_id_is_given_first(self, bench: Mixed) -> None:
        answer = bench.join(id_required=True)
        assert (answer.error, answer.member_id) == (Code.MEMBER_ID_REQUIRED, "c")
        assert bench.join("c", id_required=True).error == Code.NONE

    def test_static_ones(self, bench: Mixed) -> None:
        first = bench.join(instance="i")
        assert bench.join("x", instance="i").error == Code.FENCED_INSTANCE_ID
        assert bench.join("x", instance="j").error == Code.UNKNOWN_MEMBER_ID
        assert bench.heartbeat("x", first.generation, "i") == Code.FENCED_INSTANCE_ID
        assert bench.heartbeat("c", first.generation, "j") == Code.UNKNOWN_MEMBER_ID

    def test_commits(self, bench: Mixed) -> None:
        """Also by OffsetCommits that know no member epochs. As of the others, those of an older generation count for
        what the member has had since then.
        """
        first = at_its_target(bench)
        behind = bench.new("m")
        bench.sync("c", first)
        second = bench.join("c", [2]).generation
        assert second > first
        bench.told(behind)
        group = bench.mixed
        assert group is not None
        kept, lost = frozenset({(T.topic_id, 2)}), frozenset({(T.topic_id, 3)})
        for old in (True, False):
            assert group.check_commit("c", second, lambda: lost, old=old) == Code.NONE
            assert group.check_commit("c", first, lambda: kept, old=old) == Code.NONE
            assert group.check_commit("c", first, lambda: lost, old=old) == Code.ILLEGAL_GENERATION
            assert group.check_commit("c", second + 1, lambda: kept, old=old) == Code.ILLEGAL_GENERATION
            assert group.check_commit("x", second, lambda: kept, old=old) == Code.UNKNOWN_MEMBER_ID


class TestStatic:
    def test_one_comes_back_to_what_it_had_without_saying_that_it_goes(self, bench: Mixed) -> None:
        bench.join(instance="i")
        bench.told(bench.n)
        bench.told(bench.n)
        generation = bench.join("c", instance="i").generation
        epoch = bench.epoch
        back = bench.join(new="d", instance="i")
        assert (back.member_id, back.generation, bench.epoch) == ("d", generation, epoch)
        assert bench.sync("d", generation, instance="i") == [2, 3]
        assert bench.heartbeat("c", generation, "i") == Code.FENCED_INSTANCE_ID

    def test_one_of_the_new_protocol_takes_its_place(self, bench: Mixed) -> None:
        bench.join(instance="i")
        bench.told(bench.n)
        bench.told(bench.n)
        generation = bench.join("c", instance="i").generation
        after = bench.new("d", "i")
        assert after.epoch == generation
        assert sorted(index for _, index in after.told) == [2, 3]

    def test_one_takes_the_place_of_one_of_the_new_protocol(self) -> None:
        bench = Mixed()
        static = bench.new("s", "i")
        bench.told(bench.n)
        bench.told(bench.n)
        bench.told(static)
        epoch = bench.epoch
        answer = bench.join(instance="i")
        assert (answer.error, bench.epoch) == (Code.NONE, epoch)
        assert bench.sync("c", answer.generation, instance="i") == [2, 3]

    def test_who_takes_a_place_has_nothing_to_give_up(self, bench: Mixed) -> None:
        """The one before was about to, and is gone."""
        bench.join(instance="i")
        bench.told(bench.n)
        bench.told(bench.n)
        bench.join("c", instance="i")
        late = bench.new("m")
        bench.join("c", [2, 3], instance="i")
        assert bench.where("c")[1] is MemberState.UNREVOKED
        answer = bench.join(new="d", instance="i")
        assert bench.where("d") == (answer.generation, MemberState.STABLE)
        assert len(bench.sync("d", answer.generation, instance="i")) == 1
        bench.told(bench.n)
        bench.told(late)
        assert len(late.told) == 1


class TestTime:
    def test_who_does_not_join_again_in_time_is_out(self, bench: Mixed) -> None:
        """Though it is heard of."""
        generation = at_its_target(bench)
        bench.sync("c", generation)
        bench.new("m")
        for _ in range(REBALANCE // 10_000):
            assert bench.heartbeat("c", generation) == Code.REBALANCE_IN_PROGRESS
            bench.pass_time(10_000)
            bench.told(bench.n)
        assert not bench.has("c")

    def test_who_does_not_ask_for_its_partitions_in_time_is_out(self, bench: Mixed) -> None:
        generation = waiting(bench)
        for _ in range(REBALANCE // 10_000):
            assert bench.heartbeat("c", generation) == Code.NONE
            bench.pass_time(10_000)
            bench.n.beat()
            bench.tell(bench.n)
        assert not bench.has("c")

    def test_who_does_both_stays(self, bench: Mixed) -> None:
        generation = at_its_target(bench)
        bench.sync("c", generation)
        for _ in range(REBALANCE // 10_000 + 1):
            assert bench.heartbeat("c", generation) == Code.NONE
            bench.pass_time(10_000)
            bench.told(bench.n)
        assert bench.has("c")

    def test_the_silent_are_out_after_their_own_session(self, bench: Mixed) -> None:
        bench.join()
        bench.pass_time(SESSION - 1)
        assert bench.has("c")
        bench.told(bench.new("m"))
        bench.pass_time(1)
        assert not bench.has("c")


class TestLeaving:
    def test_what_it_had_is_free(self, bench: Mixed) -> None:
        at_its_target(bench)
        assert bench.leave(Leaver("c"), Leaver("x"), Leaver("n")) == (
            Left("c", None, Code.NONE),
            Left("x", None, Code.UNKNOWN_MEMBER_ID),
            Left("n", None, Code.UNKNOWN_MEMBER_ID),
        )
        bench.told(bench.n)
        assert len(bench.n.told) == 4

    def test_an_administrator_takes_static_ones_of_both_protocols_out(self, bench: Mixed) -> None:
        bench.join(instance="i")
        bench.new("s", "j")
        left = bench.leave(Leaver("", "i"), Leaver("", "j"), Leaver("", "k"), Leaver("", "i"))
        assert [one.error for one in left] == [
            Code.NONE,
            Code.NONE,
            Code.UNKNOWN_MEMBER_ID,
            Code.UNKNOWN_MEMBER_ID,
        ]
        assert not bench.has("c")
        assert not bench.has("s")


def test_a_topic_that_grew_is_noticed_by_a_heartbeat_of_the_classic_protocol(bench: Mixed) -> None:
    generation = at_its_target(bench)
    bench.change(t=T._replace(partitions=6))
    assert bench.heartbeat("c", generation) == Code.REBALANCE_IN_PROGRESS
    bench.told(bench.n)
    answer = bench.join("c")
    assert bench.sync("c", answer.generation) == [2, 3, 5]


def test_a_restart_forgets_nothing(bench: Mixed) -> None:
    generation = at_its_target(bench)
    bench.crash()
    assert bench.types[-1] is Kind.CONSUMER
    bench.pass_time(SESSION - 1)
    assert bench.heartbeat("c", generation) == Code.NONE
    assert bench.sync("c", generation) == [2, 3]
