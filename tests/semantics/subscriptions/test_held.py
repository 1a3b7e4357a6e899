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


def test_places_are_those_of_slots() -> None:
    driver = lanes(type="key_shared")
    driver.cursor.reassign(Owners((0, 10, "a"), (10, 20, "b"), (20, 30, "c")), 0)
    driver.feed(6, [1, 11, 40, 12, 2, 21])
    places = {name: driver.cursor.place_of(name) for name in ("a", "b", "c", "nobody")}
    assert places["nobody"] == 0
    assert len(set(places.values())) == 4
    a, b, c = places["a"], places["b"], places["c"]
    assert driver.cursor.places(0, 8).tolist() == [a, b, 0, b, a, c, 0, 0]
    assert driver.cursor.places(1, 3).tolist() == [b, 0]
    driver.poll("a")
    driver.cursor.settle("a", [(0, 0)], driver.now, driver.wall)
    assert driver.cursor.places(0, 3).tolist() == [0, b, 0]
    assert lanes(type="shared").cursor.place_of("a") == 0


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


def test_one_more_failure_is_counted_of_what_stays_in_hand(kind: str) -> None:
    driver = lanes(type=kind, delivery_limit=3)
    driver.feed(4)
    driver.poll("a")
    cursor = driver.cursor
    driver.commit()
    assert not cursor.count("a", [(0, 1)], None, driver.wall)
    assert (driver.count(0, 1, 2), driver.state(0)) == ([1, 1, 0], ["ACQUIRED"])
    # it is stored, for the next delivery is to know it
    driver.crash()
    assert driver.count(0, 1, 2) == [1, 1, 0]
    assert driver.cursor.hold_again("a", [(0, 3)], driver.now)
    cursor = driver.cursor
    # not above what it may have, and never less than it has
    assert not cursor.count("a", [(0, 0)], 1, driver.wall)
    assert not cursor.count("a", [(0, 0)], 0, driver.wall)
    assert driver.count(0) == [1]
    assert not cursor.count("a", [(0, 0)], None, driver.wall)
    # of several runs of counts some may die of it
    assert cursor.count("a", [(0, 2)], None, driver.wall)
    assert (driver.state(0), driver.count(1, 2, 3)) == (["DYING"], [2, 1, 0])
    assert cursor.holding()["a"] == 3
    # what another has, or nobody, is passed over
    assert not cursor.count("b", [(0, 9)], None, driver.wall)
    assert driver.count(1, 2, 3) == [2, 1, 0]
    cursor.settle("a", [(1, 3)], driver.now, driver.wall)
    assert cursor.acquired == 0


def test_without_a_limit_nothing_dies_of_a_count(kind: str) -> None:
    driver = lanes(type=kind, delivery_limit=0)
    driver.feed(1)
    driver.poll("a")
    for _ in range(20):
        assert not driver.cursor.count("a", [(0, 0)], None, driver.wall)
    assert driver.count(0) == [20]


def test_a_grant_is_known_after_a_restart_though_nothing_was_said_of_it(kind: str) -> None:
    driver = lanes(type=kind)
    driver.feed(10, list(range(10)) if kind == "key_shared" else None)
    driver.commit()
    driver.feed(10, list(range(10)) if kind == "key_shared" else None)
    assert len(driver.poll("a")) == 20
    driver.crash()
    assert driver.cursor.hold_again("a", [(0, 19)], driver.now) == [(0, 19)]


def test_after_a_restart_what_the_dispatcher_has_not_come_to_is_settled(kind: str) -> None:
    """A client commits at once, and nobody has fetched since."""
    driver = lanes(type=kind)
    slots = [1, 2, 3, 1, 2, 3, 1, 2]
    driver.feed(8, slots if kind == "key_shared" else None)
    driver.poll("a")
    driver.crash()
    assert driver.cursor.hold_again("a", [(0, 7)], driver.now) == [(0, 7)]
    driver.cursor.settle("a", [(0, 3)], driver.now, driver.wall)
    # one by one, and two of them in another way
    driver.cursor.settle("a", [(5, 5)], driver.now, driver.wall)
    driver.cursor.reject("a", [(6, 6)], driver.now, driver.wall)
    driver.cursor.nack("a", [(7, 7)], 0, driver.now, driver.wall)
    assert (driver.cursor.start, driver.cursor.acquired, driver.cursor.dying_records) == (4, 1, 1)
    if kind == "key_shared":
        driver.cursor.reassign(Owners((0, 65_536, "b")), driver.now)
        driver.feed(5, [*slots[4:], 2])
        # slot 2 waits for what a has of it still
        assert driver.poll("b") == []
        driver.cursor.settle("a", [(4, 4)], driver.now, driver.wall)
        assert driver.poll("b") == [7, 8]
        return
    assert driver.poll("b") == [7]


def test_beside_a_cursor_that_stayed_it_holds_no_more_than_its_rows_say(kind: str) -> None:
    driver = lanes(type=kind)
    driver.feed(10, list(range(10)) if kind == "key_shared" else None)
    driver.poll("a")
    driver.cursor.settle("a", [(2, 3)], driver.now, driver.wall)
    assert driver.cursor.hold_only("a", [(1, 4), (7, 8)]) == [(1, 1), (4, 4), (7, 8)]
    assert driver.poll("a") == [0, 5, 6, 9]
    assert driver.cursor.hold_only("a", [(0, 9)]) in (
        [(0, 1), (4, 9)],
        [(0, 0), (1, 1), (4, 4), (5, 6), (7, 8), (9, 9)],
    )
    assert driver.cursor.hold_only("a", []) == []
    assert driver.poll("a") == [0, 1, *range(4, 10)]


def test_slots_change_hands_while_all_that_was_read_is_in_hand() -> None:
    driver = lanes(type="key_shared")
    driver.feed(4, [0, 1, 2, 3])
    driver.poll("a")
    driver.cursor.settle("a", [(0, 0)], driver.now, driver.wall)
    driver.cursor.reassign(Owners((0, 65_536, "b")), driver.now)
    assert [(each.slot, each.holder) for each in driver.cursor.draining()] == [(1, "a"), (2, "a"), (3, "a")]
    driver.feed(4, [0, 1, 2, 3])
    assert driver.poll("b") == [4]
    driver.cursor.settle("a", [(1, 3)], driver.now, driver.wall)
    assert driver.poll("b") == [5, 6, 7]


def test_slots_change_hands_while_a_lane_holds_what_was_not_read_again() -> None:
    """Whatever is not read has no slot: the first of all is not to wait for it."""
    driver = lanes(type="key_shared")
    driver.feed(4, [1, 1, 2, 2])
    driver.poll("a")
    driver.crash()
    driver.cursor.hold_again("a", [(0, 3)], driver.now)
    driver.cursor.settle("a", [(1, 1)], driver.now, driver.wall)
    driver.cursor.reassign(Owners((0, 65_536, "b")), driver.now)
    driver.feed(6, [1, 1, 2, 2, 0, 1])
    assert driver.poll("b") == [4]
    driver.cursor.settle("a", [(0, 3)], driver.now, driver.wall)
    assert driver.poll("b") == [5]
