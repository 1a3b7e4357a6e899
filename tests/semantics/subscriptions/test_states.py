"""The table of cursor.py is what the code does, and whoever writes a state asks it."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from semantics.subscriptions import cursor, states
from semantics.subscriptions.states import (
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    BEFORE,
    BURYING,
    DELAYED,
    DONE,
    DYING,
    LEGAL,
    UNREAD,
    check,
    legal,
)
from tests.semantics.subscriptions.checked import Checked
from tests.semantics.subscriptions.driving import ACCEPT, REJECT, RELEASE, WALL, Driver, all_of, keyed

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
        (BURYING + 1, DYING + 1, True),
        (DYING + 1, BURYING + 2, False),  # for another reason
        (DYING + 1, DYING + 2, False),
        (BURYING + 2, DONE, True),
    ],
)
def test_what_is_legal(was: int, to: int, allowed: bool) -> None:
    assert legal(was, to) == allowed
    assert (was in BEFORE[to]) == allowed
    if allowed:
        assert check(bytes((was,)), to)
    else:
        with pytest.raises(AssertionError, match="no such line"):
            check(bytes((*BEFORE[to], was)), to)


def test_to_write_what_is_there_is_no_move() -> None:
    """The table has ACQUIRED after ACQUIRED, for locks that begin anew: these write no state."""
    for to, before in BEFORE.items():
        assert to not in before
    assert BEFORE[ACQUIRED] == bytes((AVAILABLE,))


# -- places that write -----------------------------------------------------------------------------------------


def shared(start: int = 0, **config: object) -> Driver:
    """Ten records, of which a holds the first eight."""
    driver = Driver(start, **config)
    driver.feed(10)
    driver.poll("a", 8)
    return driver


def seen() -> Driver:
    """What is written without a question is seen too, as in the models."""
    driver = shared()
    for chunk in driver.cursor._records.window.chunks.values():
        chunk.state = Checked(chunk.state)
    return driver


def rejected() -> Driver:
    driver = shared()
    driver.acknowledge((1, 2, REJECT))
    return driver


def put_off() -> Driver:
    driver = rejected()
    driver.cursor.dying(9)
    driver.cursor.not_buried([(1, 2)], "the topic is full", WALL + 1_000)
    return driver


def burying() -> Driver:
    driver = rejected()
    driver.cursor.dying(9)
    return driver


def delayed(*offsets: int) -> Driver:
    driver = Driver()
    driver.feed(10, delayed=[(at, WALL + 1_000) for at in offsets])
    return driver


def accept_columns(driver: Driver) -> None:
    offsets = np.array(driver.poll("a", 5), np.int64)
    driver.cursor.accept("a", offsets, offsets)


def feed_delayed(driver: Driver) -> None:
    driver.feed(3, delayed=[(driver.cursor.read + 1, driver.wall + 1_000)])


def feed_nothing(driver: Driver) -> None:
    driver.feed(3, skip=True)


SLOTS = list(range(1_000))

PLACES: list[tuple[str, int, Callable[[], Driver], Callable[[Driver], object]]] = [
    ("chunk_of", DONE, lambda: Driver(5), lambda driver: driver.feed(1)),
    ("extend", AVAILABLE, Driver, lambda driver: driver.feed(1)),
    ("_nothing", DONE, Driver, feed_nothing),
    ("_delay", DELAYED, Driver, feed_delayed),
    ("take", ACQUIRED, lambda: delayed(1, 3), lambda driver: driver.poll(limit=1)),
    ("take", ACQUIRED, lambda: delayed(5), lambda driver: driver.poll(limit=4)),
    ("take", ACQUIRED, lambda: keyed([1, 2, 3]), lambda driver: driver.poll()),
    ("take", ACQUIRED, lambda: keyed([1, 2, 3], strict=False), lambda driver: driver.poll()),
    ("_hand_out", ACQUIRED, lambda: keyed(SLOTS), lambda driver: driver.poll(limit=200)),
    ("finish", DONE, seen, lambda driver: driver.say(ACCEPT, 3)),
    ("finish", DONE, seen, lambda driver: driver.acknowledge((3, 5, ACCEPT))),
    ("finish_many", DONE, lambda: keyed(SLOTS, all_of("a")), accept_columns),
    ("move", AVAILABLE, shared, lambda driver: driver.say(RELEASE, 3)),
    ("move", BACKOFF, lambda: shared(nack_delay_ms=9), lambda driver: driver.say(RELEASE, 3)),
    ("move", DYING + 1, shared, lambda driver: driver.say(REJECT, 3)),
    ("move", DONE, burying, lambda driver: driver.cursor.buried([(1, 2)])),
    ("take", BURYING + 1, rejected, lambda driver: driver.cursor.dying(9)),
    ("retry", DYING + 1, put_off, lambda driver: driver.pass_time(1_000)),
    ("wake", AVAILABLE, lambda: delayed(1), lambda driver: driver.pass_time(1_000)),
    ("_wake_run", AVAILABLE, lambda: delayed(1, 2), lambda driver: driver.pass_time(1_000)),
    ("trim", DONE, shared, lambda driver: driver.cursor.trimmed(9)),
]


@pytest.mark.parametrize(("place", "to", "given", "what"), PLACES)
def test_every_place_that_writes_a_state_asks_the_table(
    place: str,
    to: int,
    given: Callable[[], Driver],
    what: Callable[[Driver], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = given()
    monkeypatch.setitem(BEFORE, to, b"")
    with pytest.raises(AssertionError, match="no such line") as caught:
        what(driver)
    assert place in [entry.name for entry in caught.traceback]


def test_there_is_no_other_place() -> None:
    """The line before one that writes a state asserts. What a start makes of rows (recovery.py) is no move."""
    writes = re.compile(r"\s+(\w+\.)*(state\[.*\]|np\.frombuffer\(.*state.*\)\[.*\]) = ")
    asked, others = 0, []
    for path in sorted(Path(states.__file__).parent.glob("*.py")):
        if path.name == "recovery.py":
            continue
        for before, line in pairwise(path.read_text().splitlines()):
            if writes.match(line):
                if before.lstrip().startswith("assert "):
                    asked += 1
                else:
                    others.append((path.name, line.strip()))
    assert asked > 5
    # see there: the models ask
    assert others == [
        ("chunks.py", "chunk.state[first] = DONE"),
        ("chunks.py", "chunk.state[first:end] = _DONE[:number]"),
    ]


def test_a_move_that_the_table_does_not_have_is_refused() -> None:
    driver = Driver()
    driver.feed(2, delayed=[(0, WALL + 1_000)])
    driver.poll()
    driver.say(ACCEPT, 1)
    chunk = driver.cursor._records.window.chunks[0]
    with pytest.raises(AssertionError, match="no such line"):
        driver.cursor._records.move(chunk, 0, 1, DELAYED, BACKOFF)
