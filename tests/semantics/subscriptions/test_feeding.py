"""What the dispatcher is told of batches: what there is of them, when it is due, and what is dead already."""

from __future__ import annotations

from semantics.subscriptions.rows import RowKind
from semantics.subscriptions.states import Batch, Dying, Reason
from tests.semantics.subscriptions.driving import ACCEPT, WALL, Driver


def test_what_is_fed_can_be_polled_and_nothing_is_stored_of_it() -> None:
    driver = Driver(start=5)
    driver.commit()
    driver.feed(3)
    assert driver.state(4, 5, 8) == ["DONE", "AVAILABLE", "UNREAD"]
    assert driver.poll() == [5, 6, 7]
    assert driver.commit() == []


def test_a_batch_that_begins_below_read_is_clipped() -> None:
    driver = Driver(start=10)
    driver.cursor.feed([Batch(0, 20)], 0, WALL)
    assert driver.poll() == list(range(10, 20))
    driver.cursor.feed([Batch(15, 22)], 0, WALL)
    assert driver.poll() == [20, 21]


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


def test_what_is_dead_when_it_is_read_is_to_be_buried() -> None:
    driver = Driver()
    driver.feed(5, dead=[(1, 2, Reason.CORRUPT)])
    assert driver.poll() == [0, 3, 4]
    assert driver.cursor.dying(10) == [Dying(1, 2, 0, Reason.CORRUPT)]


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
