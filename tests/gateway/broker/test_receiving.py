"""The bound on the memory of requests that have not come whole."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.receiving import LARGE, PATIENCE, STUCK, Receiving
from tests.examples import examples


class Connection:
    def __init__(self, name: int) -> None:
        self.name = name
        self.held = False
        self.closed = ""

    def close(self, reason: str) -> None:
        self.closed = reason

    def hold_reading(self) -> None:
        self.held = True

    def release_reading(self) -> None:
        self.held = False


def test_above_the_bound_all_are_held_but_the_oldest() -> None:
    receiving = Receiving(100)
    first, second, third = (Connection(i) for i in range(3))
    receiving.account(first, 60)
    receiving.account(second, 60)
    receiving.account(third, 10)
    assert [each.held for each in (first, second, third)] == [False, True, True]
    receiving.account(first, 200)
    assert not first.held, "the oldest can always finish"
    receiving.account(first, 0)
    assert [each.held for each in (second, third)] == [False, False]
    assert receiving.total == 70


def test_only_the_next_oldest_goes_on_while_it_is_still_too_much() -> None:
    receiving = Receiving(100)
    first, second, third = (Connection(i) for i in range(3))
    receiving.account(first, 50)
    receiving.account(second, 80)
    receiving.account(third, 90)
    receiving.account(first, 0)
    assert [each.held for each in (second, third)] == [False, True]
    receiving.account(second, 0)
    assert not third.held


def test_a_held_connection_that_goes_away() -> None:
    receiving = Receiving(100)
    first, second = Connection(1), Connection(2)
    receiving.account(first, 90)
    receiving.account(second, 90)
    receiving.account(second, 0)
    receiving.account(second, 0)
    assert receiving.total == 90
    receiving.account(first, 0)
    assert receiving.total == 0


def test_a_held_connection_whose_frame_has_come_after_all_is_read_again() -> None:
    """Its bytes may have been on their way through the loop when it was held."""
    receiving = Receiving(100)
    first, second = Connection(1), Connection(2)
    receiving.account(first, 90)
    receiving.account(second, 90)
    assert second.held
    receiving.account(second, 0)
    assert not second.held


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 120))))
def test_somebody_can_always_go_on(steps: list[tuple[int, int]]) -> None:
    receiving = Receiving(100)
    connections = [Connection(i) for i in range(5)]
    sizes: dict[int, int] = {}
    for index, size in steps:
        if connections[index].held and size:
            # nothing comes from it
            continue
        receiving.account(connections[index], size)
        if size:
            sizes[index] = size
        else:
            sizes.pop(index, None)
        assert receiving.total == sum(sizes.values())
        assert all(not connections[i].held or i in sizes for i in range(5))
        if sizes:
            assert not connections[next(iter(sizes))].held, "the oldest"


def test_who_leaves_a_large_request_unfinished_is_closed_when_others_wait() -> None:
    receiving = Receiving(100)
    idle, waiting = Connection(1), Connection(2)
    receiving.account(idle, 90)
    for _ in range(PATIENCE * 2):
        receiving.second()
    assert not idle.closed, "nobody waits for its memory"
    receiving.account(waiting, 20)
    assert waiting.held
    receiving.second()
    assert "memory.max.bytes" in idle.closed
    assert not waiting.closed
    receiving.account(idle, 0)
    assert not waiting.held


def test_the_slowest_go_first_and_no_more_than_makes_room() -> None:
    """Clients that share a thin line all go on for long: cutting them all at once would bring nobody to the end."""
    receiving = Receiving(16 * LARGE)
    steady = [Connection(i) for i in range(6)]
    left, waiting = Connection(6), Connection(7)
    for each in steady:
        receiving.account(each, 2 * LARGE)
    for _ in range(PATIENCE):
        receiving.second()
    receiving.account(left, LARGE)
    for _ in range(PATIENCE):
        receiving.second()
    receiving.account(waiting, 2 * LARGE)
    assert waiting.held
    receiving.second()
    closed = [each for each in (*steady, left) if each.closed]
    assert left in closed
    assert len(closed) == 2, "12 of 16 MB are the room for large ones, and 15 were taken"
    for each in closed:
        receiving.account(each, 0)
    assert not waiting.held
    receiving.second()
    assert len([each for each in steady if each.closed]) == 1


def test_who_was_released_has_its_own_time() -> None:
    receiving = Receiving(100)
    first, second, third = (Connection(i) for i in range(3))
    receiving.account(first, 90)
    receiving.account(second, 80)
    receiving.account(third, 70)
    for _ in range(PATIENCE):
        receiving.second()
    assert first.closed
    assert not second.closed
    assert not third.closed
    receiving.account(first, 0)
    assert [second.held, third.held] == [False, True]
    for _ in range(PATIENCE - 1):
        receiving.second()
    assert not second.closed
    receiving.second()
    assert second.closed


def test_many_that_leave_their_requests_unfinished_do_not_have_their_chance_one_after_the_other() -> None:
    receiving = Receiving(100)
    left = [Connection(i) for i in range(60)]
    for each in left:
        receiving.account(each, 2)
    alive = set(left)
    waiting = Connection(60)
    receiving.account(waiting, 10)
    assert waiting.held
    for _ in range(STUCK + 1):
        receiving.second()
        for each in left:
            if each.closed and each in alive:
                alive.discard(each)
                receiving.account(each, 0)
    assert not waiting.closed
    assert not waiting.held, "a quarter of the memory is free"
    assert 15 <= sum(bool(each.closed) for each in left) < 40


def test_while_some_come_to_their_end_nobody_who_waits_is_closed() -> None:
    receiving = Receiving(100)
    slow, waiting = Connection(0), Connection(1)
    receiving.account(slow, 90)
    receiving.account(waiting, 80)
    for number in range(2, 2 + 2 * STUCK):
        quick = Connection(number)
        receiving.account(quick, 1)
        receiving.account(quick, 0)
        receiving.second()
        if slow.closed:
            break
    assert slow.closed
    assert not waiting.closed


def test_large_requests_leave_a_quarter_of_the_memory_to_small_ones() -> None:
    receiving = Receiving(8 * LARGE)
    first, large, small = (Connection(i) for i in range(3))
    receiving.account(first, 5 * LARGE)
    receiving.account(large, 2 * LARGE)
    receiving.account(small, LARGE // 2)
    assert [each.held for each in (first, large, small)] == [False, True, False]
