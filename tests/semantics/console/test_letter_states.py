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


FULL = range(CHUNK)


@pytest.mark.parametrize(
    ("settled", "offset", "end", "found"),
    [
        ([], 3, 9, 3),
        ([], 9, 9, 9),
        ([3], 3, 9, 4),
        ([3], 3, 4, 4),
        # what is open stands at the place of the question, at the begin of a row, and behind its last byte
        ([1], 0, 9, 0),
        ([0, 2], 1, 9, 1),
        ([CHUNK + 1], CHUNK, 9 * CHUNK, CHUNK),
        ([CHUNK], CHUNK, 9 * CHUNK, CHUNK + 1),
        ([CHUNK, CHUNK + 2], CHUNK, 9 * CHUNK, CHUNK + 1),
        # beyond the end nothing is told, though it is open
        ([5, 7], 5, 6, 6),
        ([CHUNK, CHUNK + 2], CHUNK, CHUNK + 1, CHUNK + 1),
        # a row without an open letter leads to the next
        (FULL, 0, 9 * CHUNK, CHUNK),
        (FULL, 0, CHUNK, CHUNK),
        (FULL, 0, 5, CHUNK),
        ([*FULL, CHUNK], 7, 9 * CHUNK, CHUNK + 1),
        ([*range(2 * CHUNK), 2 * CHUNK + 1], 7, 9 * CHUNK, 2 * CHUNK),
        ([*range(2 * CHUNK)], 7, CHUNK + 3, CHUNK + 3),
    ],
)
def test_the_next_open_letter(settled: list[int], offset: int, end: int, found: int) -> None:
    states = LetterStates()
    states.settle(settled, REPLAYED)
    assert states.next_open(offset, end) == min(found, end)


def test_counts_are_of_what_lies_between() -> None:
    states = LetterStates()
    states.settle([2, CHUNK - 1, CHUNK, CHUNK + 4], REPLAYED)
    states.settle([3], EDITED)
    for start, end, replayed, edited in [
        (0, 0, 0, 0), (0, 2, 0, 0), (0, 3, 1, 0), (2, 3, 1, 0), (3, 4, 0, 1), (3, CHUNK, 1, 1), (2, CHUNK, 2, 1),
        (CHUNK, CHUNK + 1, 1, 0), (CHUNK + 1, CHUNK + 4, 0, 0), (CHUNK + 1, 9 * CHUNK, 1, 0), (0, 9 * CHUNK, 4, 1),
        (9, 4, 0, 0),
    ]:  # fmt: skip
        opened = max(end - start, 0) - replayed - edited
        assert states.counts(start, end) == [opened, replayed, 0, edited], (start, end)


@pytest.mark.parametrize(
    ("first", "last", "left"),
    [
        (CHUNK, CHUNK + 1, {1, 2}),
        (CHUNK + 1, CHUNK + 2, {0, 2}),
        (0, CHUNK, {0, 1, 2}),
        (0, CHUNK + 1, {1, 2}),
        (CHUNK + 2, 9 * CHUNK, {0, 1}),
        (CHUNK + 3, 9 * CHUNK, {0, 1, 2}),
        (CHUNK + 1, CHUNK + 1, {0, 1, 2}),
        (0, 2 * CHUNK, set()),
    ],
)
def test_what_is_lost_of_a_row_that_is_not_the_first(first: int, last: int, left: set[int]) -> None:
    states = LetterStates()
    states.settle([CHUNK, CHUNK + 1, CHUNK + 2], DISCARDED)
    ((number, value),) = states.writes(0)
    assert value is not None
    kept = clipped(number, value, first, last)
    found = LetterStates([(number, kept)]) if kept is not None else LetterStates()
    assert {at for at in range(CHUNK) if found.of(CHUNK + at) != OPEN} == left
    assert (kept is None) == (not left)


def test_rows_are_as_versions_before_have_written_them() -> None:
    states = LetterStates()
    states.settle([1025, 1027], REPLAYED)
    states.settle([1028], EDITED)
    states.settle([3 * 1024], DISCARDED)
    assert list(states.writes(0))[1:] == [(3, b"\x01\x02")]
    states = LetterStates()
    states.settle([1025, 1027], REPLAYED)
    states.settle([1028], EDITED)
    # of letters 1024 to 2047
    assert list(states.writes(0)) == [(1, b"\x01\x00\x01\x00\x01\x03")]
    assert list(states.writes(0)) == []


@pytest.mark.parametrize("value", [b"\x01", b"\x01\x03", b"\x01\x00\x03", b"\x01" + b"\x03" * CHUNK])
def test_rows_of_this_version_are_read(value: bytes) -> None:
    states = LetterStates([(0, value)])
    assert states.counts(0, CHUNK)[EDITED] == value.count(3)


@pytest.mark.parametrize(
    "value", [b"\x01\x04", b"\x01\x00\x04", b"\x01\x04\x00", b"\x00\x01", b"\x01" + b"\x00" * (CHUNK + 1)]
)
def test_others_are_not(value: bytes) -> None:
    with pytest.raises(ValueError, match="version"):
        LetterStates([(0, value)])
