"""Every line of the table at the top of cursor.py, and what is stored of it."""

from __future__ import annotations

import pytest

from semantics.subscriptions import due, rows
from semantics.subscriptions.backoff import Backoff
from semantics.subscriptions.cursor import DOUBT_MS
from semantics.subscriptions.rows import RowKind
from semantics.subscriptions.states import Batch, DueFrom, Dying, Ending, Reason, Refusal
from tests.semantics.subscriptions.driving import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    WALL,
    Driver,
    all_of,
)

# -- UNREAD --------------------------------------------------------------------------------------------------


def test_what_is_fed_can_be_polled_and_nothing_is_stored_of_it() -> None:
    driver = Driver(start=5)
    driver.commit()
    driver.feed(3)
    assert driver.state(4, 5, 8) == ["DONE", "AVAILABLE", "UNREAD"]
    assert driver.poll() == [5, 6, 7]
    assert driver.commit() == []


def test_a_new_subscription_says_at_once_where_it_begins() -> None:
    driver = Driver(start=77)
    assert [row.kind for row in driver.commit()] == [RowKind.CURSOR]
    driver.restart()
    assert (driver.cursor.start, driver.cursor.read) == (77, 77)


def test_delayed_records_wait_for_their_time_and_not_a_ms_less() -> None:
    driver = Driver()
    driver.feed(4, delayed=[(1, WALL + 500), (3, WALL + 200)])
    assert driver.poll() == [0, 2]
    assert driver.state(1, 3) == ["DELAYED", "DELAYED"]
    assert driver.cursor.next_due(0, WALL) == (30_000, WALL + 200)
    driver.pass_time(199)
    assert driver.poll() == []
    driver.pass_time(1)
    assert driver.poll() == [3]
    driver.pass_time(300)
    assert driver.poll() == [1]


def test_delays_that_are_not_strict_may_be_a_tick_early() -> None:
    driver = Driver(strict_delay=False)
    driver.feed(2, delayed=[(0, WALL + 900), (1, WALL + 1_500)])
    assert driver.poll() == [0]
    driver.pass_time(500)
    assert driver.poll() == [1]


def test_what_is_due_already_is_no_delay() -> None:
    driver = Driver()
    driver.feed(2, delayed=[(0, WALL), (1, WALL + 1)])
    assert driver.poll() == [0]


def test_gaps_and_skipped_batches_are_done() -> None:
    driver = Driver()
    driver.cursor.feed([Batch(2, 4), Batch(4, 6, skip=True), Batch(8, 9)], 0, WALL)
    assert driver.poll() == [2, 3, 8]
    assert driver.cursor.start == 2
    driver.acknowledge((2, 3, ACCEPT), (8, 8, ACCEPT))
    assert driver.cursor.start == driver.cursor.read == 9


def test_a_batch_that_begins_below_read_is_clipped() -> None:
    driver = Driver(start=10)
    driver.cursor.feed([Batch(0, 20)], 0, WALL)
    assert driver.poll() == list(range(10, 20))
    driver.cursor.feed([Batch(15, 22)], 0, WALL)
    assert driver.poll() == [20, 21]


def test_what_is_dead_when_it_is_read_is_to_be_buried() -> None:
    driver = Driver()
    driver.feed(5, dead=[(1, 2, Reason.CORRUPT)])
    assert driver.poll() == [0, 3, 4]
    assert driver.cursor.dying(10) == [Dying(1, 2, 0, Reason.CORRUPT)]


# -- ACQUIRED ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ACCEPT, GAP])
def test_accepted_is_done_and_stays_so(kind: bytes) -> None:
    driver = Driver()
    driver.feed(10)
    driver.poll()
    assert driver.acknowledge((0, 3, kind), (6, 6, kind)) is None
    assert driver.cursor.start == 4
    assert driver.cursor.acquired == 5
    driver.crash()
    assert driver.cursor.start == 4
    assert driver.poll() == [4, 5, 7, 8, 9]


def test_plain_acknowledgements_in_order_cost_one_row() -> None:
    driver = Driver()
    for _ in range(20):
        driver.feed(500)
        offsets = driver.poll()
        driver.acknowledge((offsets[0], offsets[-1], ACCEPT))
        assert [row.kind for row in driver.commit()] == [RowKind.CURSOR]


