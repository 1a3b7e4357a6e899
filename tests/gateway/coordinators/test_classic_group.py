"""The classic group's table, row by row: what an event does in a state, and what each request is answered."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.coordinators import group_rows
from gateway.coordinators.classic_events import (
    Answer,
    Delete,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Leaver,
    Left,
    Plain,
    Sync,
    SyncAnswer,
    Tick,
)
from gateway.coordinators.classic_group import CAME_FROM, NEW_MEMBER_TIMEOUT, ClassicGroup
from gateway.coordinators.codes import Code
from gateway.coordinators.group_rows import State
from gateway.coordinators.group_state import Limits
from store.api import Delete as DeleteRow
from store.api import DeleteRange, Family, Put, Write

SESSION = 10_000
REBALANCE = 60_000
DELAY = 300


class Bench:
    """A group with a clock that stands still, and every answer by its token."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.group = ClassicGroup("g", limits or Limits(DELAY), 0)
        self.now = 1_000_000
        self.answers: dict[Any, Any] = {}
        self.writes: list[Write] = []
        self._ids = 0

    @property
    def state(self) -> str:
        return self.group.state.shown

    def send(self, event: Any) -> Any:
        """The answer to this event, None if it is parked."""
        step = self.group.step(event, self.now, self.now)
        self.writes = step.writes
        for effect in step.effects:
            if isinstance(effect, Answer):
                assert effect.token not in self.answers, "answered twice"
                self.answers[effect.token] = effect.value
        return self.answers.get(getattr(event, "token", None))

    def pass_time(self, ms: int) -> None:
        """Let the time pass, with a Tick at each instant the group asks for."""
        end = self.now + ms
        while (due := self.group.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.send(Tick())
        self.now = end

    def join(
        self,
        token: str,
        member_id: str = "",
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"r"), ("sticky", b"s")),
        protocol_type: str = "consumer",
        id_required: bool = False,
        may_skip: bool = True,
        session: int = SESSION,
        rebalance: int = REBALANCE,
    ) -> JoinAnswer | None:
        self._ids += 1
        answer: JoinAnswer | None = self.send(
            Join(
                token,
                member_id,
                f"id-{token}",
                instance_id,
                "client",
                "/127.0.0.1",
                session,
                rebalance,
                protocol_type,
                protocols,
                id_required,
                may_skip,
            )
        )
        return answer

    def sync(
        self, token: str, member_id: str, generation: int | None = None, **more: Any
    ) -> SyncAnswer | None:
        generation = self.group.generation if generation is None else generation
        answer: SyncAnswer | None = self.send(Sync(token, member_id, generation, **more))
        return answer

    def beat(self, member_id: str, generation: int | None = None, instance_id: str | None = None) -> int:
        self._ids += 1
        generation = self.group.generation if generation is None else generation
        answer = self.send(Heartbeat(f"hb{self._ids}", member_id, generation, instance_id))
        return int(answer.error)

    def stable(self, *tokens: str, **more: Any) -> None:
        """Members named by tokens join and sync; the first leads and gives each its own name."""
        for token in tokens:
            self.join(token, **more)
        self.pass_time(DELAY)
        ids = [f"id-{token}" for token in tokens]
        for token in tokens[1:]:
            self.sync(f"sync-{token}", f"id-{token}")
        self.sync(f"sync-{tokens[0]}", ids[0], assignments={one: one.encode() for one in ids})
        assert self.group.state is State.STABLE


@pytest.fixture
def bench() -> Bench:
    return Bench()


def row_of(writes: list[Write]) -> group_rows.ClassicRow:
    (put,) = writes
    assert isinstance(put, Put)
    assert (put.family, put.key) == (Family.GROUP, b"g")
    return group_rows.classic(put.value)


# -- joining -------------------------------------------------------------------------------------------------


def test_first_member_waits_for_others_then_leads(bench: Bench) -> None:
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


