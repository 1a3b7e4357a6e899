from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from semantics.lanes.runs import runs_of
from semantics.subscriptions.states import Acquired
from semantics.taken import Taken, number_of
from tests.examples import examples

# gaps, lengths, how often they failed
parts = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 254, 255, 256, 10_000]), st.integers(1, 4), st.integers(0, 2)),
    min_size=1,
    max_size=8,
)


def acquired_of(parts: list[tuple[int, int, int]]) -> list[Acquired]:
    """As dispatchers say it: what meets and agrees is one range."""
    found: list[Acquired] = []
    offset = 0
    for gap, length, failed in parts:
        offset += gap
        if found and found[-1].last == offset - 1 and found[-1][2] == failed:
            found[-1] = Acquired(found[-1].first, offset + length - 1, failed)
        else:
            found.append(Acquired(offset, offset + length - 1, failed))
        offset += length
    return found


@given(parts, st.integers(0, 100), st.booleans())
@settings(max_examples=examples(300), deadline=None)
def test_by_columns_it_is_the_same(parts: list[tuple[int, int, int]], cut: int, plain: bool) -> None:
    acquired = acquired_of([(*part[:2], 0) for part in parts] if plain else parts)
    taken = Taken.of(acquired)
    assert taken is not None
    if plain:
        taken = Taken(taken.offsets)
    assert list(taken) == acquired
    assert (len(taken), taken[-1], taken[:1]) == (len(acquired), acquired[-1], acquired[:1])
    assert number_of(taken) == number_of(acquired) == sum(each.last + 1 - each.first for each in acquired)
    assert list(map(repr, runs_of(7, 1, taken, True))) == list(map(repr, runs_of(7, 1, acquired, True)))
    # in two parts
    cut = cut % (taken.records + 1)
    failed = taken.failed
    one = Taken(taken.offsets[:cut], failed[:cut] if failed is not None else None)
    other = Taken(taken.offsets[cut:], failed[cut:] if failed is not None else None)
    assert list(one.behind(other)) == acquired
    assert bool(one) == (cut > 0)


def test_nothing_is_nothing() -> None:
    assert Taken.of([]) is None
    assert not Taken(np.array([], np.int64))
    one, other = Taken(np.array([1])), Taken(np.array([2]), np.array([3]))
    assert list(one.behind(other)) == [(1, 1, 0), (2, 2, 3)]
