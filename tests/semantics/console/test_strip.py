from __future__ import annotations

from array import array
from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.console.blocking import Heads
from semantics.console.looking import Wanted, found
from semantics.console.strip import edges_of, strip
from semantics.subscriptions.states import Ordering, Piece

T = TypeVar("T")
STRICT = Ordering(in_hand=True, failed=True, draining=False)
LANES = Ordering(in_hand=False, failed=True, draining=True)
LOOSE = Ordering(in_hand=False, failed=False, draining=True)
OWNED = [(0, 9, "c1"), (9, 65_536, "c2")]


def done(steps: Generator[None, None, T]) -> T:
    """Driven to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def test_what_is_where() -> None:
    pieces = [Piece(10, bytes([0, 1, 2, 3, 4]), None), Piece(20, bytes([5, 10, 0, 0, 0]), None)]
    found = done(strip(pieces, 25, edges_of(10, 30, 4), None))
    assert found.edges == [10, 15, 20, 25, 30]
    assert found.counts == {
        "available": [1, 0, 3, 0],
        "acquired": [1, 0, 0, 0],
        "delayed": [1, 0, 0, 0],
        "backoff": [1, 0, 0, 0],
        "dying": [0, 0, 2, 0],
        "unread": [0, 0, 0, 5],
        # among them what no piece has
        "done": [1, 5, 0, 0],
    }


def test_what_is_read_while_it_is_made_is_counted_once() -> None:
    pieces = [Piece(0, bytes([0, 1]), None), Piece(2, bytes([0, 0, 1]), None)]
    found = done(strip(pieces, 3, edges_of(0, 6, 2), None))
    assert found.counts == {"available": [2, 0], "acquired": [1, 0], "unread": [0, 3]}


@given(st.lists(st.sampled_from([0, 1, 2, 3, 4, 5, 8]), max_size=60), st.integers(1, 90), st.integers(0, 20))
def test_all_offsets_are_in_some_column(states: list[int], columns: int, unread: int) -> None:
    end = 7 + len(states) + unread
    pieces = [Piece(7 + at, bytes(states[at : at + 13]), None) for at in range(0, len(states), 13)]
    found = done(strip(pieces, 7 + len(states), edges_of(7, end, columns), None))
    assert sum(map(sum, found.counts.values())) == end - 7
    assert sum(found.counts.get("available", [])) == states.count(0)
    assert sum(found.counts.get("unread", [])) == unread
    for column in range(len(found.edges) - 1):
        width = found.edges[column + 1] - found.edges[column]
        assert sum(each[column] for each in found.counts.values()) == width


# slots 7, 8, 9: 7 has one in hand, 8 one in backoff behind its first, 9 nothing in the way
SLOTS = array("H", [7, 7, 8, 8, 8, 9, 9])
KEYED = Piece(100, bytes([0, 1, 0, 4, 0, 0, 0]), SLOTS)


@pytest.mark.parametrize(
    ("ordering", "draining", "blocked"),
    [
        (STRICT, (), [0, 4]),
        # lanes: many of a key in hand
        (LANES, (), [4]),
        (LANES, (9,), [4, 5, 6]),
        (LOOSE, (7,), [0]),
        (LOOSE._replace(draining=False), (7,), []),
    ],
)
def test_what_waits_for_its_key(ordering: Ordering, draining: tuple[int, ...], blocked: list[int]) -> None:
    heads = Heads(ordering, draining, OWNED)
    heads.see(KEYED)
    assert heads.blocked(KEYED).tolist() == blocked
    counts = done(strip([KEYED], 107, edges_of(100, 107, 1), heads)).counts
    assert counts.get("blocked", [0]) == [len(blocked)]
    assert counts["available"] == [5 - len(blocked)]


def test_what_a_record_waits_for() -> None:
    heads = Heads(STRICT, (), OWNED)
    heads.see(KEYED)
    assert [heads.head(7, 100), heads.head(8, 104), heads.head(9, 106)] == [101, 103, None]


def offsets(wanted: Wanted, heads: Heads | None) -> list[int]:
    return [
        each
        for first, last in found(KEYED, wanted, wanted.codes, heads)
        for each in range(first - 100, last - 99)
    ]


def test_what_is_of_nobodys_slot_waits_for_an_owner() -> None:
    heads = Heads(LOOSE, (), [(0, 8, "c1"), (9, 65_536, "c1")])
    heads.see(KEYED)
    assert heads.blocked(KEYED).tolist() == [2, 4]
    assert heads.head(8, 102) is None


def test_while_nobody_owns_anything_all_wait_for_a_consumer_alone() -> None:
    heads = Heads(STRICT, (), [])
    heads.see(KEYED)
    assert heads.blocked(KEYED).tolist() == [0, 4], "behind what is in hand, and what failed"


def test_which_are_asked_for() -> None:
    heads = Heads(STRICT, (), OWNED)
    heads.see(KEYED)
    assert offsets(Wanted(), heads) == [0, 1, 2, 3, 4, 5, 6]
    assert offsets(Wanted(frozenset({"blocked"})), heads) == [0, 4]
    assert offsets(Wanted(frozenset({"available", "backoff"})), heads) == [2, 3, 5, 6]
    assert offsets(Wanted(frozenset({"available", "blocked"})), heads) == [0, 2, 4, 5, 6]
    assert offsets(Wanted(frozenset({"acquired"}), 8), heads) == []
    assert offsets(Wanted(None, 8), heads) == [2, 3, 4]
    assert offsets(Wanted(frozenset({"unread"})), heads) == []
    # without slots nothing waits for a key
    assert offsets(Wanted(frozenset({"blocked"})), None) == []