def test_newcomers_extend_the_first_delay_up_to_a_second(bench: Bench) -> None:
    bench.join("m0")
    for number in range(1, 10):
        bench.pass_time(200)
        assert ("m0" in bench.answers) is (number * 200 >= 1_000), number * 200
        bench.join(f"m{number}")


def test_the_first_delay_is_over_when_nobody_came_for_its_length(bench: Bench) -> None:
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
    bench = Bench(Limits(3_000))
    bench.join("a")
    bench.pass_time(2_900)
    bench.join("b")
    bench.pass_time(99)
    assert not bench.answers
    bench.pass_time(1)
    assert bench.answers["a"].error == 0


def test_no_delay_answers_the_first_at_once() -> None:
    bench = Bench(Limits(0))
    bench.join("a")
    assert bench.group.next_due() == bench.now
    bench.pass_time(0)
    assert bench.answers["a"].generation == 1


def test_a_dynamic_member_without_an_id_is_given_one(bench: Bench) -> None:
    answer = bench.join("a", id_required=True)
    assert answer == JoinAnswer(Code.MEMBER_ID_REQUIRED, "id-a")
    assert bench.group.state is State.EMPTY
    assert bench.join("b", member_id="id-a", id_required=True) is None
    bench.pass_time(DELAY)
    assert bench.answers["b"].member_id == "id-a"


def test_a_static_member_needs_no_second_round(bench: Bench) -> None:
    assert bench.join("a", instance_id="i", id_required=True) is None


def test_a_promised_place_ends_with_the_session(bench: Bench) -> None:
    bench.join("a", id_required=True)
    assert not bench.group.idle
    bench.pass_time(SESSION)
    assert bench.group.idle
    answer = bench.join("b", member_id="id-a")
    assert answer is not None
    assert answer.error == Code.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_the_promised_member(bench: Bench) -> None:
    bench.stable("a")
    bench.join("b", id_required=True)
    bench.join("a2", member_id="id-a")
    assert "a2" not in bench.answers
    bench.join("b2", member_id="id-b")
    assert bench.answers["a2"].generation == bench.answers["b2"].generation == 2


def test_an_unknown_member_id_is_refused(bench: Bench) -> None:
    answer = bench.join("a", member_id="nobody")
    assert answer == JoinAnswer(Code.UNKNOWN_MEMBER_ID, "nobody")


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", (("range", b""),)), ("consumer", ())],
)
def test_an_empty_group_wants_a_type_and_a_protocol(bench: Bench, protocol_type: str, protocols: Any) -> None:
    answer = bench.join("a", protocol_type=protocol_type, protocols=protocols)
    assert answer == JoinAnswer(Code.INCONSISTENT_GROUP_PROTOCOL)


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", (("range", b""),)), ("consumer", (("other", b""),))],
)
def test_protocols_must_fit_those_of_the_group(bench: Bench, protocol_type: str, protocols: Any) -> None:
    bench.stable("a")
    answer = bench.join("b", protocol_type=protocol_type, protocols=protocols)
    assert answer == JoinAnswer(Code.INCONSISTENT_GROUP_PROTOCOL)
    assert bench.group.state is State.STABLE


def test_an_empty_group_may_change_its_type(bench: Bench) -> None:
    bench.stable("a")
    bench.send(Leave("l", (Leaver("id-a"),)))
    bench.join("b", protocol_type="connect", protocols=(("sessioned", b""),))
    bench.pass_time(DELAY)
    assert bench.answers["b"].protocol_type == "connect"


def test_the_protocol_most_members_prefer_of_those_all_speak_wins(bench: Bench) -> None:
    bench.join("a", protocols=(("range", b"1"), ("sticky", b"2")))
    bench.join("b", protocols=(("new", b"0"), ("sticky", b"3"), ("range", b"4")))
    bench.join("c", protocols=(("sticky", b"5"), ("range", b"6")))
    bench.pass_time(DELAY * 2)
    assert bench.answers["a"].protocol_name == "sticky"
    assert [member.metadata for member in bench.answers["a"].members] == [b"2", b"3", b"5"]


