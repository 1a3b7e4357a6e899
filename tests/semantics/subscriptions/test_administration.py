"""What is done to a cursor from outside: its log is trimmed, records are skipped, it begins anew, has new rules."""

from __future__ import annotations

import pytest

from semantics.subscriptions.rows import RowKind
from semantics.subscriptions.states import Ending, Refusal
from tests.semantics.subscriptions.driving import (
    ACCEPT,
    REJECT,
    RELEASE,
    WALL,
    Driver,
    all_of,
)


def test_trimmed_is_done_and_what_is_held_of_it_is_nobodys() -> None:
    driver = Driver()
    driver.feed(3_000)
    driver.poll("a", 2_000)
    driver.cursor.trimmed(1_500)
    assert driver.cursor.start == 1_500
    assert (driver.cursor.acquired, driver.cursor.available) == (500, 1_000)
    assert driver.cursor.holding()["a"] == 500
    assert driver.acknowledge((1_400, 1_999, ACCEPT)) is None
    assert driver.cursor.start == 2_000
    driver.cursor.trimmed(10_000)
    assert driver.cursor.start == driver.cursor.read == 10_000
    driver.feed(5)
    assert driver.poll() == list(range(10_000, 10_005))


def test_retention_takes_what_is_open_and_counts_it_for_good() -> None:
    driver = Driver(nack_delay_ms=60_000)
    driver.feed(20, delayed=[(12, WALL + 60_000)])
    assert driver.cursor.first_held(20) == (12, "DELAYED")
    driver.poll("a", 10)
    assert driver.cursor.first_held(20) == (0, "ACQUIRED")
    driver.acknowledge((0, 3, ACCEPT))
    driver.acknowledge((4, 4, RELEASE))
    assert driver.cursor.first_held(20) == (4, "BACKOFF")
    driver.acknowledge((5, 5, REJECT))
    driver.acknowledge((6, 9, ACCEPT))
    driver.pass_time(59_999)
    driver.cursor.dying(9)
    assert driver.cursor.first_held(20) == (4, "BACKOFF")
    assert driver.cursor.first_held(4) is None
    driver.pass_time(1)
    assert driver.cursor.first_held(20) == (5, "DYING")
    driver.cursor.buried([(5, 5)])
    assert driver.cursor.first_held(20) is None
    # 4, 10, 11 and 12
    assert driver.cursor.expire(13) == 4
    assert driver.cursor.expire(13) == 0
    assert driver.cursor.start == 13
    # what was not looked at counts one each
    assert driver.cursor.expire(25) == 12
    driver.crash()
    assert (driver.cursor.start, driver.cursor.stats()["expired"]) == (25, 16)


def test_trimming_into_what_is_acknowledged_goes_to_its_end() -> None:
    driver = Driver(max_locks=99_999)
    driver.feed(5_000)
    driver.poll()
    driver.acknowledge((1_024, 4_095, ACCEPT))
    driver.crash()
    driver.cursor.trimmed(2_000)
    assert driver.cursor.start == 4_096
    driver.commit()
    assert driver.stored(RowKind.ACK) == []


def test_skip_counts_open_records() -> None:
    driver = Driver()
    driver.feed(10)
    driver.poll()
    driver.say(ACCEPT, 2, 3)
    assert driver.cursor.skip(4, 20) == 4
    assert driver.cursor.start == 6
    assert driver.cursor.skip(7, 20) == 7
    assert driver.cursor.start == driver.cursor.read == 13
    assert driver.cursor.skip(100, 20) == 7


def test_the_nth_open_record_is_counted_over_gaps_full_chunks_and_what_was_not_looked_at() -> None:
    driver = Driver(max_locks=10_000)
    driver.feed(6_000)
    driver.poll()
    driver.say(ACCEPT, 1)
    # two chunks are full, and parts of two more
    driver.acknowledge((1_000, 4_500, ACCEPT))
    opened = [0, *range(2, 1_000), *range(4_501, 6_000)]
    look = driver.cursor.look
    assert [n for n in range(6_000) if look(n).state != "DONE"] == opened
    for number in (1, 2, 999, 1_000, len(opened)):
        assert driver.cursor.nth_open(number) == opened[number - 1]
    assert driver.cursor.nth_open(len(opened) + 1) == 6_000
    assert driver.cursor.nth_open(len(opened) + 70) == 6_069


def test_clear_settles_everything() -> None:
    driver = Driver(nack_delay_ms=50)
    driver.feed(10)
    driver.poll()
    driver.say(RELEASE, 1)
    driver.cursor.clear(30)
    assert driver.cursor.start == driver.cursor.read == 30
    driver.pass_time(50)
    driver.commit()
    assert [row.kind for row in driver.stored()] == [RowKind.CURSOR]


