"""The commands of a cursor, and what is stored of them. What waits, fails and dies: test_moves.py."""

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
    WALL,
    Driver,
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


def test_a_batch_that_begins_below_read_is_clipped() -> None:
    driver = Driver(start=10)
    driver.cursor.feed([Batch(0, 20)], 0, WALL)
    assert driver.poll() == list(range(10, 20))
    driver.cursor.feed([Batch(15, 22)], 0, WALL)
    assert driver.poll() == [20, 21]


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


# -- rows and figures ----------------------------------------------------------------------------------------


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