def test_a_nack_comes_back_at_once_with_its_count() -> None:
    driver = Driver()
    driver.feed(3)
    driver.poll()
    driver.say(RELEASE, 1)
    assert driver.cursor.poll("b", 10, 0, WALL) == [(1, 1, 1)]
    assert driver.cursor.look(1).consumer == "b"
    driver.crash()
    assert driver.count(0, 1, 2) == [0, 1, 0]


def test_a_nack_with_a_delay_waits() -> None:
    driver = Driver(nack_delay_ms=60_000)
    driver.feed(1)
    driver.poll()
    driver.say(RELEASE, 0)
    seen = driver.cursor.look(0)
    assert (seen.state, seen.due, seen.count) == ("BACKOFF", WALL + 60_000, 1)
    driver.crash()
    assert driver.cursor.look(0) == seen
    driver.pass_time(59_999)
    assert driver.poll() == []
    driver.pass_time(1)
    assert driver.poll() == [0]


def test_backoff_grows_by_count_and_wins_over_the_delay() -> None:
    driver = Driver(nack_backoff=Backoff(1_000, 4_000), nack_delay_ms=7, delivery_limit=0)
    driver.feed(1)
    waited = []
    for _ in range(4):
        driver.poll()
        driver.say(RELEASE, 0)
        due = driver.cursor.look(0).due
        assert due is not None
        waited.append(due - driver.wall)
        driver.pass_time(due - driver.wall)
    assert waited == [1_000, 2_000, 4_000, 4_000]


def test_a_lock_that_ran_out_counts_and_comes_back() -> None:
    driver = Driver(lock_ms=100)
    driver.feed(3)
    driver.poll()
    driver.say(ACCEPT, 1)
    driver.pass_time(99)
    assert driver.state(0, 2) == ["ACQUIRED", "ACQUIRED"]
    driver.pass_time(1)
    assert driver.cursor.poll("b", 10, driver.now, driver.wall) == [(0, 0, 1), (2, 2, 1)]
    assert driver.say(ACCEPT, 0) is Refusal.INVALID_RECORD_STATE


def test_the_backoff_of_timeouts_is_not_that_of_nacks() -> None:
    driver = Driver(lock_ms=100, timeout_backoff=Backoff(50, 400), nack_delay_ms=9_999)
    driver.feed(1)
    driver.poll()
    driver.pass_time(100)
    assert driver.cursor.look(0).due == driver.wall + 50


def test_a_crash_counts_and_waits_for_nothing() -> None:
    driver = Driver(timeout_backoff=Backoff(50, 400), nack_delay_ms=9_999)
    driver.feed(2)
    driver.poll()
    driver.cursor.detach("a", Ending.CRASHED, 0, WALL)
    assert driver.cursor.poll("b", 10, 0, WALL) == [(0, 1, 1)]


@pytest.mark.parametrize(
    ("ending", "counted", "count"),
    [
        (Ending.LEFT, True, 1),
        (Ending.LEFT, False, 0),
        (Ending.CRASHED, False, 1),
        (Ending.STOPPED, True, 0),
    ],
)
def test_how_a_session_ends_says_whether_that_was_a_delivery(
    ending: Ending, counted: bool, count: int
) -> None:
    driver = Driver(leave_counts=counted)
    driver.feed(4)
    assert driver.poll("a", 2) == [0, 1]
    assert driver.poll("b", 2) == [2, 3]
    driver.cursor.detach("a", ending, 0, WALL)
    assert driver.cursor.poll("b", 10, 0, WALL) == [(0, 1, count)]
    assert driver.cursor.holding() == {"b": 4}


def test_what_may_have_been_lost_on_its_way_is_not_locked_for_ever() -> None:
    driver = Driver(lock_ms=10**9)
    driver.feed(3)
    driver.poll("a", 1)
    driver.pass_time(DOUBT_MS)
    driver.poll("a", 1)
    driver.pass_time(10)
    driver.cursor.in_doubt("a", driver.now)
    driver.pass_time(DOUBT_MS - 1)
    assert driver.state(0, 1) == ["ACQUIRED"] * 2
    driver.pass_time(1)
    assert driver.state(0, 1) == ["ACQUIRED", "AVAILABLE"], "what it was given before came"
    assert driver.count(1) == [1]


def test_a_lock_that_ends_soon_anyway_stays_as_it_is() -> None:
    driver = Driver(lock_ms=DOUBT_MS)
    driver.feed(1)
    driver.poll("a", 1)
    driver.pass_time(10)
    driver.cursor.in_doubt("a", driver.now)
    driver.cursor.in_doubt("nobody", driver.now)
    assert driver.cursor.next_due(driver.now, driver.wall)[0] == DOUBT_MS


