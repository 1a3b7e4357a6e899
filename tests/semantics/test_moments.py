"""Points in time as people type them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from semantics.moments import MomentError, iso, moment_ms

BERLIN = ZoneInfo("Europe/Berlin")
NOW = int(datetime(2026, 3, 29, 22, 30, tzinfo=UTC).timestamp() * 1000)
"""In Berlin it is half past midnight of the 30th, and on the 29th clocks were put forward."""
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("2026-03-30T12:15:00Z", "2026-03-30T14:15:00+02:00"),
        ("2026-03-30T12:15:00.250+05:45", "2026-03-30T08:30:00.250+02:00"),
        ("2026-03-30 12:15", "2026-03-30T12:15:00+02:00"),
        (" 2026-03-01 ", "2026-03-01T00:00:00+01:00"),
        ("today", "2026-03-30T00:00:00+02:00"),
        ("Yesterday", "2026-03-29T00:00:00+01:00"),
        ("1774823400000", "2026-03-30T00:30:00+02:00"),
    ],
)
def test_a_time_without_a_zone_is_of_who_types(said: str, means: str) -> None:
    found = moment_ms(said, NOW, BERLIN)
    assert iso(found, BERLIN) == means
    assert moment_ms(means, NOW, UTC) == found


@pytest.mark.parametrize(
    ("said", "ago"),
    [
        ("0", 0), ("90", 90_000), ("500ms", 500), ("45s", 45_000), ("30m", 30 * MINUTE), ("2h", 2 * HOUR),
        ("1.5h", 90 * MINUTE), ("3d", 3 * DAY), ("1w", 7 * DAY), ("2 h", 2 * HOUR),
    ],
)  # fmt: skip
def test_an_age_is_so_long_ago(said: str, ago: int) -> None:
    assert moment_ms(said, NOW, BERLIN) == NOW - ago


@pytest.mark.parametrize(
    "said",
    [
        "", "soon", "2hh", "-2h", "h", "3y", "1e3", "2026-13-01", "25:00", "1774823400", "9" * 30, "١٢", "1.h",
        "999999999w", "1969-12-31T00:00:00Z", "0001-01-01", "9" * 15, "9999-12-31T23:59:59-12:00", "\0",
    ],
)  # fmt: skip
def test_what_is_none_is_told(said: str) -> None:
    """Seconds since 1970 are none of these: they would be an age of 56 years."""
    with pytest.raises(MomentError, match="is no time: write 2026"):
        moment_ms(said, NOW, BERLIN)


def test_without_any_zone_it_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Kathmandu")
        time.tzset()
        found = [moment_ms(said, NOW) for said in ("2026-03-30 12:15", "today")]
        shown = iso(found[0])
    time.tzset()
    assert shown == "2026-03-30T12:15:00+05:45"
    assert found == [moment_ms(said, NOW, UTC) for said in ("2026-03-30T06:30Z", "2026-03-29T18:15Z")]
