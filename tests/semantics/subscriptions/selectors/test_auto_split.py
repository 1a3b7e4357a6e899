"""Auto-split: one region a consumer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.subscriptions.hashing import slot_of
from semantics.subscriptions.selectors import AutoSplit, SelectorError, load
from semantics.subscriptions.selectors.selector import pack

names = st.sampled_from([f"C{i}" for i in range(12)])
steps = st.lists(st.tuples(st.booleans(), names), max_size=60)


def joined(*consumers: str) -> AutoSplit:
    selector = AutoSplit()
    for consumer in consumers:
        selector.add(consumer)
    return selector


def test_one_to_four_consumers() -> None:
    """1-pulsar-messaging-concepts, "Auto-split Hash Range": the regions as C1 to C4 connect."""
    selector = joined("C1")
    assert selector.ranges() == [(0, 65_536, "C1")]
    selector.add("C2")
    assert selector.ranges() == [(0, 32_768, "C2"), (32_768, 65_536, "C1")]
    selector.add("C3")
    assert selector.ranges() == [(0, 16_384, "C3"), (16_384, 32_768, "C2"), (32_768, 65_536, "C1")]
    selector.add("C4")
    assert selector.ranges() == [
        (0, 16_384, "C3"),
        (16_384, 32_768, "C2"),
        (32_768, 49_152, "C4"),
        (49_152, 65_536, "C1"),
    ]


def test_two_disconnect() -> None:
    """1-pulsar-messaging-concepts, "Auto-split Hash Range": C4 leaves, then C1."""
    selector = joined("C1", "C2", "C3", "C4")
    selector.remove("C4")
    assert selector.ranges() == [(0, 16_384, "C3"), (16_384, 32_768, "C2"), (32_768, 65_536, "C1")]
    selector.remove("C1")
    assert selector.ranges() == [(0, 16_384, "C3"), (16_384, 65_536, "C2")]


def test_the_documented_key() -> None:
    """1-pulsar-messaging-concepts, "Auto-split Hash Range": Order-3459134 with four consumers is C3's."""
    assert joined("C1", "C2", "C3", "C4").owner(slot_of(b"Order-3459134", None, 0)) == "C3"


def test_regions_are_half_open() -> None:
    selector = joined("C1", "C2")
    assert [selector.owner(slot) for slot in (0, 32_767, 32_768, 65_535)] == ["C2", "C2", "C1", "C1"]


def test_nobody_owns_anything_before_the_first_and_after_the_last() -> None:
    selector = joined()
    assert (selector.owner(0), selector.owner(65_535), selector.ranges()) == (None, None, [])
    selector.add("C1")
    selector.remove("C1")
    assert (selector.owner(0), selector.ranges(), selector.members()) == (None, [], [])


def test_who_is_in_keeps_its_region_and_who_is_not_leaves_nothing() -> None:
    selector = joined("C1", "C2", "C3")
    before = selector.ranges()
    selector.add("C2")
    selector.remove("C9")
    assert selector.ranges() == before


def test_ranges_are_stickys() -> None:
    with pytest.raises(SelectorError, match="only sticky takes ranges"):
        joined().add("C1", [(0, 65_536)])


def test_an_odd_region_gives_its_larger_half_away() -> None:
    selector = load(
        pack("auto_split", members=["a", "b", "c"], ends=[32_769, 40_000, 65_536], owners=["a", "b", "c"])
    )
    selector.add("d")
    assert selector.ranges()[:2] == [(0, 16_385, "d"), (16_385, 32_769, "a")]


def test_as_many_consumers_as_slots() -> None:
    everybody = [str(slot) for slot in range(65_536)]
    full = load(pack("auto_split", members=everybody, ends=list(range(1, 65_537)), owners=everybody))
    with pytest.raises(SelectorError, match="All 65,536 slots"):
        full.add("one too many")
    assert "one too many" not in full.members()
    full.remove("7")
    full.add("in time")
    assert full.owner(7) == "in time"


@given(steps)
def test_regions_always_cover_all_slots_once_and_a_change_concerns_one_other(
    steps: list[tuple[bool, str]],
) -> None:
    selector = AutoSplit()
    for comes, consumer in steps:
        before = selector.ranges()
        known = consumer in selector.members()
        (selector.add if comes else selector.remove)(consumer)
        after = selector.ranges()
        if comes == known:
            assert after == before
            continue
        if after:
            assert [after[0][0], *[end for _, end, _ in after]] == [start for start, _, _ in after] + [65_536]
            assert after[0][0] == 0
        assert sorted(owner for _, _, owner in after) == sorted(selector.members())
        larger, smaller = (after, before) if comes else (before, after)
        if not smaller:
            continue
        place = next(i for i, region in enumerate(larger) if region[2] == consumer)
        start, end, _ = larger[place]
        # the one other: right of it, left of the last
        other = larger[place + 1] if place + 1 < len(larger) else larger[place - 1]
        rest = [region for region in larger if region[2] not in (consumer, other[2])]
        merged = (min(start, other[0]), max(end, other[1]), other[2])
        assert sorted([*rest, merged]) == smaller
        if comes:
            assert merged[1] - merged[0] == max(region[1] - region[0] for region in smaller)
            assert start == merged[0]
            assert end - start == (merged[1] - merged[0] + 1) // 2


@given(steps, steps)
def test_a_restart_changes_nothing(before: list[tuple[bool, str]], after: list[tuple[bool, str]]) -> None:
    selector = AutoSplit()
    for comes, consumer in before:
        (selector.add if comes else selector.remove)(consumer)
    again = load(selector.dump())
    assert again.dump() == selector.dump()
    for comes, consumer in after:
        for each in (selector, again):
            (each.add if comes else each.remove)(consumer)
    assert again.ranges() == selector.ranges()
    assert again.members() == selector.members()


@pytest.mark.parametrize(
    "fields",
    [
        {"members": ["a"], "ends": [65_535], "owners": ["a"]},
        {"members": ["a"], "ends": [65_536], "owners": ["b"]},
        {"members": ["a", "b"], "ends": [65_536], "owners": ["a"]},
        {"members": ["a", "b"], "ends": [9, 65_536], "owners": ["a"]},
        {"members": ["a", "b"], "ends": [65_536, 65_536], "owners": ["a", "b"]},
        {"members": ["a", "b"], "ends": [0, 65_536], "owners": ["a", "b"]},
        {"members": [], "ends": [65_536], "owners": ["a"]},
        {"members": ["a"], "ends": [65_536], "owners": [None]},
        {"members": ["a"], "ends": [], "owners": []},
        {"members": ["a"]},
    ],
)
def test_what_is_no_auto_split_is_not_loaded(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"no regions|no selector"):
        load(pack("auto_split", **fields))
