from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.subscriptions.acknowledging import acknowledge
from semantics.subscriptions.states import Refusal
from tests.semantics.subscriptions.driving import ACCEPT, RELEASE, RENEW, Driver, all_of

REQUEST, STATE = Refusal.INVALID_REQUEST, Refusal.INVALID_RECORD_STATE


def held(count: int = 100) -> Driver:
    """a holds 0 to count - 1; ten more are read, and nobody has them."""
    driver = Driver()
    driver.feed(count + 10)
    driver.poll("a", count)
    return driver


@pytest.mark.parametrize(
    ("batches", "refusal"),
    [
        ([(5, 4, ACCEPT)], REQUEST),
        ([(5, 9, ACCEPT), (8, 12, ACCEPT)], REQUEST),
        ([(5, 9, ACCEPT), (9, 12, ACCEPT)], STATE),  # the first has settled it, as in Kafka
        ([(5, 9, ACCEPT), (1, 2, ACCEPT)], REQUEST),
        ([(-3, -1, ACCEPT)], REQUEST),
        ([(5, 9, b"")], REQUEST),
        ([(5, 9, b"\x01\x01")], REQUEST),
        ([(5, 5, b"\x05")], REQUEST),
        ([(5, 6, b"\x01\x05")], REQUEST),
        ([(5, 9, ACCEPT), (105, 120, ACCEPT)], REQUEST),  # beyond what was read, as in Kafka
        ([(5, 9, ACCEPT), (99, 100, ACCEPT)], STATE),  # 100 is in nobody's hands
        ([(5, 9, ACCEPT), (20, 21, b"\x01\x02"), (105, 105, RENEW)], STATE),
        ([(105, 105, ACCEPT), (107, 106, ACCEPT)], REQUEST),  # malformed wins over not held
        ([(105, 106, b"\x01\x02"), (107, 107, b"\x07")], REQUEST),
        ([(105, 106, ACCEPT), (106, 107, ACCEPT)], STATE),
        ([(105, 106, ACCEPT), (107, 108, b"\x01\x05")], REQUEST),
        ([(105, 106, ACCEPT), (107, 200, ACCEPT)], REQUEST),
    ],
)
def test_refused_means_that_nothing_is_done(batches: list[tuple[int, int, bytes]], refusal: Refusal) -> None:
    driver = held()
    driver.commit()
    assert driver.acknowledge(*batches) is refusal
    assert driver.cursor.acquired == 100
    assert driver.commit() == []


def test_only_who_holds_it_may_speak_of_it() -> None:
    driver = held()
    assert driver.say(ACCEPT, 5, by="b") is STATE
    assert driver.say(ACCEPT, 5, by="never seen") is STATE
    assert driver.say(ACCEPT, 105, by="b") is STATE
    assert driver.say(ACCEPT, 5) is None


def test_twice_is_once_too_often_unless_start_has_passed_it() -> None:
    driver = held()
    assert driver.say(ACCEPT, 50) is None
    assert driver.say(ACCEPT, 50) is STATE
    assert driver.acknowledge((0, 49, ACCEPT)) is None
    assert driver.say(ACCEPT, 50) is None


def test_what_lies_below_start_is_passed_over() -> None:
    driver = held()
    driver.acknowledge((0, 9, ACCEPT))
    assert driver.acknowledge((0, 12, RELEASE)) is None
    assert driver.cursor.start == 10
    assert driver.count(10, 12, 13) == [1, 1, 0]
    assert driver.acknowledge((0, 14, b"\x02" * 10 + b"\x00\x00\x00" + b"\x01\x02")) is STATE
    driver.poll()
    assert driver.acknowledge((0, 14, b"\x02" * 10 + b"\x01\x02\x00" + b"\x01\x02")) is None
    assert driver.state(10, 11, 12, 13, 14) == ["DONE", "AVAILABLE", "DONE", "DONE", "AVAILABLE"]


def test_a_range_may_cover_what_came_with_several_polls() -> None:
    driver = Driver(max_locks=9_999)
    driver.feed(3_000)
    for _ in range(300):
        driver.now += 1
        driver.poll("a", 7)
    assert driver.acknowledge((0, 2_099, ACCEPT)) is None
    assert driver.cursor.start == 2_100
    assert driver.cursor.next_due(0, 0) == (None, None)


def test_a_range_with_a_hole_in_it_is_refused_wherever_the_hole_is() -> None:
    for hole in (0, 1, 1_023, 1_024, 1_500, 1_999):
        driver = Driver()
        driver.feed(2_000)
        driver.poll()
        driver.cursor.give_back("a", [(hole, hole)], 0)
        driver.poll("b")
        assert driver.acknowledge((0, 1_999, ACCEPT)) is STATE
        assert driver.cursor.acquired == 2_000


@given(st.lists(st.sampled_from([0, 1, 2, 3, 4]), min_size=40, max_size=40), st.integers(1000, 1030))
def test_a_type_each_is_the_same_as_one_call_each(types: list[int], start: int) -> None:
    together, apart = (Driver(start=start, lock_ms=100, nack_delay_ms=9) for _ in range(2))
    for driver in (together, apart):
        driver.feed(40)
        driver.poll()
        driver.now += 50
    assert together.acknowledge((start, start + 39, bytes(types))) is None
    for at, kind in enumerate(types):
        assert apart.say(bytes([kind]), start + at) is None
    offsets = range(start, start + 40)
    assert [together.cursor.look(at) for at in offsets] == [apart.cursor.look(at) for at in offsets]
    assert together.cursor.stats() == apart.cursor.stats()
    together.pass_time(50)
    apart.pass_time(50)
    assert together.state(*offsets) == apart.state(*offsets)


def test_who_knows_better_says_how_far_records_are_known() -> None:
    """A lane holds after a restart what the dispatcher has not come to."""
    driver = Driver(lanes=True, type="key_shared", lock_ms=2**50)
    driver.cursor.reassign(all_of("a"), 0)
    driver.feed(10)
    driver.poll("a")
    driver.crash()
    driver.cursor.hold_again("a", [(0, 9)], driver.now)
    records = driver.cursor._records
    assert records.read == 0

    def say(first: int, last: int, known: int | None) -> Refusal | None:
        return acknowledge(records, "a", [(first, last, ACCEPT)], driver.now, driver.wall, known=known)

    assert say(0, 4, None) is REQUEST
    assert say(0, 4, 4) is REQUEST
    assert say(0, 4, 10) is None
    assert driver.cursor.start == 5
