"""Steps of an automaton: what follows a set of places, in a bounded number of look-ups."""

from __future__ import annotations

import random

from semantics import walk
from semantics.walk import Walk, bits

PLACES = 250


def naive(follow: list[int], state: int) -> int:
    found = 0
    for place in bits(state):
        found |= follow[place]
    return found


def test_what_follows_a_set_follows_one_of_its_places() -> None:
    source = random.Random(3)
    for share in (0, 0.02, 0.5):
        # the next one, itself, and a share of the others
        follow = [
            sum(
                1 << to for to in range(PLACES) if source.random() < (share if to - at not in (0, 1) else 0.5)
            )
            for at in range(PLACES)
        ]
        stepping = Walk(5, follow)
        assert stepping.step(0) == 5
        for _ in range(200):
            state = source.getrandbits(PLACES) or 1
            assert stepping.step(state) == naive(follow, state)


def test_places_that_follow_each_other_need_no_tables() -> None:
    chain = [1 << at + 1 for at in range(PLACES - 1)] + [0]
    assert Walk(1, chain).lookups == 0
    chain[7] |= 1
    assert Walk(1, chain).lookups == 1


def test_a_step_is_a_look_up_for_six_places_at_most() -> None:
    everything = (1 << PLACES) - 1
    assert Walk(1, [everything] * PLACES).lookups == 42


def test_only_so_many_steps_are_remembered() -> None:
    stepping = Walk(9, [1 << at + 1 for at in range(PLACES)])
    for state in range(1, 3 * walk.MOST_KNOWN):
        stepping.step(state)
        assert len(stepping._known) <= walk.MOST_KNOWN
    assert stepping.step(0) == 9
