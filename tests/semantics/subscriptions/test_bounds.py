"""The bounds in a short form: a two hundredth of the records and of the memory. The whole: `bounds.py`."""

from __future__ import annotations

import gc
import os
import tracemalloc
from collections.abc import Callable

import pytest

import semantics
from semantics.subscriptions import due as due_times
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.states import Batch
from tests.semantics.subscriptions import bounds

_CORE = os.path.join(os.path.dirname(semantics.__file__), "*")


def traced(load: Callable[[], object]) -> float:
    """MB that the core's own lines hold at the end: what threads of other tests do meanwhile does not count."""
    gc.collect()
    tracemalloc.start()
    kept = load()
    gc.collect()
    held = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, _CORE)])
    tracemalloc.stop()
    assert kept is not None
    return sum(trace.size for trace in held.traces) / 1e6


@pytest.mark.parametrize("nack", [False, True])
@pytest.mark.parametrize("step", [2, 10])
def test_five_thousand_scattered_records_take_less_than_0_32_mb(step: int, nack: bool) -> None:
    def load() -> Cursor:
        cursor = Cursor.fresh(bounds.MANY, 0)
        cursor.attach("a", 0)
        bounds.acquire(cursor, 5_000, step, nack)
        return cursor

    assert traced(load) < 0.32


def test_delayed_records_take_a_byte_each_and_the_nearest_due_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies beyond that costs its state alone. With a quarter of the due times in memory, to be quick."""
    monkeypatch.setattr(due_times, "MOST", due_times.MOST // 4)
    monkeypatch.setattr(due_times, "FEW", due_times.FEW // 4)

    def load(count: int) -> Cursor:
        cursor = Cursor.fresh(bounds.MANY, 0)
        for first in range(0, count, 1_000):
            due = [(at, bounds.WALL + 10**6 + at * 7_919 % 50_000) for at in range(first, first + 1_000)]
            cursor.feed([Batch(first, first + 1_000, None, due)], first, bounds.WALL)
            cursor.writes()
        assert cursor.needs_due is None  # the nearest are at hand
        return cursor

    some, more = traced(lambda: load(10_000)), traced(lambda: load(20_000))
    assert more - some < 0.6  # all of them in memory would be 3.4
    assert more < 6.25


def test_ack_ranges_take_two_bits_each_in_the_rows() -> None:
    rows = bounds.ranges(100_000)
    assert len(rows) < 200
    assert sum(len(row.key) + len(row.value or b"") for row in rows) < 30_000
    cursor = Cursor.load(bounds.MANY, rows, 0, 200_000, bounds.WALL)
    assert cursor.available == 100_000