def test_a_lock_begins_when_its_answer_leaves() -> None:
    driver = Driver(lock_ms=1000)
    driver.feed(4)
    driver.poll("a", 1)
    driver.pass_time(100)
    driver.poll("a", 2)
    driver.poll("b", 1)
    driver.cursor.withhold("a", (1, 2))
    driver.cursor.withhold("a", (3,))
    driver.cursor.withhold("nobody", (1,))
    driver.cursor.in_doubt("a", driver.now)
    driver.pass_time(5000)
    assert driver.state(0, 1, 2, 3) == ["AVAILABLE", "ACQUIRED", "ACQUIRED", "AVAILABLE"], (
        "others' locks run on"
    )
    assert driver.cursor.look(1).deadline is None
    assert driver.cursor.next_due(driver.now, driver.wall) == (None, None)
    driver.cursor.sent("nobody", driver.now)
    driver.cursor.sent("a", driver.now)
    assert driver.cursor.next_due(driver.now, driver.wall) == (driver.now + 1000, None)
    driver.pass_time(999)
    assert driver.state(1, 2) == ["ACQUIRED"] * 2
    driver.pass_time(1)
    assert driver.state(1, 2) == ["AVAILABLE"] * 2
    assert driver.count(1, 2) == [1, 1]


def test_a_lock_that_ran_out_before_its_answer_waits_stays_so() -> None:
    driver = Driver(lock_ms=1000)
    driver.feed(1)
    driver.poll("a", 1)
    driver.pass_time(1000)
    driver.cursor.withhold("a", (0,))
    driver.cursor.sent("a", driver.now)
    assert driver.state(0) == ["AVAILABLE"]


def test_what_could_not_be_sent_was_never_taken() -> None:
    driver = Driver()
    driver.feed(6)
    driver.poll("a", 4)
    driver.poll("b", 2)
    driver.cursor.give_back("a", [(2, 5)], 0)
    assert driver.state(1, 2, 3, 4) == ["ACQUIRED", "AVAILABLE", "AVAILABLE", "ACQUIRED"]
    assert driver.cursor.poll("a", 10, 0, WALL) == [(2, 3, 0)]
    assert driver.cursor.stats()["delivered"] == 6


@pytest.mark.parametrize("end", ["nack", "timeout", "crash"])
def test_n_deliveries_and_then_a_dead_letter(end: str) -> None:
    driver = Driver(delivery_limit=3, lock_ms=100)
    driver.feed(1)
    for delivery in range(3):
        assert driver.cursor.poll("a", 1, driver.now, driver.wall) == [(0, 0, delivery)]
        if end == "nack":
            driver.say(RELEASE, 0)
        elif end == "timeout":
            driver.pass_time(100)
        else:
            driver.cursor.detach("a", Ending.CRASHED, driver.now, driver.wall)
            driver.attach("a")
    assert driver.poll() == []
    assert driver.cursor.dying(10) == [Dying(0, 0, 3, Reason.MAX_DELIVERIES)]
    driver.cursor.buried([(0, 0)])
    assert driver.cursor.start == 1
    assert driver.cursor.dying(10) == []


@pytest.mark.parametrize("how", ["nack", "crash", "timeout"])
def test_records_that_fail_together_die_each_by_its_own_count(how: str) -> None:
    driver = Driver(delivery_limit=2, lock_ms=100)
    driver.feed(4)
    driver.poll()
    driver.say(RELEASE, 0, 2)
    driver.cursor.give_back("a", [(1, 1), (3, 3)], driver.now)
    assert driver.poll() == [0, 1, 2, 3]
    if how == "nack":
        driver.acknowledge((0, 3, RELEASE))
    elif how == "crash":
        driver.cursor.detach("a", Ending.CRASHED, driver.now, driver.wall)
    else:
        driver.pass_time(100)
    assert driver.state(0, 1, 2, 3) == ["DYING", "AVAILABLE", "DYING", "AVAILABLE"]
    assert driver.count(0, 1, 2, 3) == [2, 1, 2, 1]


def test_no_limit_means_no_dead_letters_and_counts_beyond_a_byte() -> None:
    driver = Driver(delivery_limit=0)
    driver.feed(3)
    for _ in range(300):
        driver.poll()
        driver.say(RELEASE, 1)
    assert driver.cursor.poll("a", 10, 0, WALL) == [(1, 1, 300)]
    driver.crash()
    assert driver.count(0, 1, 2) == [0, 300, 0]


