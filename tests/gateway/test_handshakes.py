"""How many handshakes may begin, by a clock that the test moves."""

from __future__ import annotations

import pytest

from gateway.handshakes import Handshakes


def test_as_many_begin_in_a_second_as_may_and_others_wait() -> None:
    handshakes = Handshakes(per_second=10, per_address=100, now=5.0)
    for number in range(10):
        assert handshakes.wait(5.0) == 0
        assert handshakes.begin(f"10.0.0.{number}", 5.0) == 0
    assert handshakes.wait(5.0) == pytest.approx(0.1)
    assert handshakes.wait(5.0625) == pytest.approx(0.0375)
    assert handshakes.wait(5.125) == 0
    assert handshakes.begin("10.0.0.1", 5.125) == 0
    assert handshakes.wait(5.125) > 0
    # what was not used in a minute is not there
    for number in range(10):
        assert handshakes.wait(65.0) == 0
        assert handshakes.begin(f"10.0.0.{number}", 65.0) == 0
    assert handshakes.wait(65.0) > 0


def test_one_address_begins_a_few_at_once_others_of_it_wait_and_no_more_take_a_turn_from_others() -> None:
    handshakes = Handshakes(per_second=20, per_address=4, now=0.0)
    waits = [handshakes.begin("10.0.0.1", 0.0) for _ in range(50)]
    assert waits == [0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75] + [None] * 42
    assert [handshakes.begin("10.0.0.2", 0.0) for _ in range(3)] == [0, 0.25, 0.5]
    assert handshakes.under_way == {"10.0.0.1": 8, "10.0.0.2": 3}
    assert handshakes.wait(0.0) == 0, "11 of 20 are taken"
    assert handshakes.begin("10.0.0.1", 0.125) is None
    assert handshakes.begin("10.0.0.1", 0.25) == 1.75, "behind those that wait"
    assert handshakes.begin("10.0.0.1", 3.0) == 0


def test_a_fifth_of_what_an_address_may_begin_in_a_second_begins_at_once() -> None:
    handshakes = Handshakes(per_second=500, per_address=100, now=0.0)
    waits = [handshakes.begin("10.0.0.1", 0.0) for _ in range(201)]
    assert waits[:20] == [0] * 20
    assert waits[20] == pytest.approx(0.01)
    assert waits[199] == pytest.approx(1.8)
    assert waits[200] is None
    assert handshakes.begin("10.0.0.1", 60.0) == 0
    assert [handshakes.begin("10.0.0.1", 60.0) for _ in range(20)].count(0) == 19, (
        "a minute of rest is no more"
    )


def test_those_under_way_are_known_by_their_address_until_they_are_over() -> None:
    handshakes = Handshakes(per_second=100, per_address=100, now=0.0)
    for _ in range(3):
        handshakes.begin("::1", 0.0)
    handshakes.begin("10.0.0.1", 0.0)
    handshakes.end("::1")
    assert handshakes.under_way == {"::1": 2, "10.0.0.1": 1}
    handshakes.end("10.0.0.1")
    assert handshakes.under_way == {"::1": 2}, "nothing is kept of who has none"


def test_addresses_are_forgotten_when_there_is_nothing_to_remember() -> None:
    handshakes = Handshakes(per_second=1000, per_address=10, now=0.0)
    for second in range(20):
        for number in range(1000):
            assert handshakes.begin(f"{second}.{number}", float(second)) == 0
            handshakes.end(f"{second}.{number}")
    assert len(handshakes) <= 2000
