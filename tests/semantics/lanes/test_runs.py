from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semantics.lanes.runs import MOST_FAILED, Run, RunError, decode, encode, runs_of
from tests.examples import examples

# gaps, lengths, how often they failed
parts = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 254, 255, 256, 10_000]), st.integers(1, 4), st.integers(0, 2)),
    min_size=1,
    max_size=8,
)


def acquired_of(parts: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    found, offset = [], 0
    for gap, length, failed in parts:
        offset += gap
        found.append((offset, offset + length - 1, failed))
        offset += length
    return found


@given(parts, st.integers(0, 2**40), st.booleans(), st.data())
@settings(max_examples=examples(300), deadline=None)
def test_each_delivery_is_of_its_record(
    parts: list[tuple[int, int, int]], at: int, ahead: bool, data: st.DataObject
) -> None:
    acquired = acquired_of(parts)
    plain = [(offset, failed) for first, last, failed in acquired for offset in range(first, last + 1)]
    runs = runs_of(at, 7, acquired, ahead)
    assert runs[0].at == at
    assert runs[-1].end == at + len(plain)
    assert all(one.end == other.at for one, other in pairwise(runs))
    assert [(offset, run.failed) for run in runs for offset in run.offsets(run.at, run.end)] == plain
    for run in runs:
        offsets = list(run.offsets(run.at, run.end))
        assert (run.first, run.last) == (offsets[0], offsets[-1])
        begin = data.draw(st.integers(run.at, run.end - 1))
        end = data.draw(st.integers(begin + 1, run.end))
        some = offsets[begin - run.at : end - run.at]
        assert list(run.offsets(begin, end)) == some
        assert run.column(begin, end).tolist() == some
        ranges = run.ranges(begin, end)
        assert [offset for first, last in ranges for offset in range(first, last + 1)] == some
        assert all(other[0] > one[1] + 1 for one, other in pairwise(ranges))
    # and what is stored of them is the same
    again = list(decode(at, encode(runs)))
    assert list(map(repr, again)) == list(map(repr, runs))
    assert {run.ahead for run in again} == {ahead}


def test_what_a_batch_costs() -> None:
    assert len(encode(runs_of(0, 1, [(1_000, 1_999, 0)]))) == 19
    every_second = [(offset, offset, 0) for offset in range(0, 200, 2)]
    assert len(encode(runs_of(0, 1, every_second))) == 19 + 99


def test_a_count_that_is_too_large_stays_large() -> None:
    assert runs_of(0, 1, [(1, 1, MOST_FAILED + 5)])[0].failed == MOST_FAILED


@pytest.mark.parametrize(
    "value",
    [
        b"\0",
        encode([Run(0, 1, 2, 3, 0, None)])[:-1],
        encode([Run(0, 1, 2, 3, 0, b"\1\2")])[:-1],
        encode([Run(0, 1, 2, 0, 0, None)]),
        encode([Run(0, 1, 2, 3, 0, None)])[:-1] + b"\x04",
    ],
)
def test_a_row_that_is_not_whole_is_refused(value: bytes) -> None:
    with pytest.raises(RunError):
        list(decode(0, value))


def test_every_part_of_a_long_run_is_what_it_is_of_the_whole() -> None:
    acquired = [(at, at, 0) for at in accumulate((1 + at * 7 % 50 for at in range(2_000)), initial=5)]
    (run,) = runs_of(100, 1, acquired)
    whole = [first for first, _, _ in acquired]
    for begin in range(0, 2_001, 37):
        for length in (1, 2, 255, 256, 257, 600):
            end = min(begin + length, 2_001)
            assert list(run.offsets(100 + begin, 100 + end)) == whole[begin:end]
    assert run.last == whole[-1]
