"""Settings of share groups: defaults, and the bounds that groups may set theirs within."""

from __future__ import annotations

import pytest

from gateway.config import SETTINGS, Settings
from gateway.config.share_groups import FAMILIES, SHARE_GROUPS, Family, problems

DEFAULTS = {name: Settings.load().integer(name) for name in (row.name for row in SHARE_GROUPS)}


def test_defaults_go_together() -> None:
    assert problems(DEFAULTS) == []


def test_every_row_is_a_setting_of_the_node_and_takes_its_default() -> None:
    assert [SETTINGS[row.name] for row in SHARE_GROUPS] == SHARE_GROUPS
    for row in SHARE_GROUPS:
        assert row.parse(str(row.default)) == row.default


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_default_lies_between_its_bounds(family: Family) -> None:
    own, low, high = (f"group.share.{infix}{family.name}" for infix in ("", "min.", "max."))
    assert [row.name for row in family.settings()] == [own, low, high]
    value = DEFAULTS[own]
    for changed, pair, said in (
        ({low: value + 1}, (low, own), f"{low} ({value + 1}) must not be above {own} ({value})."),
        ({high: value - 1}, (own, high), f"{own} ({value}) must not be above {high} ({value - 1})."),
    ):
        assert problems({**DEFAULTS, **changed}) == [(pair, said)]
    # both bounds may be the default itself
    assert problems({**DEFAULTS, low: value, high: value}) == []


def test_a_member_is_heard_of_before_it_counts_as_silent() -> None:
    heartbeat, session = "group.share.heartbeat.interval.ms", "group.share.session.timeout.ms"
    tight = {**DEFAULTS, heartbeat: 44_999, f"group.share.max.{heartbeat[12:]}": 60_000}
    assert problems(tight) == []
    assert problems({**tight, heartbeat: 45_000}) == [
        ((heartbeat, session), f"{heartbeat} (45000) must be below {session} (45000).")
    ]


def test_a_group_has_no_more_members_than_there_may_be_sessions() -> None:
    size, sessions = "group.share.max.size", "group.share.max.share.sessions"
    assert problems({**DEFAULTS, size: 5, sessions: 5}) == []
    assert problems({**DEFAULTS, size: 5, sessions: 4}) == [
        ((size, sessions), f"{size} (5) must not be above {sessions} (4).")
    ]
