"""The open transactions of a partition, against a list of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.open_transactions import NEVER, OpenTransactions


def test_readers_stop_at_the_oldest_one() -> None:
    found = OpenTransactions()
    assert (found.first, found.stable(0, 10)) == (NEVER, 10)
    found.begin(12, 1)
    assert found.stable(0, 10) == 10, "its batch is not stored yet"
    assert found.stable(0, 15) == 12
    found.begin(14, 2)
    assert found.stable(0, 20) == 12
    assert found.stable(13, 20) == 13, "never below the start of the log"


def test_one_is_open_until_its_marker_is_stored() -> None:
    found = OpenTransactions()
    found.begin(2, 1)
    found.end(2, 1, 5)
    assert found.stable(0, 5) == 2
    found.stored(5)
    assert found.stable(0, 5) == 2
    found.stored(6)
    assert found.stable(0, 6) == 6
    assert len(found) == 0


def test_a_producer_begins_anew_before_its_end_is_stored() -> None:
    found = OpenTransactions()
    found.begin(2, 1)
    found.end(2, 1, 5)
    found.begin(6, 1)
    assert found.first == 2
    found.stored(6)
    assert found.first == 6
    found.end(6, 1, 7)
    found.stored(8)
    assert found.first == NEVER


def test_more_batches_of_one_change_nothing() -> None:
    found = OpenTransactions()
    found.begin(2, 1)
    found.begin(4, 2)
    found.begin(2, 1)
    found.end(2, 1, 8)
    found.stored(9)
    assert found.first == 4


def test_what_was_stored_is_open_again_and_may_not_be_on_disk() -> None:
    found = OpenTransactions([(30, 3), (10, 1), (20, 2)])
    assert found.first == 10
    assert found.unsynced == {10, 20, 30}
    found.end(10, 1, 40)
    found.stored(41)
    assert found.first == 20
    assert found.unsynced == {20, 30}


def test_several_may_begin_where_a_power_cut_has_cut_the_log() -> None:
    found = OpenTransactions([(10, 3), (10, 1)])
    found.end(10, 1, 11)
    found.stored(12)
    assert (found.first, len(found)) == (10, 1)
    found.end(10, 3, 12)
    found.stored(13)
    assert (found.first, len(found)) == (NEVER, 0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60))
def test_against_a_list(steps: list[tuple[bool, int]]) -> None:
    """Begun and ended in any order, stored some steps behind."""
    found = OpenTransactions()
    live: list[tuple[int, int]] = []
    # (marker, first offset and producer)
    ended: list[tuple[int, tuple[int, int]]] = []
    for offset, (begins, which) in enumerate(steps, 1):
        if begins or not live:
            found.begin(offset, which)
            live.append((offset, which))
        else:
            first = live.pop(which % len(live))
            found.end(*first, offset)
            ended.append((offset, first))
        high = max(0, offset - which)
        found.stored(high)
        ended = [each for each in ended if each[0] >= high]
        there = live + [first for _, first in ended]
        assert found.stable(0, high) == min([high, *(first for first, _ in there)])
        assert len(found) == len(there)
