"""The lines of cursor.py's table that wait, fail and die: what a record becomes, when, and its count."""

from __future__ import annotations

import pytest

from semantics.subscriptions.backoff import Backoff
from semantics.subscriptions.states import Dying, Ending, Reason
from tests.semantics.subscriptions.driving import (
    REJECT,
    RELEASE,
    RENEW,
    WALL,
    Driver,
)


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


def test_the_backoff_of_timeouts_is_not_that_of_nacks() -> None:
    driver = Driver(lock_ms=100, timeout_backoff=Backoff(50, 400), nack_delay_ms=9_999)
    driver.feed(1)
    driver.poll()
    driver.pass_time(100)
    assert driver.cursor.look(0).due == driver.wall + 50


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


def test_without_dead_letters_the_dead_are_dropped_and_counted() -> None:
    driver = Driver(dead_letters=False, delivery_limit=1)
    driver.feed(5, dead=[(4, 4, Reason.CORRUPT)])
    driver.poll()
    driver.say(RELEASE, 0)
    driver.say(REJECT, 1)
    assert driver.cursor.dying(9) == []
    assert driver.cursor.start == 2
    assert driver.cursor.stats()["dropped"] == 3
