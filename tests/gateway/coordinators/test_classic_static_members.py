"""Static members of a classic group: they come back under a new id without a rebalance (KIP-345, KIP-814)."""

from __future__ import annotations

import pytest

from gateway.coordinators.classic_events import (
    Assigned,
    Gone,
    JoinAnswer,
    SyncAnswer,
)
from gateway.coordinators.codes import Code
from gateway.coordinators.group_rows import State
from tests.gateway.coordinators.classic_bench import DELAY, ClassicBench, row_of


def test_a_static_member_comes_back_without_a_rebalance(bench: ClassicBench) -> None:
    bench.join("a", instance_id="ia")
    bench.join("b", instance_id="ib")
    bench.pass_time(DELAY * 2)
    bench.sync("as", "id-a", assignments={"id-a": b"A", "id-b": b"B"})
    bench.sync("bs", "id-b")
    bench.told.clear()
    answer = bench.join("b2", instance_id="ib")
    assert answer is not None
    # what b had is b2's, but nobody has in hand what b had
    assert bench.told == [Gone("id-b", crashed=False), Assigned(1)]
    assert (answer.error, answer.generation, answer.member_id, answer.leader) == (0, 1, "id-b2", "id-a")
    assert bench.group.state is State.STABLE
    assert [member.member_id for member in row_of(bench.writes).members] == ["id-a", "id-b2"]
    assert bench.beat("id-b", 1, "ib") == Code.FENCED_INSTANCE_ID
    assert bench.beat("id-b", 1) == Code.UNKNOWN_MEMBER_ID
    assert bench.sync("b2s", "id-b2") == SyncAnswer(0, "consumer", "range", b"B")


@pytest.mark.parametrize("may_skip", [True, False])
def test_a_static_leader_comes_back(bench: ClassicBench, may_skip: bool) -> None:
    bench.stable("a", instance_id="i")
    answer = bench.join("a2", instance_id="i", may_skip=may_skip)
    assert answer is not None
    assert bench.group.leader == "id-a2"
    if may_skip:
        assert (answer.leader, answer.skip_assignment) == ("id-a2", True)
        assert answer.members == (("id-a2", "i", b"r"),)
    else:
        assert (answer.leader, answer.skip_assignment, answer.members) == ("id-a", False, ())


def test_a_static_member_that_changes_the_protocol_starts_a_rebalance(bench: ClassicBench) -> None:
    bench.stable("a", instance_id="i")
    assert bench.join("a2", instance_id="i", protocols=(("sticky", b"s"),)) is not None
    assert bench.answers["a2"].protocol_name == "sticky"
    assert bench.answers["a2"].generation == 2


@pytest.mark.parametrize("state", [State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE])
def test_a_static_member_that_comes_back_fences_its_parked_self(bench: ClassicBench, state: State) -> None:
    bench.join("s", instance_id="i")
    bench.join("a")
    if state is State.COMPLETING_REBALANCE:
        bench.pass_time(DELAY * 2)
        bench.sync("ss", "id-a")
    assert bench.group.state is state
    bench.join("s2", instance_id="i")
    assert bench.group.state is State.PREPARING_REBALANCE
    if state is State.PREPARING_REBALANCE:
        assert bench.answers["s"] == JoinAnswer(Code.FENCED_INSTANCE_ID, "id-s")
    else:
        assert bench.answers["ss"] == SyncAnswer(Code.REBALANCE_IN_PROGRESS)
    bench.join("a2", member_id="id-a")
    bench.pass_time(1_000)
    assert bench.answers["s2"].member_id == "id-s2"


def test_a_returned_static_member_answers_its_parked_sync(bench: ClassicBench) -> None:
    bench.join("a")
    bench.join("s", instance_id="i")
    bench.pass_time(DELAY * 2)
    bench.sync("ss", "id-s")
    bench.join("s2", instance_id="i")
    assert bench.answers["ss"] == SyncAnswer(Code.FENCED_INSTANCE_ID)


def test_a_static_member_that_comes_back_before_it_synced_may_do_so(bench: ClassicBench) -> None:
    bench.join("a", rebalance=5_000)
    bench.join("s", instance_id="i", rebalance=5_000)
    bench.pass_time(DELAY * 2)
    bench.sync("as", "id-a", assignments={"id-s": b"S"})
    bench.join("s2", instance_id="i")
    assert bench.sync("s2s", "id-s2") == SyncAnswer(0, "consumer", "range", b"S")
    bench.pass_time(6_000)
    assert bench.state == "Stable"


def test_an_old_id_with_a_new_holder_is_fenced_at_join(bench: ClassicBench) -> None:
    bench.stable("a", instance_id="i")
    bench.join("a2", instance_id="i")
    answer = bench.join("a3", member_id="id-a", instance_id="i")
    assert answer == JoinAnswer(Code.FENCED_INSTANCE_ID, "id-a")
