"""Times as people type them, in the zone of their pages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gateway.console.templates import Clock

NOW = int(datetime(2026, 3, 29, 22, 30, tzinfo=UTC).timestamp() * 1000)
"""In Berlin it is half past midnight of the 30th, and on the 29th clocks were put forward."""


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("today", "2026-03-30T00:00:00+02:00"),
        (" Yesterday ", "2026-03-29T00:00:00+01:00"),
        ("2026-03-01", "2026-03-01T00:00:00+01:00"),
        ("2026-03-30 12:15", "2026-03-30T12:15:00+02:00"),
        ("2026-03-30T12:15:00Z", "2026-03-30T14:15:00+02:00"),
        ("1774823400000", "2026-03-30T00:30:00+02:00"),
        ("2h", "2026-03-29T22:30:00+02:00"),
    ],
)
def test_what_has_no_zone_is_of_the_readers(said: str, means: str) -> None:
    assert Clock("Europe/Berlin", NOW).moment(said) == means


def test_the_same_in_utc() -> None:
    assert Clock("UTC", NOW).moment("yesterday") == "2026-03-28T00:00:00Z"