def test_what_was_in_hand_when_the_process_died_is_not_counted() -> None:
    driver = Driver(delivery_limit=2)
    driver.feed(1)
    driver.poll()
    driver.say(RELEASE, 0)
    for _ in range(5):
        assert driver.cursor.poll("a", 1, driver.now, driver.wall) == [(0, 0, 1)]
        driver.crash()
    driver.poll()
    driver.say(RELEASE, 0)
    assert driver.cursor.dying(1) == [Dying(0, 0, 2, Reason.MAX_DELIVERIES)]


def test_rejected_dies_at_once() -> None:
    driver = Driver()
    driver.feed(3)
    driver.poll()
    driver.say(REJECT, 1)
    driver.crash()
    assert driver.state(1) == ["DYING"]
    assert driver.cursor.look(1).reason == "REJECTED"
    assert driver.poll() == [0, 2]
    assert driver.cursor.dying(10) == [Dying(1, 1, 1, Reason.REJECTED)]


def test_a_renewed_lock_runs_out_later() -> None:
    driver = Driver(lock_ms=100)
    driver.feed(4)
    driver.poll()
    driver.pass_time(60)
    assert driver.acknowledge((1, 2, RENEW)) is None
    assert driver.cursor.look(1).deadline == 160
    driver.pass_time(40)
    assert driver.state(0, 1, 2, 3) == ["AVAILABLE", "ACQUIRED", "ACQUIRED", "AVAILABLE"]
    assert driver.say(RENEW, 1) is None
    driver.pass_time(60)
    assert driver.state(1, 2) == ["ACQUIRED", "AVAILABLE"]
    driver.pass_time(40)
    assert driver.state(1) == ["AVAILABLE"]


# -- DYING ---------------------------------------------------------------------------------------------------


def test_dying_are_given_once_and_come_again_when_they_could_not_be_buried() -> None:
    driver = Driver()
    driver.feed(6)
    driver.poll()
    driver.acknowledge((1, 4, REJECT))
    assert driver.cursor.dying(3) == [Dying(1, 3, 1, Reason.REJECTED)]
    assert driver.cursor.dying(3) == [Dying(4, 4, 1, Reason.REJECTED)]
    driver.cursor.buried([(1, 1)])
    driver.cursor.not_buried([(2, 4)], "the topic is full", WALL + 1_000)
    seen = driver.cursor.look(3)
    assert (seen.state, seen.reason, seen.due, seen.count) == (
        "BACKOFF",
        "the topic is full",
        WALL + 1_000,
        1,
    )
    assert driver.cursor.next_due(0, WALL)[1] == WALL + 1_000
    assert driver.cursor.dying(9) == []
    driver.pass_time(1_000)
    assert driver.cursor.dying(9) == [Dying(2, 4, 1, Reason.REJECTED)]


def test_dying_tells_reasons_and_counts_apart() -> None:
    driver = Driver(delivery_limit=2)
    driver.feed(6, dead=[(5, 5, Reason.CORRUPT)])
    driver.poll()
    driver.say(RELEASE, 2, 3)
    driver.poll()
    driver.say(REJECT, 1, 2)
    driver.say(RELEASE, 3)
    driver.say(REJECT, 4)
    assert driver.cursor.dying(9) == [
        Dying(1, 1, 1, Reason.REJECTED),
        Dying(2, 2, 2, Reason.REJECTED),
        Dying(3, 3, 2, Reason.MAX_DELIVERIES),
        Dying(4, 4, 1, Reason.REJECTED),
        Dying(5, 5, 0, Reason.CORRUPT),
    ]


def test_what_was_being_buried_when_the_process_died_is_given_again() -> None:
    driver = Driver()
    driver.feed(2)
    driver.poll()
    driver.say(REJECT, 0)
    driver.commit()
    driver.cursor.dying(1)
    driver.cursor.buried([(0, 0)])
    driver.restart()
    assert driver.cursor.dying(9) == [Dying(0, 0, 1, Reason.REJECTED)]