def test_a_protocol_named_twice_counts_once(bench: Bench) -> None:
    twice = (("range", b"1"), ("range", b"2"))
    bench.join("a", protocols=twice)
    bench.join("b", protocols=(("range", b"3"),))
    bench.pass_time(DELAY * 2)
    assert bench.answers["a"].protocol_name == "range"


def test_a_full_group_refuses_newcomers() -> None:
    bench = Bench(Limits(DELAY, 2))
    bench.stable("a", "b")
    assert bench.join("c") == JoinAnswer(Code.GROUP_MAX_SIZE_REACHED)
    assert bench.group.state is State.STABLE


def test_a_group_above_a_lowered_limit_loses_the_last_to_rejoin(bench: Bench) -> None:
    bench.stable("a", "b", "c")
    bench.group.limits = Limits(DELAY, 2)
    bench.join("a2", member_id="id-a")
    bench.join("b2", member_id="id-b")
    assert bench.join("c2", member_id="id-c") == JoinAnswer(Code.GROUP_MAX_SIZE_REACHED)
    assert bench.answers["a2"].generation == 2
    assert [member.member_id for member in bench.answers["a2"].members] == ["id-a", "id-b"]


def test_a_new_member_that_never_comes_back_is_dropped_from_a_long_rebalance(bench: Bench) -> None:
    bench.stable("a", session=NEW_MEMBER_TIMEOUT * 3, rebalance=NEW_MEMBER_TIMEOUT * 2)
    bench.join("b")
    bench.pass_time(NEW_MEMBER_TIMEOUT)
    assert bench.answers["b"] == JoinAnswer(Code.UNKNOWN_MEMBER_ID)


def test_a_join_repeated_on_another_connection_frees_the_first(bench: Bench) -> None:
    bench.stable("a", "b")
    bench.join("a2", member_id="id-a")
    bench.join("a3", member_id="id-a")
    assert bench.answers["a2"].error == Code.REBALANCE_IN_PROGRESS
    bench.join("b2", member_id="id-b")
    assert bench.answers["a3"].generation == 2


