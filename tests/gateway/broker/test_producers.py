"""The table of idempotent producers against Kafka's rule, and against a model that keeps everything."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.producers import (
    ACCEPT,
    DUPLICATE,
    INVALID_EPOCH,
    KEPT,
    MAX_SEQUENCE,
    NONE_OPEN,
    OUT_OF_ORDER,
    ProducerTable,
    expired,
    without,
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
        # the first half of it was taken, and the second was not
        (3, 14, 2, OUT_OF_ORDER),
        (3, 10, 6, OUT_OF_ORDER),
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


# -- transactions -----------------------------------------------------------------------------------------------------


def loaded(table: ProducerTable) -> ProducerTable:
    """The table as it is read again."""
    return ProducerTable(1, [(write.key, write.value) for write in table.flush() if isinstance(write, Put)])


def test_a_transaction_begins_with_its_first_batch_and_ends_with_its_marker() -> None:
    table = table_with((0, 2))
    assert table.open_from(7) == NONE_OPEN
    assert table.begin(7, 100) == 100
    table.take(7, 3, 2, 1, 102, now=0)
    assert table.begin(7, 102) == 100
    for each in (table, loaded(table)):
        assert each.open_from(7) == 100
        assert list(each.open()) == [(100, 7)]
    assert table.end(7, 3, 5, now=2000) == 100
    for each in (table, loaded(table)):
        assert list(each.open()) == []
        producer = dict(each)[7]
        assert (producer.coordinator_epoch, producer.updated_at) == (5, 2000)
        # in the same epoch sequence numbers go on (V1)
        assert each.check(7, 3, 3, 1) == ACCEPT
        assert each.check(7, 3, 0, 1) == DUPLICATE
        assert each.check(7, 3, 2, 1) == 102


def test_a_batch_repeats_one_of_the_open_transaction_and_of_no_other() -> None:
    """librdkafka gives the sequence numbers of what it forgets at an abort to what comes next."""
    table = table_with((0, 2), (2, 1))
    table.begin(7, 0)
    assert table.check(7, 3, 0, 2, True) == 0
    assert table.check(7, 3, 2, 1, True) == 100
    table.end(7, 3, 0, now=0)
    for each in (table, loaded(table)):
        assert each.check(7, 3, 2, 1, True) == OUT_OF_ORDER
    assert table.check(7, 3, 3, 1, True) == ACCEPT
    table.take(7, 3, 3, 1, 200, now=0)
    table.begin(7, 200)
    for each in (table, loaded(table)):
        assert each.check(7, 3, 3, 1, True) == 200
        assert each.check(7, 3, 2, 1, True) == OUT_OF_ORDER
        # one more than was stored
        assert each.check(7, 3, 2, 2, True) == OUT_OF_ORDER
        # not as it was sent, and of it nobody knows of which transaction it was
        assert each.check(7, 3, 0, 1, True) == OUT_OF_ORDER


def test_a_marker_of_a_higher_epoch_begins_sequence_numbers_at_zero() -> None:
    table = table_with((0, 2), (2, 3))
    table.begin(7, 100)
    table.end(7, 4, 0, now=0)
    for each in (table, loaded(table)):
        assert each.check(7, 3, 5, 1) == INVALID_EPOCH
        assert each.check(7, 4, 0, 1) == ACCEPT
        assert each.check(7, 4, 5, 1) == OUT_OF_ORDER
        assert each.check(7, 4, MAX_SEQUENCE, 1) == OUT_OF_ORDER
        assert each.check(7, 5, 0, 1) == ACCEPT
        assert dict(each)[7].last_sequence == -1


def test_only_an_open_transaction_ends_and_only_by_its_epoch_or_a_later_one() -> None:
    table = table_with((0, 2))
    with pytest.raises(ValueError, match="no open transaction"):
        table.end(7, 3, 0, now=0)
    with pytest.raises(ValueError, match="no open transaction"):
        table.end(8, 3, 0, now=0)
    table.begin(7, 100)
    with pytest.raises(ValueError, match="has epoch 3"):
        table.end(7, 2, 0, now=0)
    assert table.open_from(7) == 100


def test_who_must_begin_at_zero_does_so_where_nothing_is_known_of_it() -> None:
    table = table_with((0, 10))
    assert table.check(8, 0, 4711, 1, True, True) == OUT_OF_ORDER
    assert table.check(8, 0, 0, 1, True, True) == ACCEPT
    assert table.check(7, 3, 10, 1, True, True) == ACCEPT


def test_an_open_transaction_is_never_forgotten() -> None:
    table = table_with((0, 1))
    table.begin(7, 100)
    (row,) = table.flush()
    assert isinstance(row, Put)
    assert table.expire(before=9999) == []
    assert expired(row.key, row.value, 9999) == []
    table.end(7, 3, 0, now=2000)
    (row,) = table.flush()
    assert isinstance(row, Put)
    assert expired(row.key, row.value, 2000) == []
    assert expired(row.key, row.value, 2001) == table.expire(before=2001) == [Delete(row.family, row.key)]


def test_rows_without_transactions_are_as_they_were() -> None:
    """Those of the releases before are read; and they read those of producers that have no transactions."""
    table = table_with((0, 2))
    (row,) = table.flush()
    assert isinstance(row, Put)
    assert row.value == struct.pack(">BhqB", 1, 3, 1000, 1) + struct.pack(">iiqq", 0, 1, 0, -1)
    again = ProducerTable(1, [(row.key, row.value)])
    assert again.check(7, 3, 2, 1) == ACCEPT
    assert again.open_from(7) == NONE_OPEN
    with pytest.raises(ValueError, match="version 9"):
        ProducerTable(1, [(row.key, b"\x09" + row.value[1:])])


@pytest.mark.parametrize(
    ("lost", "open_from", "torn", "next_sequence"),
    [
        # the last batch, at 200
        ((200, 300), 100, True, 2),
        # all of the transaction
        ((50, 300), 50, True, 1),
        # all there was: the transaction is still to be aborted
        ((0, 300), 0, True, 0),
        # what lies before it
        ((0, 50), 100, False, 3),
        # what lies behind it
        ((250, 300), 100, False, 3),
        # between two of its batches: a batch of it that is not remembered any more may have been there
        ((150, 160), 100, True, 3),
    ],
)
def test_lost_records_tear_an_open_transaction(
    lost: tuple[int, int], open_from: int, torn: bool, next_sequence: int
) -> None:
    table = ProducerTable(1)
    for sequence, offset in enumerate((60, 100, 200)):
        table.take(7, 3, sequence, 1, offset if sequence else 10, now=0)
        if sequence:
            table.begin(7, offset)
    (row,) = table.flush()
    assert isinstance(row, Put)
    kept = without(row.value, *lost)
    assert kept is not None
    again = ProducerTable(1, [(row.key, kept)])
    producer = dict(again)[7]
    assert (producer.open_from, producer.torn) == (open_from, torn)
    assert again.check(7, 3, next_sequence, 1) == ACCEPT
    again.end(7, 3, 0, now=0)
    assert not dict(loaded(again))[7].torn


def test_lost_records_leave_a_transaction_that_is_over() -> None:
    table = table_with((0, 2), (2, 1))
    table.begin(7, 100)
    table.end(7, 4, 0, now=0)
    (row,) = table.flush()
    assert isinstance(row, Put)
    assert without(row.value, 0, 1000) == row.value, "the epoch of its marker stands"
