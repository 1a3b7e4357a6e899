"""Values of group configs: durations and sticky ranges."""

from __future__ import annotations

import pytest

from gateway.config.group_table import duration_ms, sticky_ranges


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT0S", 0),
        ("P2D", 2 * 86_400_000),
        ("pt1h1m1.5s", 3_661_500),
        ("PT-1M2M", None),
        ("PT2M-1S", 119_000),
        ("-PT-5S", 5000),
        ("P1DT-1H", 82_800_000),
        ("PT0.0019S", 1),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("P1W", None),
        ("1h", None),
        ("PT-1S", None),
        ("-P1D", None),
        ("P99999999999999999D", None),
    ],
)
def test_durations_are_those_of_java(text: str, ms: int | None) -> None:
    if ms is None:
        with pytest.raises(ValueError):
            duration_ms(text)
    else:
        assert duration_ms(text) == ms


class TestStickyRanges:
    def test_both_ends_are_included_and_a_name_may_come_twice(self) -> None:
        """Seed 1, "Sticky": C1 = [0, 16384), [32768, 49152); C2 = [16384, 32768), [49152, 65536)."""
        text = "C1:32768-49151,C2:16384-32767,C1:0-16383,C2:49152-65535"
        assert sticky_ranges(tuple(text.split(","))) == {
            "C1": ((0, 16_384), (32_768, 49_152)),
            "C2": ((16_384, 32_768), (49_152, 65_536)),
        }

    def test_a_name_may_hold_colons_and_dashes(self) -> None:
        assert sticky_ranges(("host:9092-x:5-5",)) == {"host:9092-x": ((5, 6),)}

    @pytest.mark.parametrize("item", ["a", "a:", ":0-1", "a:1", "a:2-1", "a:-1-2", "a:0-x", "a:0-999999"])
    def test_refused(self, item: str) -> None:
        with pytest.raises(ValueError, match=f'"{item}" is not'):
            sticky_ranges((item,))
