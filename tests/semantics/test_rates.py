"""How fast something may go: never more than the rate allows, and never less for long."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from semantics.rates import NO_LIMIT, Rate, Throttle


def test_a_period_may_go_at_once_and_then_evenly() -> None:
    throttle = Throttle(Rate(messages=10), 0)
    assert throttle.room(0) == (10, NO_LIMIT)
    throttle.spend(10, 500, 0)
    assert throttle.room(0) == (0, NO_LIMIT)
    assert throttle.wait(0) == 100
    assert throttle.room(99) == (0, NO_LIMIT)
    assert throttle.room(100) == (1, NO_LIMIT)
    assert throttle.room(550) == (5, NO_LIMIT)
    # what nobody uses is not saved up
    assert throttle.room(60_000) == (10, NO_LIMIT)


def test_the_scarcer_of_the_two_decides() -> None:
    throttle = Throttle(Rate(messages=10, bytes=1000), 0)
    throttle.spend(1, 3000, 0)
    assert throttle.room(0) == (9, 0)
    # 2,000 are owed, and one more is needed
    assert throttle.wait(0) == 2001
    assert throttle.room(2000) == (10, 0)
    assert throttle.room(2001) == (10, 1)


def test_a_period_is_as_long_as_it_says() -> None:
    throttle = Throttle(Rate(messages=1, period_ms=60_000), 0)
    throttle.spend(1, 0, 0)
    assert throttle.wait(0) == 60_000
    assert throttle.wait(59_999) == 1
    assert throttle.wait(60_000) == 0


def test_what_is_published_may_go_besides() -> None:
    for relative, room in ((True, 7), (False, 2)):
        throttle = Throttle(Rate(messages=2, relative=relative), 0)
        throttle.published(5, 0, 0)
        assert throttle.room(0) == (room, NO_LIMIT)
        throttle.spend(room, 0, 0)
        assert throttle.wait(0) == 500


def test_what_was_published_may_go_for_a_period_and_is_not_saved_up() -> None:
    throttle = Throttle(Rate(messages=2, relative=True), 0)
    throttle.published(5, 0, 0)
    assert throttle.room(999) == (7, NO_LIMIT)
    assert throttle.room(1_000) == (2, NO_LIMIT)
    for now in range(1_000, 3_000, 100):
        throttle.published(10, 0, now)
    assert throttle.room(2_900)[0] <= 2 + 10 * 10
    assert throttle.room(60_000) == (2, NO_LIMIT)


def test_a_debt_that_takes_too_long_is_forgiven() -> None:
    throttle = Throttle(Rate(bytes=10), 0, 5_000)
    throttle.spend(0, 1_000_000, 0)
    assert throttle.wait(0) == 5_100
    assert throttle.room(5_100) == (NO_LIMIT, 1)


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing() -> None:
    throttle = Throttle(Rate(messages=10), 10_000)
    throttle.spend(10, 0, 10_000)
    assert throttle.wait(5_000) == 100
    assert throttle.room(5_000) == (0, NO_LIMIT)
    assert throttle.room(5_100) == (1, NO_LIMIT)


def test_without_a_limit_there_is_none() -> None:
    for rate in (Rate(), Rate(-1, -1), Rate(0, 0)):
        throttle = Throttle(rate, 0)
        throttle.spend(1 << 40, 1 << 40, 0)
        assert throttle.room(0) == (NO_LIMIT, NO_LIMIT)
        assert throttle.wait(0) == 0
        assert not rate.limits
    assert Rate(bytes=1).limits


@given(
    rate=st.integers(1, 5_000),
    period=st.integers(1, 120_000),
    steps=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 50)), max_size=60),
)
def test_over_any_time_no_more_goes_than_one_period_and_the_rate(
    rate: int, period: int, steps: list[tuple[int, int]]
) -> None:
    """By arithmetic of another kind: a period and the rate times the time at most. Who waits as it is told goes on."""
    throttle = Throttle(Rate(messages=rate, period_ms=period), 0)
    now = gone = 0
    for passed, asked in steps:
        now += passed
        took = min(asked, throttle.room(now)[0])
        throttle.spend(took, 0, now)
        gone += took
        assert gone <= rate + Fraction(rate * now, period)
        wait = throttle.wait(now)
        assert (wait == 0) == (throttle.room(now)[0] > 0)
        if wait:
            assert throttle.room(now + wait - 1)[0] == 0
            now += wait
            assert throttle.room(now)[0] > 0
