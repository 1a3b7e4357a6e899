"""What lanes say of records, some of which they do not hold any more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.semantics.subscriptions.driving import Driver, Owners


def lanes(**config: Any) -> Driver:
    driver = Driver(lock_ms=2**50, max_locks=10**6, lanes=True, **config)
    if config.get("type") == "key_shared":
        driver.cursor.reassign(Owners((0, 65_536, "a")), 0)
    return driver


@pytest.fixture(params=["shared", "key_shared"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_what_was_skipped_meanwhile_is_passed_over(kind: str) -> None:
    driver = lanes(type=kind)
    driver.feed(10, list(range(10)) if kind == "key_shared" else None)
    assert driver.poll("a") == list(range(10))
    driver.cursor.skip(3, 10)
    driver.cursor.settle("a", [(0, 5)], driver.now, driver.wall)
    assert (driver.cursor.start, driver.cursor.acquired) == (6, 4)
    driver.cursor.reject("a", [(2, 6)], driver.now, driver.wall)
    assert driver.cursor.dying_records == 1
    driver.cursor.nack("a", [(0, 7)], 0, driver.now, driver.wall)
    assert driver.poll("a") == [7]
    # what another consumer says of them does nothing
    driver.cursor.settle("b", [(0, 9)], driver.now, driver.wall)
    assert driver.cursor.acquired == 3


def test_a_nack_waits_as_long_as_it_says(kind: str) -> None:
    driver = lanes(type=kind, nack_delay_ms=60_000, max_delay_ms=100_000)
    driver.feed(3, [1, 2, 3] if kind == "key_shared" else None)
    driver.poll("a")
    driver.cursor.nack("a", [(0, 0)], 500, driver.now, driver.wall)
    driver.cursor.nack("a", [(1, 1)], None, driver.now, driver.wall)
    driver.cursor.nack("a", [(2, 2)], 10**12, driver.now, driver.wall)
    driver.pass_time(500)
    assert driver.poll("a") == [0]
    driver.pass_time(59_500)
    assert driver.poll("a") == [1]
    driver.pass_time(40_000)
    assert driver.poll("a") == [2]


def test_a_crash_counts_up_to_what_it_may(kind: str) -> None:
    driver = lanes(type=kind, delivery_limit=3)
    driver.feed(2)
    for count in (1, 2, 2, 2):
        driver.poll("a")
        driver.cursor.crash("a", [(0, 1)], 2, driver.now, driver.wall)
        assert [driver.cursor.look(at).count for at in (0, 1)] == [count, count]
    driver.poll("a")
    driver.cursor.crash("a", [(1, 1)], None, driver.now, driver.wall)
    assert (driver.cursor.dying_records, driver.cursor.look(1).state) == (1, "DYING")
    # one that has failed more often already keeps its count
    driver.cursor.crash("a", [(0, 0)], 1, driver.now, driver.wall)
    assert driver.cursor.look(0).count == 2


def test_after_a_restart_a_lane_holds_what_is_not_settled(kind: str) -> None:
    driver = lanes(type=kind)
    driver.feed(6, [1, 2, 1, 2, 1, 2] if kind == "key_shared" else None)
    assert driver.poll("a") == list(range(6))
    driver.cursor.settle("a", [(1, 1)], driver.now, driver.wall)
    driver.cursor.nack("a", [(3, 3)], 1_000, driver.now, driver.wall)
    driver.commit()
    driver.restart()
    driver.load_due()
    again = driver.cursor.hold_again("a", [(0, 5)], driver.now)
    assert [at for first, last in again for at in range(first, last + 1)] == [0, 2, 4, 5]
    assert driver.cursor.holding() == {"a": 4, "b": 0}
    if kind == "key_shared":
        driver.cursor.reassign(Owners((0, 65_536, "b")), driver.now)
        driver.feed(8, [1, 2, 1, 2, 1, 2, 1, 3])
        # slots 1 and 2 drain; who has them settles them
        assert driver.poll("b") == [7]
        assert [(each.slot, each.holder, each.in_hand) for each in driver.cursor.draining()] == [
            (1, "a", 3),
            (2, "a", 1),
        ]
        driver.cursor.settle("a", [(0, 5)], driver.now, driver.wall)
        assert driver.poll("b") == [6]
        driver.pass_time(1_000)
        assert driver.poll("b") == [3]
        return
    driver.cursor.settle("a", again, driver.now, driver.wall)
    driver.pass_time(1_000)
    assert driver.poll("b") == [3]
