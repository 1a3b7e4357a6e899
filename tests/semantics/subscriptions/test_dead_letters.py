"""What is to be buried: it is given once, by reason and count, and again when it could not be or nobody knows."""

from __future__ import annotations

from semantics.subscriptions.states import Dying, Reason
from tests.semantics.subscriptions.driving import REJECT, RELEASE, WALL, Driver


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
