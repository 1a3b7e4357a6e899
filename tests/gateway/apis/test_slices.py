"""Work in slices: what is little is there at once, of what is much others wait for one slice only."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any

from gateway.apis import slices
from gateway.apis.slices import SLICE, answered
from store.pending import Pending


def turns(work: Coroutine[Any, Any, Any], made: list[int]) -> tuple[list[int], Any]:
    """How many were made each time that others had their turn, and the answer."""
    counts = [len(made)]
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return counts, end.value
        counts.append(len(made))


def test_what_is_little_is_there_at_once() -> None:
    assert answered(range(SLICE - 1), str, len) == SLICE - 1


def test_others_have_their_turn_after_each_slice() -> None:
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    work = answered(range(3 * SLICE + 5), make, lambda numbers: numbers)
    assert isinstance(work, Coroutine)
    counts, answer = turns(work, made)
    assert counts == [SLICE, SLICE, 2 * SLICE, 3 * SLICE]
    assert answer == list(range(3 * SLICE + 5))


def test_what_is_heavy_is_a_slice_of_its_own() -> None:
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    work = answered([1, 1, SLICE, 2 * SLICE, 1], make, lambda numbers: sum(numbers), lambda number: number)
    assert isinstance(work, Coroutine)
    assert turns(work, made) == ([3, 3, 4], 3 * SLICE + 3)


def test_the_answer_may_have_to_be_waited_for() -> None:
    async def later() -> str:
        return "done"

    def answer(made: list[int]) -> Pending[str]:
        return later()

    for count in (1, slices.SLICE + 1):
        work = answered(range(count), int, answer)
        assert isinstance(work, Awaitable)
        assert isinstance(work, Coroutine)
        assert turns(work, [])[1] == "done"
