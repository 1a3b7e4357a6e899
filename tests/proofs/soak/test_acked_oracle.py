"""What the oracle of acknowledgements in transactions takes for a violation."""

from __future__ import annotations

from tests.proofs.soak.acked_oracle import AckedOracle


def oracle() -> tuple[AckedOracle, list[str]]:
    """Message 1 is done, 2 came to an abort, of 3 nobody knows."""
    wrong: list[str] = []
    found = AckedOracle("till", wrong.append)
    for number, committed in ((1, True), (2, False), (3, None)):
        found.published(number)
        found.delivered(number, 10)
        found.ended([number], committed, 20)
    found.output(1)
    return found, wrong


def test_what_is_done_once() -> None:
    found, wrong = oracle()
    # asked for before it was told
    found.delivered(1, 15)
    found.delivered(2, 30)
    assert found.left == 1
    found.ended([2], True, 40)
    found.output(2)
    found.finish()
    assert (wrong, found.left) == ([], 0)


def test_an_acknowledgement_that_is_lost() -> None:
    found, wrong = oracle()
    found.delivered(1, 21)
    assert wrong == ["till: ack lost: message 1 came again after it was acknowledged"]


def test_what_is_done_twice() -> None:
    found, wrong = oracle()
    found.output(1)
    assert "ack twice: what was made of message 1" in wrong[0]


def test_an_acknowledgement_without_output() -> None:
    found, wrong = oracle()
    found.ended([2], True, 40)
    found.finish()
    assert wrong == ["till: ack without output: message 2 was acknowledged, and nothing is made of it"]


def test_what_nobody_ever_got() -> None:
    found, wrong = oracle()
    found.published(4)
    found.finish()
    assert "message 4 was not delivered" in wrong[1]
