"""Counters of subscriptions that are not in memory."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from gateway.broker.subscriptions.counted import NAMES, Counted, Happened, happened, tell
from gateway.metrics_catalog import GatewayMetrics
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor

TOTALS = Cursor.fresh(SubscriptionConfig(), 0).totals


def test_all_that_a_cursor_counts_is_kept_but_what_its_row_says() -> None:
    assert TOTALS.keys() - set(NAMES) == {"expired"}
    counted = Counted()
    totals = {name: 2**number - 1 for number, name in enumerate(TOTALS)}
    counted.keep(7, 3, {**totals, "delivered": 2**63})
    found = counted.of(7, 3)
    assert found.pop("delivered") == 2**63
    assert found == {name: totals[name] for name in NAMES if name != "delivered"}


def test_neither_another_partition_nor_another_subscription_has_counted_that() -> None:
    counted = Counted()
    counted.keep(1, 2, {**TOTALS, "nacked": 5})
    assert counted.of(1, 2)["nacked"] == 5
    assert counted.of(2, 1) == counted.of(1, 1) == counted.of(2, 2) == {}


def test_what_counted_nothing_takes_nothing() -> None:
    counted = Counted()
    counted.keep(1, 1, TOTALS)
    assert len(counted) == 0


@pytest.mark.parametrize("partitions", [(1, 2, 3), range(1, 1000)])
def test_what_is_deleted_is_forgotten_and_nothing_else(partitions: Collection[int]) -> None:
    """Whether there are more rows than may have to go, or fewer."""
    counted = Counted()
    counted.forget((1,), partitions)
    for subscription in range(1, 5):
        for partition in (1, 2, 3):
            counted.keep(subscription, partition, {**TOTALS, "delivered": 1})
    counted.forget((1, 3), partitions)
    assert (counted.of(1, 1), counted.of(3, 3), len(counted)) == ({}, {}, 6)
    assert counted.of(2, 3)["delivered"] == counted.of(4, 1)["delivered"] == 1


def test_metrics_are_told_what_happened_since_they_were_told_last() -> None:
    metrics = GatewayMetrics()
    first = happened({**TOTALS, "timed_out": 1, "crashed": 2, "dropped": 3, "expired": 4})
    tell(metrics, Happened(), first)
    tell(metrics, first, first._replace(crashed=7))
    told = (metrics.share_timeouts, metrics.share_crashes, metrics.share_dropped, metrics.share_expired)
    assert [each.value for each in told] == [1, 7, 3, 4]