def test_without_dead_letters_the_dead_are_dropped_and_counted() -> None:
    driver = Driver(dead_letters=False, delivery_limit=1)
    driver.feed(5, dead=[(4, 4, Reason.CORRUPT)])
    driver.poll()
    driver.say(RELEASE, 0)
    driver.say(REJECT, 1)
    assert driver.cursor.dying(9) == []
    assert driver.cursor.start == 2
    assert driver.cursor.stats()["dropped"] == 3


def test_a_whole_chunk_of_delayed_that_are_dropped_as_dead_keeps_nothing_up() -> None:
    """Retry letters that came too often, with a delay each, where nobody wants dead letters."""
    driver = Driver(dead_letters=False)
    delayed = [(at, WALL + 5_000) for at in range(1024)]
    driver.feed(1024, delayed=delayed, dead=[(0, 1023, Reason.MAX_DELIVERIES)])
    assert driver.cursor.start == 1024
    driver.feed(10)
    driver.say(ACCEPT, *driver.poll())
    assert driver.cursor.start == 1034
    driver.commit()
    assert driver.stored(RowKind.COUNT, RowKind.DUE) == []


# -- order and limits ----------------------------------------------------------------------------------------


def test_redelivery_goes_before_what_was_never_delivered() -> None:
    driver = Driver()
    driver.feed(4)
    driver.poll("a", 2)
    driver.say(RELEASE, 1)
    assert driver.poll("b", 2) == [1, 2]


def test_locks_limit_a_count_and_not_a_span() -> None:
    driver = Driver(max_locks=3)
    driver.feed(5_000)
    assert driver.poll() == [0, 1, 2]
    assert driver.poll("b") == []
    driver.say(ACCEPT, 1, 2)
    assert driver.poll("b") == [3, 4]
    for offset in range(3, 4_000, 2):
        assert driver.say(ACCEPT, offset, offset + 1, by="b") is None
        driver.poll("b")
    assert driver.state(0) == ["ACQUIRED"]
    assert not driver.cursor.wants_more("a")
    assert not driver.cursor.can_serve("a", 10_000)


def test_when_more_is_wanted() -> None:
    driver = Driver()
    assert driver.cursor.wants_more("a")
    assert not driver.cursor.can_serve("a", 0)
    assert driver.cursor.can_serve("a", 1)
    driver.feed(2)
    assert not driver.cursor.wants_more("a")
    driver.poll()
    assert driver.cursor.wants_more("a")
    assert not driver.cursor.can_serve("a", 2)
    driver.say(RELEASE, 0)
    assert driver.cursor.can_serve("a", 2)


def test_ranges_run_over_the_edges_of_chunks() -> None:
    driver = Driver(start=1000, max_locks=9_999)
    driver.feed(3_000)
    assert driver.cursor.poll("a", 2_500, 0, WALL) == [(1000, 3499, 0)]
    assert driver.acknowledge((1000, 3_499, ACCEPT)) is None
    assert driver.cursor.start == 3_500
    assert driver.cursor.available == 500


# -- administration ------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("said", "expected"), [(RELEASE, "BACKOFF"), (REJECT, "DYING")])
def test_rows_say_what_a_cursor_that_is_not_loaded_holds(said: bytes, expected: str) -> None:
    driver = Driver(nack_delay_ms=60_000, max_locks=9_999)
    driver.feed(3_000, delayed=[(2_500, WALL + 60_000)])
    driver.poll("a", 2_400)
    driver.acknowledge((1_100, 1_110, ACCEPT))
    driver.acknowledge((1_500, 1_500, said))
    driver.commit()
    found = {rows.read_number(row.key): row.value for row in driver.stored(RowKind.COUNT)}
    assert sorted(found) == [1, 2]
    assert rows.first_held(1, found[1] or b"", 0, 3_000) == (1_500, expected)
    assert rows.first_held(1, found[1] or b"", 1_501, 3_000) is None
    assert rows.first_held(1, found[1] or b"", 0, 1_500) is None
    assert rows.first_held(2, found[2] or b"", 0, 3_000) == (2_500, "DELAYED")
    assert rows.first_held(2, b"", 0, 3_000) is None


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


