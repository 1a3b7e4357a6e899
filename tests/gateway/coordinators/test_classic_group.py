"""The classic group's table, row by row: what an event does in a state, and what each request is answered."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.coordinators import group_rows
from gateway.coordinators.classic_events import (
    Assigned,
    Delete,
    Expel,
    Gone,
    Heartbeat,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Leaver,
    Left,
    Plain,
    Rebalance,
    SyncAnswer,
)
from gateway.coordinators.classic_group import CAME_FROM, ClassicGroup
from gateway.coordinators.codes import Code
from gateway.coordinators.group_rows import CLASSIC_STATES, State
from gateway.coordinators.group_state import Limits
from gateway.wire.errors import Error
from store.api import Delete as DeleteRow
from store.api import DeleteRange, Family
from tests.gateway.coordinators.classic_bench import DELAY, SESSION, ClassicBench, row_of

# -- the rebalance -------------------------------------------------------------------------------------------


def test_a_rebalance_ends_when_all_have_joined(bench: ClassicBench) -> None:
    bench.stable("a", "b")
    bench.join("c")
    assert bench.beat("id-a") == Code.REBALANCE_IN_PROGRESS
    bench.join("a2", member_id="id-a")
    bench.join("b2", member_id="id-b")
    assert {bench.answers[one].generation for one in ("a2", "b2", "c")} == {2}
    assert len(bench.answers["a2"].members) == 3
    assert row_of(bench.writes).state == State.COMPLETING_REBALANCE


def test_members_that_do_not_rejoin_are_out_and_the_leader_is_replaced(bench: ClassicBench) -> None:
    bench.stable("a", "b", rebalance=5_000)
    bench.join("b2", member_id="id-b", protocols=(("range", b"x"),), rebalance=5_000)
    for _ in range(5):
        bench.pass_time(999)
        bench.beat("id-a")
    assert "b2" not in bench.answers
    bench.pass_time(5)
    assert bench.answers["b2"].leader == "id-b"
    assert bench.answers["b2"].members == (("id-b", None, b"x"),)
    assert bench.beat("id-a") == Code.UNKNOWN_MEMBER_ID


def test_followers_wait_for_the_leaders_assignment(bench: ClassicBench) -> None:
    bench.join("a")
    bench.join("b")
    bench.pass_time(DELAY * 2)
    assert bench.sync("bs", "id-b", assignments={"id-b": b"ignored"}) is None
    answer = bench.sync("as", "id-a", assignments={"id-b": b"B", "stranger": b"?"})
    assert answer == SyncAnswer(0, "consumer", "range", b"")
    assert bench.answers["bs"] == SyncAnswer(0, "consumer", "range", b"B")
    row = row_of(bench.writes)
    assert row.state == State.STABLE
    assert [(member.member_id, member.assignment) for member in row.members] == [
        ("id-a", b""),
        ("id-b", b"B"),
    ]


def test_a_sync_repeated_on_another_connection_frees_the_first(bench: ClassicBench) -> None:
    bench.join("a")
    bench.join("b")
    bench.pass_time(DELAY * 2)
    bench.sync("b1", "id-b")
    bench.sync("b2", "id-b")
    assert bench.answers["b1"] == SyncAnswer(Code.REBALANCE_IN_PROGRESS)


def test_those_who_never_sync_are_out(bench: ClassicBench) -> None:
    bench.join("a", rebalance=5_000)
    bench.join("b", rebalance=5_000)
    bench.pass_time(DELAY * 2)
    bench.sync("bs", "id-b")
    bench.pass_time(5_000)
    assert bench.answers["bs"] == SyncAnswer(Code.REBALANCE_IN_PROGRESS)
    assert list(bench.group.roster.members) == ["id-b"]
    assert bench.group.state is State.PREPARING_REBALANCE


def test_a_follower_that_never_syncs_is_out_of_a_stable_group(bench: ClassicBench) -> None:
    bench.join("a", rebalance=5_000)
    bench.join("b", rebalance=5_000)
    bench.pass_time(DELAY * 2)
    bench.sync("as", "id-a")
    assert bench.group.state is State.STABLE
    bench.pass_time(5_000)
    assert list(bench.group.roster.members) == ["id-a"]


def test_only_static_members_and_none_rejoins_waits_for_their_sessions(bench: ClassicBench) -> None:
    bench.stable("a", "b", instance_id=None)
    bench.send(Leave("l", (Leaver("id-b"),)))
    bench.join("s", instance_id="i", rebalance=5_000, session=8_000)
    bench.join("a2", member_id="id-a", rebalance=5_000)
    assert bench.state == "CompletingRebalance"
    bench.sync("ss", "id-s")
    bench.sync("as", "id-a")
    bench.send(Leave("l2", (Leaver("id-a"),)))
    assert bench.state == "PreparingRebalance"
    bench.pass_time(5_500)
    assert bench.state == "PreparingRebalance"
    bench.pass_time(5_000)
    assert bench.state == "Empty"
    assert bench.group.next_due() is None


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"protocol_type": "connect"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, Code.NONE),
        ({"generation": 0}, Code.ILLEGAL_GENERATION),
        ({"generation": 2}, Code.ILLEGAL_GENERATION),
        ({"member_id": "id-x"}, Code.UNKNOWN_MEMBER_ID),
        ({"instance_id": "unheard"}, Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_sync_fences(bench: ClassicBench, more: dict[str, Any], error: Code) -> None:
    bench.stable("a")
    answer = bench.sync("s", **({"member_id": "id-a"} | more))
    assert answer is not None
    assert answer.error == error


def test_sync_during_the_join_phase(bench: ClassicBench) -> None:
    bench.stable("a", "b")
    bench.join("c")
    assert bench.sync("s", "id-a") == SyncAnswer(Code.REBALANCE_IN_PROGRESS)


def test_sync_in_an_empty_group(bench: ClassicBench) -> None:
    assert bench.sync("s", "id-a") == SyncAnswer(Code.UNKNOWN_MEMBER_ID)


# -- sessions ------------------------------------------------------------------------------------------------


def test_a_silent_member_expires_and_heartbeats_keep_one(bench: ClassicBench) -> None:
    bench.stable("a", "b")
    bench.pass_time(SESSION - 1)
    assert bench.beat("id-a") == 0
    bench.pass_time(1)
    assert list(bench.group.roster.members) == ["id-a"]
    assert bench.beat("id-a") == Code.REBALANCE_IN_PROGRESS
    bench.join("a2", member_id="id-a")
    assert bench.answers["a2"].generation == 2


def test_a_commit_is_a_sign_of_life(bench: ClassicBench) -> None:
    bench.stable("a")
    bench.pass_time(SESSION - 1)
    assert bench.group.check_commit("id-a", None, 1, bench.now) == 0
    bench.pass_time(SESSION - 1)
    assert bench.beat("id-a") == 0


def test_a_parked_sync_speaks_for_its_member(bench: ClassicBench) -> None:
    bench.join("a", session=1_000_000)
    bench.join("b")
    bench.pass_time(DELAY * 2)
    bench.sync("bs", "id-b")
    bench.pass_time(SESSION * 2)
    bench.sync("as", "id-a", assignments={"id-b": b"B"})
    assert bench.answers["bs"].assignment == b"B"
    assert bench.beat("id-b") == 0


def test_when_the_last_expires_the_group_is_empty_and_stored(bench: ClassicBench) -> None:
    bench.stable("a")
    bench.pass_time(SESSION)
    row = row_of(bench.writes)
    assert (row.state, row.generation, row.members, row.since) == (State.EMPTY, 2, [], bench.now)
    assert row.protocol_type == "consumer"
    assert bench.group.idle


@pytest.mark.parametrize(
    ("member_id", "generation", "instance_id", "error"),
    [
        ("id-a", 1, None, Code.NONE),
        ("id-a", 0, None, Code.ILLEGAL_GENERATION),
        ("id-b", 1, None, Code.UNKNOWN_MEMBER_ID),
        ("id-a", 1, "unheard", Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_heartbeat_fences(
    bench: ClassicBench, member_id: str, generation: int, instance_id: str | None, error: Code
) -> None:
    bench.stable("a")
    assert bench.beat(member_id, generation, instance_id) == error


def test_heartbeat_while_the_assignment_is_awaited(bench: ClassicBench) -> None:
    bench.join("a")
    bench.pass_time(DELAY)
    assert bench.group.state is State.COMPLETING_REBALANCE
    assert bench.beat("id-a") == 0


# -- told to rebalance ---------------------------------------------------------------------------------------


def test_members_that_are_to_share_out_anew_join_again(bench: ClassicBench) -> None:
    bench.stable("a", "b")
    generation = bench.group.generation
    bench.told.clear()
    bench.send(Rebalance("there are more"))
    assert bench.told == [], "nobody is gone"
    assert bench.send(Heartbeat("h", "id-a", generation)) == Plain(Code.REBALANCE_IN_PROGRESS)
    bench.join("a2", member_id="id-a")
    bench.join("b2", member_id="id-b")
    assert bench.answers["a2"].generation == generation + 1


def test_a_group_without_members_has_nothing_to_share_out(bench: ClassicBench) -> None:
    bench.send(Rebalance("there are more"))
    assert bench.group.state is State.EMPTY
    # nor one that is at it already
    bench.join("a")
    before = bench.group.next_due()
    bench.send(Rebalance("there are more"))
    assert (bench.group.state, bench.group.next_due()) == (State.PREPARING_REBALANCE, before)


def test_who_is_expelled_is_lost_and_hears_of_it(bench: ClassicBench) -> None:
    bench.stable("a", "b")
    generation = bench.group.generation
    bench.told.clear()
    bench.send(Expel("id-a", "it stands still"))
    assert bench.told == [Gone("id-a", True)]
    assert bench.send(Heartbeat("h", "id-a", generation)) == Plain(Code.UNKNOWN_MEMBER_ID)
    bench.join("b2", member_id="id-b")
    assert bench.answers["b2"].leader == "id-b"
    bench.send(Expel("id-a", "it stands still"))
    assert bench.told == [Gone("id-a", True)], "it is no member any more"


# -- leaving -------------------------------------------------------------------------------------------------


def test_one_leaves_and_the_others_rebalance(bench: ClassicBench) -> None:
    bench.stable("a", "b")
    answer = bench.send(Leave("l", (Leaver("id-a"),)))
    assert answer == LeaveAnswer(0, (Left("id-a", None, 0),))
    assert bench.group.leader == "id-b"
    bench.join("b2", member_id="id-b")
    assert bench.answers["b2"].leader == "id-b"


def test_the_last_leaves(bench: ClassicBench) -> None:
    bench.stable("a")
    bench.send(Leave("l", (Leaver("id-a"),)))
    assert row_of(bench.writes).state == State.EMPTY


def test_a_batch_of_leavers_each_with_its_outcome(bench: ClassicBench) -> None:
    bench.stable("a")
    bench.join("s", instance_id="i")
    bench.join("p", id_required=True)
    answer = bench.send(
        Leave(
            "l",
            (
                Leaver("", "i"),
                Leaver("", "unheard"),
                Leaver("id-p"),
                Leaver("nobody"),
                Leaver("id-a", "i"),
                Leaver(""),
            ),
        )
    )
    assert [left.error for left in answer.members] == [0, 25, 0, 25, 25, 25]
    assert bench.answers["s"] == JoinAnswer(Code.UNKNOWN_MEMBER_ID)


def test_whoever_leaves_while_parked_is_answered(bench: ClassicBench) -> None:
    bench.join("a")
    bench.join("b")
    bench.pass_time(DELAY * 2)
    bench.sync("bs", "id-b")
    bench.send(Leave("l", (Leaver("id-b"),)))
    assert bench.answers["bs"] == SyncAnswer(Code.UNKNOWN_MEMBER_ID)


def test_a_static_member_is_not_removed_by_another_id(bench: ClassicBench) -> None:
    bench.stable("a", instance_id="i")
    answer = bench.send(Leave("l", (Leaver("id-old", "i"),)))
    assert answer.members[0].error == Code.FENCED_INSTANCE_ID
    assert bench.group.state is State.STABLE


def test_all_leave_during_the_first_delay(bench: ClassicBench) -> None:
    bench.join("a")
    bench.send(Leave("l", (Leaver("id-a"),)))
    bench.pass_time(DELAY)
    assert bench.group.state is State.EMPTY
    assert bench.group.generation == 1


# -- commits, deletion ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "member_id", "generation", "error"),
    [
        (State.EMPTY, "", -1, Code.NONE),
        (State.EMPTY, "id-a", -1, Code.NONE),
        (State.EMPTY, "id-a", 1, Code.UNKNOWN_MEMBER_ID),
        (State.STABLE, "", -1, Code.UNKNOWN_MEMBER_ID),
        (State.STABLE, "id-a", 1, Code.NONE),
        (State.STABLE, "id-a", 2, Code.ILLEGAL_GENERATION),
        (State.STABLE, "id-b", 1, Code.UNKNOWN_MEMBER_ID),
        (State.STABLE, "id-a", -1, Code.ILLEGAL_GENERATION),
        (State.PREPARING_REBALANCE, "id-a", 1, Code.NONE),
        (State.COMPLETING_REBALANCE, "id-a", 2, Code.REBALANCE_IN_PROGRESS),
        (State.COMPLETING_REBALANCE, "id-a", 1, Code.ILLEGAL_GENERATION),
        (State.DEAD, "id-a", 1, Code.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_who_may_commit(
    bench: ClassicBench, state: State, member_id: str, generation: int, error: Code
) -> None:
    if state is State.DEAD:
        bench.send(Delete("d"))
    elif state is not State.EMPTY:
        bench.stable("a")
    if state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE):
        bench.join("c")
    if state is State.COMPLETING_REBALANCE:
        bench.join("a2", member_id="id-a")
    assert bench.group.state is state
    assert bench.group.check_commit(member_id, None, generation, bench.now) == error


def test_a_simple_group_gets_its_row_with_the_first_commit(bench: ClassicBench) -> None:
    (write,) = bench.group.store_simple()
    assert row_of([write]).protocol_type is None
    assert bench.group.store_simple() == []


def test_delete(bench: ClassicBench) -> None:
    bench.stable("a")
    assert bench.send(Delete("d1")) == Plain(Code.NON_EMPTY_GROUP)
    bench.send(Leave("l", (Leaver("id-a"),)))
    assert bench.send(Delete("d2")) == Plain(0)
    assert bench.writes == [
        DeleteRow(Family.GROUP, b"g"),
        DeleteRange(Family.OFFSET, b"\0\0\0\x01g", b"\0\0\0\x01h"),
    ]
    assert bench.send(Delete("d3")) == Plain(Code.GROUP_ID_NOT_FOUND)
    assert bench.send(Heartbeat("h", "id-a", 1)) == Plain(Code.COORDINATOR_NOT_AVAILABLE)
    assert bench.join("j") == JoinAnswer(Code.COORDINATOR_NOT_AVAILABLE)
    assert bench.sync("s", "id-a") == SyncAnswer(Code.COORDINATOR_NOT_AVAILABLE)
    assert bench.send(Leave("l2", (Leaver("id-a"),))) == LeaveAnswer(Code.COORDINATOR_NOT_AVAILABLE)


def subscription(*topics: str) -> bytes:
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\x01" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def test_offset_deletion_is_refused_for_topics_in_use(bench: ClassicBench) -> None:
    bench.join("a", protocols=(("range", subscription("t1", "t2")),))
    assert bench.group.subscribes_to("anything"), "no generation yet: nobody knows"
    bench.join("b", protocols=(("range", subscription("t3")),))
    bench.pass_time(DELAY * 2)
    assert bench.group.check_offset_delete() == 0
    assert [bench.group.subscribes_to(topic) for topic in ("t1", "t2", "t3", "t4")] == [
        True,
        True,
        True,
        False,
    ]
    bench.send(Leave("l", (Leaver("id-a"), Leaver("id-b"))))
    assert not bench.group.subscribes_to("t1")


def test_other_protocols_keep_their_offsets_while_they_have_members(bench: ClassicBench) -> None:
    bench.stable("a", protocol_type="connect")
    assert bench.group.check_offset_delete() == Code.NON_EMPTY_GROUP
    bench.send(Leave("l", (Leaver("id-a"),)))
    assert bench.group.check_offset_delete() == 0
    bench.send(Delete("d"))
    assert bench.group.check_offset_delete() == Code.GROUP_ID_NOT_FOUND


# -- coming back from the row --------------------------------------------------------------------------------


def reload(bench: ClassicBench) -> None:
    row = group_rows.classic(group_rows.put("g", bench.group.row()).value)
    bench.group = ClassicGroup.load("g", row, Limits(DELAY), bench.now)


def test_a_stable_group_goes_on_after_a_restart(bench: ClassicBench) -> None:
    bench.stable("a", "b")
    reload(bench)
    assert bench.group.state is State.STABLE
    assert bench.beat("id-a", 1) == bench.beat("id-b", 1) == 0
    bench.pass_time(SESSION - 1)
    assert bench.beat("id-a", 1) == 0
    bench.pass_time(1)
    assert list(bench.group.roster.members) == ["id-a"]


def test_a_group_that_awaits_its_assignment_goes_on_after_a_restart(bench: ClassicBench) -> None:
    bench.join("a")
    bench.join("b")
    bench.pass_time(DELAY * 2)
    bench.sync("bs", "id-b")
    reload(bench)
    answer = bench.join("a2", member_id="id-a")
    assert answer is not None
    assert (answer.generation, len(answer.members)) == (1, 2)
    bench.sync("bs2", "id-b")
    bench.sync("as2", "id-a", assignments={"id-b": b"B"})
    assert bench.answers["bs2"].assignment == b"B"


def test_a_leader_that_does_not_assign_after_a_restart_is_given_up(bench: ClassicBench) -> None:
    bench.join("a", rebalance=5_000)
    bench.join("b", rebalance=5_000)
    bench.pass_time(DELAY * 2)
    reload(bench)
    bench.sync("bs", "id-b")
    bench.pass_time(5_000)
    assert bench.answers["bs"] == SyncAnswer(Code.REBALANCE_IN_PROGRESS)
    assert list(bench.group.roster.members) == ["id-b"]


def test_describe_shows_metadata_of_stable_groups_only(bench: ClassicBench) -> None:
    bench.stable("a", "b")
    assert bench.group.describe()[0] == ("id-a", None, "client", "/127.0.0.1", b"r", b"id-a")
    bench.join("c")
    assert bench.group.describe()[0].metadata == b""


def test_every_state_can_be_entered_and_only_dead_is_final() -> None:
    assert set(CAME_FROM) == set(CLASSIC_STATES)
    left = set().union(*CAME_FROM.values())
    assert set(CLASSIC_STATES) - left == {State.DEAD}


def test_codes_are_kafkas() -> None:
    for code in Code:
        assert Error[code.name].value == code.value


# -- what those are told who follow assignments --------------------------------------------------------------


def test_an_assignment_is_told_when_the_leader_has_made_it(bench: ClassicBench) -> None:
    bench.join("a")
    bench.join("b")
    bench.pass_time(DELAY * 2)
    bench.sync("bs", "id-b")
    assert bench.told == []
    bench.sync("as", "id-a", assignments={"id-a": b"A", "id-b": b"B"})
    assert bench.told == [Assigned(1)]
    # once: who asks again is answered, and nothing has changed
    bench.sync("as2", "id-a")
    assert bench.told == [Assigned(1)]


def test_a_member_that_falls_silent_is_lost(bench: ClassicBench) -> None:
    bench.stable("a", "b")
    bench.told.clear()
    bench.pass_time(SESSION - 1)
    bench.beat("id-a")
    bench.pass_time(1)
    assert bench.told == [Gone("id-b", crashed=True)]


def test_a_member_that_says_so_is_not_lost(bench: ClassicBench) -> None:
    bench.stable("a", "b")
    bench.told.clear()
    bench.send(Leave("l", (Leaver("id-a"), Leaver("nobody"))))
    assert bench.told == [Gone("id-a", crashed=False)]


def test_a_static_member_that_is_taken_out_by_its_name_is_not_lost(bench: ClassicBench) -> None:
    bench.stable("a", instance_id="i")
    bench.told.clear()
    bench.send(Leave("l", (Leaver("", "i"),)))
    assert bench.told == [Gone("id-a", crashed=False)]


def test_who_does_not_rejoin_or_sync_is_lost(bench: ClassicBench) -> None:
    bench.stable("a", "b", rebalance=5_000)
    bench.told.clear()
    bench.join("a2", member_id="id-a", protocols=(("range", b"x"),), rebalance=5_000)
    for _ in range(6):
        bench.pass_time(999)
        bench.beat("id-b")
    assert bench.told == [Gone("id-b", crashed=True)]
    bench.told.clear()
    # it leads now, and does not assign
    for _ in range(6):
        bench.pass_time(999)
        bench.beat("id-a")
    assert bench.told == [Gone("id-a", crashed=True)]


def test_a_member_that_only_asked_for_an_id_is_nobody(bench: ClassicBench) -> None:
    bench.stable("a")
    bench.told.clear()
    bench.join("p", id_required=True)
    bench.send(Leave("l", (Leaver("id-p"),)))
    bench.join("q", id_required=True)
    for _ in range(30):
        bench.pass_time(999)
        bench.beat("id-a")
    assert bench.told == []
