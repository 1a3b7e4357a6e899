"""Each kind of violation is detected, and nothing that is right is called one."""

from __future__ import annotations

import pytest

from tests.proofs.soak import records
from tests.proofs.soak.oracle import Oracle, Producer

IDEMPOTENT, PLAIN = 1, 2
T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture
def oracle() -> Oracle:
    made = Oracle({IDEMPOTENT: Producer("careful", True), PLAIN: Producer("plain", False)})
    made.ends(T0, 0, 0)
    return made


def store(
    oracle: Oracle, offset: int, producer: int, sequence: int, epoch: int = 1, place: object = T0
) -> None:
    record = records.make(producer, sequence, 20)
    assert isinstance(place, tuple)
    oracle.stored(place, offset, epoch, record.key, record.value, record.headers, record.timestamp)


def found(oracle: Oracle) -> str:
    assert len(oracle.violations) == 1, oracle.violations
    return oracle.violations[0]


def test_nothing_is_wrong_when_all_is_right(oracle: Oracle) -> None:
    oracle.acknowledged(T0, 0, IDEMPOTENT, 0)
    oracle.ends(T0, 0, 3)
    store(oracle, 0, IDEMPOTENT, 0)
    store(oracle, 1, PLAIN, 0)
    # never acknowledged, and there once
    store(oracle, 2, IDEMPOTENT, 1, epoch=2)
    oracle.acknowledged(T0, 1, PLAIN, 0)
    oracle.delivered("g", T0, 0, IDEMPOTENT, 0)
    oracle.delivered("g", T0, 1, PLAIN, 0)
    oracle.committed("g", T0, 1, 1, 2)
    for offset, (producer, sequence, epoch) in enumerate([(1, 0, 1), (2, 0, 1), (1, 1, 2)]):
        store(oracle, offset, producer, sequence, epoch)
    oracle.finish()
    assert oracle.violations == []
    assert oracle.seen["read again"] == 3


def test_an_acknowledged_record_behind_the_end_is_missing(oracle: Oracle) -> None:
    oracle.acknowledged(T0, 7, IDEMPOTENT, 3)
    oracle.ends(T0, 0, 7)
    assert "acknowledged or read at t-0@7, and the log ends at 7" in found(oracle)


def test_an_acknowledged_record_that_cannot_be_read_is_missing(oracle: Oracle) -> None:
    oracle.acknowledged(T0, 0, IDEMPOTENT, 3)
    oracle.ends(T0, 0, 1)
    oracle.finish()
    assert any("is missing" in text for text in oracle.violations)


@pytest.mark.parametrize("late", [False, True])
def test_another_record_at_the_offset_of_an_acknowledged_one(oracle: Oracle, late: bool) -> None:
    if not late:
        oracle.acknowledged(T0, 0, IDEMPOTENT, 3)
    oracle.ends(T0, 0, 1)
    store(oracle, 0, IDEMPOTENT, 2)
    if late:
        oracle.acknowledged(T0, 0, IDEMPOTENT, 3)
    assert "record 3 of careful" in found(oracle)


def test_an_offset_given_twice(oracle: Oracle) -> None:
    oracle.acknowledged(T0, 0, IDEMPOTENT, 3)
    oracle.acknowledged(T0, 0, PLAIN, 1)
    assert "was given to" in found(oracle)


@pytest.mark.parametrize("part", ["key", "value", "headers", "timestamp"])
def test_a_record_that_is_not_what_was_sent(oracle: Oracle, part: str) -> None:
    record = records.make(IDEMPOTENT, 5, 20)
    changed = {
        "key": b"other",
        "value": record.value[:-1] + bytes([record.value[-1] ^ 1]),
        "headers": [],
        "timestamp": record.timestamp + 1,
    }
    wrong = record._replace(**{part: changed[part]})  # type: ignore[arg-type]
    oracle.stored(T0, 0, 1, wrong.key, wrong.value, wrong.headers, wrong.timestamp)
    assert "is not what was sent" in found(oracle)


def test_a_record_that_nobody_sent(oracle: Oracle) -> None:
    oracle.stored(T0, 0, 1, None, b"hello", None, 0)
    assert "nobody sent" in found(oracle)


def test_an_idempotent_record_twice(oracle: Oracle) -> None:
    store(oracle, 0, IDEMPOTENT, 0)
    store(oracle, 1, IDEMPOTENT, 0, epoch=2)
    assert "twice or out of order" in found(oracle)


def test_an_idempotent_record_out_of_order(oracle: Oracle) -> None:
    store(oracle, 0, IDEMPOTENT, 1)
    store(oracle, 1, IDEMPOTENT, 0)
    assert "twice or out of order" in found(oracle)


def test_a_record_in_two_partitions(oracle: Oracle) -> None:
    store(oracle, 0, IDEMPOTENT, 0)
    store(oracle, 0, IDEMPOTENT, 0, place=T1)
    assert "its key's is another" in found(oracle)


def test_a_plain_record_twice_with_a_restart_between_is_a_retry(oracle: Oracle) -> None:
    for offset, (sequence, epoch) in enumerate([(0, 1), (1, 1), (0, 2), (1, 2), (2, 2)]):
        store(oracle, offset, PLAIN, sequence, epoch)
    assert oracle.violations == []
    assert oracle.seen["doubles of plain producers"] == 2