def test_stats_count_what_happened() -> None:
    driver = Driver(lock_ms=100, nack_delay_ms=50)
    driver.feed(6, delayed=[(5, WALL + 9_999)])
    driver.poll()
    driver.say(ACCEPT, 0)
    driver.say(RELEASE, 1)
    driver.say(REJECT, 2)
    driver.cursor.dying(1)
    driver.cursor.buried([(2, 2)])
    stats = driver.cursor.stats()
    assert {
        "start": 1, "read": 6, "available": 0, "acquired": 2, "delayed": 1, "backoff": 1, "dying": 0, "open": 4,
        "delivered": 5, "acknowledged": 1, "nacked": 1, "rejected": 1, "buried": 1, "timed_out": 0,
    }.items() <= stats.items()  # fmt: skip
    driver.pass_time(100)
    driver.poll()
    assert driver.cursor.stats()["timed_out"] == 2
    assert driver.cursor.stats()["redelivered"] == 3


@pytest.mark.parametrize("before", [1, 300])
def test_stats_count_what_failed_and_can_be_had_again(before: int) -> None:
    driver = Driver(delivery_limit=0)
    driver.feed(3_000)
    for _ in range(before):
        driver.poll(limit=1)
        driver.say(RELEASE, 0)
    driver.poll()
    assert driver.cursor.stats()["redelivering"] == 0
    driver.say(RELEASE, 0, 5, 1_500, 1_501)
    driver.cursor.give_back("a", [(10, 20)], driver.now)
    driver.say(REJECT, 7)
    assert driver.cursor.stats()["redelivering"] == 4
    driver.crash()
    assert driver.cursor.stats()["redelivering"] == 4
    driver.poll(limit=2)
    driver.say(ACCEPT, 0)
    assert driver.cursor.stats()["redelivering"] == 3


def test_needs_due_asks_where_memory_ends() -> None:
    driver = Driver()
    driver.feed(1, delayed=[(0, WALL + 10)])
    assert driver.cursor.needs_due is None
    driver.commit()
    driver.restart()
    wanted = driver.cursor.needs_due
    assert isinstance(wanted, DueFrom)
    assert wanted.key == bytes(16)


def test_a_consumer_holds_no_more_than_its_queue() -> None:
    driver = Driver(receiver_queue=3)
    driver.feed(10)
    assert driver.poll("a") == [0, 1, 2]
    assert not driver.cursor.can_serve("a", 10)
    assert not driver.cursor.wants_more("a")
    assert driver.poll("a") == []
    assert driver.poll("b", 2) == [3, 4]
    assert driver.say(b"\1", 0, 1) is None
    assert driver.cursor.can_serve("a", 10)
    assert driver.poll("a") == [5, 6]
    driver.cursor.give_back("a", [(6, 6)], 0)
    assert driver.poll("a", 1) == [6]


def test_a_fair_share_is_what_makes_all_have_as_many() -> None:
    driver = Driver()
    driver.feed(90)
    assert driver.cursor.fair_share("a", 3, 300) == 100
    driver.poll("a", 80)
    assert driver.cursor.fair_share("a", 3, 300) == 20
    assert driver.cursor.fair_share("b", 3, 300) == 100
    assert driver.cursor.fair_share("a", 3, 90) == 1, "never nothing"
    assert driver.cursor.fair_share("b", 1, 90) == 90


def test_half_of_the_locks_is_for_those_that_hold_less_than_their_part_of_it() -> None:
    driver = Driver(max_locks=120)
    driver.feed(200)
    # a part is 20
    assert driver.cursor.lock_share("a", ["b"], 1) == 80
    driver.poll("a", 80)
    assert driver.cursor.lock_share("a", ["b"], 1) == 1, "never nothing"
    assert driver.cursor.lock_share("b", ["a"], 1) == 20
    driver.poll("b", 15)
    assert driver.cursor.lock_share("b", ["a"], 1) == 5
    assert driver.cursor.lock_share("a", ["b"], 0) == 10, "of which 30 are a part"
    driver.poll("b", 15)
    assert driver.cursor.lock_share("a", ["a", "b"], 0) == 10, "it has its part"


def test_what_woke_is_written_for_the_sake_of_many_bundles_that_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody takes what wakes, so no chunk is written on its own account: the rows of due times must not pile up."""
    monkeypatch.setattr(due, "LINGERING", 10)
    driver = Driver()
    driver.feed(1_000, delayed=[(at, WALL + 256 * (at + 1)) for at in range(999)])
    driver.commit()
    assert len(driver.stored(RowKind.DUE)) == 999
    for _ in range(90):
        driver.pass_time(2_560)
        driver.commit()
    assert driver.cursor.waiting > 0
    assert len(driver.stored(RowKind.DUE)) <= 999 - 900 + 11
    driver.restart()
    driver.load_due()
    assert driver.cursor.available >= 900 - 11
