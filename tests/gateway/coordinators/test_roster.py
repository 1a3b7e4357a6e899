"""Who is in a classic group, against a plain list of members: protocols that all speak, votes, order, instances."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.coordinators.classic_events import Protocols
from gateway.coordinators.roster import Member, Roster
from tests.examples import examples

NAMES = ("range", "sticky", "cooperative", "own")
lists = st.lists(st.sampled_from(NAMES), min_size=1, max_size=5).map(
    lambda names: tuple((name, name.encode()) for name in names)
)


def member(
    member_id: str, protocols: Protocols, instance: str | None = None, rebalance: int = 60_000
) -> Member:
    return Member(member_id, instance, "client", "/host", 10_000, rebalance, protocols)


def check(roster: Roster, plain: list[Member]) -> None:
    """All that the roster answers, said in the plainest form."""
    assert list(roster) == plain
    assert len(roster) == len(plain)
    assert roster.static == {each.instance_id: each.member_id for each in plain if each.instance_id}
    spoken = [{name for name, _ in each.protocols} for each in plain]
    common = set(NAMES).intersection(*spoken)
    for name in NAMES:
        assert roster.supports_any([(name, b"")]) == (name in common)
    assert roster.rebalance_timeout() == max((each.rebalance_timeout for each in plain), default=0)
    if common:
        votes = [next(name for name, _ in each.protocols if name in common) for each in plain]
        if plain:
            ranking = [name for name, _ in plain[0].protocols if name in votes]
            assert roster.vote() == max(ranking, key=votes.count)


@settings(max_examples=examples(200))
@given(st.data())
def test_whatever_comes_and_goes_the_roster_is_what_a_plain_list_says(data: st.DataObject) -> None:
    roster, plain = Roster(), list[Member]()
    for number in range(data.draw(st.integers(1, 15))):
        action = data.draw(st.sampled_from(["add", "add", "remove", "rename", "protocols"]))
        if action == "add" or not plain:
            instance = f"i{number}" if data.draw(st.booleans()) else None
            made = member(f"m{number}", data.draw(lists), instance, data.draw(st.integers(1, 3)))
            plain.append(made)
            roster.add(made)
        else:
            chosen = data.draw(st.sampled_from(plain))
            if action == "remove":
                plain.remove(chosen)
                roster.remove(chosen)
            elif action == "protocols":
                roster.set_protocols(chosen, data.draw(lists))
            elif chosen.instance_id is not None:
                # a static member comes back: with a new id, in its old place
                before = chosen.member_id
                roster.rename(chosen, f"again{number}")
                assert before not in roster
                assert roster.get(f"again{number}") is chosen
        check(roster, plain)


def test_among_equals_the_one_wins_that_the_first_member_ranks_higher() -> None:
    def vote(*orders: str) -> str:
        roster = Roster()
        for number, order in enumerate(orders):
            roster.add(member(f"m{number}", tuple((name, b"") for name in order.split())))
        return roster.vote()

    assert vote("range sticky", "sticky range") == "range"
    assert vote("sticky range", "range sticky") == "sticky"
    assert vote("range sticky", "sticky range", "sticky range") == "sticky"
    # what one does not speak gets no vote, however much the others want it
    assert vote("range sticky", "range sticky", "sticky") == "sticky"


def test_everybody_has_joined_when_nobody_is_promised_a_place() -> None:
    roster = Roster()
    first, second = member("a", (("range", b""),)), member("b", (("range", b""),))
    roster.add(first)
    first.join = object()
    roster.pending["b"] = 5
    assert (roster.all_joined(), roster.waiting()) == (False, 1)
    # it comes, and its promise is kept
    roster.add(second)
    assert (roster.pending, roster.all_joined(), roster.waiting()) == ({}, False, 1)
    second.join = object()
    assert (roster.all_joined(), roster.waiting()) == (True, 2)


def test_a_session_runs_while_no_request_is_parked_and_for_who_is_new_always() -> None:
    one = member("a", (("range", b"r"),))
    one.deadline = 7
    assert one.due() == 7
    one.sync = object()
    assert one.due() is None
    one.is_new = True
    assert one.due() == 7
    assert (one.metadata("range"), one.metadata("sticky"), one.metadata(None)) == (b"r", b"", b"")