@pytest.mark.parametrize(("who", "generation"), [("id-b", 1), ("id-a", 2)])
def test_in_stable_a_follower_gets_the_generation_and_a_leader_a_rebalance(
    bench: Bench, who: str, generation: int
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
def test_changed_metadata_starts_a_rebalance(bench: Bench, state: State) -> None:
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


def test_a_leader_that_missed_its_answer_gets_it_again(bench: Bench) -> None:
    bench.join("a")
    bench.join("b")
    bench.pass_time(DELAY * 2)
    assert bench.join("a2", member_id="id-a") == bench.answers["a"]


# -- the rebalance -------------------------------------------------------------------------------------------


def test_a_rebalance_ends_when_all_have_joined(bench: Bench) -> None:
    bench.stable("a", "b")
    bench.join("c")
    assert bench.beat("id-a") == Code.REBALANCE_IN_PROGRESS
    bench.join("a2", member_id="id-a")
    bench.join("b2", member_id="id-b")
    assert {bench.answers[one].generation for one in ("a2", "b2", "c")} == {2}
    assert len(bench.answers["a2"].members) == 3
    assert row_of(bench.writes).state == State.COMPLETING_REBALANCE


def test_members_that_do_not_rejoin_are_out_and_the_leader_is_replaced(bench: Bench) -> None:
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


def test_followers_wait_for_the_leaders_assignment(bench: Bench) -> None:
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


def test_a_sync_repeated_on_another_connection_frees_the_first(bench: Bench) -> None:
    bench.join("a")
    bench.join("b")
    bench.pass_time(DELAY * 2)
    bench.sync("b1", "id-b")
    bench.sync("b2", "id-b")
    assert bench.answers["b1"] == SyncAnswer(Code.REBALANCE_IN_PROGRESS)


def test_those_who_never_sync_are_out(bench: Bench) -> None:
    bench.join("a", rebalance=5_000)
    bench.join("b", rebalance=5_000)
    bench.pass_time(DELAY * 2)
    bench.sync("bs", "id-b")
    bench.pass_time(5_000)
    assert bench.answers["bs"] == SyncAnswer(Code.REBALANCE_IN_PROGRESS)
    assert list(bench.group.roster.members) == ["id-b"]
    assert bench.group.state is State.PREPARING_REBALANCE


def test_a_follower_that_never_syncs_is_out_of_a_stable_group(bench: Bench) -> None:
    bench.join("a", rebalance=5_000)
    bench.join("b", rebalance=5_000)
    bench.pass_time(DELAY * 2)
    bench.sync("as", "id-a")
    assert bench.group.state is State.STABLE
    bench.pass_time(5_000)
    assert list(bench.group.roster.members) == ["id-a"]


def test_only_static_members_and_none_rejoins_waits_for_their_sessions(bench: Bench) -> None:
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
def test_sync_fences(bench: Bench, more: dict[str, Any], error: Code) -> None:
    bench.stable("a")
    answer = bench.sync("s", **({"member_id": "id-a"} | more))
    assert answer is not None
    assert answer.error == error


def test_sync_during_the_join_phase(bench: Bench) -> None:
    bench.stable("a", "b")
    bench.join("c")
    assert bench.sync("s", "id-a") == SyncAnswer(Code.REBALANCE_IN_PROGRESS)


def test_sync_in_an_empty_group(bench: Bench) -> None:
    assert bench.sync("s", "id-a") == SyncAnswer(Code.UNKNOWN_MEMBER_ID)


# -- sessions ------------------------------------------------------------------------------------------------


def test_a_silent_member_expires_and_heartbeats_keep_one(bench: Bench) -> None:
    bench.stable("a", "b")
    bench.pass_time(SESSION - 1)
    assert bench.beat("id-a") == 0
    bench.pass_time(1)
    assert list(bench.group.roster.members) == ["id-a"]
    assert bench.beat("id-a") == Code.REBALANCE_IN_PROGRESS
    bench.join("a2", member_id="id-a")
    assert bench.answers["a2"].generation == 2


def test_a_commit_is_a_sign_of_life(bench: Bench) -> None:
    bench.stable("a")
    bench.pass_time(SESSION - 1)
    assert bench.group.check_commit("id-a", None, 1, bench.now) == 0
    bench.pass_time(SESSION - 1)
    assert bench.beat("id-a") == 0


def test_a_parked_sync_speaks_for_its_member(bench: Bench) -> None:
    bench.join("a", session=1_000_000)
    bench.join("b")
    bench.pass_time(DELAY * 2)
    bench.sync("bs", "id-b")
    bench.pass_time(SESSION * 2)
    bench.sync("as", "id-a", assignments={"id-b": b"B"})
    assert bench.answers["bs"].assignment == b"B"
    assert bench.beat("id-b") == 0


def test_when_the_last_expires_the_group_is_empty_and_stored(bench: Bench) -> None:
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
    bench: Bench, member_id: str, generation: int, instance_id: str | None, error: Code
) -> None:
    bench.stable("a")
    assert bench.beat(member_id, generation, instance_id) == error


def test_heartbeat_while_the_assignment_is_awaited(bench: Bench) -> None:
    bench.join("a")
    bench.pass_time(DELAY)
    assert bench.group.state is State.COMPLETING_REBALANCE
    assert bench.beat("id-a") == 0


# -- leaving -------------------------------------------------------------------------------------------------


def test_one_leaves_and_the_others_rebalance(bench: Bench) -> None:
    bench.stable("a", "b")
    answer = bench.send(Leave("l", (Leaver("id-a"),)))
    assert answer == LeaveAnswer(0, (Left("id-a", None, 0),))
    assert bench.group.leader == "id-b"
    bench.join("b2", member_id="id-b")
    assert bench.answers["b2"].leader == "id-b"


