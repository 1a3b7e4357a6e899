"""Backoff: the tables of the documentation, and bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.subscriptions.backoff import Backoff

DOCUMENTED = Backoff(min_ms=1000, max_ms=60_000, multiplier=2)


def test_redelivery_after_a_nack() -> None:
    """1-pulsar-messaging-concepts, "Negative acknowledgment": redelivery count and delay."""
    assert [DOCUMENTED.delay_ms(k) // 1000 for k in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_redelivery_after_an_acknowledgment_timeout() -> None:
    """1-pulsar-messaging-concepts, "Acknowledgment timeout": 10 s, then the same backoff."""
    after = [10 + DOCUMENTED.delay_ms(k) // 1000 for k in range(1, 9)]
    assert after == [10 + 1, 10 + 2, 10 + 4, 10 + 8, 10 + 16, 10 + 32, 10 + 60, 10 + 60]


def test_a_multiplier_that_is_no_whole_number() -> None:
    assert [Backoff(100, 1000, 1.5).delay_ms(k) for k in range(1, 8)] == [100, 150, 225, 337, 506, 759, 1000]


def test_no_shortest_delay_is_no_delay_at_all() -> None:
    assert [Backoff(0, 1000).delay_ms(k) for k in (1, 7, 100_000)] == [0, 0, 0]


@given(
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.floats(1.001, 1e6),
    st.integers(0, 10**6),
)
def test_it_never_shrinks_and_stays_in_its_bounds(low: int, more: int, multiplier: float, k: int) -> None:
    backoff = Backoff(low, low + more, multiplier)
    assert low <= backoff.delay_ms(k) <= backoff.delay_ms(k + 1) <= low + more


@pytest.mark.parametrize(
    ("low", "high", "multiplier", "reason"),
    [
        (-1, 5, 2, "shortest"),
        (5, 4, 2, "longest"),
        (1, 2, 1, "above 1"),
        (1, 2, float("nan"), "above 1"),
        (1, 2, float("inf"), "above 1"),
    ],
)
def test_what_cannot_be_a_backoff_is_refused(low: int, high: int, multiplier: float, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Backoff(low, high, multiplier)
