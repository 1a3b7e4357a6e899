from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.subscriptions import rows
from semantics.subscriptions.chunks import SIZE, Chunk
from semantics.subscriptions.rows import RowError
from semantics.subscriptions.states import (
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    BURYING,
    DELAYED,
    DONE,
    DYING,
    UNREAD,
)

CODES = [
    AVAILABLE,
    ACQUIRED,
    DONE,
    DELAYED,
    BACKOFF,
    *range(DYING, DYING + 3),
    *range(BURYING, BURYING + 3),
    UNREAD,
]


def stored_as(code: int) -> int:
    """What comes back of a state."""
    if code in (ACQUIRED, UNREAD):
        return AVAILABLE
    return code - 3 if code >= BURYING else code


@given(
    st.lists(st.tuples(st.integers(0, SIZE - 1), st.sampled_from(CODES)), max_size=40),
    st.dictionaries(st.integers(0, SIZE - 1), st.integers(1, 255), max_size=20),
    st.booleans(),
    st.sampled_from(CODES),
)
def test_a_chunk_comes_back(
    states: list[tuple[int, int]], counts: dict[int, int], wide: bool, fill: int
) -> None:
    chunk = Chunk(7)
    chunk.state[:] = bytes([fill]) * SIZE
    for at, code in states:
        chunk.state[at] = code
    for at, count in counts.items():
        chunk.set_count(at, at + 1, count + 60_000 * wide)
    value = rows.chunk(chunk, 0)
    expected = bytes(stored_as(code) for code in chunk.state)
    if value is None:
        assert not any(expected)
        assert not counts
        return
    back = rows.read_chunk(7, value)
    assert bytes(back.state) == expected
    assert list(back.count_runs(0, SIZE)) == list(chunk.count_runs(0, SIZE))


def test_a_chunk_of_which_all_is_plain_is_not_stored() -> None:
    chunk = Chunk(2)
    chunk.state[:500] = bytes([DONE]) * 500
    chunk.state[500:600] = bytes([ACQUIRED]) * 100
    assert rows.chunk(chunk, chunk.base + 500) is None
    chunk.state[550] = DONE
    assert rows.chunk(chunk, chunk.base + 500) is not None


def test_a_chunk_is_small() -> None:
    chunk = Chunk(0)
    chunk.state[::2] = bytes([DONE]) * 512
    value = rows.chunk(chunk, 0)
    assert value is not None
    assert len(value) <= 130


@pytest.mark.parametrize("cut", range(1, 40))
def test_half_a_chunk_is_refused(cut: int) -> None:
    chunk = Chunk(0)
    chunk.state[:200] = bytes([DONE]) * 200
    chunk.set_count(300, 310, 3)
    value = rows.chunk(chunk, 0)
    assert value is not None
    with pytest.raises(RowError):
        rows.read_chunk(0, value[:-cut])
    with pytest.raises(RowError):
        rows.read_chunk(0, value + b"\0" * cut)


def test_the_row_of_the_cursor() -> None:
    counts = rows.Counts(9, 2**33, 3, 1)
    row = rows.cursor(5, 2**40, 7, True, counts, 2**35)
    assert row.key == b""
    assert row.value is not None
    assert rows.read_cursor(row.value) == (5, 2**40, 7, True)
    assert rows.stands(row.value) == (5, 2**40, counts, 2**35)
    # as it was before it said what retention took
    counted = b"\2" + row.value[1:-8]
    assert rows.read_cursor(counted) == (5, 2**40, 7, True)
    assert rows.stands(counted) == (5, 2**40, counts, 0)
    # as it was before it had counts
    old = b"\1" + row.value[1:26]
    assert rows.read_cursor(old) == (5, 2**40, 7, True)
    assert rows.stands(old) == (5, 2**40, None, 0)
    for wrong in (b"", row.value[:-1], b"\x09" + row.value[1:], b"\x01" + row.value[1:], row.value[:26]):
        with pytest.raises(RowError):
            rows.read_cursor(wrong)


def test_due_keys_sort_as_due_times_do() -> None:
    pairs = [(0, 5), (1, 0), (255, 2**50), (256, 0), (2**40, 3)]
    keys = [rows.due_key(*pair) for pair in pairs]
    assert sorted(keys) == keys
    assert [rows.read_due_key(key) for key in keys] == pairs
    with pytest.raises(RowError):
        rows.read_due_key(b"short")


def test_runs_come_back() -> None:
    packed = array("Q", [0, 2**63, 1 << 10])
    assert rows.read_runs(rows.runs(packed)) == packed
    with pytest.raises(RowError):
        rows.read_runs(b"\0" * 9)


def test_numbers() -> None:
    assert rows.read_number(rows.number_key(2**50)) == 2**50
    with pytest.raises(RowError):
        rows.read_number(b"\0")


def test_a_bundle_is_read_as_it_was_written() -> None:
    entries = array("I", [7 << 20 | 3 << 10, 255 << 20 | 1023 << 10, 5 << 10 | 1000])
    value = rows.bundle(entries)
    assert rows.read_bundle(value) == entries
    key = rows.due_key(512, 2048 + 3 | rows.BUNDLE)
    assert list(rows.due_runs(key, value)) == [
        (519, (2048 + 3) << 10),
        (767, (2048 + 1023) << 10),
        (512, (2048 + 5) << 10 | 1000),
    ]
    with pytest.raises(RowError, match="of 4 bytes"):
        rows.read_bundle(b"\0" * 6)