@pytest.mark.parametrize("settle", ["clear", "skip", "trim"])
def test_due_times_go_with_the_last_record_that_waited(settle: str) -> None:
    driver = Driver()
    driver.feed(3_000, delayed=[(at, WALL + 10**8 + at * 1_000) for at in range(1_000)])
    driver.commit()
    assert len(driver.stored(RowKind.DUE)) == 1_000
    driver.cursor.trimmed(500)
    driver.commit()
    assert driver.cursor.waiting == 500
    if settle == "clear":
        driver.cursor.clear(3_000)
    elif settle == "skip":
        driver.cursor.skip(600, 3_000)
    else:
        driver.cursor.trimmed(1_000)
    driver.feed(1, delayed=[])
    assert len(driver.commit()) < 10
    assert driver.stored(RowKind.DUE) == []
    assert driver.cursor.next_due(driver.now, driver.wall) == (None, None)
    driver.poll(limit=1)
    driver.say(RELEASE, driver.cursor.start)
    driver.crash()
    assert driver.stored(RowKind.DUE) == []


def test_due_times_of_what_is_settled_go_when_nothing_waits_any_more() -> None:
    driver = Driver()
    driver.feed(3, delayed=[(0, WALL + 10**8), (1, WALL + 10), (2, WALL + 20)])
    driver.commit()
    driver.cursor.trimmed(1)
    driver.pass_time(10)
    driver.crash()
    assert len(driver.stored(RowKind.DUE)) == 2
    driver.pass_time(10)
    driver.commit()
    assert driver.stored(RowKind.DUE) == []
    assert driver.poll() == [1, 2]


def test_due_times_that_nothing_waits_for_go_when_they_are_met_at_a_start() -> None:
    driver = Driver()
    driver.feed(2, delayed=[(0, WALL + 10**8)])
    driver.commit()
    driver.restart(log_start=1)
    driver.commit()
    assert driver.stored(RowKind.DUE) == []
    assert driver.cursor.needs_due is None


def test_a_seek_forgets_everything() -> None:
    driver = Driver(nack_delay_ms=50, max_locks=99_999)
    driver.feed(5_000)
    driver.poll()
    driver.acknowledge((1_000, 4_000, ACCEPT))
    driver.say(RELEASE, 5)
    driver.commit()
    driver.cursor.seek(3)
    driver.commit()
    assert [row.kind for row in driver.stored()] == [RowKind.CURSOR]
    assert driver.say(ACCEPT, 500) is Refusal.INVALID_REQUEST
    driver.feed(3)
    assert driver.cursor.poll("b", 9, 0, WALL) == [(3, 5, 0)]
    assert driver.say(ACCEPT, 4) is Refusal.INVALID_RECORD_STATE
    driver.crash()
    assert driver.cursor.start == 3


def test_other_limits_hold_from_now_on() -> None:
    driver = Driver(max_locks=1)
    driver.feed(3)
    assert driver.poll() == [0]
    driver.cursor.reconfigure(Driver(max_locks=2, lock_ms=5).config)
    assert driver.poll() == [1]
    assert driver.cursor.next_due(0, WALL) == (5, None)


def test_the_type_changes_only_while_nothing_is_held() -> None:
    driver = Driver()
    driver.feed(3)
    driver.poll("a", 2)
    keyed = Driver(type="key_shared").config
    with pytest.raises(ValueError, match="only while nobody holds"):
        driver.cursor.reconfigure(keyed)
    driver.say(ACCEPT, 1)
    driver.cursor.detach("a", Ending.STOPPED, 0, WALL)
    driver.cursor.reconfigure(keyed)
    driver.config = keyed
    driver.cursor.reassign(all_of("b"), 0)
    assert driver.cursor.read == 0
    driver.feed(3)
    assert driver.poll("b") == [0]
    assert driver.state(2) == ["BLOCKED"]
    driver.say(ACCEPT, 0, by="b")
    driver.cursor.reconfigure(Driver().config)
    assert driver.poll("b") == [2]


def test_what_is_settled_behind_the_first_that_is_not() -> None:
    driver = Driver()
    driver.feed(3_200)
    assert driver.cursor.settled(10) == []
    driver.poll("a", 2_000)
    # over the edge of a chunk, and up to what is not read
    driver.acknowledge((10, 19, ACCEPT))
    driver.acknowledge((1_000, 1_700, ACCEPT))
    driver.acknowledge((1_900, 1_999, ACCEPT))
    assert driver.cursor.settled(10) == [(10, 20), (1_000, 1_701), (1_900, 2_000)]
    assert driver.cursor.settled(2) == [(10, 20), (1_000, 1_701)]
    driver.acknowledge((0, 9, ACCEPT))
    assert driver.cursor.settled(10) == [(1_000, 1_701), (1_900, 2_000)]
