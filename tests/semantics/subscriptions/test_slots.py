"""Strict Key_Shared: what keeps a slot busy, what is held back behind it, and when it is free again."""

from __future__ import annotations

import pytest

from semantics.subscriptions.states import Batch, Draining, Ending, Reason
from tests.semantics.subscriptions.driving import (
    ACCEPT,
    HALVES,
    HIGH,
    LOW,
    REJECT,
    RELEASE,
    WALL,
    Driver,
    Owners,
    all_of,
    keyed,
    left_over,
)


def test_strict_has_one_of_a_key_in_hand() -> None:
    driver = keyed([LOW, LOW, LOW, LOW + 1])
    assert driver.poll("a") == [0, 3]
    assert driver.state(1, 2) == ["BLOCKED", "BLOCKED"]
    assert driver.cursor.look(1).reason == "a has a record of its slot"
    driver.say(ACCEPT, 0)
    assert driver.state(1, 2) == ["AVAILABLE", "AVAILABLE"]
    assert driver.poll("a") == [1]


def test_strict_holds_a_key_back_while_an_earlier_one_waits_after_a_nack() -> None:
    driver = keyed([LOW, LOW], nack_delay_ms=100)
    driver.poll("a")
    driver.say(RELEASE, 0)
    assert driver.poll("a") == []
    assert "nacked" in (driver.cursor.look(1).reason or "")
    driver.pass_time(100)
    assert driver.poll("a") == [0]
    driver.say(ACCEPT, 0)
    assert driver.poll("a") == [1]


def test_strict_holds_a_key_back_until_its_dead_are_buried() -> None:
    driver = keyed([LOW, LOW])
    driver.poll("a")
    driver.say(REJECT, 0)
    assert driver.poll("a") == []
    [dying] = driver.cursor.dying(9)
    driver.cursor.not_buried([(dying.first, dying.last)], "full", WALL + 50)
    assert driver.poll("a") == []
    driver.pass_time(50)
    driver.cursor.dying(9)
    driver.cursor.buried([(0, 0)])
    assert driver.poll("a") == [1]


def test_strict_lets_an_earlier_record_go_before_one_that_waits_behind_it() -> None:
    driver = keyed([], nack_delay_ms=1_000, delivery_limit=3)
    driver.feed(4, [LOW] * 4, delayed=[(0, WALL + 100), (1, WALL + 200)])
    assert driver.poll("a") == [2]
    driver.pass_time(100)
    assert driver.poll("a") == []
    driver.say(RELEASE, 2)
    assert driver.state(0, 2, 3) == ["AVAILABLE", "BACKOFF", "BLOCKED"]
    assert driver.poll("a") == [0]
    driver.say(RELEASE, 0)
    driver.pass_time(100)
    # 1 is behind 0, which waits now
    assert driver.poll("a") == []
    driver.pass_time(900)
    assert driver.poll("a") == [0]
    driver.say(ACCEPT, 0)
    assert driver.poll("a") == [1]
    driver.say(ACCEPT, 1)
    assert driver.poll("a") == [2]
    driver.say(ACCEPT, 2)
    assert driver.poll("a") == [3]


def test_strict_lets_an_earlier_record_go_before_a_dead_one_that_cannot_be_buried() -> None:
    driver = keyed([])
    driver.feed(3, [LOW] * 3, delayed=[(0, WALL + 100)])
    assert driver.poll("a") == [1]
    driver.say(REJECT, 1)
    driver.cursor.dying(9)
    driver.cursor.not_buried([(1, 1)], "full", WALL + 10**9)
    driver.pass_time(100)
    assert driver.poll("a") == [0]
    driver.say(ACCEPT, 0)
    assert driver.poll("a") == []
    driver.crash()
    driver.cursor.reassign(HALVES, driver.now)
    driver.feed(3, [LOW] * 3)
    assert driver.poll("a") == []
    driver.cursor.dying(9)
    driver.cursor.buried([(1, 1)])
    assert driver.poll("a") == [2]


@pytest.mark.parametrize("crash", [False, True])
def test_what_cannot_be_opened_has_no_key_and_holds_nobody_back(crash: bool) -> None:
    driver = keyed([])
    driver.cursor.feed([Batch(0, 3, None, dead=[(0, 2, Reason.CORRUPT)])], 0, WALL)
    driver.feed(2, [0, 0])
    if crash:
        driver.crash()
        driver.cursor.reassign(HALVES, driver.now)
        driver.cursor.feed([Batch(0, 3, None, dead=[(0, 2, Reason.CORRUPT)])], 0, WALL)
        driver.feed(2, [0, 0])
    driver.cursor.dying(2)
    driver.cursor.not_buried([(0, 1)], "full", WALL + 10**9)
    assert (driver.cursor.look(2).slot, driver.cursor.look(2).owner) == (None, None)
    assert driver.poll("a") == [3]
    driver.say(ACCEPT, 3)
    assert driver.poll("a") == [4]


