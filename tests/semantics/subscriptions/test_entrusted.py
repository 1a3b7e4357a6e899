"""Records of which something was said inside of a transaction: in nobody's reach until it ends."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.states import Batch, Ending, Refusal
from tests.semantics.subscriptions.driving import ACCEPT, RELEASE, Driver, Owners

TRUSTEE = "transaction t"
EACH: dict[str, dict[str, Any]] = {
    "shared": {"type": "shared"},
    "strict": {"type": "key_shared"},
    "key_shared": {"type": "key_shared", "strict": False},
    "lanes": {"type": "key_shared", "lanes": True},
}


@pytest.fixture(params=EACH)
def driver(request: pytest.FixtureRequest) -> Driver:
    made = Driver(lock_ms=1000, delivery_limit=3, **EACH[request.param])
    keyed = made.cursor.config.type == "key_shared"
    if keyed:
        made.cursor.reassign(Owners((0, 65_536, "a")), 0)
    made.feed(6, [1, 2, 3, 4, 5, 6] if keyed else None)
    assert made.poll("a") == [0, 1, 2, 3, 4, 5]
    return made


def entrust(driver: Driver, *ranges: tuple[int, int]) -> list[tuple[int, int]]:
    return driver.cursor.entrust("a", TRUSTEE, ranges, driver.now)


def test_nobody_settles_them_and_no_lock_runs_out(driver: Driver) -> None:
    cursor = driver.cursor
    assert entrust(driver, (1, 2), (4, 4)) == [(1, 2), (4, 4)]
    assert cursor.holding() == {"a": 3, "b": 0, TRUSTEE: 3}
    said = cursor.acknowledge("a", [(0, 1, ACCEPT)], driver.now, driver.wall)
    assert said is Refusal.INVALID_RECORD_STATE
    assert entrust(driver, (1, 4)) == [(3, 3)], "a second time takes what is left"
    driver.pass_time(10_000)
    assert [cursor.look(offset).state for offset in range(6)] == [
        "AVAILABLE",
        "ACQUIRED",
        "ACQUIRED",
        "ACQUIRED",
        "ACQUIRED",
        "AVAILABLE",
    ]
    assert cursor.next_due(driver.now, driver.wall)[0] is None
    assert cursor.look(1).deadline is None


@pytest.mark.parametrize("ending", Ending)
def test_their_consumer_may_go(driver: Driver, ending: Ending) -> None:
    entrust(driver, (1, 2))
    driver.cursor.detach("a", ending, driver.now, driver.wall)
    assert driver.cursor.holding() == {"b": 0, TRUSTEE: 2}


def test_a_commit_does_what_was_said(driver: Driver) -> None:
    cursor = driver.cursor
    entrust(driver, (0, 5))
    cursor.settle(TRUSTEE, [(0, 1)], driver.now, driver.wall)
    cursor.nack(TRUSTEE, [(2, 2)], 5000, driver.now, driver.wall)
    cursor.reject(TRUSTEE, [(3, 3)], driver.now, driver.wall)
    cursor.settle(TRUSTEE, [(4, 5)], driver.now, driver.wall)
    cursor.detach(TRUSTEE, Ending.STOPPED, driver.now, driver.wall)
    assert cursor.start == 2
    assert [cursor.look(offset).state for offset in range(2, 6)] == ["BACKOFF", "DYING", "DONE", "DONE"]


def test_an_abort_counts_a_delivery_until_it_was_the_last(driver: Driver) -> None:
    cursor = driver.cursor
    for failed in range(3):
        assert cursor.look(0).count == failed
        entrust(driver, (0, 0))
        cursor.detach(TRUSTEE, Ending.CRASHED, driver.now, driver.wall)
        driver.poll("a")
    assert cursor.look(0).state == "DYING"
    assert cursor.look(1).state == "ACQUIRED"


def test_what_was_skipped_meanwhile_is_passed_over(driver: Driver) -> None:
    entrust(driver, (0, 5))
    driver.cursor.skip(2, 6)
    driver.cursor.settle(TRUSTEE, [(0, 3)], driver.now, driver.wall)
    assert driver.cursor.start == 4
    driver.cursor.seek(0)
    driver.cursor.settle(TRUSTEE, [(4, 5)], driver.now, driver.wall)
    assert (driver.cursor.start, driver.cursor.read) == (0, 0)


def test_who_holds_what(driver: Driver) -> None:
    cursor = driver.cursor
    entrust(driver, (2, 3))
    cursor.acknowledge("a", [(0, 0, ACCEPT), (1, 1, RELEASE)], driver.now, driver.wall)
    assert list(cursor.holders([(1, 9)])) == [(1, 9, None, 0)], "it came back"
    assert list(cursor.holders([(0, 0), (2, 4), (5, 2**60)])) == [
        (2, 3, TRUSTEE, 0),
        (4, 4, "a", 0),
        (5, 5, "a", 0),
        (6, 2**60, None, 0),
    ]
    assert driver.poll("a") == [1]
    assert list(cursor.holders([(1, 2)])) == [(1, 1, "a", 1), (2, 2, TRUSTEE, 0)]


def test_nothing_of_their_keys_is_given_meanwhile() -> None:
    for name in ("strict", "key_shared", "lanes"):
        driver = Driver(lock_ms=1000, **EACH[name])
        driver.cursor.reassign(Owners((0, 65_536, "a")), 0)
        driver.feed(1, [7])
        assert driver.poll("a") == [0]
        entrust(driver, (0, 0))
        driver.feed(2, [7, 8])
        assert driver.poll("a") == [2]
        (draining,) = driver.cursor.draining()
        assert (draining.slot, draining.holder, draining.in_hand) == (7, TRUSTEE, 1)
        driver.cursor.detach(TRUSTEE, Ending.CRASHED, driver.now, driver.wall)
        assert driver.poll("a")[:1] == [0], name
        assert driver.cursor.draining() == []


def test_what_is_in_hand_is_entrusted_when_nothing_is_left_to_give() -> None:
    """No slot has a flag any more: what a dispatcher knows of slots at rest is thrown away."""
    for name in ("strict", "key_shared", "lanes"):
        driver = Driver(lock_ms=1000, **EACH[name])
        driver.cursor.reassign(Owners((0, 65_536, "a")), 0)
        driver.feed(2, [6, 7])
        assert driver.poll("a") == [0, 1]
        driver.cursor.settle("a", [(0, 0)], driver.now, driver.wall)
        assert entrust(driver, (1, 1)) == [(1, 1)], name
        driver.feed(1, [7])
        assert driver.poll("a") == [], name
        driver.cursor.detach(TRUSTEE, Ending.CRASHED, driver.now, driver.wall)
        assert driver.poll("a")[:1] == [1], name


def test_rows_that_name_them_find_them_after_a_restart(driver: Driver) -> None:
    """Though nothing else was said of what was read."""
    made = Cursor.fresh(driver.cursor.config, 0)
    if made.config.type == "key_shared":
        made.reassign(Owners((0, 65_536, "a")), 0)
    made.attach("a", 0)
    slots = array("H", range(4)) if made.config.type == "key_shared" else None
    made.feed([Batch(0, 4, slots)], 0, driver.wall)
    made.poll("a", 4, 0, driver.wall)
    made.writes()
    made.entrust("a", TRUSTEE, [(1, 2)], 0)
    again = Cursor.load(made.config, made.writes(), 0, 4, driver.wall)
    assert again.entrusted_again(TRUSTEE, [(1, 2)], 0) == [(1, 2)]


def test_after_a_restart_they_are_the_trustees_again(driver: Driver) -> None:
    cursor = driver.cursor
    entrust(driver, (1, 4))
    cursor.acknowledge("a", [(0, 0, ACCEPT)], driver.now, driver.wall)
    again = Cursor.load(cursor.config, cursor.writes(), 0, 6, driver.wall)
    assert again.entrusted_again(TRUSTEE, [(0, 2), (4, 4)], 0) == [(1, 2), (4, 4)]
    assert again.holding() == {TRUSTEE: 3}
    again.tick(10**9, driver.wall)
    assert again.look(1).consumer == TRUSTEE
    again.settle(TRUSTEE, [(1, 2), (4, 4)], 0, driver.wall)
    assert (again.start, again.look(4).state, again.look(3).state) == (
        3,
        "DONE",
        "AVAILABLE" if again.config.type == "shared" else "BLOCKED",
    )


def test_after_a_restart_nothing_of_their_slots_is_given_to_whoever_owns_these(driver: Driver) -> None:
    cursor = driver.cursor
    keyed = cursor.config.type == "key_shared"
    entrust(driver, (1, 2))
    again = Cursor.load(cursor.config, cursor.writes(), 0, 9, driver.wall)
    again.attach("b", 0)
    assert again.entrusted_again(TRUSTEE, [(1, 2)], 0) == [(1, 2)]
    again.reassign(Owners((0, 65_536, "b")), 0)
    assert again.draining() == [], "what was not read has no slot yet"
    again.feed([Batch(0, 9, array("H", [1, 2, 3, 4, 5, 6, 2, 7, 3]) if keyed else None)], 0, driver.wall)
    found = [
        offset for each in again.poll("b", 9, 0, driver.wall) for offset in range(each.first, each.last + 1)
    ]
    assert found == ([0, 3, 4, 5, 7] if keyed else [0, 3, 4, 5, 6, 7, 8])
    assert [each.slot for each in again.draining()] == ([2, 3] if keyed else [])
    again.settle(TRUSTEE, [(1, 2)], 0, driver.wall)
    assert again.draining() == []
    if keyed:
        assert [each.first for each in again.poll("b", 9, 0, driver.wall)] == [6, 8]
