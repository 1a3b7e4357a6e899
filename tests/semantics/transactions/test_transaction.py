"""What the table at the top of `transaction.py` comes to over several steps, and what it does not say."""

from __future__ import annotations

import pytest

from semantics.transactions import rows
from semantics.transactions.codes import Code
from semantics.transactions.events import (
    AddPartitions,
    End,
    EndTxn,
    Init,
    Note,
    Plain,
    ProducerAnswer,
    Tick,
)
from semantics.transactions.rows import NO_TIME, RowError
from semantics.transactions.states import LAST_EPOCH, Producer, State
from semantics.transactions.transaction import Limits, Transaction
from tests.semantics.transactions.driving import (
    BILLS,
    FRESH,
    GROUP,
    ID,
    LIMITS,
    NAME,
    ORDERS,
    OTHER,
    TIMEOUT,
    WALL,
    Disk,
)
from tests.semantics.transactions.given import (
    dead,
    empty,
    ended,
    expired,
    ongoing,
    timed_out,
)


def test_who_lost_the_answer_to_a_rotation_is_told_the_new_id() -> None:
    driven = ongoing()
    driven.to_epoch(LAST_EPOCH)
    old = driven.producer
    assert driven.step(EndTxn("t", old, True, True, FRESH)) == ProducerAnswer(0, Producer(FRESH, 0))
    assert driven.ends == [End(ID, 32_767, True, (ORDERS, BILLS), (GROUP,))]
    for bumps in (True, False):
        assert driven.step(EndTxn("t", old, True, bumps)) == ProducerAnswer(0, Producer(FRESH, 0))
        assert driven.step(EndTxn("t", old, False, bumps)) == ProducerAnswer(Code.INVALID_TXN_STATE)
    assert driven.step(Init("t", TIMEOUT, old)) == ProducerAnswer(0, Producer(FRESH, 0))
    assert driven.step(AddPartitions("t", old, [ORDERS])) == Plain(Code.INVALID_PRODUCER_ID_MAPPING)


def test_an_init_may_be_repeated_until_its_producer_goes_on() -> None:
    driven = empty()
    first = driven.producer
    for _ in range(3):
        assert driven.step(Init("t", TIMEOUT, first)) == ProducerAnswer(0, Producer(ID, 1))
    driven.begin()
    assert driven.step(Init("t", TIMEOUT, first)) == ProducerAnswer(Code.PRODUCER_FENCED)
    assert driven.machine.state is State.ONGOING


def test_who_begins_without_id_and_epoch_fences_everybody_before() -> None:
    driven = timed_out()
    old = Producer(ID, 1)
    assert driven.step(Init("t", TIMEOUT)) == ProducerAnswer(0, Producer(ID, 3))
    assert driven.step(Init("t", TIMEOUT, old)) == ProducerAnswer(Code.PRODUCER_FENCED)
    assert driven.step(Init("t", TIMEOUT, Producer(ID, 2))) == ProducerAnswer(Code.PRODUCER_FENCED)
    assert driven.step(EndTxn("t", old, False, True)) == ProducerAnswer(Code.PRODUCER_FENCED)
    assert driven.step(EndTxn("t", Producer(ID, 2), False, True)) == ProducerAnswer(Code.PRODUCER_FENCED)


def test_a_producer_of_the_old_protocol_recovers_from_a_timeout() -> None:
    driven = timed_out()
    old = Producer(ID, 1)
    assert driven.machine.admit(*old, *ORDERS, implicit=False, wall=WALL).error == Code.PRODUCER_FENCED
    assert driven.step(EndTxn("t", old, True, False)) == ProducerAnswer(Code.INVALID_TXN_STATE)
    assert driven.step(EndTxn("t", old, False, False)) == ProducerAnswer(0, Producer(ID, 2))
    assert driven.step(Init("t", TIMEOUT, old)) == ProducerAnswer(0, Producer(ID, 2))
    driven.begin()


