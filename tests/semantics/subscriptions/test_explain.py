"""Why a message does not arrive: what is told of a record in each of its states, with what it waits for."""

from __future__ import annotations

from array import array

import pytest

from semantics.subscriptions.states import Batch, Reason, RecordState
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
    keyed,
)


def test_what_is_settled_and_what_was_not_looked_at() -> None:
    driver = Driver(start=10)
    driver.feed(3)
    driver.poll()
    driver.say(ACCEPT, 11)
    assert driver.cursor.look(9) == RecordState(9, "DONE")
    assert driver.cursor.look(11) == RecordState(11, "DONE"), "between open ones"
    assert driver.cursor.look(13) == RecordState(13, "UNREAD", reason="the dispatcher has not come to it")


def test_a_settled_record_in_a_chunk_that_is_settled_whole() -> None:
    driver = Driver(max_locks=9_999)
    driver.feed(3_000)
    driver.poll()
    driver.acknowledge((1_000, 2_500, ACCEPT))
    assert driver.cursor.look(1_500) == RecordState(1_500, "DONE")
    assert driver.cursor.look(2_501).state == "ACQUIRED"


def test_of_what_is_in_hand_who_has_it_and_until_when() -> None:
    driver = Driver(lock_ms=100)
    driver.feed(2)
    driver.poll("a")
    driver.say(RELEASE, 1)
    driver.pass_time(30)
    driver.poll("b")
    assert driver.cursor.look(0) == RecordState(0, "ACQUIRED", 0, "a", 100)
    assert driver.cursor.look(1) == RecordState(1, "ACQUIRED", 1, "b", 130)
    driver.cursor.withhold("b", driver.now)
    assert driver.cursor.look(1) == RecordState(1, "ACQUIRED", 1, "b"), "its lock has not begun"


def test_what_waits_for_its_time_says_when() -> None:
    driver = Driver(nack_delay_ms=500)
    driver.feed(2, delayed=[(1, WALL + 700)])
    driver.poll()
    driver.say(RELEASE, 0)
    assert driver.cursor.look(0) == RecordState(0, "BACKOFF", 1, due=WALL + 500)
    assert driver.cursor.look(1) == RecordState(1, "DELAYED", 0, due=WALL + 700)
    driver.pass_time(700)
    assert driver.cursor.look(0) == RecordState(0, "AVAILABLE", 1)
    assert driver.cursor.look(1) == RecordState(1, "AVAILABLE", 0)


@pytest.mark.parametrize("reason", [Reason.MAX_DELIVERIES, Reason.CORRUPT])
def test_what_is_to_be_a_dead_letter_says_why_and_when_it_is_tried_again(reason: Reason) -> None:
    driver = Driver()
    driver.feed(2, dead=[(0, 1, reason)])
    assert driver.cursor.look(0) == RecordState(0, "DYING", 0, reason=str(reason))
    driver.cursor.dying(9)
    assert driver.cursor.look(1) == RecordState(1, "DYING", 0, reason=str(reason)), "it is being buried"
    driver.cursor.not_buried([(1, 1)], "the topic is full", WALL + 10)
    assert driver.cursor.look(1) == RecordState(1, "BACKOFF", 0, due=WALL + 10, reason="the topic is full")
    assert driver.cursor.look(0).state == "DYING", "the other is not put off"


# -- Key_Shared ----------------------------------------------------------------------------------------------


def test_of_a_key_whose_slot_it_has_and_who_owns_that() -> None:
    driver = keyed([LOW, HIGH, HIGH])
    assert driver.cursor.look(0) == RecordState(0, "AVAILABLE", 0, slot=LOW, owner="a")
    driver.poll("b")
    assert driver.cursor.look(1) == RecordState(1, "ACQUIRED", 0, "b", 30_000, slot=HIGH, owner="b")
    assert driver.cursor.look(2) == RecordState(
        2, "BLOCKED", 0, "b", slot=HIGH, owner="b", reason="b has a record of its slot"
    )


def test_who_has_a_key_is_told_apart_from_who_owns_it() -> None:
    driver = keyed([LOW, LOW])
    driver.poll("a", 1)
    driver.cursor.reassign(Owners((0, 65_536, "b")), 0)
    found = driver.cursor.look(1)
    assert (found.consumer, found.owner) == ("a", "b")


def test_what_cannot_be_opened_has_no_slot_though_the_plane_says_some() -> None:
    driver = keyed([])
    slots = array("H", [LOW, LOW])
    driver.cursor.feed([Batch(0, 2, slots, dead=[(0, 0, Reason.CORRUPT)])], 0, WALL)
    assert driver.cursor.look(0) == RecordState(0, "DYING", 0, reason="CORRUPT")
    assert driver.cursor.look(1) == RecordState(1, "AVAILABLE", 0, slot=LOW, owner="a")


def test_after_a_start_the_slot_of_what_came_before_is_not_known_until_it_is_read_again() -> None:
    driver = keyed([LOW, LOW + 1])
    driver.poll("a")
    driver.say(ACCEPT, 1)
    driver.crash()
    driver.cursor.reassign(HALVES, driver.now)
    assert driver.cursor.look(0) == RecordState(0, "BLOCKED", 0, reason="its slot is not read yet")
    driver.feed(2, [LOW, LOW + 1])
    assert driver.cursor.look(0) == RecordState(0, "AVAILABLE", 0, slot=LOW, owner="a")


def test_a_rejected_record_keeps_its_slot() -> None:
    driver = keyed([LOW])
    driver.poll("a")
    driver.say(REJECT, 0)
    assert driver.cursor.look(0) == RecordState(0, "DYING", 1, slot=LOW, owner="a", reason="REJECTED")
