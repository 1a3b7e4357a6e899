"""Work for many things of one request, a slice in each turn of the loop: others are served in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

from store.pending import Pending

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")

SLICE = 1_000
"""Small things that are made in one turn: a few milliseconds."""


def answered(
    things: Iterable[T],
    make: Callable[[T], U],
    answer: Callable[[list[U]], Pending[V]],
    weigh: Callable[[U], int] = lambda _: 1,
) -> Pending[V]:
    """The answer of what `make` makes of each, in their order: at once if it is little. `weigh`: how many small things
    one is like. `things` must not change meanwhile. Raises what `make` and `answer` raise.
    """
    rest, made = iter(things), list[U]()
    return answer(made) if _slice(rest, make, weigh, made) else _later(rest, make, answer, weigh, made)


async def _later(
    rest: Iterator[T],
    make: Callable[[T], U],
    answer: Callable[[list[U]], Pending[V]],
    weigh: Callable[[U], int],
    made: list[U],
) -> V:
    while True:
        await asyncio.sleep(0)
        if _slice(rest, make, weigh, made):
            found = answer(made)
            return await found if isinstance(found, Awaitable) else found


def _slice(rest: Iterator[T], make: Callable[[T], U], weigh: Callable[[U], int], made: list[U]) -> bool:
    """Whether that was all."""
    left = SLICE
    while left > 0:
        try:
            thing = next(rest)
        except StopIteration:
            return True
        one = make(thing)
        made.append(one)
        left -= weigh(one)
    return False
