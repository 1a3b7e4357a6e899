"""What the oracle of transactions takes for a violation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.proofs.soak.transaction_oracle import Seen, TransactionOracle


def oracle() -> tuple[TransactionOracle, list[str]]:
    wrong: list[str] = []
    found = TransactionOracle(wrong.append)
    for number, told in ((1, True), (2, False), (3, True), (4, None)):
        found.began(0, number, 2)
        found.ended(0, number, told)
    return found, wrong


def seen(number: int, index: int) -> Seen:
    return Seen(0, number, index, 2)


def judged(found: TransactionOracle, *partitions: list[Seen]) -> None:
    due = found.due()
    for each in partitions:
        found.read(each)
    found.check(due, found.partly())


def test_what_is_whole_or_not_there_is_right() -> None:
    found, wrong = oracle()
    judged(found, [seen(1, 0), seen(3, 1)], [seen(1, 1), seen(3, 0), seen(4, 0), seen(4, 1)])
    assert (wrong, found.whole, found.aborted, found.unknown) == ([], 3, 1, 1)


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (lambda: [seen(1, 0), seen(1, 1), seen(3, 0)], "transaction 3 of 0 was committed, and 1"),
        (lambda: [seen(1, 0), seen(1, 1), seen(2, 0), seen(3, 0), seen(3, 1)], "was aborted"),
        (lambda: [seen(1, 0), seen(1, 1), seen(1, 1), seen(3, 0), seen(3, 1)], "read twice"),
        (lambda: [seen(3, 0), seen(3, 1), seen(1, 0), seen(1, 1)], "behind one of a later"),
        (lambda: [seen(1, 0), seen(1, 1), seen(3, 0), seen(3, 1), seen(4, 0)], "is torn: 1 of 2"),
        (lambda: [seen(1, 0), seen(1, 1), seen(3, 0), seen(3, 1), seen(7, 0)], "of no transaction"),
    ],
)
def test_each_violation_is_told(read: Callable[[], list[Seen]], what: str) -> None:
    found, wrong = oracle()
    judged(found, read())
    assert any(what in each for each in wrong), wrong


def test_one_that_is_told_as_aborted_after_it_was_read() -> None:
    wrong: list[str] = []
    found = TransactionOracle(wrong.append)
    found.began(0, 1, 2)
    found.read([seen(1, 0)])
    found.ended(0, 1, False)
    assert len(wrong) == 1


def test_a_zombie_that_is_served() -> None:
    wrong: list[str] = []
    found = TransactionOracle(wrong.append)
    found.began(0, 1, 2)
    found.fenced(0, 1)
    found.served(0, 1, "an EndTxn", 90)
    assert (wrong, found.aborted) == ([], 1)
    found.served(0, 1, "an EndTxn", 0)
    assert wrong == ["an EndTxn of a zombie was served: transaction 1 of 0 was fenced"]
    # and what it had open is aborted
    found.read([seen(1, 0)])
    assert "was aborted" in wrong[1]


def test_a_last_stable_offset_that_goes_back_or_is_not_in_the_log() -> None:
    wrong: list[str] = []
    found = TransactionOracle(wrong.append)
    for offset, end in ((0, 5), (3, 5), (3, 5), (8, 8)):
        found.stable(("t", 0), offset, end)
    found.stable(("t", 1), 2, 8)
    assert wrong == []
    found.stable(("t", 0), 7, 8)
    assert wrong == ["the last stable offset of t-0 went back from 8 to 7"]
    found.stable(("t", 1), 9, 8)
    assert wrong[1:] == ["the last stable offset of t-1 is 9, and its end 8"]
