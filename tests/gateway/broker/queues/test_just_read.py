"""What was read to be given is kept for the fetch that asks for it, as far as there is room."""

from __future__ import annotations

from gateway.broker.queues.just_read import LEAST, JustRead

ALL = 1 << 30


def test_it_is_found_once() -> None:
    kept = JustRead()
    data = [bytes(LEAST), b"more"]
    kept.keep(1, [(10, data), (20, [bytes(LEAST)])])
    assert kept.take(2, 10, ALL) is None
    assert kept.take(1, 11, ALL) is None
    assert kept.take(1, 10, ALL) == data
    assert kept.take(1, 10, ALL) is None
    assert kept.take(1, 20, ALL) == [bytes(LEAST)]


def test_little_is_not_kept() -> None:
    kept = JustRead()
    kept.keep(1, [(0, [bytes(LEAST - 1)])])
    assert kept.take(1, 0, ALL) is None


def test_who_has_no_room_for_it_reads_for_itself() -> None:
    kept = JustRead()
    kept.keep(1, [(0, [bytes(LEAST)] * 2)])
    assert kept.take(1, 0, 2 * LEAST - 1) is None
    kept.keep(1, [(0, [bytes(LEAST)] * 2)])
    assert kept.take(1, 0, 2 * LEAST) is not None


def test_the_oldest_goes_when_there_is_no_room() -> None:
    kept = JustRead(3 * LEAST)
    for first in range(3):
        kept.keep(1, [(first, [bytes(LEAST)])])
    # kept anew, it is the newest, and counts once
    kept.keep(1, [(0, [bytes(LEAST)])])
    kept.keep(1, [(3, [bytes(LEAST)])])
    assert [kept.take(1, first, ALL) is not None for first in range(4)] == [True, False, True, True]
    # what was taken leaves its room to others
    for first in range(3):
        kept.keep(2, [(first, [bytes(LEAST)])])
    assert all(kept.take(2, first, ALL) for first in range(3))


def test_a_part_counts_as_the_whole_that_it_keeps_in_memory() -> None:
    kept = JustRead(3 * LEAST)
    whole = bytes(4 * LEAST)
    kept.keep(1, [(0, [memoryview(whole)[:LEAST]])])
    assert kept.take(1, 0, ALL) is None
