"""Named producers: what a partition takes of them once, and what it knows of them after a restart."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker import producer_names, producers
from gateway.broker.producer_names import GAPS, KEPT, MOST, Named, ProducerNames
from gateway.broker.producers import ProducerTable
from store.api import Delete, DeleteRange, Family, Put, Write

A, B = b"a", b"b"


def loaded(rows: dict[bytes, bytes]) -> ProducerNames:
    """What a partition has after a restart."""
    return ProducerTable(7, sorted(rows.items())).names


def apply(rows: dict[bytes, bytes], writes: Iterable[Write]) -> None:
    """As a store does it."""
    for each in writes:
        if isinstance(each, Put):
            assert each.family is Family.DEDUP
            rows[each.key] = each.value
        elif isinstance(each, Delete):
            rows.pop(each.key, None)
        else:
            assert isinstance(each, DeleteRange)
            for key in [key for key in rows if each.start <= key < each.end]:
                del rows[key]


def test_what_is_not_above_the_highest_is_a_duplicate() -> None:
    names = ProducerNames(7)
    first: list[Named | None] = [(A, 0), (B, 5), None, (A, 2)]
    assert names.duplicates(first) == []
    names.take(first, 100, 1)
    assert (names.last(A), names.last(B), names.last(b"c")) == (2, 5, -1)
    assert names.duplicates([(A, 1), (A, 2), (A, 3), None, (B, 5), (B, 6)]) == [0, 1, 4]
    # within a batch, too; what comes in another order is none
    assert names.duplicates([(A, 9), (A, 9), (A, 8), (A, 10)]) == [1]
    assert names.duplicates([None, None]) == []


def test_what_lies_in_a_gap_between_batches_was_never_sent_and_is_taken_once() -> None:
    names = ProducerNames(7)
    for offset, sequences in enumerate(([3, 6], [10])):
        names.take([(A, each) for each in sequences], offset, 1)
    # one below the first; none within a batch, which a client sends as a whole
    assert names.duplicates([(A, each) for each in (2, 4, 7, 10)]) == [1, 3]
    names.take([(A, 8)], 3, 1)
    assert names.last(A) == 10
    assert names.duplicates([(A, each) for each in (7, 8, 9)]) == [1]


def test_so_many_gaps_are_remembered_and_those_with_the_highest_numbers() -> None:
    names = ProducerNames(7)
    for number in range(GAPS + 1):
        names.take([(A, 10 * number)], number, 1)
    assert names.duplicates([(A, 5)]) == []
    names.take([(A, 10 * (GAPS + 1))], GAPS + 1, 1)
    assert names.duplicates([(A, 5), (A, 15), (A, 10 * GAPS + 5)]) == [0]


names_of = st.sampled_from([A, B, b"\xff\xffname", b"x" * 300])
batch_of = st.lists(st.one_of(st.none(), st.tuples(names_of, st.integers(0, 30))), min_size=1, max_size=6)


@given(st.lists(st.tuples(batch_of, st.booleans()), max_size=20))
def test_nothing_is_taken_twice(batches: list[tuple[list[Named | None], bool]]) -> None:
    names, rows, offset = ProducerNames(7), dict[bytes, bytes](), 0
    taken: set[Named] = set()
    for batch, restart in batches:
        duplicates = names.duplicates(batch)
        for at, each in enumerate(batch):
            if each is None:
                assert at not in duplicates
                continue
            if each in taken:
                assert at in duplicates
            if at not in duplicates:
                taken.add(each)
        kept = [each for at, each in enumerate(batch) if at not in duplicates]
        names.take(kept, offset, 1)
        offset += len(kept)
        apply(rows, names.flush())
        if restart:
            names = loaded(rows)


@given(
    steps=st.lists(st.integers(1, 3), min_size=5, max_size=60),
    sizes=st.lists(st.integers(1, 4), min_size=5, max_size=40),
    picks=st.lists(st.integers(0, 4), min_size=200, max_size=200),
    restarts=st.sets(st.integers(0, 60)),
)
def test_what_one_producer_sends_is_taken_once_in_whatever_order_its_requests_come(
    steps: list[int], sizes: list[int], picks: list[int], restarts: set[int]
) -> None:
    """A producer whose sequence ids ascend, with gaps; of its last five batches any may come next, or come again."""
    sequences, at = [], 0
    for step in steps:
        sequences.append(at)
        at += step
    batches: list[list[Named | None]] = []
    while sequences:
        size = sizes[len(batches) % len(sizes)]
        batches.append([(A, each) for each in sequences[:size]])
        del sequences[:size]
    names, rows, offset = ProducerNames(7), dict[bytes, bytes](), 0
    taken: set[int] = set()
    waiting = list(range(len(batches)))
    for number, pick in enumerate(picks):
        under_way = waiting[:5]
        if not under_way:
            break
        which = under_way[pick % len(under_way)]
        duplicates = names.duplicates(batches[which])
        assert bool(duplicates) == (which in taken)
        if not duplicates:
            names.take(batches[which], offset, 1)
            offset += len(batches[which])
            taken.add(which)
            apply(rows, names.flush())
        # its answer comes, or it does not and the batch comes again
        if pick != 4:
            waiting.remove(which)
        if number in restarts:
            names = loaded(rows)


def test_rows_of_names_and_of_ids_lie_side_by_side() -> None:
    table = ProducerTable(7)
    # as long as a row of an id would be, were it not for the mark
    table.names.take([(b"7 chars", 1)], 0, 1)
    table.take(9, 0, 0, 1, 0, 1)
    rows: dict[bytes, bytes] = {}
    apply(rows, table.flush())
    assert len(rows) == 2
    again = ProducerTable(7, sorted(rows.items()))
    assert again.names.last(b"7 chars") == 1
    assert list(again.producers) == [9]
    assert table.flush() == []


def test_what_is_taken_without_a_look_makes_all_worthless() -> None:
    names, rows = ProducerNames(7), dict[bytes, bytes]()
    names.take([(A, 5), (b"\xff" * 256, 1)], 0, 1)
    apply(rows, names.flush())
    rows[b"\0\0\0\x08" + b"\xff" * 8 + A] = rows[b"\0\0\0\x07" + b"\xff" * 8 + A]
    names.forget()
    assert names.last(A) == -1
    names.take([(B, 1)], 2, 1)
    apply(rows, names.flush())
    assert [key[12:] for key in rows if key[3] == 7] == [B]
    assert len(rows) == 2, "another partition's stay"
    assert loaded(rows).last(B) == 1


def test_after_a_power_cut_a_producer_stands_where_the_batch_before_ended() -> None:
    names = ProducerNames(7)
    for number in range(KEPT + 2):
        names.take([(A, 10 * number)], 100 + number, 1)
    (row,) = [each for each in names.flush() if isinstance(each, Put)]
    assert loaded({row.key: row.value}).last(A) == 10 * (KEPT + 1)
    kept = producers.without(row.value, 105, 107)
    assert kept is not None
    assert loaded({row.key: kept}).last(A) == 40
    assert producers.without(row.value, 0, 1_000) is None
    assert producers.without(row.value, 107, 1_000) == row.value


def test_after_a_power_cut_what_came_late_is_missing_where_it_belongs() -> None:
    names = ProducerNames(7)
    names.take([(A, 1)], 0, 1)
    names.take([(A, 9)], 1, 1)
    # sent before, and again
    names.take([(A, 4), (A, 5)], 2, 1)
    (row,) = [each for each in names.flush() if isinstance(each, Put)]
    kept = producers.without(row.value, 2, 4)
    assert kept is not None
    again = loaded({row.key: kept})
    assert again.duplicates([(A, each) for each in (1, 4, 5, 9, 10)]) == [0, 3]
    # the newest goes, and with it what was known to be missing before it
    kept = producers.without(row.value, 1, 2)
    assert kept is not None
    again = loaded({row.key: kept})
    assert again.duplicates([(A, each) for each in (1, 4, 5, 6, 9)]) == [0, 1, 2]


def test_those_who_are_silent_are_forgotten() -> None:
    names, rows = ProducerNames(7), dict[bytes, bytes]()
    names.take([(A, 1)], 0, 1_000)
    names.take([(B, 1)], 1, 2_000)
    assert names.expire(5_000) == [], "what is to be stored stays"
    apply(rows, names.flush())
    apply(rows, names.expire(1_001))
    assert (names.last(A), names.last(B)) == (-1, 1)
    assert [key[12:] for key in rows] == [B]
    # of a partition that is not in use
    ((key, value),) = rows.items()
    assert producers.expired(key, value, 2_000) == []
    assert producers.expired(key, value, 2_001) == [Delete(Family.DEDUP, key)]


def test_no_more_names_are_kept_than_there_is_memory_for() -> None:
    names, rows = ProducerNames(7), dict[bytes, bytes]()
    for number in range(MOST):
        names.take([(b"%d" % number, 1)], number, number)
    # the first has something to say, so the second goes
    names.take([(b"0", 2)], MOST, MOST)
    apply(rows, names.flush())
    names.take([(b"new", 1)], MOST + 1, MOST + 1)
    apply(rows, names.flush())
    assert len(names) == len(rows) == MOST
    assert (names.last(b"0"), names.last(b"1"), names.last(b"new")) == (2, -1, 1)
    # by age after a restart as well, and not by name
    names = loaded(rows)
    names.take([(b"newer", 1)], MOST + 2, MOST + 2)
    assert (names.last(b"0"), names.last(b"2"), names.last(b"new")) == (2, -1, 1)


def test_a_row_of_a_later_release_is_not_guessed_at() -> None:
    names = ProducerNames(7)
    names.take([(A, 1)], 0, 1)
    (row,) = [each for each in names.flush() if isinstance(each, Put)]
    with pytest.raises(ValueError, match="version 9"):
        names.load([(row.key, b"\x09" + row.value[1:])])
    assert producer_names.is_named(row.key)
