"""Turns go round by owner."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from semantics.turns import Turns


def taken(turns: Turns[str]) -> list[str]:
    found = []
    while (item := turns.next()) is not None:
        found.append(item)
    return found


def test_who_has_much_to_do_waits_for_who_has_little() -> None:
    turns: Turns[str] = Turns()
    for item in ("a1", "a2", "a3", "b1", "b2", "c1"):
        turns.add(item[0], item)
    assert len(turns) == 6
    assert taken(turns) == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert len(turns) == 0


def test_what_waits_no_more_has_no_turn() -> None:
    turns: Turns[str] = Turns()
    for item in ("a1", "a2", "b1"):
        turns.add(item[0], item)
    turns.remove("a", "a1")
    turns.remove("b", "b1")
    turns.remove("b", "b1")
    turns.remove("nobody", "b1")
    assert taken(turns) == ["a2"]


owners = st.sampled_from("abcd")
steps = st.lists(st.one_of(st.none(), owners), max_size=60)


@given(steps)
def test_nobody_is_passed_over_twice_and_each_keeps_its_order(steps: list[str | None]) -> None:
    turns: Turns[tuple[str, int]] = Turns()
    waiting: dict[str, deque[int]] = {each: deque() for each in "abcd"}
    # how often others had their turn, by owner, since one waits at the head of its own
    passed: dict[str, list[str]] = {each: [] for each in "abcd"}
    for number, owner in enumerate([*steps, *[None] * len(steps)]):
        if owner is not None:
            turns.add(owner, (owner, number))
            if not waiting[owner]:
                passed[owner] = []
            waiting[owner].append(number)
            continue
        found = turns.next()
        if found is None:
            assert not any(waiting.values())
            continue
        whose, item = found
        assert waiting[whose].popleft() == item
        passed[whose] = []
        for each, mine in waiting.items():
            if each != whose and mine:
                passed[each].append(whose)
                assert len(set(passed[each])) == len(passed[each])
    assert len(turns) == 0
