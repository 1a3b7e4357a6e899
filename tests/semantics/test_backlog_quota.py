"""When a backlog is too much, and what follows: by tables, and against what a quota means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.backlog_quota import Action, Quota, Usage, Verdict, against_retention, judge

NOW = 1_000_000
HOLD, REFUSE, EVICT = Action


def test_without_limits_nothing_is_looked_at_again() -> None:
    assert not Quota().limits
    assert judge(Quota(), Usage(1 << 60, 0), NOW) == Verdict()


@pytest.mark.parametrize(
    ("quota", "usage", "expected"),
    [
        # the message that reaches the quota was taken, the next is not
        (Quota(100), Usage(99, 0), Verdict(room=1)),
        (Quota(100, REFUSE), Usage(100, 0), Verdict(REFUSE)),
        (Quota(0), Usage(0, -1), Verdict(HOLD)),
        # by age; what has just come is not too old, and an empty backlog has no age
        (Quota(age=50), Usage(1, NOW - 49), Verdict(until=NOW + 1)),
        (Quota(age=50, age_action=REFUSE), Usage(1, NOW - 50), Verdict(REFUSE)),
        (Quota(age=50), Usage(0, -1), Verdict(until=NOW + 50)),
        # each has its own action; that of the bytes comes first
        (Quota(100, HOLD, 50, REFUSE), Usage(100, NOW - 50), Verdict(HOLD)),
        (Quota(100, HOLD, 50, REFUSE), Usage(1, NOW - 50), Verdict(REFUSE, room=99)),
        # nobody is kept out by what is evicted
        (Quota(100, EVICT), Usage(150, 0), Verdict(evict_to=90, room=10)),
        (Quota(100, EVICT, 50, HOLD), Usage(150, NOW - 50), Verdict(HOLD, evict_to=90, room=10)),
        (
            Quota(100, HOLD, 50, EVICT),
            Usage(99, NOW - 60),
            Verdict(room=1, evict_before=NOW - 50, until=NOW + 1000),
        ),
    ],
)
def test_what_follows_of_a_usage(quota: Quota, usage: Usage, expected: Verdict) -> None:
    found = judge(quota, usage, NOW)
    assert found._replace(why="") == expected
    assert bool(found.why) == (found.action is not None)


QUOTAS = st.builds(
    Quota,
    st.integers(-1, 50),
    st.sampled_from(Action),
    st.integers(-1, 50),
    st.sampled_from(Action),
)


@given(
    QUOTAS, st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60)
)
def test_nobody_has_to_look_before_room_and_time_are_used_up(
    quota: Quota, size: int, age: int, more: int, later: int, acknowledged: int
) -> None:
    first = judge(quota, Usage(size, NOW - age if size else -1), NOW)
    if first.action is not None or first.evict_to >= 0 or first.evict_before >= 0:
        return
    now = NOW + later
    if (0 <= first.room <= more) or (0 <= first.until <= now):
        return
    # what came since is younger, and what was acknowledged only makes it less
    left = max(size + more - acknowledged, 0)
    oldest = NOW - age if size and acknowledged < size else NOW
    second = judge(quota, Usage(left, oldest if left else -1), now)
    assert second.action is None
    assert (second.evict_to, second.evict_before) == (-1, -1)


@pytest.mark.parametrize(
    ("size", "age", "kept_size", "kept_ms", "wrong"),
    [
        (100, -1, 101, -1, ""),
        (100, -1, 100, -1, "100 bytes"),
        (-1, 60, -1, 60, "60 ms"),
        (-1, 60, -1, 61, ""),
        # nothing kept, or without end, is no limit that a quota could be above
        (100, 60, 0, 0, ""),
        (100, 60, -1, -1, ""),
        (-1, -1, 1, 1, ""),
    ],
)
def test_a_quota_is_below_retention(size: int, age: int, kept_size: int, kept_ms: int, wrong: str) -> None:
    found = against_retention(size, age, kept_size, kept_ms)
    assert wrong in found if found and wrong else not found and not wrong
