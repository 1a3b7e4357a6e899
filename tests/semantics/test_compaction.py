"""What a pass of compaction may come to, when one is due, and how long tombstones stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.compaction import (
    MARKERS_MS,
    PASSES,
    Done,
    Policy,
    after,
    decide,
    decode,
    encode,
    groups,
    horizon,
)

NOW = 1_000_000
HOUR = 3_600_000


@dataclass
class Segment:
    base_offset: int
    next_offset: int
    size: int = 1000
    max_timestamp: int = 0
    created_at: int = 0
    active: bool = False


def log(*ages: int) -> list[Segment]:
    """A segment of 10 offsets and 1,000 bytes for each; it was begun so long ago (ms). The last one takes appends."""
    return [
        Segment(10 * n, 10 * n + 10, 1000, NOW - age, NOW - age, n == len(ages) - 1)
        for n, age in enumerate(ages)
    ]


FIVE = (5000, 4000, 3000, 2000, 1000)


@pytest.mark.parametrize(
    ("policy", "done", "given", "expected"),
    [
        # all but the segment that takes appends
        ({}, 0, {}, (0, 40, True)),
        ({}, 20, {}, (20, 40, False)),
        ({"dirty_ratio": 0.49}, 20, {}, (20, 40, True)),
        ({}, 40, {}, (40, 40, False)),
        ({"dirty_ratio": 0.0}, 40, {}, (40, 40, False)),
        ({"dirty_ratio": 1.0}, 0, {}, (0, 40, False)),
        # what is not decided, and what a subscription has open
        ({}, 0, {"stable": 25}, (0, 25, True)),
        ({}, 0, {"held": 13}, (0, 13, True)),
        ({}, 20, {"held": 13}, (20, 13, False)),
        ({}, 0, {"held": 99}, (0, 40, True)),
        # records that are younger than the lag
        ({"min_lag_ms": 2500}, 0, {}, (0, 30, True)),
        ({"min_lag_ms": 9000}, 0, {}, (0, 0, False)),
        # what was trimmed is nothing that could be dirty
        ({"dirty_ratio": 0.99}, 0, {"start": 20}, (20, 40, True)),
        # Pulsar's threshold, in bytes
        ({"dirty_ratio": 1.0, "threshold": 4000}, 0, {}, (0, 40, True)),
        ({"dirty_ratio": 1.0, "threshold": 4001}, 0, {}, (0, 40, False)),
    ],
)
def test_what_is_cleaned_and_when(
    policy: dict[str, Any], done: int, given: dict[str, Any], expected: tuple[int, int, bool]
) -> None:
    found = decide(log(*FIVE), Policy(**policy), Done(done), NOW, **{"start": 0, "stable": 50, **given})
    assert (found.first_dirty, found.end, found.due, found.roll) == (*expected, False)


@pytest.mark.parametrize(
    ("lag", "held", "expected"),
    [
        # nothing has waited for so long
        (6000, 13, (13, True, False)),
        # the first record of a segment has, but the last one came a second later
        (4500, 3, (3, True, False)),
        # all of one segment, of two, of all but the one that takes appends
        (3500, 3, (10, True, False)),
        (2500, 13, (20, True, False)),
        (2500, 23, (23, True, False)),
        (1000, 13, (30, True, False)),
        # so has the one that takes appends
        (999, 13, (50, True, True)),
    ],
)
def test_what_has_waited_for_too_long_waits_for_no_subscription(
    lag: int, held: int, expected: tuple[int, bool, bool]
) -> None:
    found = decide(log(*FIVE), Policy(max_lag_ms=lag), Done(), NOW, start=0, stable=60, held=held)
    assert (found.end, found.due, found.roll) == expected
    assert found.end == max(held, found.late_to)
    # what is not decided is not cleaned, however late it is
    bound = decide(log(*FIVE), Policy(max_lag_ms=lag), Done(), NOW, start=0, stable=2, held=held)
    assert bound.end == 2


def test_what_a_subscription_leaves_of_a_late_segment_is_no_reason_for_a_pass_each_time() -> None:
    policy = Policy(max_lag_ms=3500, dirty_ratio=1.0)

    def due(done: int, held: int) -> bool:
        return decide(log(*FIVE), policy, Done(done), NOW, start=0, stable=60, held=held).due

    assert [due(0, 3), due(0, 13), due(10, 13), due(13, 14)] == [True, True, False, False]
    # all is settled that a pass may come to
    assert due(10, 45)


def test_a_message_of_a_moment_ago_is_held_in_a_segment_that_is_late() -> None:
    segments = [Segment(0, 10, 1000, NOW - 1, NOW - 5000, active=True)]
    found = decide(segments, Policy(max_lag_ms=1000), Done(), NOW, start=0, stable=10, held=9)
    # it is closed all the same, so that nothing else comes into it
    assert (found.end, found.due, found.roll, found.late_to) == (9, True, True, 0)
    nothing = decide(segments, Policy(max_lag_ms=1000), Done(), NOW, start=0, stable=10, held=0)
    assert (nothing.due, nothing.roll) == (False, True)
    # records that bear an old timestamp have come before the next segment was begun, and not earlier
    segments = [Segment(0, 10, 1000, 5, NOW - 5000), Segment(10, 20, 1000, NOW, NOW - 10, active=True)]
    found = decide(segments, Policy(max_lag_ms=1000), Done(), NOW, start=0, stable=20, held=0)
    assert (found.late_to, found.due) == (0, False)


def test_of_a_log_that_is_clean_nothing_has_waited() -> None:
    found = decide(log(*FIVE), Policy(max_lag_ms=500), Done(50), NOW, start=0, stable=50, held=50)
    assert (found.late_to, found.due, found.roll) == (0, False, False)


def test_whoever_asks_gets_what_there_is_but_not_what_subscriptions_have_open() -> None:
    policy = Policy(min_lag_ms=9000, dirty_ratio=1.0)
    found = decide(log(*FIVE), policy, Done(40), NOW, start=0, stable=50, asked=True)
    assert (found.first_dirty, found.end, found.due, found.roll) == (40, 50, True, True)
    held = decide(log(*FIVE), policy, Done(40), NOW, start=0, stable=50, held=40, asked=True)
    assert (held.due, held.roll) == (False, False)
    empty = [*log(1000)[:0], Segment(0, 0, 0, -1, NOW, active=True)]
    assert not decide(empty, policy, Done(), NOW, start=0, stable=0, asked=True).due


def test_the_ratio_is_of_bytes_and_counts_parts_of_segments() -> None:
    segments = log(*FIVE)
    segments[0].size = 7000
    found = decide(segments, Policy(), Done(5), NOW, start=0, stable=25)
    assert (found.clean, found.dirty) == (3500, 3500 + 1000 + 500)


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(10, 100))
def test_groups_are_all_segments_in_order_and_none_is_too_large(sizes: list[int], most: int) -> None:
    segments = [Segment(n, n + 1, size) for n, size in enumerate(sizes)]
    found = groups(segments, most)
    assert [n for first, last in found for n in range(first, last)] == [*range(len(sizes))]
    for number, (first, last) in enumerate(found):
        size = sum(sizes[first:last])
        assert size <= most or last == first + 1
        if number + 1 < len(found):
            assert size + sizes[last] > most, "it would have had room"


def test_a_group_spans_no_more_offsets_than_a_batch_can() -> None:
    far = 1 << 31
    segments = [Segment(0, 5), Segment(5, far - 1), Segment(far - 1, far), Segment(far, far + 5)]
    assert groups(segments, 1 << 30) == [(0, 2), (2, 4)]


def test_tombstones_go_when_a_pass_has_covered_them_for_long_enough() -> None:
    done = after(Done(), 40, NOW, HOUR)
    assert horizon(done, HOUR, NOW + HOUR - 1) == 0
    assert horizon(done, HOUR, NOW + HOUR) == 40
    done = after(done, 90, NOW + HOUR, HOUR)
    assert done.clean_to == 90
    assert horizon(done, HOUR, NOW + HOUR) == 40
    assert horizon(done, HOUR, NOW + 2 * HOUR) == 90
    # at once, if somebody wants that; but not what readers may be asking about just now
    assert horizon(done, 0, NOW + HOUR) == 90
    assert horizon(done, MARKERS_MS, NOW + HOUR + MARKERS_MS - 1) == 40


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, HOUR // 4)), max_size=200))
def test_no_tombstone_goes_too_early_however_many_passes_there_are(steps: list[tuple[int, int]]) -> None:
    done, now, end = Done(), NOW, 0
    passes: list[tuple[int, int]] = []
    for grown, waited in steps:
        end, now = end + grown, now + waited
        due = max([at for at, when in passes if now - when >= HOUR], default=0)
        assert horizon(done, HOUR, now) <= due
        passes.append((end, now))
        done = after(done, end, now, HOUR)
        assert len(done.passes) <= PASSES + 2
        assert done.clean_to == end
        assert decode(encode(done), end) == done


def test_passes_that_are_far_enough_apart_count_each() -> None:
    done, passes = Done(), []
    for number in range(40):
        now = NOW + number * HOUR // 8
        done = after(done, 10 * number, now, HOUR)
        passes.append((10 * number, now))
        assert horizon(done, HOUR, now) == max([at for at, when in passes if now - when >= HOUR], default=0)


def test_a_row_of_a_log_that_became_shorter_says_no_more_than_is_there() -> None:
    row = encode(Done(90, ((40, 1), (90, 2))))
    assert decode(row, 60) == Done(60, ((40, 1), (60, 2)))
    assert (
        decode(None, 60) == decode(b"", 60) == decode(b"\x09" + row[1:], 60) == decode(row[:-1], 60) == Done()
    )
