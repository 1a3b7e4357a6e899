"""The last hour and the last two days of a few numbers."""

from __future__ import annotations

import math
import sys

import pytest

from semantics.console import series
from semantics.console.series import FIELDS, LONG, SHORT, SLOTS, Series

NAN = math.nan


def filled(slots: range) -> Series:
    """In each slot its number, and twice, three times, four times that."""
    found = Series()
    for slot in slots:
        found.put(slot, [slot, 2 * slot, 3 * slot, 4 * slot])
    return found


def test_the_last_hour_is_there_point_by_point() -> None:
    found = filled(range(100, 105)).points("1h", 104)
    assert (found.step_ms, found.first) == (10_000, 100)
    assert found.values == {
        name: [float(times * slot) for slot in range(100, 105)]
        for name, times in zip(FIELDS, (1, 2, 3, 4), strict=True)
    }
    assert filled(range(100, 105)).points("1h", 104, ["open"]).values.keys() == {"open"}


def test_a_point_of_two_days_has_the_mean_of_rates_and_the_most_of_the_rest() -> None:
    found = Series()
    for slot, values in ((60, [1, 0, 5, 7]), (61, [2, NAN, 9, NAN]), (62, [6, 4, 1, 3])):
        found.put(slot, values)
    # the one that is not over, too
    points = found.points("48h", 62)
    assert (points.step_ms, points.first) == (300_000, 60)
    assert points.values == {"in": [3.0], "out": [2.0], "open": [9.0], "oldest": [7.0]}
    found.put(90, [1, NAN, -1, 0])
    assert found.points("48h", 90).values == {
        "in": [3.0, 1.0], "out": [2.0, None], "open": [9.0, -1.0], "oldest": [7.0, 0.0],
    }  # fmt: skip


def test_what_is_older_than_the_span_is_gone() -> None:
    found = filled(range(10_000)).points("1h", 9_999)
    assert found.first == 10_000 - SHORT
    assert found.values["in"] == [float(slot) for slot in range(10_000 - SHORT, 10_000)]
    # though nothing comes any more
    later = filled(range(10_000)).points("1h", 10_009)
    assert later.first == 10_010 - SHORT
    assert later.values["in"][-11:] == [9_999.0, *[None] * 10]
    days = filled(range((LONG + 7) * SLOTS)).points("48h", (LONG + 7) * SLOTS - 1)
    assert (days.first, len(days.values["in"])) == (7 * SLOTS, LONG)


@pytest.mark.parametrize("gap", [1, 5, SHORT - 1, SHORT, SHORT + 1, 3 * SHORT])
def test_where_nothing_was_measured_there_is_no_number(gap: int) -> None:
    found = filled(range(1_000))
    found.put(999 + gap, [1, 1, 1, 1])
    values = found.points("1h", 999 + gap).values["in"]
    assert len(values) == SHORT
    assert values[-1] == 1.0
    before = [float(slot) for slot in range(1_000)]
    assert values == [*before, *[None] * (gap - 1), 1.0][-SHORT:]


def test_of_one_slot_the_last_counts_and_of_before_nothing() -> None:
    found = filled(range(5))
    found.put(4, [9, 9, 9, 9])
    found.put(2, [7, 7, 7, 7])
    assert found.points("1h", 4).values["in"] == [0.0, 1.0, 2.0, 3.0, 9.0]


def test_nothing_is_no_points_and_unknown_names_are_errors() -> None:
    assert Series().points("1h", 7).values == {name: [] for name in FIELDS}
    with pytest.raises(KeyError):
        Series().points("1y", 7)
    with pytest.raises(KeyError):
        Series().points("1h", 7, ["nope"])


def test_it_takes_little_memory() -> None:
    found = Series()
    rings = [values for ring in (found._short, found._long) for values in ring._values]
    assert sum(map(sys.getsizeof, rings)) < 16_000
    assert (series.SHORT * series.STEP_MS, series.LONG * series.SLOTS * series.STEP_MS) == (
        3_600_000,
        48 * 3_600_000,
    )
