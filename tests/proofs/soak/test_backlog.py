"""A backlog that shrinks is never stuck; one that stands still is, after its time."""

from __future__ import annotations

from tests.proofs.soak.loads.backlog import STUCK, Backlog


def test_one_that_shrinks_may_take_long() -> None:
    backlog = Backlog()
    for step in range(10):
        now = 5.0 + step * STUCK
        assert backlog.stuck(now) is None
        assert not backlog.told(10 - step, now)
    assert backlog.told(0, 5.0 + 9 * STUCK)


def test_one_that_stands_still_is_stuck() -> None:
    backlog = Backlog()
    backlog.told(7, 5.0)
    # more is no progress, and the same is none
    backlog.told(9, 30.0)
    backlog.told(7, 64.0)
    assert backlog.stuck(5.0 + STUCK) is None
    assert "7 records are left" in str(backlog.stuck(5.1 + STUCK))


def test_one_of_which_nothing_is_told_is_stuck_too() -> None:
    backlog = Backlog()
    assert backlog.stuck(100.0) is None
    assert backlog.stuck(100.0 + STUCK) is None
    assert "is not told" in str(backlog.stuck(100.1 + STUCK))
