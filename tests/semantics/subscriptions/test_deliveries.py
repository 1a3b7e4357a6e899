"""What a consumer is given, how much of it and for how long, and what comes back from it."""

from __future__ import annotations

import pytest

from semantics.subscriptions.backoff import Backoff
from semantics.subscriptions.deliveries import DOUBT_MS
from semantics.subscriptions.states import Ending, Refusal
from tests.semantics.subscriptions.driving import ACCEPT, RELEASE, WALL, Driver


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
    driver.cursor.withhold("a", driver.now)
    driver.cursor.withhold("nobody", 0)
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
    driver.cursor.withhold("a", 0)
    driver.cursor.sent("a", driver.now)
    assert driver.state(0) == ["AVAILABLE"]


def test_of_an_answer_that_waits_no_poll_is_left_out() -> None:
    driver = Driver(lock_ms=1000)
    driver.feed(5)
    driver.poll("a", 1)
    driver.pass_time(50)
    begun = driver.now
    for _ in range(3):
        driver.poll("a", 1)
        driver.pass_time(10)
    driver.cursor.withhold("a", begun)
    driver.pass_time(5000)
    assert driver.state(0, 1, 2, 3) == ["AVAILABLE", "ACQUIRED", "ACQUIRED", "ACQUIRED"]


def test_what_could_not_be_sent_was_never_taken() -> None:
    driver = Driver()
    driver.feed(6)
    driver.poll("a", 4)
    driver.poll("b", 2)
    driver.cursor.give_back("a", [(2, 5)], 0)
    assert driver.state(1, 2, 3, 4) == ["ACQUIRED", "AVAILABLE", "AVAILABLE", "ACQUIRED"]
    assert driver.cursor.poll("a", 10, 0, WALL) == [(2, 3, 0)]
    assert driver.cursor.stats()["delivered"] == 6
