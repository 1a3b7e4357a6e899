"""Slices: nothing is lost, nothing comes twice, and each partition moves on in order."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pipeline.slices import MAX_BUCKETS, Place, Span, bucket_width, cut

counts = st.dictionaries(st.integers(0, 400), st.integers(1, 50), min_size=1, max_size=30)
archives = st.dictionaries(st.builds(Place, st.sampled_from("ab"), st.integers(0, 5)), counts, max_size=6)


def buckets(archive: dict[Place, dict[int, int]]) -> dict[Place, list[tuple[int, int]]]:
    return {place: list(found.items()) for place, found in archive.items()}


@given(archives, st.integers(1, 20), st.integers(1, 200))
def test_every_bucket_is_in_exactly_one_slice(
    archive: dict[Place, dict[int, int]], width: int, target: int
) -> None:
    slices = cut(buckets(archive), width, target)

    for place, found in archive.items():
        ranges = [part.ranges[place] for part in slices if place in part.ranges]
        for bucket in found:
            holding = [r for r in ranges if r.start <= bucket * width and (bucket + 1) * width <= r.end]
            assert len(holding) == 1
        assert sum(r.records for r in ranges) == sum(found.values())


@given(archives, st.integers(1, 20), st.integers(1, 200))
def test_ranges_of_a_partition_follow_each_other_in_offset_order(
    archive: dict[Place, dict[int, int]], width: int, target: int
) -> None:
    slices = cut(buckets(archive), width, target)

    for place in archive:
        ranges = [part.ranges[place] for part in slices if place in part.ranges]
        assert all(before.end <= after.start for before, after in itertools.pairwise(ranges))


@given(archives, st.integers(1, 200))
def test_a_slice_is_no_larger_than_asked_but_for_one_bucket_a_partition(
    archive: dict[Place, dict[int, int]], target: int
) -> None:
    largest = {place: max(found.values()) for place, found in archive.items()}

    for part in cut(buckets(archive), 1, target):
        assert part.records <= target + sum(largest[place] + 1 for place in part.ranges)


def test_partitions_move_on_together() -> None:
    archive = {Place("t", 0): [(n, 1) for n in range(900)], Place("t", 1): [(n, 1) for n in range(100)]}

    slices = cut(archive, 1, 100)

    assert [(part.ranges[Place("t", 0)].records, part.ranges[Place("t", 1)].records) for part in slices] == [
        (90, 10)
    ] * 10


def test_nothing_gives_no_slice() -> None:
    assert cut({}, 1, 100) == []


def test_counting_is_bounded_and_no_finer_than_it_needs_to_be() -> None:
    huge = {Place("t", 0): Span(records=10**9, first=0, last=10**9 - 1, earliest=0, latest=1)}
    small = {Place("t", 0): Span(records=100, first=0, last=99, earliest=0, latest=1)}

    assert 10**9 / bucket_width(huge, 1_000) <= MAX_BUCKETS
    assert bucket_width(small, 10) == 1
    assert bucket_width(small, 8_000) == 1_000
