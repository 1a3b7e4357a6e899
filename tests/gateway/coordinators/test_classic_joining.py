"""How members come into a classic group: first ones, newcomers, those that come again, and who is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.coordinators.classic_events import (
    JoinAnswer,
    Leave,
    Leaver,
    SyncAnswer,
)
from gateway.coordinators.classic_group import NEW_MEMBER_TIMEOUT
from gateway.coordinators.codes import Code
from gateway.coordinators.group_rows import State
from gateway.coordinators.group_state import Limits
from tests.gateway.coordinators.classic_bench import DELAY, SESSION, ClassicBench, row_of


def test_first_member_waits_for_others_then_leads(bench: ClassicBench) -> None:
    assert bench.join("a") is None
    assert bench.group.state is State.PREPARING_REBALANCE
    assert not bench.writes
    bench.pass_time(DELAY)
    answer = bench.answers["a"]
    assert answer.error == 0
    assert (answer.generation, answer.leader, answer.member_id) == (1, "id-a", "id-a")
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert answer.members == (("id-a", None, b"r"),)
    assert row_of(bench.writes).generation == 1


def test_newcomers_extend_the_first_delay_up_to_a_second(bench: ClassicBench) -> None:
    bench.join("m0")
    for number in range(1, 10):
        bench.pass_time(200)
        assert ("m0" in bench.answers) is (number * 200 >= 1_000), number * 200
        bench.join(f"m{number}")


def test_the_first_delay_is_over_when_nobody_came_for_its_length(bench: ClassicBench) -> None:
    bench.join("a")
    bench.pass_time(200)
    bench.join("b")
    bench.pass_time(299)
    assert not bench.answers
    bench.pass_time(1)
    assert bench.answers["a"].members == (("id-a", None, b"r"), ("id-b", None, b"r"))
    assert bench.answers["b"].members == ()
    assert bench.answers["b"].leader == "id-a"


def test_a_longer_delay_is_kept_as_set() -> None:
    bench = ClassicBench(Limits(3_000))
    bench.join("a")
    bench.pass_time(2_900)
    bench.join("b")
    bench.pass_time(99)
    assert not bench.answers
    bench.pass_time(1)
    assert bench.answers["a"].error == 0


def test_no_delay_answers_the_first_at_once() -> None:
    bench = ClassicBench(Limits(0))
    bench.join("a")
    assert bench.group.next_due() == bench.now
    bench.pass_time(0)
    assert bench.answers["a"].generation == 1


def test_a_dynamic_member_without_an_id_is_given_one(bench: ClassicBench) -> None:
    answer = bench.join("a", id_required=True)
    assert answer == JoinAnswer(Code.MEMBER_ID_REQUIRED, "id-a")
    assert bench.group.state is State.EMPTY
    assert bench.join("b", member_id="id-a", id_required=True) is None
    bench.pass_time(DELAY)
    assert bench.answers["b"].member_id == "id-a"


def test_a_static_member_needs_no_second_round(bench: ClassicBench) -> None:
    assert bench.join("a", instance_id="i", id_required=True) is None


def test_a_promised_place_ends_with_the_session(bench: ClassicBench) -> None:
    bench.join("a", id_required=True)
    assert not bench.group.idle
    bench.pass_time(SESSION)
    assert bench.group.idle
    answer = bench.join("b", member_id="id-a")
    assert answer is not None
    assert answer.error == Code.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_the_promised_member(bench: ClassicBench) -> None:
    bench.stable("a")
    bench.join("b", id_required=True)
    bench.join("a2", member_id="id-a")
    assert "a2" not in bench.answers
    bench.join("b2", member_id="id-b")
    assert bench.answers["a2"].generation == bench.answers["b2"].generation == 2


def test_an_unknown_member_id_is_refused(bench: ClassicBench) -> None:
    answer = bench.join("a", member_id="nobody")
    assert answer == JoinAnswer(Code.UNKNOWN_MEMBER_ID, "nobody")


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", (("range", b""),)), ("consumer", ())],
)
def test_an_empty_group_wants_a_type_and_a_protocol(
    bench: ClassicBench, protocol_type: str, protocols: Any
) -> None:
    answer = bench.join("a", protocol_type=protocol_type, protocols=protocols)
    assert answer == JoinAnswer(Code.INCONSISTENT_GROUP_PROTOCOL)


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", (("range", b""),)), ("consumer", (("other", b""),))],
)
def test_protocols_must_fit_those_of_the_group(
    bench: ClassicBench, protocol_type: str, protocols: Any
) -> None:
    bench.stable("a")
    answer = bench.join("b", protocol_type=protocol_type, protocols=protocols)
    assert answer == JoinAnswer(Code.INCONSISTENT_GROUP_PROTOCOL)
    assert bench.group.state is State.STABLE


def test_an_empty_group_may_change_its_type(bench: ClassicBench) -> None:
    bench.stable("a")
    bench.send(Leave("l", (Leaver("id-a"),)))
    bench.join("b", protocol_type="connect", protocols=(("sessioned", b""),))
    bench.pass_time(DELAY)
    assert bench.answers["b"].protocol_type == "connect"


def test_the_protocol_most_members_prefer_of_those_all_speak_wins(bench: ClassicBench) -> None:
    bench.join("a", protocols=(("range", b"1"), ("sticky", b"2")))
    bench.join("b", protocols=(("new", b"0"), ("sticky", b"3"), ("range", b"4")))
    bench.join("c", protocols=(("sticky", b"5"), ("range", b"6")))
    bench.pass_time(DELAY * 2)
    assert bench.answers["a"].protocol_name == "sticky"
    assert [member.metadata for member in bench.answers["a"].members] == [b"2", b"3", b"5"]


def test_a_protocol_named_twice_counts_once(bench: ClassicBench) -> None:
    twice = (("range", b"1"), ("range", b"2"))
    bench.join("a", protocols=twice)
    bench.join("b", protocols=(("range", b"3"),))
    bench.pass_time(DELAY * 2)
    assert bench.answers["a"].protocol_name == "range"


def test_a_full_group_refuses_newcomers() -> None:
    bench = ClassicBench(Limits(DELAY, 2))
    bench.stable("a", "b")
    assert bench.join("c") == JoinAnswer(Code.GROUP_MAX_SIZE_REACHED)
    assert bench.group.state is State.STABLE


def test_a_group_above_a_lowered_limit_loses_the_last_to_rejoin(bench: ClassicBench) -> None:
    bench.stable("a", "b", "c")
    bench.group.limits = Limits(DELAY, 2)
    bench.join("a2", member_id="id-a")
    bench.join("b2", member_id="id-b")
    assert bench.join("c2", member_id="id-c") == JoinAnswer(Code.GROUP_MAX_SIZE_REACHED)
    assert bench.answers["a2"].generation == 2
    assert [member.member_id for member in bench.answers["a2"].members] == ["id-a", "id-b"]


def test_a_new_member_that_never_comes_back_is_dropped_from_a_long_rebalance(bench: ClassicBench) -> None:
    bench.stable("a", session=NEW_MEMBER_TIMEOUT * 3, rebalance=NEW_MEMBER_TIMEOUT * 2)
    bench.join("b")
    bench.pass_time(NEW_MEMBER_TIMEOUT)
    assert bench.answers["b"] == JoinAnswer(Code.UNKNOWN_MEMBER_ID)


def test_a_join_repeated_on_another_connection_frees_the_first(bench: ClassicBench) -> None:
    bench.stable("a", "b")
    bench.join("a2", member_id="id-a")
    bench.join("a3", member_id="id-a")
    assert bench.answers["a2"].error == Code.REBALANCE_IN_PROGRESS
    bench.join("b2", member_id="id-b")
    assert bench.answers["a3"].generation == 2


@pytest.mark.parametrize(("who", "generation"), [("id-b", 1), ("id-a", 2)])
def test_in_stable_a_follower_gets_the_generation_and_a_leader_a_rebalance(
    bench: ClassicBench, who: str, generation: int
) -> None:
    bench.stable("a", "b")
    bench.join("again", member_id=who)
    if generation == 1:
        assert bench.answers["again"].generation == 1
        assert bench.answers["again"].members == ()
    else:
        assert "again" not in bench.answers
        assert bench.group.state is State.PREPARING_REBALANCE


@pytest.mark.parametrize("state", [State.STABLE, State.COMPLETING_REBALANCE])
def test_changed_metadata_starts_a_rebalance(bench: ClassicBench, state: State) -> None:
    bench.stable("a", "b")
    if state is State.COMPLETING_REBALANCE:
        bench.join("a2", member_id="id-a")
        bench.join("b2", member_id="id-b")
        bench.sync("b2s", "id-b")
    assert bench.group.state == state
    assert bench.join("b3", member_id="id-b", protocols=(("range", b"other"),)) is None
    assert bench.group.state is State.PREPARING_REBALANCE
    if state is State.COMPLETING_REBALANCE:
        assert bench.answers["b2s"] == SyncAnswer(Code.REBALANCE_IN_PROGRESS)


def test_a_leader_that_missed_its_answer_gets_it_again(bench: ClassicBench) -> None:
    bench.join("a")
    bench.join("b")
    bench.pass_time(DELAY * 2)
    assert bench.join("a2", member_id="id-a") == bench.answers["a"]
