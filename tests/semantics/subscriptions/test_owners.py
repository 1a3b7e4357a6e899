"""Who owns which slots: the table says of each slot what the ranges said, and one table serves all who ask."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.owners import Table, table

Ranges = tuple[tuple[int, int, str], ...]


@st.composite
def some_ranges(draw: st.DrawFn) -> Ranges:
    """Ascending, with slots of nobody between them; neighbours may belong to one consumer."""
    edges = sorted(draw(st.sets(st.integers(0, SLOTS), max_size=12)))
    owners = draw(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=12, max_size=12))
    # the ends of a list have no slot in between
    found = [(*pair, owner) for pair, owner in zip(pairwise(edges), owners, strict=False)]
    return tuple((start, end, owner) for start, end, owner in found if owner is not None)


@given(ranges=some_ranges())
def test_a_slot_is_whose_range_it_is_in_and_else_nobodys(ranges: Ranges) -> None:
    made = Table(ranges)
    for edge in {0, SLOTS - 1, *(each for start, end, _ in ranges for each in (start, end - 1, end))}:
        if edge == SLOTS:
            continue
        expected = next((name for start, end, name in ranges if start <= edge < end), None)
        assert made.owner_of(edge) == expected
        assert (made.places[edge] == 0) == (expected is None), "place 0 is nobody's"


@given(ranges=some_ranges())
def test_what_it_says_makes_the_same_table_with_neighbours_of_one_consumer_joined(ranges: Ranges) -> None:
    made = Table(ranges)
    said = tuple(made.ranges())
    assert Table(said).places == made.places
    assert all(before[1] < after[0] or before[2] != after[2] for before, after in pairwise(said))
    assert sum(end - start for start, end, _ in said) == sum(end - start for start, end, _ in ranges)


def test_a_consumer_with_several_ranges_has_one_place() -> None:
    made = Table([(0, 10, "a"), (10, 20, "b"), (30, 40, "a")])
    assert made.names == (None, "a", "b")
    assert made.index == {"a": 1, "b": 2}
    assert [made.places[slot] for slot in (0, 10, 20, 30, 39, 40)] == [1, 2, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ((), []),
        (((0, SLOTS, "a"),), [(0, SLOTS, "a")]),
        (((0, 1, "a"), (SLOTS - 1, SLOTS, "a")), [(0, 1, "a"), (SLOTS - 1, SLOTS, "a")]),
        (((5, 7, "a"), (7, 9, "a")), [(5, 9, "a")]),
    ],
)
def test_ranges_at_the_edges(ranges: Ranges, said: list[tuple[int, int, str]]) -> None:
    assert list(Table(ranges).ranges()) == said


def test_partitions_whose_owners_are_the_same_share_a_table() -> None:
    assert table(((0, 100, "a"),)) is table(((0, 100, "a"),))
    assert table(((0, 100, "a"),)) is not table(((0, 100, "b"),))
