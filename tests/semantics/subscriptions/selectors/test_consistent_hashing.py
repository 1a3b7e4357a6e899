"""Consistent hashing: a hundred points a consumer."""

from __future__ import annotations

from itertools import chain, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semantics.subscriptions.hashing import murmur3_32
from semantics.subscriptions.selectors import ConsistentHashing, SelectorError, load
from semantics.subscriptions.selectors.consistent_hashing import points_of
from tests.examples import examples

# consumer-1 has points in common with consumer-10 to consumer-12
names = st.sampled_from([f"consumer-{i}" for i in (0, 1, 2, 3, 10, 11, 12, 20)])
steps = st.lists(st.tuples(st.booleans(), names), max_size=15)
namings = st.sampled_from(["documented", "pulsar4"])


def owners(selector: ConsistentHashing) -> list[str | None]:
    return list(map(selector.owner, range(65_536)))


def change(selector: ConsistentHashing, step: tuple[bool, str]) -> None:
    comes, consumer = step
    (selector.add if comes else selector.remove)(consumer)


def test_the_documented_points() -> None:
    """1-pulsar-messaging-concepts, "Auto-split Consistent Hashing": 100 points, the name with 1 to 100 behind it."""
    points = points_of("orders-aggregator-pod-2345-consumer")
    assert len(points) == 100
    assert (points[0], points[1], points[99]) == (1_003_084_738, 373_317_202, 320_276_078)


def test_pulsar_4s_points() -> None:
    points = points_of("c", "pulsar4")
    assert len(points) == 100
    assert points[0] == murmur3_32(b"c\x000\x000")
    assert points[99] == murmur3_32(b"c\x000\x0099")


@pytest.mark.parametrize("naming", ["documented", "pulsar4"])
def test_a_slot_belongs_to_the_next_point_clockwise(naming: str) -> None:
    """1-pulsar-messaging-concepts, "Auto-split Consistent Hashing": continue clockwise until a marking point."""
    selector = ConsistentHashing(naming)
    for consumer in ("A", "B", "C"):
        selector.add(consumer)
    ring = sorted((point, consumer) for consumer in "ABC" for point in points_of(consumer, naming))
    for slot in range(0, 65_536, 7):
        place = slot * 65_536
        expected = next((owner for point, owner in ring if point >= place), ring[0][1])
        assert selector.owner(slot) == expected


def test_consumers_at_one_point_take_turns_by_slot() -> None:
    """1-pulsar-messaging-concepts, "Auto-split Consistent Hashing": hash % consumer_list_size = index."""
    # consumer-1 with 11 to 19 behind it is consumer-11 with 1 to 9
    one, other = "consumer-1", "consumer-11"
    common = set(points_of(one)) & set(points_of(other))
    assert len(common) == 9
    selector = ConsistentHashing()
    for consumer in (one, other):
        selector.add(consumer)
    place = next(iter(common))
    before = max(point for point in points_of(one) + points_of(other) if point < place)
    shared = range(before // 65_536 + 1, place // 65_536 + 1)
    assert len(shared) > 4
    assert [selector.owner(s) for s in shared] == [(one, other)[s % 2] for s in shared]
    selector.remove(one)
    assert {selector.owner(s) for s in shared} == {other}


@settings(max_examples=examples(30), deadline=None)
@given(steps, namings)
def test_all_slots_are_covered_and_only_the_comers_and_goers_move(
    steps: list[tuple[bool, str]], naming: str
) -> None:
    selector = ConsistentHashing(naming)
    before = owners(selector)
    for comes, consumer in steps:
        change(selector, (comes, consumer))
        after = owners(selector)
        there: list[str | None] = [*selector.members()]
        assert set(after) == set(there or [None])
        moved = {(old, new) for old, new in set(zip(before, after, strict=True)) if old != new}
        assert all((new if comes else old) == consumer for old, new in moved)
        if after[0] is not None:
            spelt = list(chain(*(repeat(owner, end - start) for start, end, owner in selector.ranges())))
            assert spelt == after
        numbers, named = selector.table()
        assert list(map(named.__getitem__, numbers)) == after
        before = after


@given(st.permutations([f"consumer-{i}" for i in (1, 2, 3, 4, 5, 21)]))
@settings(max_examples=examples(10), deadline=None)
def test_the_order_of_coming_does_not_matter(order: list[str]) -> None:
    selector, sorted_ = ConsistentHashing(), ConsistentHashing()
    for consumer in order:
        selector.add(consumer)
    for consumer in sorted(order):
        sorted_.add(consumer)
    assert selector.ranges() == sorted_.ranges()


def test_ten_consumers_have_about_a_tenth_each() -> None:
    selector = ConsistentHashing()
    for i in range(10):
        selector.add(f"consumer-{i}")
    shares = dict.fromkeys(selector.members(), 0)
    for start, end, owner in selector.ranges():
        shares[owner] += end - start
    assert min(shares.values()) > 65_536 // 10 // 2
    assert max(shares.values()) < 65_536 // 10 * 2


@settings(max_examples=examples(20), deadline=None)
@given(steps, steps, namings)
def test_a_restart_changes_nothing(
    before: list[tuple[bool, str]], after: list[tuple[bool, str]], naming: str
) -> None:
    selector = ConsistentHashing(naming)
    for step in before:
        change(selector, step)
    again = load(selector.dump())
    assert isinstance(again, ConsistentHashing)
    assert again.dump() == selector.dump()
    for step in after:
        change(selector, step)
        change(again, step)
    assert (again.ranges(), again.members()) == (selector.ranges(), selector.members())


def test_ranges_are_stickys_and_namings_are_known() -> None:
    with pytest.raises(SelectorError, match="only sticky takes ranges"):
        ConsistentHashing().add("C1", [(0, 65_536)])
    with pytest.raises(ValueError, match="documented, pulsar4"):
        ConsistentHashing("pulsar3")