def test_the_last_leaves(bench: Bench) -> None:
    bench.stable("a")
    bench.send(Leave("l", (Leaver("id-a"),)))
    assert row_of(bench.writes).state == State.EMPTY


def test_a_batch_of_leavers_each_with_its_outcome(bench: Bench) -> None:
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


def test_whoever_leaves_while_parked_is_answered(bench: Bench) -> None:
    bench.join("a")
    bench.join("b")
    bench.pass_time(DELAY * 2)
    bench.sync("bs", "id-b")
    bench.send(Leave("l", (Leaver("id-b"),)))
    assert bench.answers["bs"] == SyncAnswer(Code.UNKNOWN_MEMBER_ID)


def test_a_static_member_is_not_removed_by_another_id(bench: Bench) -> None:
    bench.stable("a", instance_id="i")
    answer = bench.send(Leave("l", (Leaver("id-old", "i"),)))
    assert answer.members[0].error == Code.FENCED_INSTANCE_ID
    assert bench.group.state is State.STABLE


def test_all_leave_during_the_first_delay(bench: Bench) -> None:
    bench.join("a")
    bench.send(Leave("l", (Leaver("id-a"),)))
    bench.pass_time(DELAY)
    assert bench.group.state is State.EMPTY
    assert bench.group.generation == 1


# -- static members (KIP-345, KIP-814) -----------------------------------------------------------------------


def test_a_static_member_comes_back_without_a_rebalance(bench: Bench) -> None:
    bench.join("a", instance_id="ia")
    bench.join("b", instance_id="ib")
    bench.pass_time(DELAY * 2)
    bench.sync("as", "id-a", assignments={"id-a": b"A", "id-b": b"B"})
    bench.sync("bs", "id-b")
    answer = bench.join("b2", instance_id="ib")
    assert answer is not None
    assert (answer.error, answer.generation, answer.member_id, answer.leader) == (0, 1, "id-b2", "id-a")
    assert bench.group.state is State.STABLE
    assert [member.member_id for member in row_of(bench.writes).members] == ["id-a", "id-b2"]
    assert bench.beat("id-b", 1, "ib") == Code.FENCED_INSTANCE_ID
    assert bench.beat("id-b", 1) == Code.UNKNOWN_MEMBER_ID
    assert bench.sync("b2s", "id-b2") == SyncAnswer(0, "consumer", "range", b"B")


@pytest.mark.parametrize("may_skip", [True, False])
def test_a_static_leader_comes_back(bench: Bench, may_skip: bool) -> None:
    bench.stable("a", instance_id="i")
    answer = bench.join("a2", instance_id="i", may_skip=may_skip)
    assert answer is not None
    assert bench.group.leader == "id-a2"
    if may_skip:
        assert (answer.leader, answer.skip_assignment) == ("id-a2", True)
        assert answer.members == (("id-a2", "i", b"r"),)
    else:
        assert (answer.leader, answer.skip_assignment, answer.members) == ("id-a", False, ())


def test_a_static_member_that_changes_the_protocol_starts_a_rebalance(bench: Bench) -> None:
    bench.stable("a", instance_id="i")
    assert bench.join("a2", instance_id="i", protocols=(("sticky", b"s"),)) is not None
    assert bench.answers["a2"].protocol_name == "sticky"
    assert bench.answers["a2"].generation == 2


@pytest.mark.parametrize("state", [State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE])
def test_a_static_member_that_comes_back_fences_its_parked_self(bench: Bench, state: State) -> None:
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


def test_a_returned_static_member_answers_its_parked_sync(bench: Bench) -> None:
    bench.join("a")
    bench.join("s", instance_id="i")
    bench.pass_time(DELAY * 2)
    bench.sync("ss", "id-s")
    bench.join("s2", instance_id="i")
    assert bench.answers["ss"] == SyncAnswer(Code.FENCED_INSTANCE_ID)


