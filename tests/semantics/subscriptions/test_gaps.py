"""Offsets that hold nothing: as many as a header claims, at no cost, and exact to the offset."""

from __future__ import annotations

import pytest

from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.states import Acquired, Batch, Reason


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
@pytest.mark.parametrize("first", [0, 1, 1023, 1024, 5000])
@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 4096, 2_000_000_000])
def test_what_lies_around_a_gap_is_open_and_what_lies_in_it_is_done(first: int, size: int, kind: str) -> None:
    config = SubscriptionConfig(type=kind)
    cursor = Cursor.fresh(config, 0)
    end = first + size
    before = [Batch(0, first, dead=[(0, first - 1, Reason.CORRUPT)])] if first else []
    cursor.feed([*before, Batch(first, end, skip=True)], 0, 0)
    assert cursor.read == end
    assert cursor.start == (0 if first else end)
    assert sum(each.last - each.first + 1 for each in cursor.dying(10_000)) == first
    assert cursor.look(first).state == cursor.look(end - 1).state == "DONE"
    assert cursor.look(end).state == "UNREAD"
    cursor.feed([Batch(end, end + 1)], 0, 0)
    if kind == "shared":
        cursor.attach("c", 0)
        assert cursor.poll("c", 10, 0, 0) == [Acquired(end, end, 0)]
    again = Cursor.load(config, [row for row in cursor.writes() if row.value is not None], 0, end + 1, 0)
    assert again.start == (0 if first else end)
    assert again.look(first).state == again.look(end - 1).state == "DONE"
    if first:
        cursor.buried([(0, first - 1)])
        assert cursor.start == end
