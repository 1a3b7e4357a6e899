"""The table of cursor.py is what the code does."""

from __future__ import annotations

import re

import pytest

from semantics.subscriptions import cursor, states
from semantics.subscriptions.states import (
    AVAILABLE,
    BACKOFF,
    BURYING,
    DELAYED,
    DONE,
    DYING,
    LEGAL,
    UNREAD,
    legal,
)
from tests.semantics.subscriptions.driving import ACCEPT, WALL, Driver

STATES = {
    name: getattr(states, name)
    for name in ("UNREAD", "AVAILABLE", "ACQUIRED", "DONE", "DELAYED", "BACKOFF", "DYING")
}
OPEN = [name for name in STATES if name not in ("DONE", "UNREAD")]


def named(cell: str) -> list[str]:
    """The states that a cell of the table names."""
    if cell == "any but DONE":
        return OPEN
    return [name for name in re.findall("[A-Z]{4,}", cell.replace("shown as", "")) if name in STATES]


def lines() -> set[tuple[int, int]]:
    """The table in the docstring as pairs of states, without the line of seek."""
    found = set()
    for line in (cursor.__doc__ or "").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 4 or cells[0] in ("from", "any", ""):
            continue
        befores, afters = named(cells[0]), named(cells[2])
        assert befores, f"no state in {cells[0]!r}"
        assert afters, f"no state in {cells[2]!r}"
        # what a state is shown as is none
        afters = afters[:1] if "shown as" in cells[2] else afters
        found |= {(STATES[before], STATES[after]) for before in befores for after in afters}
    return found


def test_the_table_in_words_and_the_table_that_is_checked_are_one() -> None:
    table = lines()
    # a record whose slot is busy stays as it is
    table.discard((AVAILABLE, AVAILABLE))
    assert table == LEGAL


@pytest.mark.parametrize(
    ("was", "to", "allowed"),
    [
        (DONE, AVAILABLE, False),
        (DELAYED, BACKOFF, False),
        (BACKOFF, DYING, False),
        (UNREAD, BACKOFF, False),
        (AVAILABLE, DELAYED, True),  # it was fed just now
        (DYING + 1, BURYING + 1, True),
        (BURYING + 2, DONE, True),
    ],
)
def test_what_is_legal(was: int, to: int, allowed: bool) -> None:
    assert legal(was, to) == allowed


def test_a_move_that_the_table_does_not_have_is_refused() -> None:
    driver = Driver()
    driver.feed(2, delayed=[(0, WALL + 1_000)])
    driver.poll()
    driver.say(ACCEPT, 1)
    chunk = driver.cursor._records.window.chunks[0]
    with pytest.raises(AssertionError, match="no such line"):
        driver.cursor._records.move(chunk, 0, 1, DELAYED, BACKOFF)
