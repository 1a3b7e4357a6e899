"""Which open record comes first, and how many wait for others of their keys: the same as `look` says of each, and as
the console's columns do.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.console.blocking import Heads
from semantics.subscriptions.chunks import SIZE
from tests.semantics.subscriptions.driving import (
    ACCEPT,
    HALVES,
    HIGH,
    LOW,
    REJECT,
    RELEASE,
    WALL,
    Driver,
    Owners,
    keyed,
)

KINDS: dict[str, dict[str, Any]] = {
    "strict": {},
    "not strict": {"strict": False},
    "out of order": {"allow_out_of_order": True},
    "lanes": {"lanes": True},
}
IN_THE_WAY = (
    "has a record of its slot",
    "several have records of its slot",
    "was nacked or is to be dead-lettered",
    "nobody owns its slot",
)


def blocked(driver: Driver) -> int:
    """By the sentences for people."""
    cursor = driver.cursor
    found = [cursor.look(offset) for offset in range(cursor.start, cursor.known)]
    return sum(
        [
            one.state == "BLOCKED" and one.reason is not None and one.reason.endswith(IN_THE_WAY)
            for one in found
        ]
    )


@pytest.mark.parametrize("kind", KINDS)
@given(
    slots=st.lists(st.sampled_from([LOW, LOW + 1, HIGH, HIGH + 1]), min_size=1, max_size=40),
    steps=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(1, 6), st.sampled_from([ACCEPT, RELEASE, REJECT, b""]))
    ),
    moved=st.sampled_from([None, [(0, 65_536, "b")], [(LOW + 1, HIGH + 1, "b")], []]),
)
def test_as_many_are_blocked_as_are_said_to_be(
    kind: str, slots: list[int], steps: list[tuple[str, int, bytes]], moved: list[tuple[int, int, str]] | None
) -> None:
    driver = keyed(slots, nack_delay_ms=500, **KINDS[kind])
    for name, most, types in steps:
        taken = driver.poll(name, most)
        if types and taken:
            driver.say(types, taken[0], by=name)
    if moved is not None:
        driver.cursor.reassign(Owners(*moved), driver.now)
    cursor = driver.cursor
    assert cursor.blocked(9) == (blocked(driver), True)
    heads = Heads(cursor.ordering, cursor.draining_slots(), cursor.owned())
    pieces = list(cursor.planes(cursor.start, cursor.known))
    for piece in pieces:
        heads.see(piece)
    assert sum(len(heads.blocked(piece)) for piece in pieces) == blocked(driver), "lists and strips"


@pytest.mark.parametrize(
    ("kind", "number"), [("strict", 5), ("not strict", 4), ("out of order", 0), ("lanes", 4)]
)
def test_of_a_slot_that_drains_all_that_waits_is_blocked(kind: str, number: int) -> None:
    driver = keyed([LOW] * 6, **KINDS[kind])
    driver.poll("a", 2)
    assert driver.cursor.blocked(9)[0] == (5 if kind == "strict" else 0)
    driver.cursor.reassign(Owners((0, 65_536, "b")), driver.now)
    assert driver.cursor.blocked(9)[0] == blocked(driver) == number


def test_only_so_much_is_looked_at() -> None:
    driver = keyed([LOW] * (3 * SIZE))
    driver.poll("a", 1)
    assert driver.cursor.blocked(2) == (2 * SIZE - 1, False)
    assert driver.cursor.blocked(3) == (3 * SIZE - 1, True)


def test_of_what_was_not_read_again_nobody_knows() -> None:
    driver = keyed([LOW, LOW])
    driver.poll("a", 1)
    driver.crash()
    driver.cursor.reassign(HALVES, driver.now)
    assert driver.cursor.blocked(9) == (0, True)


def test_the_first_that_does_not_wait_for_its_time() -> None:
    driver = Driver(nack_delay_ms=500)
    assert driver.cursor.first_ready(9) == 0
    driver.feed(3, delayed=[(0, WALL + 700), (1, WALL + 700)])
    assert driver.cursor.first_ready(9) == 2
    driver.poll()
    driver.say(RELEASE, 2)
    assert driver.cursor.first_ready(9) == 2, "it could be delivered before"
    driver.pass_time(500)
    driver.poll()
    driver.say(ACCEPT, 2)
    assert driver.cursor.first_ready(9) == 3, "what was not read"
    driver.pass_time(700)
    assert driver.cursor.first_ready(9) == 0


def test_behind_some_chunks_of_delayed_ones_nobody_looks() -> None:
    driver = Driver()
    driver.feed(2 * SIZE + 1, delayed=[(offset, WALL + 700) for offset in range(2 * SIZE)])
    assert driver.cursor.first_ready(2) is None
    assert driver.cursor.first_ready(3) == 2 * SIZE
