"""Regions of slots, each with a consumer, and a selector as bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.subscriptions import selectors
from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.selectors import Selector
from semantics.subscriptions.selectors.selector import Regions, pack

MODES = ["auto_split", "consistent_hashing", "sticky"]


def let_in(selector: Selector, *names: str) -> None:
    """Those whose ranges are their own get every second hundred slots, one after the other."""
    for place, name in enumerate(names):
        selector.add(name, [(200 * place, 200 * place + 100)] if selector.mode == "sticky" else None)


@pytest.mark.parametrize("mode", MODES)
@given(
    names=st.lists(st.sampled_from("abcdef"), unique=True, max_size=6),
    gone=st.sets(st.sampled_from("abcdef")),
)
def test_the_owner_of_a_slot_the_ranges_and_the_table_are_of_one_opinion(
    mode: str, names: list[str], gone: set[str]
) -> None:
    selector = selectors.make(mode)
    let_in(selector, *names)
    for name in gone:
        selector.remove(name)
    assert selector.members() == [name for name in names if name not in gone]
    ranges = selector.ranges()
    numbers, consumers = selector.table()
    assert consumers[0] is None, "0 is nobody"
    assert len(numbers) == SLOTS
    assert all(start < end for start, end, _ in ranges)
    assert all(
        before[1] <= after[0] and before[1:] != (after[0], after[2]) for before, after in pairwise(ranges)
    ), "ascending, neighbours of one consumer joined"
    for slot in {0, SLOTS - 1, *(each for start, end, _ in ranges for each in (start, end - 1, end % SLOTS))}:
        owner = next((name for start, end, name in ranges if start <= slot < end), None)
        assert selector.owner(slot) == consumers[numbers[slot]] == owner


@pytest.mark.parametrize("mode", MODES)
def test_bytes_say_their_mode_and_make_the_same_owners(mode: str) -> None:
    selector = selectors.make(mode)
    let_in(selector, "a", "b", "c")
    selector.remove("a")
    again = selectors.load(selector.dump())
    assert (again.mode, again.members(), again.ranges()) == (mode, ["b", "c"], selector.ranges())


def test_regions_belong_to_nobody_at_first() -> None:
    regions = Regions()
    assert regions.ranges() == []
    assert (regions.owner(0), regions.owner(SLOTS - 1)) == (None, None)
    numbers, consumers = regions.table()
    assert (set(numbers), consumers) == ({0}, [None])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b'{"mode":"other"}',
        b"7",
        b"{}",
        b'{"mode":["sticky"]}',
        b'{"mode":"sticky"}',
        b'{"mode":"auto_split","ranges":5}',
        pack("consistent_hashing"),
    ],
)
def test_bytes_that_are_no_selector_are_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        selectors.load(data)


def test_a_selector_is_stored_as_text_that_a_person_reads() -> None:
    assert pack("sticky", of=[1, "a"]) == b'{"mode":"sticky","of":[1,"a"]}'


def test_modes_by_name() -> None:
    assert [selectors.make(mode).mode for mode in ("auto_split", "consistent_hashing", "sticky")] == [
        "auto_split",
        "consistent_hashing",
        "sticky",
    ]
    with pytest.raises(ValueError, match="auto_split, consistent_hashing, sticky; not 'exclusive'"):
        selectors.make("exclusive")
