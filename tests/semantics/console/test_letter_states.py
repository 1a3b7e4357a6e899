"""What became of dead letters: settled once, counted, stored and found again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.console.letter_states import CHUNK, DISCARDED, EDITED, OPEN, REPLAYED, LetterStates, clipped


def test_a_letter_that_was_settled_stays_so() -> None:
    states = LetterStates()
    assert states.settle([3, 5], REPLAYED) == [3, 5]
    assert states.settle([3, 4, 5], DISCARDED) == [4]
    assert [states.of(offset) for offset in range(2, 7)] == [OPEN, REPLAYED, DISCARDED, REPLAYED, OPEN]
    assert states.counts(0, 10) == [7, 2, 1, 0]
    assert states.counts(4, 6) == [0, 1, 1, 0]


@given(
    st.lists(
        st.tuples(st.integers(0, 3 * CHUNK), st.sampled_from([REPLAYED, DISCARDED, EDITED])), max_size=60
    )
)
def test_it_is_what_a_dict_would_say(settled: list[tuple[int, int]]) -> None:
    states, rows, known = LetterStates(), {}, dict[int, int]()
    for offset, state in settled:
        states.settle([offset], state)
        known.setdefault(offset, state)
        rows.update(dict(states.writes(0)))
    again = LetterStates((number, value) for number, value in rows.items() if value is not None)
    end = 3 * CHUNK + 1
    for each in (states, again):
        assert {offset: each.of(offset) for offset in range(end) if each.of(offset)} == known
        assert each.counts(0, end)[OPEN] == end - len(known)
        offset = -1
        for _ in range(20):
            offset = each.next_open(offset + 1, end)
            assert offset == next((n for n in range(offset, end) if n not in known), end)


def test_what_retention_took_is_forgotten() -> None:
    states = LetterStates()
    states.settle([0, CHUNK, 2 * CHUNK], REPLAYED)
    list(states.writes(0))
    assert list(states.writes(2 * CHUNK - 1)) == [(0, None)]
    assert list(states.writes(2 * CHUNK)) == [(1, None)]
    assert states.of(2 * CHUNK) == REPLAYED


def test_lost_letters_are_open_and_a_row_without_any_goes() -> None:
    states = LetterStates()
    states.settle([1, 2, 3], REPLAYED)
    ((number, value),) = states.writes(0)
    assert value is not None
    kept = clipped(number, value, 2, 9)
    assert kept is not None
    assert [LetterStates([(0, kept)]).of(offset) for offset in (1, 2, 3)] == [REPLAYED, OPEN, OPEN]
    assert clipped(number, value, 0, 9) is None


@pytest.mark.parametrize("value", [b"", b"\x02\x01", b"\x01\x09", b"\x01" + b"\x01" * (CHUNK + 1)])
def test_a_row_of_another_version_is_not_guessed_at(value: bytes) -> None:
    with pytest.raises(ValueError, match="version"):
        LetterStates([(0, value)])
