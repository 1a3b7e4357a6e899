"""Settings of consumer groups (KIP-848): what goes together, and which assignors there may be."""

from __future__ import annotations

import pytest

from gateway.config import SETTINGS, Settings
from gateway.config.consumer_groups import ASSIGNORS, CONSUMER_GROUPS, FAMILIES, problems
from gateway.coordinators import assignors

DEFAULTS = {row.name: Settings.load().integer(row.name) for family in FAMILIES for row in family.settings()}


def test_defaults_go_together() -> None:
    assert problems(DEFAULTS) == []
    assert [SETTINGS[row.name] for row in CONSUMER_GROUPS] == CONSUMER_GROUPS


def test_a_default_lies_between_its_bounds() -> None:
    own, low = "group.consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms"
    assert problems({**DEFAULTS, low: 45_001}) == [
        ((low, own), f"{low} (45001) must not be above {own} (45000).")
    ]


def test_a_member_is_heard_of_before_it_counts_as_silent() -> None:
    heartbeat, session = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
    tight = {**DEFAULTS, heartbeat: 45_000, "group.consumer.max.heartbeat.interval.ms": 60_000}
    assert problems(tight) == [
        ((heartbeat, session), f"{heartbeat} (45000) must be below {session} (45000).")
    ]


def test_the_assignors_are_those_that_there_are() -> None:
    assert set(ASSIGNORS) == set(assignors.ASSIGNORS)


@pytest.mark.parametrize("text", ["", "sticky", "range,range"])
def test_assignors_that_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match=r"must name|may only hold"):
        SETTINGS["group.consumer.assignors"].parse(text)
