"""Each kind of violation of a queue topic is noticed, and nothing else is."""

from __future__ import annotations

from tests.proofs.soak.queue_oracle import Commit, QueueOracle


class Case:
    """Records 0 to 3 of one key, published."""

    def __init__(self, limit: int = 2) -> None:
        self.found: list[str] = []
        self.oracle = QueueOracle(limit, self.found.append)
        for _ in range(4):
            self.oracle.published(self.oracle.new(7))

    def reads(self, *numbers: int, lane: int = 0, at: int = 0) -> None:
        for offset, number in enumerate(numbers, at):
            self.oracle.read(lane, offset, number)

    def commits(
        self,
        acked: dict[int, int],
        nacked: dict[int, int] | None = None,
        *,
        lane: int = 0,
        answered: bool = True,
    ) -> None:
        commit = Commit(lane, acked, nacked or {})
        self.oracle.sent(commit)
        if answered:
            self.oracle.answered(commit)


def test_what_is_as_it_should_be_is_not_noticed() -> None:
    case = Case()
    case.reads(0, 1, 2)
    case.commits({0: 0, 2: 2}, {1: 1})
    case.reads(1, 3, at=3)
    case.commits({4: 3}, {3: 1})
    assert case.oracle.left == 0
    case.oracle.log(0, 0, {0: 0, 1: 1, 2: 2, 3: 1, 4: 3})
    case.oracle.finish([1])
    assert case.found == []
    assert case.oracle.seen["queue redeliveries"] == 1


def test_what_was_acknowledged_comes_again() -> None:
    case = Case()
    case.reads(0, 1)
    case.commits({0: 0, 1: 1})
    case.reads(0, at=2)
    assert "came again" in case.found[0]


def test_what_was_acknowledged_is_given_again_to_nobody() -> None:
    case = Case()
    case.reads(0, 1)
    case.commits({0: 0, 1: 1})
    case.oracle.log(0, 0, {0: 0, 1: 1, 2: 0})
    assert "given again" in case.found[0]


def test_an_offset_reads_otherwise() -> None:
    case = Case()
    case.reads(0)
    case.reads(1)
    assert "had record 0" in case.found[0]
    case.oracle.log(0, 0, {})
    assert "now None" in case.found[1]
    # what was forgotten may be
    case.oracle.log(0, 1, {})
    assert len(case.found) == 2


def test_a_record_is_lost() -> None:
    case = Case()
    case.reads(0, 1, 2)
    case.commits({0: 0, 1: 1})
    case.commits({2: 2}, answered=False)
    assert case.oracle.left == 2
    case.oracle.finish([])
    assert [text.split()[:2] for text in case.found] == [["record", "3"]]


def test_a_key_is_out_of_order() -> None:
    case = Case()
    case.oracle.log(0, 0, {0: 1, 1: 0})
    assert "behind 1" in case.found[0]


def test_a_dead_letter_that_is_none() -> None:
    case = Case()
    case.reads(0, 1, 2)
    case.commits({0: 0}, {1: 1})
    case.oracle.ended()
    case.oracle.finish([0, 1, 1, 2])
    assert sorted(text.split()[1] for text in case.found) == ["0", "0", "1", "2", "3"]


def test_more_deliveries_than_there_are() -> None:
    case = Case()
    case.reads(0)
    case.commits({}, {0: 0})
    case.reads(0, at=1)
    case.commits({}, {1: 0})
    case.reads(0, at=2)
    assert "after 2 nacks" in case.found[0]
