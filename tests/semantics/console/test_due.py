from __future__ import annotations

from semantics.console.due import Histogram, edges_of
from tests.semantics.console.test_strip import done


def test_buckets_are_equal_and_never_empty() -> None:
    assert edges_of(1_000, 2_000, 4) == [1_000, 1_250, 1_500, 1_750, 2_000]
    assert edges_of(1_000, 1_002, 24) == [1_000, 1_001, 1_002]


def test_what_is_due_is_counted_where_it_belongs() -> None:
    found = Histogram(edges_of(1_000, 2_000, 2))
    done(found.add_all([(1_000, 1), (1_499, 2), (1_500, 4), (1_999, 8), (2_000, 16), (9_000, 32)]))
    assert (found.counts, found.later, found.first) == ([3, 12], 48, 1_000)
    # over by now: at once
    found.add(500, 64)
    found.add(400, 0)
    assert (found.counts, found.first) == ([67, 12], 500)
