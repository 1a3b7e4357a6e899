"""What a partition lets in, and whose batches it remembers that have to come again."""

from __future__ import annotations

import pytest

from gateway.broker.quota_gate import OutOfTurnError, Refusals
from gateway.wire.batch import Header, admit
from tests.gateway.serving import batch

ID = bytes(16)


def sent(producer: int, sequence: int) -> Header:
    return admit(batch(b"v", producer_id=producer, producer_epoch=0, base_sequence=sequence))


def keeps_out(refusals: Refusals, producer: int, sequence: int) -> bool:
    try:
        refusals.check(ID, 0, sent(producer, sequence))
    except OutOfTurnError:
        return True
    return False


def full() -> Refusals:
    """Of as many producers as are remembered the batch with number 5 was told to come again."""
    refusals = Refusals()
    for producer in range(Refusals.MOST):
        refusals.note_sequence(ID, 0, producer, 0, 5)
    return refusals


def test_of_so_many_producers_it_is_remembered_and_then_of_the_latest() -> None:
    """Clients make producer ids as they like: what they are refused must not fill the memory."""
    refusals = full()
    assert keeps_out(refusals, 0, 6)
    refusals.note(ID, 0, sent(Refusals.MOST, 5))
    assert not keeps_out(refusals, 0, 6)
    for producer in (1, Refusals.MOST - 1, Refusals.MOST):
        assert keeps_out(refusals, producer, 6)
    refusals.note(ID, 0, sent(Refusals.MOST + 1, 5))
    assert not keeps_out(refusals, 1, 6)
    assert keeps_out(refusals, 2, 6)


def test_nobody_is_forgotten_for_one_that_is_known() -> None:
    refusals = full()
    refusals.note(ID, 0, sent(7, 3))
    refusals.note(ID, 0, sent(7, 4))
    assert keeps_out(refusals, 0, 6)
    assert keeps_out(refusals, 7, 4)
    assert not keeps_out(refusals, 7, 3)


@pytest.mark.parametrize("place", [(bytes([1]) * 16, 0), (ID, 1)])
def test_other_partitions_are_not_concerned(place: tuple[bytes, int]) -> None:
    refusals = Refusals()
    refusals.note(ID, 0, sent(7, 5))
    assert keeps_out(refusals, 7, 6)
    refusals.check(*place, sent(7, 6))
    refusals.came(*place, sent(7, 6))
    assert keeps_out(refusals, 7, 6)
    refusals.came(ID, 0, sent(7, 5))
    assert not refusals
