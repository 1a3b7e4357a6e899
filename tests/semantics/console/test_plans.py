from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.console.plans import (
    HOLDS_MS,
    MOST_IN_ALL,
    MOST_PLANS,
    MOST_RUNS,
    STEP,
    PlanError,
    Plans,
    Selection,
    both,
    follow,
    slices,
)

T = TypeVar("T")
WHAT = ("act", "orders", "billing", "settle")


def done(steps: Generator[None, None, T]) -> T:
    """Driven to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def chosen(*offsets: int, part: int = 0) -> Selection:
    return Selection.of((part, each, each) for each in sorted(offsets))


def members(selection: Selection) -> set[tuple[object, int]]:
    return {(part, each) for part, first, last in selection for each in range(first, last + 1)}


@given(
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 40))),
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 40))),
)
def test_what_is_in_both_selections(one: set[tuple[int, int]], other: set[tuple[int, int]]) -> None:
    mine, theirs = (Selection.of((part, each, each) for part, each in sorted(some)) for some in (one, other))
    assert (len(mine), members(mine)) == (len(one), one)
    common = done(both(mine, theirs))
    assert members(common) == one & other
    assert len(common) == len(one & other)


def test_a_selection_joins_runs_and_refuses_what_does_not_come_behind() -> None:
    selection = Selection.of([(0, 1, 3), (0, 4, 9), (0, 11, 11), (1, 0, 0)])
    assert (selection.runs(0), selection.runs(1), selection.runs(2)) == ([(1, 9), (11, 11)], [(0, 0)], [])
    assert (len(selection), selection.size) == (11, 3)
    assert [each for each in range(-1, 13) if selection.has(0, each)] == [*range(1, 10), 11]
    assert (selection.has(1, 0), selection.has(2, 0)) == (True, False)
    with pytest.raises(ValueError, match="does not come behind"):
        selection.add(0, 11, 12)


def test_a_selection_is_done_in_slices() -> None:
    assert list(slices([(1, 7), (9, 9), (20, 22)], 4)) == [[(1, 4)], [(5, 7), (9, 9)], [(20, 22)]]
    assert list(slices([], 4)) == []
    assert list(slices([(5, 8)], 4)) == [[(5, 8)]]


def test_an_act_follows_from_its_plan_once() -> None:
    plans = Plans()
    plans.keep("p1", "ann", WHAT, chosen(1, 2, 3), 0)
    plan = plans.take("p1", "ann", WHAT, HOLDS_MS - 1)
    assert members(done(follow(plan, chosen(1, 2, 3)))) == {(0, 1), (0, 2), (0, 3)}
    plans.use_up(plan)
    assert len(plans) == 0
    with pytest.raises(PlanError, match="no plan 'p1'"):
        plans.take("p1", "ann", WHAT, 0)


def test_while_an_act_has_a_plan_no_other_gets_it_and_one_that_has_not_begun_gives_it_back() -> None:
    plans = Plans()
    plans.keep("p1", "ann", WHAT, chosen(1, 2, 3), 0)
    plan = plans.take("p1", "ann", WHAT, 1)
    with pytest.raises(PlanError, match="Another call is carrying out the plan p1"):
        plans.take("p1", "ann", WHAT, 1)
    plans.give_back(plan)
    assert plans.take("p1", "ann", WHAT, HOLDS_MS - 1) is plan
    plans.give_back(plan)
    with pytest.raises(PlanError, match="no plan 'p1'"):
        plans.take("p1", "ann", WHAT, HOLDS_MS)


def test_a_plan_that_made_room_is_not_there_again_when_it_is_given_back() -> None:
    plans = Plans()
    plan = plans.keep("p1", "ann", WHAT, chosen(1), 0)
    plans.take("p1", "ann", WHAT, 1)
    for number in range(MOST_PLANS):
        plans.keep(f"q{number}", "ann", WHAT, chosen(number), 1)
    plans.give_back(plan)
    assert len(plans) == MOST_PLANS
    with pytest.raises(PlanError, match="no plan 'p1'"):
        plans.take("p1", "ann", WHAT, 1)


def test_a_plan_is_over_after_five_minutes() -> None:
    plans = Plans()
    plans.keep("p1", "ann", WHAT, chosen(1), 0)
    with pytest.raises(PlanError, match="5 minutes"):
        plans.take("p1", "ann", WHAT, HOLDS_MS)


def test_a_plan_is_of_who_looked_and_of_what_was_asked() -> None:
    plans = Plans()
    plans.keep("p1", "ann", WHAT, chosen(1), 0)
    with pytest.raises(PlanError, match="no plan"):
        plans.take("p1", "bob", WHAT, 1)
    with pytest.raises(PlanError, match="something else"):
        plans.take("p1", "ann", ("act", "orders", "billing", "dead-letter"), 1)
    # neither has used it up
    assert plans.take("p1", "ann", WHAT, 1).id == "p1"


def test_more_than_one_in_a_hundred_changed_is_refused() -> None:
    plans = Plans()
    plan = plans.keep("p1", "ann", WHAT, chosen(*range(200)), 0)
    # one gone and one come: of the others only, and of those that were shown
    assert members(done(follow(plan, chosen(*range(1, 201))))) == {(0, each) for each in range(1, 200)}
    with pytest.raises(PlanError, match="3 of 200 are not to be found any more, and 0 have come"):
        done(follow(plan, chosen(*range(3, 200))))
    with pytest.raises(PlanError, match="0 of 200 are not to be found any more, and 3 have come"):
        done(follow(plan, chosen(*range(203))))
    # another partition's are others
    with pytest.raises(PlanError, match="200 of 200"):
        done(follow(plan, Selection.of([(1, 0, 199)])))


def test_of_few_none_may_change() -> None:
    plan = Plans().keep("p1", "ann", WHAT, chosen(1, 2), 0)
    with pytest.raises(PlanError, match="Look again"):
        done(follow(plan, chosen(1)))


def test_the_oldest_plans_go_where_there_are_many() -> None:
    plans = Plans()
    for number in range(MOST_PLANS + 1):
        plans.keep(f"p{number}", "ann", WHAT, chosen(number), number)
    assert len(plans) == MOST_PLANS
    with pytest.raises(PlanError):
        plans.take("p0", "ann", WHAT, 100)
    assert plans.take("p1", "ann", WHAT, 100).chosen.runs(0) == [(1, 1)]


def test_who_looks_too_often_loses_its_own_plans_and_nobody_elses() -> None:
    plans = Plans()
    plans.keep("bob", "bob", WHAT, chosen(1), 0)
    plans.keep("kim", "kim", WHAT, chosen(1), 0, owner="shop")
    for number in range(MOST_PLANS):
        plans.keep(f"a{number}", "ann", WHAT, chosen(1), 0, owner="shop")
    assert len(plans) == MOST_PLANS + 1
    assert plans.take("bob", "bob", WHAT, 1).owner == "bob"
    # of the same tenant, and older
    with pytest.raises(PlanError):
        plans.take("kim", "kim", WHAT, 1)
    assert plans.take("a0", "ann", WHAT, 1).who == "ann"


def test_with_very_many_the_owner_with_most_loses_one() -> None:
    plans = Plans()
    plans.keep("old", "one", WHAT, chosen(1), 0)
    for number in range(MOST_IN_ALL - 1):
        # the first has 20, the others fewer
        plans.keep(f"p{number}", f"u{number % 32 if number < 600 else 0}", WHAT, chosen(1), 0)
    assert len(plans) == MOST_IN_ALL
    plans.keep("new", "another", WHAT, chosen(1), 0)
    assert len(plans) == MOST_IN_ALL
    with pytest.raises(PlanError):
        plans.take("p0", "u0", WHAT, 1)
    assert plans.take("old", "one", WHAT, 1)
    assert plans.take("p1", "u1", WHAT, 1)
    assert plans.take("new", "another", WHAT, 1)


def test_of_large_plans_the_owner_with_most_runs_loses_its_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semantics.console.plans.MOST_RUNS", 10)
    plans = Plans()
    plans.keep("small", "bob", WHAT, chosen(1, 3), 0)
    plans.keep("a1", "ann", WHAT, chosen(1, 3, 5, 7), 0)
    plans.keep("a2", "ann", WHAT, chosen(1, 3, 5, 7), 0)
    assert len(plans) == 3
    # ten runs are as many as may be: one more, and the one with most has one plan less
    plans.keep("kim", "kim", WHAT, chosen(1), 0)
    assert plans.take("small", "bob", WHAT, 1)
    assert plans.take("a2", "ann", WHAT, 1)
    with pytest.raises(PlanError):
        plans.take("a1", "ann", WHAT, 1)
    # what was taken takes no room any more
    plans.keep("a3", "ann", WHAT, chosen(*range(1, 19, 2)), 0)
    assert plans.take("kim", "kim", WHAT, 1)
    assert plans.take("a3", "ann", WHAT, 1)
    # one that is too large by itself is kept, and nothing beside it
    plans.keep("b", "bob", WHAT, chosen(1), 0)
    plans.keep("huge", "ann", WHAT, chosen(*range(0, 40, 2)), 0)
    assert len(plans) == 1
    assert plans.take("huge", "ann", WHAT, 1)


def test_plans_whose_time_is_over_are_not_kept() -> None:
    plans = Plans()
    plans.keep("old", "ann", WHAT, chosen(1), 0)
    plans.keep("new", "ann", WHAT, chosen(1), HOLDS_MS)
    assert len(plans) == 1


def test_bounds_are_what_is_told() -> None:
    """They stand in the documentation: whoever changes one reads that again."""
    assert (HOLDS_MS, MOST_PLANS, MOST_IN_ALL, MOST_RUNS) == (300_000, 64, 640, 1_000_000)


def test_a_walk_stops_so_often_that_others_have_their_turn() -> None:
    def stops(count: int) -> int:
        one, other = (Selection.of((0, each * 3, each * 3 + 1) for each in range(count)) for _ in range(2))
        return sum(1 for _ in both(one, other))

    # of the same runs each is passed in two steps
    assert [stops(count) for count in (1, 100, 250, 251, 500, 501)] == [0, 0, 0, 1, 1, 2]
    # others have their turn after less than a millisecond
    assert STEP == 500


def test_what_stands_in_plans_is_counted_as_it_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semantics.console.plans.MOST_RUNS", 4)
    plans = Plans()
    for _ in range(5):
        # the same name again takes the place of the one before
        plans.keep("p", "ann", WHAT, chosen(1, 3), 0)
        plans.keep("q", "bob", WHAT, chosen(1, 3), 0)
        assert len(plans) == 2
    for _ in range(5):
        plans.use_up(plans.take("p", "ann", WHAT, 1))
        plans.keep("p", "ann", WHAT, chosen(1, 3), 0)
        assert len(plans) == 2
    # those whose time is over take no room either
    plans.keep("r", "kim", WHAT, chosen(1, 3, 5, 7), HOLDS_MS)
    assert len(plans) == 1
    plans.keep("s", "lee", WHAT, Selection(), HOLDS_MS)
    assert len(plans) == 2
    plans.keep("t", "lee", WHAT, chosen(1), HOLDS_MS)
    assert len(plans) == 2


@pytest.mark.parametrize(
    ("shown", "gone", "come", "may"),
    [
        (100, 1, 0, True),
        (100, 0, 1, True),
        (100, 1, 1, False),
        (99, 1, 0, False),
        (99, 0, 1, False),
        (199, 1, 0, True),
        (199, 2, 0, False),
        (200, 1, 1, True),
        (200, 2, 1, False),
        (1, 0, 0, True),
        (0, 0, 0, True),
        (0, 0, 1, False),
    ],
)
def test_how_much_may_have_changed(shown: int, gone: int, come: int, may: bool) -> None:
    plan = Plans().keep("p", "ann", WHAT, chosen(*range(shown)), 0)
    now = chosen(*range(gone, shown + come))
    if may:
        assert members(done(follow(plan, now))) == {(0, each) for each in range(gone, shown)}
        return
    said = f"{gone} of {shown} are not to be found any more, and {come} have come"
    with pytest.raises(PlanError, match=said):
        done(follow(plan, now))


def test_runs_are_one_where_they_touch_and_two_where_they_do_not() -> None:
    selection = Selection()
    for first, last in ((1, 2), (3, 3), (5, 9)):
        selection.add("a", first, last)
    assert (selection.runs("a"), selection.size, len(selection)) == ([(1, 3), (5, 9)], 2, 8)
    selection.add("b", 9, 9)
    assert (selection.size, len(selection), selection.parts) == (3, 9, ["a", "b"])
    for first, last in ((9, 9), (8, 12), (11, 10)):
        with pytest.raises(ValueError, match="does not come behind"):
            selection.add("a", first, last)
    assert [number for number in range(12) if selection.has("a", number)] == [1, 2, 3, 5, 6, 7, 8, 9]
    assert not selection.has("c", 1)


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ([(1, 5)], [(1, 2), (4, 5)], [(1, 2), (4, 5)]),
        ([(1, 2), (4, 5)], [(1, 5)], [(1, 2), (4, 5)]),
        ([(1, 5), (7, 9)], [(3, 7), (9, 9)], [(3, 5), (7, 7), (9, 9)]),
        ([(1, 3), (5, 9)], [(3, 3), (6, 7), (9, 12)], [(3, 3), (6, 7), (9, 9)]),
        ([(1, 2)], [(3, 4)], []),
        ([(3, 4)], [(1, 2), (4, 9)], [(4, 4)]),
    ],
)
def test_runs_that_lie_over_each_other(
    one: list[tuple[int, int]], other: list[tuple[int, int]], common: list[tuple[int, int]]
) -> None:
    mine, theirs = (Selection.of((0, first, last) for first, last in runs) for runs in (one, other))
    assert done(both(mine, theirs)).runs(0) == common
    assert done(both(theirs, mine)).runs(0) == common
