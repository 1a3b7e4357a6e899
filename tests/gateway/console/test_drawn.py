"""Numbers as shapes."""

from __future__ import annotations

import itertools
import re

from gateway.console import drawn


def tops(path: str) -> list[tuple[int, float, int, float]]:
    """(column, bottom, width, height) of a path's boxes."""
    return [
        (int(at), float(bottom), int(width), float(high))
        for at, bottom, width, high in re.findall(r"M(\d+) ([\d.]+)h(\d+)v-([\d.]+)h-\d+z", path)
    ]


class TestStrip:
    def test_what_is_stuck_is_seen_among_thousands(self) -> None:
        paths = drawn.strip_paths({"available": [5_000, 5_000], "acquired": [1, 0], "done": [9, 9]}, 2)
        ((at, _, width, high),) = tops(paths["acquired"])
        assert (at, width) == (0, 1)
        assert high >= 1.5
        assert set(paths) == {"available", "acquired"}, "what is done is no open message"

    def test_columns_stand_one_on_the_other_within_the_strip(self) -> None:
        states = {state: [1, 3, 0] for state in drawn.ORDER}
        paths = drawn.strip_paths(states, 3)
        for column in (0, 1):
            boxes = [
                box for path in paths.values() for box in tops(path) if box[0] <= column < box[0] + box[2]
            ]
            boxes.sort(key=lambda box: -box[1])
            assert boxes[0][1] == drawn.HEIGHT
            for lower, upper in itertools.pairwise(boxes):
                assert abs(lower[1] - lower[3] - upper[1]) < 0.11
            assert boxes[-1][1] - boxes[-1][3] > -0.5
        assert all(box[0] + box[2] <= 2 for path in paths.values() for box in tops(path))

    def test_equal_neighbours_are_one_box(self) -> None:
        paths = drawn.strip_paths({"delayed": [4] * 100}, 100)
        assert tops(paths["delayed"]) == [(0, 17.0, 100, 17.0)]

    def test_of_nothing_nothing_is_drawn(self) -> None:
        assert drawn.strip_paths({}, 0) == {}


class TestCurve:
    def test_the_most_is_at_the_top_and_holes_are_holes(self) -> None:
        assert drawn.curve([None, 0, 5, None, 10], 40, 10) == ["10,10 20,5", "40,0 40,0"]

    def test_of_nothing_nothing_is_drawn(self) -> None:
        assert drawn.curve([None, None], 40, 10) == []
        assert drawn.curve([], 40, 10) == []
        assert drawn.curve([0, 0], 40, 10) == ["0,10 40,10"]

    def test_lines_of_one_chart_have_one_scale(self) -> None:
        assert drawn.curve([0, 5], 40, 10, 10) == ["0,10 40,5"]


class TestTogether:
    def test_no_peak_is_lost_and_rates_are_means(self) -> None:
        assert drawn.together([1, 9, 2, 3, None, 5], 3, largest=True) == [9, 5]
        assert drawn.together([1, 9, 2, 3, None, 5], 3, largest=False) == [4, 4]

    def test_the_same_stay_together_when_the_oldest_is_gone(self) -> None:
        whole = [1.0, 2, 3, 4, 5, 6, 7]
        for gone in range(3):
            assert drawn.together(whole[gone:], 3, gone, largest=True) == [3, 6, 7]

    def test_holes_are_holes(self) -> None:
        assert drawn.together([None, None, 1, None], 2, largest=True) == [None, 1]
        assert drawn.together([], 3, largest=False) == []


def test_bars_stand_one_on_the_other() -> None:
    assert drawn.bars([(1, 1), (0, 4), (0, 0)], 100) == [(25.0, 25.0), (0.0, 100.0), (0.0, 0.0)]