def test_an_end_over_an_open_transaction_is_not_taken_for_the_last_one() -> None:
    driven = ended(True, True)
    driven.begin()
    assert driven.step(EndTxn("t", Producer(ID, 1), True, True)) == ProducerAnswer(Code.PRODUCER_FENCED)
    assert driven.machine.state is State.ONGOING


def test_a_transaction_times_out_over_a_restart() -> None:
    driven = ongoing()
    driven.machine = driven.disk.load()
    due = driven.machine.next_due()
    assert due == WALL + 3 + TIMEOUT  # its third step began it
    assert driven.machine.step(Tick(), 0, due - 1).rows == []
    done = driven.machine.step(Tick(), 0, due)
    assert done.end is not None
    assert set(done.end.partitions) == {ORDERS, BILLS}


def test_the_timeout_counts_from_the_first_part() -> None:
    driven = ongoing()
    due = driven.machine.next_due()
    driven.wall += 1000
    driven.step(AddPartitions("t", driven.producer, [OTHER]))
    assert driven.machine.next_due() == due


def test_a_later_part_costs_one_row() -> None:
    driven = ongoing()
    done = driven.machine.step(AddPartitions("t", driven.producer, [OTHER, ORDERS]), 0, WALL)
    assert done.rows == [rows.put_partition(NAME, OTHER)]
    assert driven.machine.admit(*driven.producer, *ORDERS, implicit=True, wall=WALL).rows == ()


def test_nothing_to_add_begins_nothing() -> None:
    driven = empty()
    assert driven.step(AddPartitions("t", driven.producer, [])) == Plain(0)
    assert driven.machine.state is State.EMPTY


def test_limits_may_change_while_a_machine_is_in_use() -> None:
    driven = empty()
    driven.machine.limits = Limits(max_timeout_ms=10, expiration_ms=50)
    assert driven.step(Init("t", TIMEOUT)) == ProducerAnswer(Code.INVALID_TRANSACTION_TIMEOUT)
    assert driven.machine.next_due() == WALL + 1 + 50


def test_a_refused_timeout_is_explained_in_the_log() -> None:
    step = Transaction(NAME, LIMITS).step(Init("t", 3_600_000, None, ID), 0, WALL)
    (note,) = [effect for effect in step.effects if isinstance(effect, Note)]
    assert NAME in note.text
    assert "3600000 ms" in note.text
    assert "900000" in note.text


def test_a_description_names_what_is_in_the_transaction() -> None:
    driven = ongoing()
    found = driven.machine.describe()
    assert found is not None
    assert found.transactional_id == NAME
    assert (found.producer, found.state, found.timeout_ms) == (Producer(ID, 1), "Ongoing", TIMEOUT)
    assert found.start == WALL + 3
    assert found.partitions == (BILLS, ORDERS)
    assert found.groups == (GROUP,)
    driven.step(EndTxn("t", driven.producer, True, False))
    after = driven.machine.describe()
    assert after is not None
    assert (after.state, after.start, after.partitions, after.groups) == ("CompleteCommit", WALL + 3, (), ())
    driven.step(Init("t", TIMEOUT))
    again = driven.machine.describe()
    assert again is not None
    assert (again.state, again.start) == ("Empty", NO_TIME)
    assert dead().machine.describe() is None


def test_who_may_be_let_go_of() -> None:
    assert empty().machine.idle
    assert not ongoing().machine.idle
    assert not dead().machine.stored
    assert not expired().machine.stored
    assert empty().machine.stored


def test_parts_of_another_id_are_told_and_of_no_open_transaction_are_passed_over() -> None:
    disk = Disk()
    driven = ongoing()
    disk.update(driven.disk)
    part = next((key, value) for key, value in disk.items() if key.startswith(rows.parts_prefix(NAME)))
    with pytest.raises(RowError, match="other"):
        Transaction.load("other", disk[rows.head_key(NAME)], [part], LIMITS)
    driven.step(EndTxn("t", driven.producer, True, False))
    found = Transaction.load(NAME, driven.disk[rows.head_key(NAME)], [part], LIMITS)
    assert (found.state, found.partitions, found.groups) == (State.COMPLETE_COMMIT, {}, {})
