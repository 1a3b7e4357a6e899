"""Committed offsets go with their topic at once, and by age only while the clock is believed."""

from __future__ import annotations

import pytest

from gateway.broker.clock_watch import HOLD_MS
from gateway.broker.offset_expiry import OffsetExpiry
from gateway.coordinators import offsets
from gateway.coordinators.group_rows import State
from tests.gateway.broker.fake_broker import FakeBroker
from tests.gateway.broker.group_client import WEEK, Client


def expired(broker: FakeBroker) -> bool:
    """Whether an idle simple group has no offsets now."""
    expiry = OffsetExpiry(broker, broker.catalog, broker.clock_watch)
    walk = expiry.expire("g", offsets.retention(None, State.EMPTY, 0, None), lambda: False)
    with pytest.raises(StopIteration) as end:
        next(walk)
    return bool(end.value.value)


def test_by_age_not_while_the_clock_is_in_doubt(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    client.commit("t", 1)
    assert not expired(broker)
    broker.clock.ahead += 2 * WEEK
    assert not expired(broker)
    assert client.offset("t") == 1
    broker.clock.now += HOLD_MS
    assert expired(broker), "a clock that stays is believed"
    assert client.offset("t") is None


def test_with_the_topic_whatever_the_clock_says(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    client.commit("t", 1)
    broker.clock.ahead += 2 * WEEK
    broker.drop_topic("t")
    assert expired(broker)


def test_not_what_a_commit_under_way_may_replace(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    client.commit("t", 1)
    broker.drop_topic("t")
    expiry = OffsetExpiry(broker, broker.catalog, broker.clock_watch)
    rows = len(broker.committed)
    assert list(expiry.expire("g", None, lambda: True)) == []
    assert len(broker.committed) == rows
