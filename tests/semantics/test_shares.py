"""Who makes room."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.shares import crowded


def of(text: str) -> list[tuple[str, str, int]]:
    """`a1 b2:5`: what, its owner, and how much it is."""
    found = []
    for word in text.split():
        what, _, size = word.partition(":")
        found.append((what, what[0], int(size or 1)))
    return found


@pytest.mark.parametrize(
    ("kept", "one", "most", "stays", "gone"),
    [
        ("", 1, 1, "", ""),
        ("a1 b1", 1, 2, "", ""),
        ("a1 a2 b1", 1, 9, "", "a1"),
        ("a1 b1 a2 b2 b3", 2, 9, "", "b1"),
        ("b1 a1 a2 a3", 9, 3, "", "a1"),
        ("b1 a1 a2 a3", 9, 2, "", "a1 a2"),
        # as much each: the one that has come first
        ("b1 a1", 9, 1, "", "b1"),
        ("a1:3 a2:3 b1:5", 9, 8, "", "a1"),
        ("a1 a2 a3", 1, 9, "a1", "a2 a3"),
        ("a1:9 b1:1", 4, 4, "a1", "b1"),
        ("a1:9", 4, 4, "a1", ""),
    ],
)
def test_who_goes(kept: str, one: int, most: int, stays: str, gone: str) -> None:
    assert crowded(of(kept), one, most, stays.split()) == gone.split()


things = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), max_size=20)


@given(things, st.integers(1, 12), st.integers(1, 30))
def test_bounds_hold_and_who_has_little_loses_nothing(
    some: list[tuple[str, int]], one: int, most: int
) -> None:
    kept = [(number, owner, size) for number, (owner, size) in enumerate(some)]
    gone = set(crowded(kept, one, most))
    left: Counter[str] = Counter()
    before: Counter[str] = Counter()
    for number, owner, size in kept:
        before[owner] += size
        left[owner] += size if number not in gone else 0
    assert all(each <= one for each in left.values())
    assert left.total() <= most
    for owner in before:
        its = [number for number, its, _ in kept if its == owner]
        # the oldest go
        assert [each for each in its if each in gone] == its[: len([each for each in its if each in gone])]
        if before[owner] <= one and before[owner] * 3 <= most:
            assert left[owner] == before[owner]
