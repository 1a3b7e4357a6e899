"""How many records a poll takes, by the size of those that were seen."""

from __future__ import annotations

import pytest

from pipeline.sample import poll_records


@pytest.mark.parametrize(
    ("largest", "records"),
    [(0, 10_000), (100, 10_000), (6_710, 10_000), (1 << 20, 64), (20 << 20, 3), (100 << 20, 1)],
)
def test_small_records_come_by_thousands_and_large_ones_one_by_one(largest: int, records: int) -> None:
    assert poll_records(largest) == records
