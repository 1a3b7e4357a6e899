"""Sticky: everybody brings ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.subscriptions.hashing import slot_of
from semantics.subscriptions.selectors import SelectorError, Sticky, load, make

bounds = st.integers(0, 65_536)
ranges = st.lists(st.tuples(bounds, bounds), max_size=3)
steps = st.lists(st.tuples(st.booleans(), st.sampled_from("ABCD"), ranges), max_size=20)


def the_figure() -> Sticky:
    selector = Sticky()
    selector.add("C1", [(0, 16_384), (32_768, 49_152)])
    selector.add("C2", [(16_384, 32_768), (49_152, 65_536)])
    return selector


def test_the_documented_ranges() -> None:
    """1-pulsar-messaging-concepts, "Sticky": C1 and C2 with two ranges each, and Order-3459134, which is C1's."""
    selector = the_figure()
    assert selector.ranges() == [
        (0, 16_384, "C1"),
        (16_384, 32_768, "C2"),
        (32_768, 49_152, "C1"),
        (49_152, 65_536, "C2"),
    ]
    assert selector.owner(slot_of(b"Order-3459134", None, 0)) == "C1"


@pytest.mark.parametrize(
    ("brought", "reason"),
    [
        (None, "has brought none"),
        ([], "has brought none"),
        ([(16_383, 16_384)], r"overlaps \[0, 16384\) of 'C1'"),
        ([(65_000, 65_536)], "of 'C2'"),
        ([(0, 65_536)], "overlaps"),
        ([(5, 5)], "no range"),
        ([(9, 5)], "no range"),
        ([(-1, 5)], "no range"),
        ([(0, 65_537)], "no range"),
    ],
)
def test_who_brings_nothing_or_what_others_have_is_refused_as_if_it_never_came(
    brought: list[tuple[int, int]] | None, reason: str
) -> None:
    """1-pulsar-messaging-concepts, "Sticky": disconnected and reverted as if it never tried to connect."""
    selector = the_figure()
    before = selector.dump()
    with pytest.raises(SelectorError, match=reason):
        selector.add("C3", brought)
    assert selector.dump() == before
    assert selector.ranges() == the_figure().ranges()


def test_a_consumers_own_ranges_may_not_overlap() -> None:
    selector = Sticky()
    with pytest.raises(SelectorError, match=r"\[5, 20\) of 'C1' overlaps \[0, 10\) of 'C1'"):
        selector.add("C1", [(0, 10), (5, 20)])
    assert selector.members() == []


def test_slots_that_nobody_covers_belong_to_nobody() -> None:
    selector = Sticky()
    selector.add("C1", [(10, 20), (30, 40)])
    assert [selector.owner(slot) for slot in (0, 9, 10, 19, 20, 29, 30, 39, 40, 65_535)] == [
        None, None, "C1", "C1", None, None, "C1", "C1", None, None,
    ]  # fmt: skip
    selector.remove("C1")
    assert selector.owner(10) is None


def test_a_consumer_changes_its_ranges() -> None:
    selector = the_figure()
    selector.add("C1", [(0, 100)])
    assert selector.ranges() == [(0, 100, "C1"), (16_384, 32_768, "C2"), (49_152, 65_536, "C2")]
    assert selector.members() == ["C1", "C2"]


@given(steps, steps)
def test_every_slot_has_the_owner_that_brought_it_over_restarts(
    before: list[tuple[bool, str, list[tuple[int, int]]]],
    after: list[tuple[bool, str, list[tuple[int, int]]]],
) -> None:
    selector, held = make("sticky"), dict[str, list[tuple[int, int]]]()
    for number, (comes, consumer, brought) in enumerate([*before, *after]):
        if number == len(before):
            again = load(selector.dump())
            assert again.dump() == selector.dump()
            selector = again
        if not comes:
            selector.remove(consumer)
            held.pop(consumer, None)
            continue
        try:
            selector.add(consumer, brought)
        except SelectorError:
            continue
        held[consumer] = brought
    assert sorted(selector.members()) == sorted(held)
    edges = {0, 65_535, *[e for r in held.values() for s, t in r for e in (s - 1, s, t - 1, t)]} - {
        -1,
        65_536,
    }
    for slot in edges:
        owning = [c for c, r in held.items() if any(start <= slot < end for start, end in r)]
        assert owning in ([], [selector.owner(slot)])
        assert owning or selector.owner(slot) is None
    numbers, named = selector.table()
    assert [named[number] for number in numbers] == [selector.owner(slot) for slot in range(65_536)]