def test_strict_waits_for_the_dead_of_a_batch_just_read() -> None:
    driver = keyed([])
    driver.feed(3, [LOW, LOW, LOW], dead=[(0, 1, Reason.MAX_DELIVERIES)])
    assert driver.poll("a") == []
    driver.cursor.dying(9)
    driver.cursor.buried([(0, 0)])
    assert driver.poll("a") == []
    driver.cursor.buried([(1, 1)])
    assert driver.poll("a") == [2]


def test_without_dead_letters_a_dropped_record_frees_its_key() -> None:
    driver = keyed([LOW, LOW], dead_letters=False)
    driver.poll("a")
    driver.say(REJECT, 0)
    assert driver.poll("a") == [1]


def test_what_a_crash_leaves_goes_before_what_waited_for_it() -> None:
    for strict in (True, False):
        driver = keyed([LOW, LOW, LOW], strict=strict)
        driver.poll("a", 1)
        driver.poll("a", 1)
        driver.cursor.detach("a", Ending.CRASHED, 1, WALL)
        driver.cursor.reassign(all_of("b"), 1)
        assert driver.poll("b", 1) == [0]
        driver.say(ACCEPT, 0, by="b")
        assert driver.poll("b", 1) == [1]


def test_a_delayed_record_goes_first_when_it_is_due_before_the_next_is_taken() -> None:
    driver = keyed([])
    driver.feed(4, [LOW] * 4, delayed=[(0, WALL + 100)])
    assert driver.poll("a") == [1]
    driver.pass_time(100)
    assert driver.poll("a") == []
    driver.say(RELEASE, 1)
    assert driver.poll("a") == [0]
    assert driver.state(1) == ["BLOCKED"]
    driver.say(ACCEPT, 0)
    assert driver.poll("a") == [1]


def test_a_trim_frees_the_slots_of_what_it_takes() -> None:
    driver = keyed([LOW, LOW, LOW, HIGH])
    driver.poll("a")
    driver.cursor.trimmed(2)
    assert driver.poll("a") == [2]
    assert driver.poll("b") == [3]


def test_each_reason_to_hold_a_key_back_has_its_sentence() -> None:
    driver = keyed([], nack_delay_ms=100)
    driver.feed(5, [LOW, LOW, HIGH, 40, 41], delayed=[(0, WALL + 50)])
    driver.cursor.reassign(Owners((0, 41, "a"), (42, 65_536, "b")), 0)
    assert driver.cursor.look(1).reason is None, "it may be taken"
    driver.pass_time(50)
    behind = driver.cursor.look(1)
    assert (behind.state, behind.reason) == ("AVAILABLE", "an earlier record of its slot goes first")
    assert driver.cursor.look(4).reason == "nobody owns its slot"
    driver.poll("a", 1)
    assert driver.cursor.look(1).reason == "a has a record of its slot"
    driver.say(RELEASE, 0)
    assert (
        driver.cursor.look(1).reason == "an earlier record of its slot was nacked or is to be dead-lettered"
    )


def test_a_key_that_several_have_records_of_is_free_when_all_of_them_are_settled() -> None:
    """From when that was allowed."""
    driver = keyed([LOW] * 4, allow_out_of_order=True)
    driver.poll("a", 1)
    driver.cursor.reassign(all_of("b"), 5)
    assert driver.poll("b", 1) == [1]
    driver.cursor.reconfigure(Driver(type="key_shared").config)
    assert driver.cursor.look(2).reason == "several have records of its slot"
    driver.say(ACCEPT, 1, by="b")
    assert driver.poll("b") == []
    assert driver.cursor.look(2).reason == "a has a record of its slot"
    driver.say(ACCEPT, 0)
    assert driver.cursor.draining() == []
    assert driver.poll("b") == [2]


@pytest.mark.parametrize("how", [ACCEPT, RELEASE, REJECT])
def test_when_nothing_is_open_nothing_is_said_of_any_slot(how: bytes) -> None:
    driver = keyed([LOW, LOW, HIGH], dead_letters=False, delivery_limit=2)
    while offsets := driver.poll("a"):
        driver.say(how, *offsets)
    while offsets := driver.poll("b"):
        driver.say(how, *offsets, by="b")
    assert driver.cursor.start == 3
    assert left_over(driver.cursor._records.keyed) == {}


def test_a_slot_drains_since_its_holder_lost_it_and_not_since_the_last_change() -> None:
    driver = keyed([LOW, HIGH])
    driver.poll("a")
    driver.poll("b")
    driver.cursor.reassign(all_of("b"), 10)
    driver.cursor.reassign(all_of("c"), 20)
    assert driver.cursor.draining() == [Draining(LOW, "a", "c", 10, 1), Draining(HIGH, "b", "c", 20, 1)]
    driver.cursor.reassign(HALVES, 30)
    assert driver.cursor.draining() == []
    driver.cursor.reassign(all_of("c"), 40)
    assert [each.since for each in driver.cursor.draining()] == [40, 40]