def test_a_static_member_that_comes_back_before_it_synced_may_do_so(bench: Bench) -> None:
    bench.join("a", rebalance=5_000)
    bench.join("s", instance_id="i", rebalance=5_000)
    bench.pass_time(DELAY * 2)
    bench.sync("as", "id-a", assignments={"id-s": b"S"})
    bench.join("s2", instance_id="i")
    assert bench.sync("s2s", "id-s2") == SyncAnswer(0, "consumer", "range", b"S")
    bench.pass_time(6_000)
    assert bench.state == "Stable"


def test_an_old_id_with_a_new_holder_is_fenced_at_join(bench: Bench) -> None:
    bench.stable("a", instance_id="i")
    bench.join("a2", instance_id="i")
    answer = bench.join("a3", member_id="id-a", instance_id="i")
    assert answer == JoinAnswer(Code.FENCED_INSTANCE_ID, "id-a")


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
def test_who_may_commit(bench: Bench, state: State, member_id: str, generation: int, error: Code) -> None:
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


def test_a_simple_group_gets_its_row_with_the_first_commit(bench: Bench) -> None:
    (write,) = bench.group.store_simple()
    assert row_of([write]).protocol_type is None
    assert bench.group.store_simple() == []


def test_delete(bench: Bench) -> None:
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


def test_offset_deletion_is_refused_for_topics_in_use(bench: Bench) -> None:
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


def test_other_protocols_keep_their_offsets_while_they_have_members(bench: Bench) -> None:
    bench.stable("a", protocol_type="connect")
    assert bench.group.check_offset_delete() == Code.NON_EMPTY_GROUP
    bench.send(Leave("l", (Leaver("id-a"),)))
    assert bench.group.check_offset_delete() == 0
    bench.send(Delete("d"))
    assert bench.group.check_offset_delete() == Code.GROUP_ID_NOT_FOUND


# -- coming back from the row --------------------------------------------------------------------------------


def reload(bench: Bench) -> None:
    row = group_rows.classic(group_rows.put("g", bench.group.row()).value)
    bench.group = ClassicGroup.load("g", row, Limits(DELAY), bench.now)


def test_a_stable_group_goes_on_after_a_restart(bench: Bench) -> None:
    bench.stable("a", "b")
    reload(bench)
    assert bench.group.state is State.STABLE
    assert bench.beat("id-a", 1) == bench.beat("id-b", 1) == 0
    bench.pass_time(SESSION - 1)
    assert bench.beat("id-a", 1) == 0
    bench.pass_time(1)
    assert list(bench.group.roster.members) == ["id-a"]


def test_a_group_that_awaits_its_assignment_goes_on_after_a_restart(bench: Bench) -> None:
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


def test_a_leader_that_does_not_assign_after_a_restart_is_given_up(bench: Bench) -> None:
    bench.join("a", rebalance=5_000)
    bench.join("b", rebalance=5_000)
    bench.pass_time(DELAY * 2)
    reload(bench)
    bench.sync("bs", "id-b")
    bench.pass_time(5_000)
    assert bench.answers["bs"] == SyncAnswer(Code.REBALANCE_IN_PROGRESS)
    assert list(bench.group.roster.members) == ["id-b"]


def test_describe_shows_metadata_of_stable_groups_only(bench: Bench) -> None:
    bench.stable("a", "b")
    assert bench.group.describe()[0] == ("id-a", None, "client", "/127.0.0.1", b"r", b"id-a")
    bench.join("c")
    assert bench.group.describe()[0].metadata == b""


def test_every_state_can_be_entered_and_only_dead_is_final() -> None:
    assert set(CAME_FROM) == set(State)
    left = set().union(*CAME_FROM.values())
    assert set(State) - left == {State.DEAD}


def test_codes_are_kafkas() -> None:
    errors = pytest.importorskip("gateway.wire.errors")
    for code in Code:
        assert errors.Error[code.name] == code
