"""A strip: what is where in a subscription's window, as so many columns of counts by state."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, NamedTuple

from semantics.subscriptions.states import (
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    BURYING,
    DELAYED,
    DYING,
    REASONS,
    Piece,
)

if TYPE_CHECKING:
    from semantics.console.blocking import Heads

_CODES = {
    "available": (AVAILABLE,),
    "acquired": (ACQUIRED,),
    "delayed": (DELAYED,),
    "backoff": (BACKOFF,),
    "dying": tuple(code + number for code in (DYING, BURYING) for number in range(len(REASONS))),
}
STATES = (*_CODES, "blocked", "unread", "done")
STEP = 4
"""Pieces, of up to 1,024 offsets, between two stops: some 0.5 ms where keys block."""


class Strip(NamedTuple):
    """Column i is of the offsets from edges[i] to below edges[i + 1]."""

    edges: list[int]
    counts: dict[str, list[int]]
    """state -> by column; together they are all offsets. States that nothing is in are left out."""


def edges_of(start: int, end: int, columns: int) -> list[int]:
    """[start, end) in equal columns, of one offset at least: there may be fewer of them than asked for."""
    columns = max(min(columns, end - start), 1)
    return [start + (end - start) * at // columns for at in range(columns + 1)]


def strip(
    pieces: Iterable[Piece], known: int, edges: list[int], heads: Heads | None
) -> Generator[None, None, Strip]:
    """Counts of ascending pieces. From `known` on nothing was read; what no piece has before it is done."""
    width = len(edges) - 1
    counts = {state: [0] * width for state in STATES}
    at = 0
    for number, piece in enumerate(pieces, 1):
        if number % STEP == 0:
            yield
        first, states = piece.first, piece.states
        # the cursor may have read on since
        end = min(first + len(states), edges[-1], known)
        blocked = heads.blocked(piece).tolist() if heads is not None else ()
        waiting = 0
        there = set(states)
        some = [(counts[state], code) for state, codes in _CODES.items() for code in codes if code in there]
        while first < end:
            while edges[at + 1] <= first:
                at += 1
            stop = min(end, edges[at + 1])
            begin, last = first - piece.first, stop - piece.first
            for column, code in some:
                column[at] += states.count(code, begin, last)
            before = waiting
            while waiting < len(blocked) and blocked[waiting] < last:
                waiting += 1
            counts["blocked"][at] += waiting - before
            counts["available"][at] -= waiting - before
            first = stop
    for at in range(width):
        unread = max(edges[at + 1] - max(edges[at], known), 0)
        counts["unread"][at] = unread
        open_ones = sum(counts[state][at] for state in (*_CODES, "blocked"))
        counts["done"][at] = edges[at + 1] - edges[at] - unread - open_ones
    return Strip(edges, {state: column for state, column in counts.items() if any(column)})
