"""The table of idempotent producers against Kafka's rule, and against a model that keeps everything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.producers import (
    ACCEPT,
    DUPLICATE,
    INVALID_EPOCH,
    KEPT,
    MAX_SEQUENCE,
    OUT_OF_ORDER,
    ProducerTable,
    expired,
)
from store.api import Delete, Put


def table_with(*batches: tuple[int, int], epoch: int = 3, producer_id: int = 7) -> ProducerTable:
    """A table that took batches of (first sequence, count), 100 offsets apart."""
    table = ProducerTable(1)
    for number, (first, count) in enumerate(batches):
        table.take(producer_id, epoch, first, count, number * 100, now=1000 + number)
    return table


@pytest.mark.parametrize(
    ("epoch", "first", "count", "answer"),
    [
        (3, 15, 5, ACCEPT),
        (3, 10, 5, 100),
        (3, 0, 10, 0),
        (3, 16, 1, OUT_OF_ORDER),
        (3, 10, 4, DUPLICATE),
        (3, 3, 1, DUPLICATE),
        (2, 15, 1, INVALID_EPOCH),
        (4, 0, 1, ACCEPT),
        (4, 15, 1, OUT_OF_ORDER),
    ],
)
def test_the_rule(epoch: int, first: int, count: int, answer: int) -> None:
    table = table_with((0, 10), (10, 5))
    assert table.check(7, epoch, first, count) == answer


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert table_with((0, 10)).check(8, 0, 4711, 1) == ACCEPT


def test_sequences_wrap_to_zero() -> None:
    table = table_with((MAX_SEQUENCE - 1, 2))
    assert table.check(7, 3, 0, 3) == ACCEPT
    assert table.check(7, 3, 1, 3) == OUT_OF_ORDER
    table.take(7, 3, 0, 3, 100, 2000)
    assert table.check(7, 3, MAX_SEQUENCE - 1, 2) == 0
    assert table.check(7, 3, 3, 1) == ACCEPT


def test_a_batch_across_the_wrap() -> None:
    table = table_with((MAX_SEQUENCE, 3))
    assert table.check(7, 3, MAX_SEQUENCE, 3) == 0
    assert table.check(7, 3, 2, 1) == ACCEPT


def test_only_the_last_five_are_answered_with_their_offset() -> None:
    table = table_with(*[(n, 1) for n in range(7)])
    assert [table.check(7, 3, n, 1) for n in range(7)] == [DUPLICATE, DUPLICATE, 200, 300, 400, 500, 600]


def test_rows_bring_back_the_same_answers() -> None:
    table = table_with((0, 10), (10, 5))
    rows = [(write.key, write.value) for write in table.flush() if isinstance(write, Put)]
    assert table.flush() == []
    again = ProducerTable(1, rows)
    for case in [(3, 15, 5), (3, 10, 5), (3, 16, 1), (2, 15, 1), (4, 0, 1)]:
        assert again.check(7, *case) == table.check(7, *case)


def test_silent_producers_are_forgotten() -> None:
    table = table_with((0, 1))
    assert table.expire(before=9999) == [], "what is not stored yet must not be deleted"
    (row,) = table.flush()
    assert isinstance(row, Put)
    assert table.expire(before=1000) == []
    (gone,) = table.expire(before=1001)
    assert gone == Delete(row.family, row.key)
    assert table.check(7, 3, 40, 1) == ACCEPT
    assert expired(row.key, row.value, 1000) == []
    assert expired(row.key, row.value, 1001) == [gone]


@given(st.data())
def test_against_a_model_that_remembers_every_batch(data: st.DataObject) -> None:
    """Send, repeat and skip at random: the table never takes a batch twice and never leaves a gap."""
    start = data.draw(st.sampled_from([0, MAX_SEQUENCE - 5, 1000]))
    table = ProducerTable(1)
    taken: list[tuple[int, int, int]] = []
    sequence, offset = start, 0
    for _ in range(data.draw(st.integers(1, 25))):
        kind = data.draw(st.sampled_from(["next", "next", "repeat", "skip"]))
        count = data.draw(st.integers(1, 4))
        if kind == "next" or not taken:
            assert table.check(1, 0, sequence, count) == ACCEPT
            table.take(1, 0, sequence, count, offset, now=0)
            taken.append((sequence, count, offset))
            sequence = (sequence + count) & MAX_SEQUENCE
            offset += count
        elif kind == "repeat":
            back = data.draw(st.integers(1, len(taken)))
            first, size, base = taken[-back]
            assert table.check(1, 0, first, size) == (base if back <= KEPT else DUPLICATE)
        else:
            ahead = (sequence + data.draw(st.integers(1, 1000))) & MAX_SEQUENCE
            assert table.check(1, 0, ahead, count) == OUT_OF_ORDER
