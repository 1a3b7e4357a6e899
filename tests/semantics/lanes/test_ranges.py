from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from semantics.lanes.ranges import Ranges
from tests.examples import examples

offsets = st.integers(0, 24)
steps = st.lists(st.tuples(st.booleans(), offsets, offsets), max_size=12)


@given(steps, offsets, offsets)
@settings(max_examples=examples(500), deadline=None)
def test_it_is_a_set(steps: list[tuple[bool, int, int]], first: int, end: int) -> None:
    ranges, plain = Ranges(), set[int]()
    for adds, begin, stop in steps:
        if adds:
            ranges.add(begin, stop)
            plain |= set(range(begin, stop))
        else:
            ranges.remove(begin, stop)
            plain -= set(range(begin, stop))
        assert {at for begin, stop in ranges for at in range(begin, stop)} == plain
        assert ranges.total == len(plain)
        assert all(one[0] < one[1] < other[0] for one, other in pairwise(ranges))
    assert {at for at in range(30) if at in ranges} == plain
    asked = set(range(first, end))
    assert [at for begin, stop in ranges.within(first, end) for at in range(begin, stop)] == sorted(
        plain & asked
    )
    assert [at for begin, stop in ranges.outside(first, end) for at in range(begin, stop)] == sorted(
        asked - plain
    )
    assert ranges.reach(first) == next(at for at in range(first, 60) if at not in plain)


def test_what_grows_at_its_end_stays_one_range() -> None:
    ranges = Ranges()
    for at in range(1_000):
        ranges.add(at, at + 1)
    assert list(ranges) == [(0, 1_000)]
    assert len(ranges) == 1


def test_cleared_it_has_nothing() -> None:
    ranges = Ranges()
    ranges.clear()
    for first in (3, 10, 20):
        ranges.add(first, first + 2)
    ranges.clear()
    assert (list(ranges), ranges.total) == ([], 0)
    ranges.add(1, 2)
    assert list(ranges) == [(1, 2)]
