from __future__ import annotations

import pytest

from semantics.lanes.window import FIRST, MOST, LaneWindow, rung


def test_a_quick_client_with_commits_each_five_seconds_is_given_more_each_time() -> None:
    window, acked, sizes = LaneWindow(), 0, []
    for now in (5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 35_000):
        acked += window.size
        window.filled()
        window.acked(window.size, True, now)
        sizes.append(acked)
    # the study's figures for librdkafka, Java and franz-go
    assert sizes[:5] == [64, 576, 4_672, 37_440, 299_584]
    assert window.size == MOST


def test_a_slow_client_keeps_a_small_window() -> None:
    window = LaneWindow()
    for second in range(5, 105, 5):
        window.filled()
        # one a second
        window.acked(5, False, second * 1_000)
        assert window.size == FIRST


def test_the_window_follows_the_rate() -> None:
    window = LaneWindow(100_000)
    window.acked(2_000, False, 5_000)
    assert window.size == 4_000
    window.acked(500, False, 10_000)
    assert window.size == 1_000
    # a window that was never full does not grow beyond that
    window.acked(500, True, 15_000)
    assert window.size == 1_000


def test_who_commits_each_record_is_given_two_seconds_of_work() -> None:
    window = LaneWindow()
    for now in range(10_000):
        window.filled()
        window.acked(1, False, now)
    assert window.size == 2_000
    assert window.rate(10_000) == pytest.approx(1_000, rel=0.01)


def test_an_idle_time_is_not_taken_for_a_slow_one() -> None:
    window = LaneWindow()
    window.acked(500, False, 5_000)
    # nothing came for a minute, and then a burst
    window.acked(400, False, 65_000)
    assert window.size == 800


def test_a_commit_of_nothing_says_nothing() -> None:
    window = LaneWindow()
    window.filled()
    window.acked(0, True, 5_000)
    assert window.size == FIRST
    assert window.rate(5_000) == 0
    window.acked(64, True, 10_000)
    assert window.size == 8 * FIRST


def test_a_crash_halves_it() -> None:
    window = LaneWindow(1_000)
    window.crashed()
    assert window.size == 500
    for _ in range(10):
        window.crashed()
    assert window.size == FIRST


@pytest.mark.parametrize(
    ("suspects", "limit", "rungs"),
    [
        (1_000, 5, [1_000, 177, 31, 5, 1, 1]),
        (1_000, 2, [1_000, 1]),
        (1_000, 1, [1, 1]),
        (1_000, 0, [1_000, 177, 31, 5, 1, 1, 1]),
        (1, 5, [1, 1, 1, 1, 1]),
        (64, 3, [64, 8, 1]),
    ],
)
def test_the_ladder(suspects: int, limit: int, rungs: list[int]) -> None:
    assert [rung(suspects, failed, limit) for failed in range(len(rungs))] == rungs
