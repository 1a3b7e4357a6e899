"""The commands of a cursor, and what is stored of them. What waits, fails and dies: test_moves.py."""

from __future__ import annotations

import pytest

from semantics.subscriptions import due, rows
from semantics.subscriptions.rows import RowKind
from semantics.subscriptions.states import DueFrom, Dying, Reason
from tests.semantics.subscriptions.driving import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    WALL,
    Driver,
)


def test_a_new_subscription_says_at_once_where_it_begins() -> None:
    driver = Driver(start=77)
    assert [row.kind for row in driver.commit()] == [RowKind.CURSOR]
    driver.restart()
    assert (driver.cursor.start, driver.cursor.read) == (77, 77)


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


def test_ranges_run_over_the_edges_of_chunks() -> None:
    driver = Driver(start=1000, max_locks=9_999)
    driver.feed(3_000)
    assert driver.cursor.poll("a", 2_500, 0, WALL) == [(1000, 3499, 0)]
    assert driver.acknowledge((1000, 3_499, ACCEPT)) is None
    assert driver.cursor.start == 3_500
    assert driver.cursor.available == 500


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
