"""A classic group as it stands: it comes from its row and goes into it, and keeps strangers out."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.coordinators import group_rows
from gateway.coordinators.codes import Code
from gateway.coordinators.group_rows import ClassicRow, Kind, MemberRow, State
from gateway.coordinators.group_state import GroupState, Limits
from store.api import Put
from tests.gateway.coordinators.classic_bench import row_of

NOW, WALL = 5_000, 1_700_000_000_000
SUBSCRIBED = b"\0\1\0\0\0\1\0\1t\0\0\0\0"
"""To the topic "t"."""

text = st.text(max_size=5)
members = st.builds(
    MemberRow,
    member_id=text,
    instance_id=st.none(),
    client_id=text,
    client_host=text,
    session_timeout=st.integers(1, 2**31 - 1),
    rebalance_timeout=st.integers(0, 2**31 - 1),
    protocols=st.lists(st.tuples(text, st.binary(max_size=9)), min_size=1, max_size=3),
    assignment=st.binary(max_size=9),
)


def row(
    state: State = State.STABLE, kind: str | None = "consumer", metadata: bytes = SUBSCRIBED, **more: object
) -> ClassicRow:
    """Two members, one of them static, of generation 3."""
    listed = [
        MemberRow("a", None, "c", "/h", 10_000, 60_000, [("range", metadata)], b"A"),
        MemberRow("b", "ib", "c", "/h", 20_000, 30_000, [("range", metadata)], b"B"),
    ]
    made = ClassicRow(group_rows.VERSION, Kind.CLASSIC, state, WALL, kind, 3, "range", "a", listed)
    return msgspec.structs.replace(made, **more)


def loaded(made: ClassicRow) -> GroupState:
    return GroupState.load("g", made, Limits(), NOW)


@given(
    st.sampled_from([State.EMPTY, State.COMPLETING_REBALANCE, State.STABLE]),
    st.none() | text,
    st.none() | text,
    st.none() | text,
    st.integers(0, 2**31 - 1),
    st.lists(members, max_size=4, unique_by=lambda each: each.member_id),
)
def test_what_is_loaded_is_stored_again_as_it_was(
    state: State,
    kind: str | None,
    protocol: str | None,
    leader: str | None,
    generation: int,
    listed: list[MemberRow],
) -> None:
    made = ClassicRow(
        group_rows.VERSION, Kind.CLASSIC, state, WALL, kind, generation, protocol, leader, listed
    )
    assert loaded(made).row() == made


def test_everybody_has_a_fresh_session_after_a_restart() -> None:
    group = loaded(row())
    assert [member.deadline for member in group.roster] == [NOW + 10_000, NOW + 20_000]
    assert group.next_due() == NOW + 10_000
    assert (group.idle, group.stored) == (False, True)


def test_a_restart_in_the_middle_of_a_rebalance_waits_for_syncs_as_long_as_the_slowest_member() -> None:
    group = loaded(row(State.COMPLETING_REBALANCE))
    for member in group.roster:
        member.sync = object()
    assert group.next_due() == NOW + 60_000


@pytest.mark.parametrize(
    ("state", "member", "instance", "generation", "code"),
    [
        (State.STABLE, "a", None, 3, Code.NONE),
        (State.STABLE, "b", "ib", 3, Code.NONE),
        (State.STABLE, "a", None, 2, Code.ILLEGAL_GENERATION),
        (State.STABLE, "a", None, 4, Code.ILLEGAL_GENERATION),
        (State.STABLE, "x", None, 3, Code.UNKNOWN_MEMBER_ID),
        (State.STABLE, "a", "ib", 3, Code.FENCED_INSTANCE_ID),
        (State.STABLE, "a", "ix", 3, Code.UNKNOWN_MEMBER_ID),
        # who is no member: an administrator, or a consumer that manages its partitions itself
        (State.STABLE, "", None, -1, Code.UNKNOWN_MEMBER_ID),
        (State.EMPTY, "", None, -1, Code.NONE),
        (State.EMPTY, "x", None, -1, Code.NONE),
        (State.COMPLETING_REBALANCE, "a", None, 3, Code.REBALANCE_IN_PROGRESS),
        (State.COMPLETING_REBALANCE, "a", None, 2, Code.ILLEGAL_GENERATION),
        (State.DEAD, "a", None, 3, Code.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_who_may_commit(state: State, member: str, instance: str | None, generation: int, code: Code) -> None:
    made = row(state, members=[]) if state is State.EMPTY else row(state)
    assert loaded(made).check_commit(member, instance, generation, NOW + 1) == code


def test_a_commit_is_a_sign_of_life_and_one_that_is_refused_is_none() -> None:
    group = loaded(row())
    group.check_commit("a", None, 2, NOW + 500)
    assert group.next_due() == NOW + 10_000
    group.check_commit("a", None, 3, NOW + 500)
    assert group.next_due() == NOW + 10_500


@pytest.mark.parametrize(
    ("kind", "metadata", "topic", "subscribed"),
    [
        ("consumer", SUBSCRIBED, "t", True),
        ("consumer", SUBSCRIBED, "u", False),
        # what cannot be read may name any topic: its offsets are not deleted under it
        ("consumer", b"?", "u", True),
        ("connect", b"?", "u", False),
    ],
)
def test_topics_that_members_subscribe_to(kind: str, metadata: bytes, topic: str, subscribed: bool) -> None:
    assert loaded(row(kind=kind, metadata=metadata)).subscribes_to(topic) is subscribed


@pytest.mark.parametrize(
    ("state", "kind", "code"),
    [
        (State.STABLE, "consumer", Code.NONE),
        (State.STABLE, "connect", Code.NON_EMPTY_GROUP),
        (State.EMPTY, "connect", Code.NONE),
        (State.DEAD, "consumer", Code.GROUP_ID_NOT_FOUND),
    ],
)
def test_whose_offsets_may_be_deleted(state: State, kind: str, code: Code) -> None:
    assert loaded(row(state, kind)).check_offset_delete() == code


def test_metadata_of_members_is_shown_once_they_agree_on_a_protocol() -> None:
    stable, rebalancing = loaded(row()).describe(), loaded(row(State.COMPLETING_REBALANCE)).describe()
    assert [each.metadata for each in stable] == [SUBSCRIBED] * 2
    assert [each.metadata for each in rebalancing] == [b""] * 2
    assert [(each.member_id, each.instance_id, each.assignment) for each in stable] == [
        ("a", None, b"A"),
        ("b", "ib", b"B"),
    ]


def test_a_first_commit_makes_the_row_once() -> None:
    group = GroupState("g", Limits(), WALL)
    assert (group.idle, group.stored) == (True, False)
    writes = group.store_simple()
    assert isinstance(writes[0], Put)
    found = row_of(writes)
    assert (found.state, found.generation, found.members, found.since) == (State.EMPTY, 0, [], WALL)
    assert group.store_simple() == []
