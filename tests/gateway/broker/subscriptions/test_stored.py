"""Stored batches as they were read: which there are, which of them hold some offsets, and which are like most."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.subscriptions.stored import pick, skim, walk
from gateway.wire import records
from gateway.wire.delivery import DELAY_MARK
from semantics.subscriptions.states import Acquired
from store.api import Buffer


def a_batch(base: int, count: int = 1, **options: Any) -> bytes:
    made = records.build_batch(
        [records.Record(i, 1000, None, b"v%d" % i, []) for i in range(count)], **options
    )
    return base.to_bytes(8, "big") + made[8:]


def log(*lengths: int, start: int = 0) -> list[bytes]:
    """Batches of so many records, one after the other; a negative length is a gap."""
    made: list[bytes] = []
    for length in lengths:
        if length > 0:
            made.append(a_batch(start, length))
        start += abs(length)
    return made


def bounds(data: list[Buffer], offset: int = 0) -> list[tuple[int, int]]:
    return [(each.base, each.next) for each in walk(data, offset)]


# -- walk ----------------------------------------------------------------------------------------------------------


def test_batches_from_the_one_that_holds_an_offset_on() -> None:
    data: list[Buffer] = [b"".join(log(3, 2, 4))]
    assert bounds(data) == [(0, 3), (3, 5), (5, 9)]
    assert bounds(data, 2) == [(0, 3), (3, 5), (5, 9)]
    assert bounds(data, 3) == [(3, 5), (5, 9)]
    assert bounds(data, 9) == []


def test_what_is_cut_off_is_no_batch() -> None:
    one, other = log(3, 2)
    for end in range(len(one), len(one + other)):
        assert bounds([(one + other)[:end]]) == [(0, 3)]
    assert bounds([one[:-1], other]) == [(3, 5)], "each buffer by itself"


def test_a_batch_is_the_bytes_that_were_read() -> None:
    one, other = log(3, 2)
    found = walk([one + other, one], 0)
    assert [bytes(each.raw()) for each in found] == [one, other, one]
    assert found[2].raw() is one, "no copy and no view of what is whole"
    assert [(each.count, each.attributes) for each in walk([a_batch(0, 5, codec=1)], 0)] == [(5, 1)]


# -- pick ----------------------------------------------------------------------------------------------------------


def picked(data: list[Buffer], *ranges: tuple[int, int]) -> tuple[list[int], list[tuple[int, int]]]:
    found, gaps = pick(data, [Acquired(first, last, 0) for first, last in ranges])
    return [each.base for each in found], gaps


@pytest.mark.parametrize(
    ("ranges", "batches", "gaps"),
    [
        ([(0, 0)], [0], []),
        ([(0, 11)], [0, 3, 9], [(5, 9)]),
        ([(2, 3)], [0, 3], []),
        ([(1, 1), (2, 2), (10, 10)], [0, 9], [(3, 9)]),
        ([(4, 4), (9, 9)], [3, 9], [(5, 9)]),
        # within the gap, and beyond all that was read
        ([(5, 8), (9, 9)], [9], [(5, 9)]),
        ([(6, 7)], [], [(6, 9)]),
        ([(12, 20)], [], []),
    ],
)
def test_batches_that_hold_some_offsets_and_where_there_are_none(
    ranges: list[tuple[int, int]], batches: list[int], gaps: list[tuple[int, int]]
) -> None:
    """0 to 2, 3 and 4, nothing to 8, 9 to 11."""
    data: list[Buffer] = [b"".join(log(3, 2, -4, 3))]
    found, between = picked(data, *ranges)
    assert found == batches
    # between ranges a gap may be told of as well: nobody asked for what is in it
    acquired = {offset for first, last in ranges for offset in range(first, last + 1)}
    lost = {offset for begin, end in between for offset in range(begin, end)} & acquired
    assert lost == {offset for begin, end in gaps for offset in range(begin, end)} & acquired


@given(
    lengths=st.lists(st.integers(-3, 4).filter(bool), min_size=1, max_size=6),
    wanted=st.sets(st.integers(0, 20), min_size=1, max_size=8),
    cuts=st.sets(st.integers(0, 6), max_size=3),
)
def test_every_offset_wanted_is_in_a_batch_or_a_gap_or_comes_later(
    lengths: list[int], wanted: set[int], cuts: set[int]
) -> None:
    made = log(*lengths)
    edges = sorted({0, len(made), *(cut for cut in cuts if cut < len(made))})
    data: list[Buffer] = [b"".join(made[a:b]) for a, b in pairwise(edges)]
    first = min(wanted)
    # as a log reads them: from the batch that holds the first offset on
    data = [each.raw() for each in walk(data, first)]
    found, gaps = pick(data, [Acquired(offset, offset, 0) for offset in sorted(wanted)])
    there = {offset for each in walk(data, 0) for offset in range(each.base, each.next)}
    assert [each.base for each in found] == [
        each.base for each in walk(data, 0) if wanted & set(range(each.base, each.next))
    ]
    lost = {offset for begin, end in gaps for offset in range(begin, end)}
    assert not lost & there
    end = max(there, default=-1)
    assert {offset for offset in wanted if offset < end} <= there | lost


# -- skim ----------------------------------------------------------------------------------------------------------


def test_plain_batches_are_taken_with_their_bytes() -> None:
    one, two, three = log(3, 2, 4)
    whole: Buffer = one + two + three
    assert skim([whole], 0, 100) == (9, [(whole, 0, len(whole))])
    assert skim([whole], 3, 2) == (5, [(whole, len(one), len(one + two))]), "no more than asked for"
    assert skim([whole], 4, 2) == (9, [(whole, len(one), len(whole))]), "to the end of a batch"
    assert skim([one, two], 0, 100) == (5, [(one, 0, len(one)), (two, 0, len(two))])
    assert skim([one], 3, 1) is None, "there are none"
    assert skim([], 0, 1) is None


@pytest.mark.parametrize(
    "odd",
    [
        a_batch(3, 2, codec=1),
        a_batch(3, 2, codec=4),
        a_batch(4, 2),
        a_batch(3, 2)[:21] + b"\0\x20" + a_batch(3, 2)[23:],
        # a header that says more records than offsets, and one that says more than there is room for
        a_batch(3, 2)[:57] + b"\0\0\0\3" + a_batch(3, 2)[61:],
        a_batch(3, 2)[:23] + b"\0\0\3\xe7" + a_batch(3, 2)[27:57] + b"\0\0\3\xe8" + a_batch(3, 2)[61:],
    ],
    ids=["gzip", "zstd", "a gap before it", "control", "count", "more than fits"],
)
def test_a_batch_of_which_there_is_more_to_say(odd: bytes) -> None:
    (one,) = log(3)
    assert skim([one + odd], 0, 100) is None
    assert skim([one, odd], 0, 100) is None
    assert skim([one + odd], 0, 3) == (3, [(one + odd, 0, len(one))]), "it lies behind what is asked for"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_mention_of_a_delay_is_more_to_say_only_where_it_lies_in_what_is_taken(kind: Any) -> None:
    (one,) = log(3)
    made = records.build_batch([records.Record(0, 1000, None, DELAY_MARK, [])])
    late = (3).to_bytes(8, "big") + made[8:]
    whole = kind(one + late)
    assert skim([whole], 0, 4) is None
    assert skim([whole], 0, 3) == (3, [(whole, 0, len(one))])
