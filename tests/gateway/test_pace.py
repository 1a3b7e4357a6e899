"""Who is waited for: the quick, and of the others one now and then."""

from __future__ import annotations

import pytest

from gateway.pace import PATIENCE, RATE, SLOW, WARY, Pace, Waits


def test_who_takes_answers_is_always_waited_for() -> None:
    waits = Waits()
    pace = Pace(waits)
    assert pace.begin(1.0)
    pace.took()
    other = Pace(waits)
    assert other.begin(2.0)
    other.kept(2.0 + PATIENCE)
    assert pace.begin(2.0 + PATIENCE)


def test_who_did_not_is_not_waited_for_soon() -> None:
    pace = Pace(Waits())
    assert pace.begin(1.0)
    pace.took()
    assert pace.begin(2.0)
    pace.kept(2.003)
    assert not pace.begin(2.002 + SLOW)
    assert pace.begin(2.004 + SLOW)


def test_of_many_unknown_ones_that_take_nothing_few_are_waited_for() -> None:
    """However many they are, what they cost is a twentieth of a thread's time."""
    waits, now, waited = Waits(), 0.0, 0.0
    while now < 10:
        for _ in range(50):
            pace = Pace(waits)
            if pace.begin(now):
                waited += PATIENCE
                pace.kept(now + PATIENCE)
        now += 0.001
    assert 0.9 / (WARY + 2) < waited / 10 < 1 / WARY


@pytest.mark.parametrize(
    ("after", "taken", "left"), [(0, 0, PATIENCE), (PATIENCE, 0, 0), (0.5, RATE, 0.5 + PATIENCE)]
)
def test_who_takes_on_has_as_long_as_a_quick_one_needs(after: float, taken: int, left: float) -> None:
    pace = Pace(Waits())
    assert pace.begin(7.0)
    assert pace.left(7.0 + after, taken) == pytest.approx(left)
