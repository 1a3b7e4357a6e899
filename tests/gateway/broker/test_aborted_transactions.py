"""Aborted transactions by the offsets that they lie over, against a list of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker import aborted_transactions
from gateway.broker.aborted_transactions import (
    Aborted,
    AbortedTransactions,
    any_from,
    below,
    class_of,
    cut,
    decode,
    overlapping,
    put,
    span_of,
    within,
)
from gateway.broker.open_transactions import NEVER
from store import memory
from store.api import Durability, Family, Write
from store.memory import MemoryStore

PARTITION, OTHER = 7, 8


def stored(*rows: Aborted, partition: int = PARTITION, store: MemoryStore | None = None) -> MemoryStore:
    store = store or memory.open()
    commit(store, [put(partition, each) for each in rows])
    return store


def commit(store: MemoryStore, writes: list[Write]) -> None:
    asyncio.run(store.write(writes, Durability.OS))


def left(store: MemoryStore, partition: int = PARTITION) -> list[Aborted]:
    rows = store.scan(Family.ABORTED, aborted_transactions.prefix(partition))
    return sorted(decode(key, value) for key, value in rows)


class Counting:
    """A store that counts the rows that were read, and the scans."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.rows = self.scans = 0

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        self.scans += 1
        for row in self.store.scan(family, prefix, start, limit):
            self.rows += 1
            yield row


@pytest.mark.parametrize(
    ("span", "number"),
    [(1, 0), (16, 0), (17, 1), (256, 1), (257, 2), (4096, 2), (4097, 3), ((1 << 62) + 1, 15)],
)
def test_a_class_has_what_spans_no_more(span: int, number: int) -> None:
    assert class_of(5, 5 + span) == number
    assert span_of(number) >= span
    assert number == 0 or span_of(number - 1) < span


def test_a_row_says_what_was_written() -> None:
    aborted = Aborted(1 << 40, (1 << 62) + 3, 12)
    row = put(PARTITION, aborted)
    assert decode(row.key, row.value) == aborted


# markers ascend, and no two are one
spans = st.one_of(st.integers(1, 40), st.integers(1, 5_000), st.sampled_from([16, 17, 256, 257, 4096, 4097]))
transactions = st.lists(st.tuples(st.integers(1, 60), spans), max_size=60)


def made(drawn: list[tuple[int, int]]) -> list[Aborted]:
    found, marker = [], 0
    for number, (step, span) in enumerate(drawn):
        marker += step
        found.append(Aborted(marker, number, max(0, marker - span)))
    return found


@given(transactions, st.integers(0, 3_000), st.integers(0, 3_000), st.integers(1, 5))
def test_what_overlaps_is_what_a_list_says(
    drawn: list[tuple[int, int]], start: int, size: int, page: int
) -> None:
    naive = made(drawn)
    store = stored(*naive)
    stored(*made([(3, 5)] * 40), partition=OTHER, store=store)
    before = aborted_transactions._FIRST_PAGE, aborted_transactions._PAGE
    aborted_transactions._FIRST_PAGE, aborted_transactions._PAGE = page, page + 1
    try:
        found = overlapping(store, PARTITION, start, start + size)
    finally:
        aborted_transactions._FIRST_PAGE, aborted_transactions._PAGE = before
    assert found == [each for each in naive if each.marker >= start and each.first < start + size]
    last = any_from(store, PARTITION, start)
    behind = [each.marker for each in naive if each.marker >= start]
    assert last in behind if behind else last == -1


@given(transactions, st.integers(0, 3_000), st.integers(1, 10))
def test_an_answer_is_cut_where_its_list_is_complete(
    drawn: list[tuple[int, int]], start: int, most: int
) -> None:
    # no two begin at one offset
    firsts: set[int] = set()
    naive = []
    for each in made(drawn):
        if each.first not in firsts and each.marker >= start:
            naive.append(each)
            firsts.add(each.first)
    told, end = cut(naive, start, most)
    assert told == [each for each in naive if each.first < end]
    assert end > start, "a reader goes on"
    assert len(told) <= most or end == start + 1
    assert end < NEVER or told == naive


@given(transactions, st.integers(0, 3_000))
def test_a_trimmed_log_has_none_that_lie_before_it(drawn: list[tuple[int, int]], offset: int) -> None:
    naive = made(drawn)
    store = stored(*naive)
    stored(*naive, partition=OTHER, store=store)
    commit(store, below(store, PARTITION, offset))
    assert left(store) == [each for each in naive if each.marker >= offset]
    assert left(store, OTHER) == naive


def test_many_that_lie_before_the_log_go_in_one_range_a_class() -> None:
    naive = made([(2, 3)] * 500)
    store = stored(*naive)
    writes = below(store, PARTITION, 901)
    assert len(writes) == 1
    commit(store, writes)
    assert left(store) == [each for each in naive if each.marker > 900]
    assert below(memory.open(), PARTITION, 901) == []


def test_with_lost_markers_their_rows_are_lost() -> None:
    naive = [Aborted(10, 1, 3), Aborted(20, 2, 11), Aborted(30, 3, 2)]
    store = stored(*naive)
    commit(store, [*within(store, PARTITION, [(5, 10), (20, 30)])])
    assert left(store) == [naive[0], naive[2]]


def test_one_that_was_open_for_long_does_not_make_all_of_them_read() -> None:
    """3,000 short ones beneath one that lies over all of them: a fetch reads those in its own range."""
    short = [Aborted(number * 4 + 3, number, number * 4) for number in range(3_000)]
    counting = Counting(stored(*short, Aborted(12_000, 9_999, 1)))
    found = overlapping(counting, PARTITION, 6_000, 6_040)
    assert found == [*short[1_500:1_510], Aborted(12_000, 9_999, 1)]
    assert counting.rows < 100
    assert counting.scans <= 4


def test_who_reads_behind_all_of_them_does_not_ask() -> None:
    counting = Counting(stored(Aborted(10, 1, 3)))
    aborted = AbortedTransactions(counting, PARTITION)
    assert aborted.over(11, 100) == []
    asked = counting.scans
    assert asked
    assert aborted.over(11, 200) == []
    assert counting.scans == asked
    assert aborted.over(10, 100) == [Aborted(10, 1, 3)]
    commit(counting.store, [put(PARTITION, Aborted(50, 2, 40))])
    aborted.added(50)
    assert aborted.over(11, 100) == [Aborted(50, 2, 40)]
    asked = counting.scans
    assert aborted.over(51, 100) == []
    assert counting.scans == asked
