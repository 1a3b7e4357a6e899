"""What the model machines found, said in as few steps as it takes. A new one is put here before it is mended."""

from __future__ import annotations

from semantics.subscriptions.rows import RowKind
from tests.semantics.subscriptions.driving import WALL, Driver


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
