"""What the oracle of queue topics in transactions takes for a violation."""

from __future__ import annotations

import pytest

from tests.proofs.soak.lane_acks_oracle import LaneAcksOracle, Said, commit_of


def transaction(found: LaneAcksOracle, said: Said, committed: bool | None) -> None:
    """One that is over, as was told."""
    found.sent(said)
    found.ended(said, committed)


def oracle(*, keyed: bool = True) -> tuple[LaneAcksOracle, list[str]]:
    """Records 1 to 4, of one key, whose second failure is the last. 1 is done, 2 came to an abort."""
    wrong: list[str] = []
    found = LaneAcksOracle("pier", 2, wrong.append, keyed=keyed)
    for number in range(1, 5):
        found.new(number, 7)
        found.published(number)
        found.read((0, number), number)
    transaction(found, Said(done={(0, 1): 1}), True)
    transaction(found, Said(done={(0, 2): 2}), False)
    found.output(1)
    return found, wrong


def test_each_ends_once() -> None:
    found, wrong = oracle()
    found.read((0, 9), 2)
    # reading an offset once more is no delivery
    found.read((0, 1), 1)
    transaction(found, Said(done={(0, 9): 2}, buried={(0, 4): 4}), True)
    transaction(found, Said(done={(0, 3): 3}), None)
    found.output(2)
    found.output(3)
    found.letter(4)
    found.finish()
    assert (wrong, found.left) == ([], 0)


def test_what_nobody_knows_may_come_again() -> None:
    found, wrong = oracle()
    transaction(found, Said(done={(0, 3): 3}), None)
    found.read((0, 10), 3)
    transaction(found, Said(done={(0, 10): 3}), True)
    assert (wrong, found.left) == ([], 2)


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "ack lost: record 1 was done at (0, 1) and came again at (0, 9)"), (2, "")],
)
def test_what_is_done_does_not_come_again(number: int, text: str) -> None:
    found, wrong = oracle()
    found.read((0, 9), number)
    assert wrong == [f"pier: {text}"] * bool(text)


def test_an_offset_is_one_delivery() -> None:
    found, wrong = oracle()
    found.read((0, 2), 3)
    assert wrong == ["pier: lane 0 had record 2 at offset 2, and now 3"]


def test_two_transactions_over_one_record() -> None:
    found, wrong = oracle()
    transaction(found, Said(done={(0, 1): 1}), True)
    found.output(1)
    assert [text.split(":")[1] for text in wrong] == [" ack twice", " output twice"]


@pytest.mark.parametrize("done", [True, False])
def test_what_was_done_is_no_dead_letter(done: bool) -> None:
    found, wrong = oracle()
    found.lost()
    found.letter(1 if done else 2)
    assert [text for text in wrong if "was done" in text] == [
        "pier: record 1 is a dead letter, and was done"
    ] * done


def test_a_dead_letter_that_comes_too_early_or_twice_or_has_an_output() -> None:
    found, wrong = oracle()
    found.letter(2)
    found.letter(2)
    found.output(2)
    assert wrong[0] == "pier: record 2 is dead after 1 deliveries that can have failed"
    assert "dead letter topic 2 times" in wrong[1]
    assert any("record 2 is a dead letter, and something was made of it" in text for text in wrong)


def test_a_dead_letter_may_be_seen_before_its_transaction_is_told_as_committed() -> None:
    found, wrong = oracle()
    found.sent(Said(failed={(0, 2): 2}, buried={(0, 3): 3}))
    found.letter(2)
    found.letter(3)
    assert wrong == []


def test_a_transaction_that_was_aborted_has_buried_nothing() -> None:
    found, wrong = oracle()
    transaction(found, Said(buried={(0, 3): 3}), False)
    found.letter(3)
    assert wrong == ["pier: record 3 is dead after 1 deliveries that can have failed"]


@pytest.mark.parametrize("keyed", [True, False])
def test_the_order_of_a_key(keyed: bool) -> None:
    found, wrong = oracle(keyed=keyed)
    found.output(3)
    found.output(2)
    assert wrong == ["pier: what was made of record 2 of key 7 is behind that of 3"] * keyed


def test_what_never_ends() -> None:
    found, wrong = oracle()
    transaction(found, Said(done={(0, 3): 3}), True)
    found.finish()
    assert [text.rpartition(" it was ")[2] for text in wrong] == ["not done", "done at (0, 3)", "not done"]


def test_the_words_of_a_commit() -> None:
    assert commit_of({"n": [4, 3], "d": [], "a": [7]}) == "ack1;n=3,4;a=7"
