"""The bound on the memory of requests that have not come whole."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.receiving import Receiving


class Connection:
    def __init__(self, name: int) -> None:
        self.name = name
        self.held = False

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


@settings(max_examples=60)
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
            if connections[index].held:
                # it can only have gone away
                connections[index] = Connection(index)
        assert receiving.total == sum(sizes.values())
        assert all(not connections[i].held or i in sizes for i in range(5))
        if sizes:
            assert not connections[next(iter(sizes))].held, "the oldest"
