"""Values of group configs: durations and sticky ranges."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import Settings
from gateway.config.group_table import (
    GROUP_CONFIGS,
    SLOTS,
    OffsetReset,
    duration_ms,
    offset_reset,
    sticky_ranges,
)


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

    @pytest.mark.parametrize(
        "items", [("a:0-10", "b:10-20"), ("b:10-20", "a:0-10"), ("a:0-65535", "a:10-10")]
    )
    def test_a_slot_has_one_owner(self, items: tuple[str, ...]) -> None:
        with pytest.raises(ValueError, match="must give each slot to one only, and slot 10 is both "):
            sticky_ranges(items)

    @given(st.sets(st.integers(1, SLOTS - 1), max_size=20), st.data())
    def test_every_slot_has_the_owner_that_was_written(self, cuts: set[int], data: st.DataObject) -> None:
        edges = [0, *sorted(cuts), SLOTS]
        owners = {(first, end): data.draw(st.sampled_from("abc")) for first, end in itertools.pairwise(edges)}
        items = [f"{owner}:{first}-{end - 1}" for (first, end), owner in owners.items()]
        found = sticky_ranges(tuple(data.draw(st.permutations(items))))
        assert {each: owner for owner, ranges in found.items() for each in ranges} == owners


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("earliest", OffsetReset("earliest")),
        ("latest", OffsetReset("latest")),
        ("by_duration:PT1H30M", OffsetReset("by_duration", 5_400_000)),
        ("by_duration:PT0S", OffsetReset("by_duration", 0)),
    ],
)
def test_where_a_subscription_begins(text: str, found: OffsetReset) -> None:
    assert offset_reset(text) == found


@pytest.mark.parametrize(
    "text", ["", "Earliest", "by_duration", "by_duration:", "by_duration:1h", "by_duration:-PT1S"]
)
def test_what_is_no_place_to_begin(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be earliest, latest or by_duration:PnDTnHnMn\.nS"):
        offset_reset(text)


def test_every_row_takes_its_default_and_knows_its_settings() -> None:
    settings = Settings.load()
    for name, (setting, broker, bounds, opened, effect) in GROUP_CONFIGS.items():
        assert setting.name == name
        # a config without a default says to people what it is then
        assert (setting.default is None) == bool(opened), name
        text = setting.render(setting.default)
        assert text is None or setting.parse(text) == setting.default, name
        if broker is not None and effect:
            assert settings.integer(broker) == setting.default, name
        if bounds is not None:
            low, high = (settings.integer(each) for each in bounds)
            assert isinstance(setting.default, int)
            assert low <= setting.default <= high, name
