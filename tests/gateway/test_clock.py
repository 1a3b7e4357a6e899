"""The machine's clocks, and times that none of them should show."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.clock import SystemClock, implausible

NOW = 1_700_000_000_000 + 3 * 365 * 86_400_000


def test_years_out_of_this_world() -> None:
    assert implausible(NOW) is None
    for wall, year in ((0, "1970-01-01"), (-(10**17), "0001-01-01"), (7_258_118_400_000, "2200-01-01")):
        reason = implausible(wall)
        assert reason is not None
        assert f"The system clock says {year}: " in reason


@pytest.mark.parametrize(
    ("wall", "date"),
    [
        (1_735_689_600_000, None),
        (1_735_689_599_999, "2024-12-31"),
        (4_102_444_799_999, None),
        (4_102_444_800_000, "2100-01-01"),
        (2**63 - 1, "9999-12-31"),
        (-(2**63), "0001-01-01"),
    ],
)
def test_the_years_of_magnetar_are_2025_to_2099(wall: int, date: str | None) -> None:
    reason = implausible(wall)
    assert (reason is None) if date is None else (reason is not None and f"clock says {date}:" in reason)


@given(st.integers())
def test_whatever_a_clock_says_is_told_in_a_sentence(wall: int) -> None:
    reason = implausible(wall)
    assert reason is None or reason.endswith("set the clock and start again.")


def test_both_clocks_count_milliseconds() -> None:
    clock = SystemClock()
    before, started = time.time(), time.monotonic()
    wall, monotonic = clock.wall_ms(), clock.monotonic_ms()
    assert int(before * 1000) <= wall <= time.time() * 1000
    assert int(started * 1000) <= monotonic <= time.monotonic() * 1000
