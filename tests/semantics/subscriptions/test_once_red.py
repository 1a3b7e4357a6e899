"""What the model machines found, said in as few steps as it takes. A new one is put here before it is mended."""

from __future__ import annotations

from semantics.subscriptions.rows import RowKind
from tests.semantics.subscriptions.driving import WALL, Driver, Owners

HALVES = Owners((0, 32_768, "a"), (32_768, 65_536, "b"))


def test_due_times_of_what_was_skipped_before_they_were_mended_go() -> None:
    """The log lost its end, and all that waited was skipped before its due rows were looked through."""
    driver = Driver()
    driver.feed(20, delayed=[(5, WALL + 10_000_000)])
    driver.commit()
    driver.restart(log_end=10)
    driver.cursor.skip(1000, 10)
    driver.load_due()
    driver.commit()
    assert not driver.stored(RowKind.DUE)
    # and that it was mended is known after the next start
    driver.restart(log_end=10)
    assert driver.cursor.needs_due is None


def test_due_times_are_mended_once() -> None:
    """Nothing had to be taken out of them, so nothing else said that it was done."""
    driver = Driver()
    driver.feed(20, delayed=[(5, WALL + 10_000_000)])
    driver.crash(log_end=10)
    driver.commit()
    driver.restart(log_end=10)
    driver.cursor.feed([], driver.now, driver.wall)  # raises while the due rows are to be mended


def test_a_slot_that_has_most_of_what_others_left_behind_does_not_keep_the_look_ahead() -> None:
    """Its share of all was small while slot 1 was in it, and it was not looked at again."""
    driver = Driver(type="key_shared", lookahead=50)
    driver.cursor.reassign(HALVES, 0)
    driver.feed(4060, [1] * 4000 + [2] * 60)
    assert driver.poll("a") == [0, 4000]
    assert driver.cursor.wants_more("b")
    assert [each.slot for each in driver.cursor.deep()] == [1, 2]


def test_what_woke_waits_again_if_the_clock_is_set_back_and_the_gateway_dies() -> None:
    """Its waking is not stored while another waits, and its time is yet to come: neither lost nor given too early."""
    driver = Driver()
    driver.feed(20, delayed=[(5, WALL + 1000), (6, WALL + 5000)])
    driver.commit()
    driver.pass_time(1000)
    assert driver.state(5) == ["AVAILABLE"]
    driver.commit()
    driver.now = 300
    driver.crash()
    driver.pass_time(0)
    assert driver.state(5) == ["DELAYED"]
    driver.pass_time(699)
    assert driver.state(5) == ["DELAYED"]
    driver.pass_time(1)
    assert driver.state(5) == ["AVAILABLE"]