def test_a_plain_record_twice_within_one_run(oracle: Oracle) -> None:
    store(oracle, 0, PLAIN, 0)
    store(oracle, 1, PLAIN, 0)
    assert "no restart between explains it" in found(oracle)


def test_a_plain_record_out_of_order(oracle: Oracle) -> None:
    store(oracle, 0, PLAIN, 1)
    store(oracle, 1, PLAIN, 0, epoch=2)
    assert "out of order" in found(oracle)


def test_a_hole_in_the_offsets(oracle: Oracle) -> None:
    store(oracle, 0, PLAIN, 0)
    store(oracle, 2, PLAIN, 1)
    assert "no records at 1 to 1" in found(oracle)


def test_an_end_that_went_back(oracle: Oracle) -> None:
    oracle.ends(T0, 0, 5)
    oracle.ends(T0, 0, 4)
    assert "the end of t-0 went back" in found(oracle)


def test_a_start_that_went_back(oracle: Oracle) -> None:
    oracle.log(T0).asked_start = 3
    oracle.ends(T0, 3, 5)
    oracle.ends(T0, 2, 5)
    assert "the start of t-0 went back" in found(oracle)


def test_a_start_that_nobody_asked_for(oracle: Oracle) -> None:
    oracle.log(T0).asked_start = 3
    oracle.ends(T0, 4, 5)
    assert "nobody asked for more than 3" in found(oracle)


def test_a_record_that_changed_since_it_was_read(oracle: Oracle) -> None:
    store(oracle, 0, IDEMPOTENT, 0)
    store(oracle, 0, IDEMPOTENT, 1)
    assert "read before" in found(oracle)


def test_an_epoch_that_changed_since_it_was_read(oracle: Oracle) -> None:
    store(oracle, 0, IDEMPOTENT, 0, epoch=3)
    store(oracle, 0, IDEMPOTENT, 0, epoch=4)
    assert "was 3, now 4" in found(oracle)


def test_epochs_that_go_back(oracle: Oracle) -> None:
    store(oracle, 0, IDEMPOTENT, 0, epoch=3)
    store(oracle, 1, IDEMPOTENT, 1, epoch=2)
    assert "the epoch went back from 3 to 2" in found(oracle)


def test_a_start_without_a_new_epoch(oracle: Oracle) -> None:
    oracle.epoch(3, restarted=True)
    oracle.epoch(3, restarted=False)
    assert oracle.violations == []
    oracle.epoch(3, restarted=True)
    assert "two starts share the leader epoch 3" in found(oracle)


def test_a_cluster_whose_epoch_goes_back(oracle: Oracle) -> None:
    oracle.epoch(3, restarted=True)
    oracle.epoch(2, restarted=True)
    assert "went back from 3 to 2" in found(oracle)


def test_a_group_that_skips_records(oracle: Oracle) -> None:
    oracle.delivered("g", T0, 0, PLAIN, 0)
    # read again after a rebalance
    oracle.delivered("g", T0, 0, PLAIN, 0)
    oracle.delivered("g", T0, 2, PLAIN, 2)
    assert "never 1 to 1" in found(oracle)


def test_a_group_that_read_what_is_not_there(oracle: Oracle) -> None:
    oracle.delivered("g", T0, 0, PLAIN, 0)
    oracle.ends(T0, 0, 0)
    assert "the log ends at 0" in found(oracle)


@pytest.mark.parametrize(
    ("stored", "wrong"), [(4, "had committed 5"), (5, ""), (7, ""), (8, "no more than 7")]
)
def test_committed_offsets(oracle: Oracle, stored: int, wrong: str) -> None:
    oracle.committed("g", T0, stored, 5, 7)
    assert oracle.violations == [] if not wrong else wrong in found(oracle)


@pytest.mark.parametrize(
    ("there", "wrong"),
    [
        ({"kept": 2}, ""),
        ({"kept": 2, "asked": 3}, ""),
        ({}, "is gone"),
        ({"kept": 1}, "has 1 partitions, not 2"),
        ({"kept": 2, "deleted": 1}, "was deleted or never made"),
        ({"kept": 2, "asked": 1}, "half made"),
    ],
)
def test_topics(oracle: Oracle, there: dict[str, int], wrong: str) -> None:
    oracle.topics(there, {"kept": 2}, {"asked": 3})
    assert oracle.violations == [] if not wrong else wrong in found(oracle)


def test_deleted_records_are_forgotten_and_what_is_left_is_still_compared(oracle: Oracle) -> None:
    for offset in range(4):
        store(oracle, offset, IDEMPOTENT, offset)
    oracle.log(T0).asked_start = 2
    oracle.ends(T0, 2, 4)
    log = oracle.log(T0)
    assert (log.base, len(log.sequences), log.read_to) == (2, 2, 4)
    # told late, of a record that is gone: nobody can say any more
    oracle.acknowledged(T0, 1, IDEMPOTENT, 1)
    assert oracle.violations == []
    oracle.acknowledged(T0, 3, IDEMPOTENT, 9)
    assert "record 9 of careful was acknowledged at t-0@3" in found(oracle)


def test_only_the_first_violations_are_spelled_out(oracle: Oracle) -> None:
    for number in range(1000):
        oracle.wrong(str(number))
    assert len(oracle.violations) == 40
    assert oracle.seen["violations"] == 1000
