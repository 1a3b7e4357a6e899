"""Plans hold for a while and for what they were made; a replay stops when too much of it dies again."""

from __future__ import annotations

import pytest

from semantics.console.letter_filter import DeadLetter, LetterFilter
from semantics.console.replay_plan import (
    MOST_PLANS,
    Edit,
    Plan,
    Plans,
    Tally,
    Wanted,
    dies_again,
    has_changed,
)


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [(1000, 1000, False), (1000, 1010, False), (1000, 990, False), (1000, 1011, True), (5, 4, True), (0, 0, False),
     (0, 1, True)],
)  # fmt: skip
def test_more_than_one_percent_is_another_selection(before: int, now: int, changed: bool) -> None:
    assert has_changed(before, now) is changed


@pytest.mark.parametrize(
    ("replayed", "died", "stops"),
    [(100, 10, False), (100, 11, True), (20, 9, False), (20, 10, True), (0, 0, False)],
)
def test_more_than_a_tenth_stops(replayed: int, died: int, stops: bool) -> None:
    assert dies_again(replayed, died) is stops


def plan(name: str, until: int = 100) -> Plan:
    return Plan(name, "orders", "billing", Wanted("replay", LetterFilter()), 5, until)


def test_a_plan_is_for_one_use_one_subscription_and_some_time() -> None:
    plans = Plans()
    plans.keep(plan("a"))
    assert plans.take("a", "orders", "stock", 0) is None
    assert plans.take("a", "orders", "billing", 99) == plan("a")
    assert plans.take("a", "orders", "billing", 99) is None
    plans.keep(plan("b"))
    assert plans.take("b", "orders", "billing", 100) is None


def test_plans_are_bounded() -> None:
    plans = Plans()
    for n in range(MOST_PLANS + 1):
        plans.keep(plan(str(n)))
    assert plans.take("0", "orders", "billing", 0) is None
    assert plans.take("1", "orders", "billing", 0) is not None


def test_a_tally_counts_letters_keys_edits_and_what_is_left_out() -> None:
    wanted = Wanted("replay", LetterFilter(), edits={(0, 1): Edit(True, b"x")})
    found = Tally()
    for offset, (key, replays) in enumerate([(b"a", 0), (b"a", 2), (b"b", 3), (None, 0)]):
        found.add(wanted, DeadLetter(0, offset, 0, key, None, [], "REJECTED", replays), (0, 10 + offset))
    assert (found.letters, found.edited, found.left_out, found.unkeyed) == (3, 1, 1, 1)
    assert found.keys == {b"a": (0, 11)}


def test_a_batch_that_nobody_can_open_goes_only_with_an_edit() -> None:
    broken = DeadLetter(0, 1, 0, None, b"", [], "CORRUPT", 0, whole=True)
    assert not Wanted("replay", LetterFilter()).takes(broken)
    assert Wanted("replay", LetterFilter(), edits={(0, 1): Edit(True, b"x")}).takes(broken)
    assert Wanted("discard", LetterFilter()).takes(broken)


def test_an_edit_takes_headers_away_and_sets_others() -> None:
    edit = Edit(False, None, (("a", None), ("b", b"2")))
    assert edit.apply([("a", b"1"), ("b", b"1"), ("c", b"1"), ("a", b"3")]) == [("c", b"1"), ("b", b"2")]
