"""By columns the same becomes of what lanes hold as one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.semantics.subscriptions.driving import Driver, Owners
from tests.semantics.subscriptions.test_held import lanes

NUMBER = 1_000
SLOTS = 7


@pytest.fixture(params=["shared", "key_shared"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def before(kind: str, what: str, **config: Any) -> Driver:
    """Lanes that hold most of what there is, a more than b, and what happened meanwhile."""
    driver = lanes(type=kind, **config)
    keyed = kind == "key_shared"
    driver.feed(NUMBER, [n % SLOTS for n in range(NUMBER)] if keyed else None)
    if keyed:
        driver.cursor.reassign(Owners((0, 5, "a"), (5, 65_536, "b")), driver.now)
    driver.poll("a", 600)
    driver.poll("b", 240)
    match what:
        case "a skip":
            driver.cursor.skip(30, NUMBER)
        case "a nack":
            driver.cursor.nack("a", [(51, 60)], 5_000, driver.now, driver.wall)
        case "put aside":
            driver.cursor.nack("a", [(51, 60)], 5_000, driver.now, driver.wall)
            driver.cursor.give_back("a", [(100, 360)], driver.now)
            assert bool(driver.poll("a", 10)) == (not keyed)
        case "a restart":
            driver.commit()
            driver.restart()
            driver.cursor.hold_again("a", [(0, 839)], driver.now)
        case "slots that moved" if keyed:
            driver.cursor.reassign(Owners((0, 65_536, "b")), driver.now)
        case "crashes":
            for ranges, most in ([(10, 280), (320, 330)], 1), ([(10, 120)], None), ([(360, 396)], 9):
                driver.cursor.crash("a", ranges, most, driver.now, driver.wall)
                driver.poll("a", 880)
    return driver


def state(driver: Driver) -> Any:
    cursor = driver.cursor
    draining = [(each.slot, each.in_hand) for each in cursor.draining()]
    looks = [cursor.look(at) for at in range(NUMBER)]
    rest = (
        cursor.start,
        cursor.acquired,
        cursor.available,
        cursor.dying_records,
        dict(cursor.totals),
        draining,
    )
    # and what is given then
    driver.pass_time(5_000)
    return looks, rest, cursor.waiting_ahead, driver.poll("a"), driver.poll("b")


@pytest.mark.parametrize(
    "what", ["", "a skip", "a nack", "put aside", "a restart", "slots that moved", "crashes"]
)
@pytest.mark.parametrize("said", ["settled", "given back", "crashed", "crashed but not dead"])
def test_by_columns_it_is_the_same(kind: str, what: str, said: str) -> None:
    offsets = sorted(random.Random(3).sample(range(NUMBER), 360))
    seen = []
    for many in (False, True):
        driver = before(kind, what, delivery_limit=3)
        cursor, now, wall = driver.cursor, driver.now, driver.wall
        for name in ("b", "a"):
            singles, column = [(at, at) for at in offsets], np.array(offsets)
            match said:
                case "settled":
                    cursor.settle_many(name, column, now, wall) if many else cursor.settle(
                        name, singles, now, wall
                    )
                case "given back":
                    cursor.give_back_many(name, column, now) if many else cursor.give_back(name, singles, now)
                case "crashed":
                    if many:
                        cursor.crash_many(name, column, None, wall)
                    else:
                        cursor.crash(name, singles, None, now, wall)
                case _:
                    if many:
                        cursor.crash_many(name, column, 2, wall)
                    else:
                        cursor.crash(name, singles, 2, now, wall)
        seen.append(state(driver))
    assert seen[0] == seen[1]


def test_counts_beyond_a_byte(kind: str) -> None:
    driver = lanes(type=kind, delivery_limit=0)
    driver.feed(100, [n % SLOTS for n in range(100)] if kind == "key_shared" else None)
    for _ in range(257):
        driver.poll("a")
        driver.cursor.crash_many("a", np.arange(70), None, driver.wall)
    assert driver.count(0, 69, 70) == [257, 257, 0]


def test_what_crashed_is_stored(kind: str) -> None:
    driver = before(kind, "")
    driver.commit()
    driver.cursor.crash_many("a", np.arange(0, 600, 3), None, driver.wall)
    driver.commit()
    driver.crash()
    assert driver.count(0, 1, 3, 480) == [1, 0, 1, 1]
