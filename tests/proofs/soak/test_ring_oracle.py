"""What the oracle of the ring takes for a violation."""

from __future__ import annotations

from tests.proofs.soak.ring_oracle import Hop, Owners, Place, RingOracle, cycle


def ring() -> tuple[RingOracle, list[str]]:
    """Two tokens in partition 0; the first was carried to partition 1 by transaction 1 of worker 1."""
    wrong: list[str] = []
    found = RingOracle(wrong.append)
    for offset in (0, 1):
        found.read((0, offset), Hop(offset, 0, (-1, -1), (99, 0)))
    found.read((1, 0), hop(0, 1, (0, 0), 1))
    return found, wrong


def hop(token: int, number: int, source: Place, transaction: int, worker: int = 1) -> Hop:
    return Hop(token, number, source, (worker, transaction))


def test_a_token_that_went_on_as_its_offset_did() -> None:
    found, wrong = ring()
    found.check({}, {0: 1})
    found.read((0, 3), hop(0, 2, (1, 0), 2, worker=2))
    found.check({0: 1}, {0: 1, 1: 1})
    found.finish()
    assert wrong == []
    assert found.hops == 2


def test_offsets_without_output() -> None:
    found, wrong = ring()
    assert found.missing({0: 2}) == [(0, 1)]
    found.check({0: 2}, {0: 2})
    assert len(wrong) == 1
    assert "offsets without output: hop 0 of token 1 at (0, 1)" in wrong[0]


def test_output_without_offsets() -> None:
    found, wrong = ring()
    found.check({}, {0: 0})
    assert "output without offsets" in wrong[0]


def test_a_token_that_was_carried_on_twice() -> None:
    found, wrong = ring()
    found.read((1, 1), hop(0, 1, (0, 0), 2))
    assert "written on twice" in wrong[0]


def test_tokens_that_overtook_each_other() -> None:
    found, wrong = ring()
    found.read((0, 2), hop(1, 1, (0, 1), 2))
    assert wrong == []
    found.read((2, 0), hop(1, 2, (0, 2), 3))
    found.read((2, 1), hop(7, 2, (0, 1), 3))
    assert "behind what was read at 2" in wrong[1]


def test_a_committed_offset_that_goes_back() -> None:
    found, wrong = ring()
    found.check({}, {0: 2})
    found.read((1, 1), hop(1, 1, (0, 1), 2))
    found.check({0: 1}, {0: 2})
    assert wrong == ["the committed offset of 0 went back from 2 to 1"]


def test_a_hop_of_another_token_than_was_read() -> None:
    found, wrong = ring()
    found.read((1, 1), hop(5, 1, (0, 1), 2))
    found.finish()
    assert "was read at (0, 1), where" in wrong[0]


def test_a_transaction_that_has_read_what_came_of_it() -> None:
    found, wrong = ring()
    # its own record
    found.read((0, 2), hop(0, 2, (1, 0), 1))
    found.finish()
    assert "have read what came of themselves: [(1, 1)]" in wrong[0]


def test_cycles_over_several() -> None:
    one, two, three = (1, 1), (2, 1), (1, 2)
    assert cycle({one: {two}, two: {three}}) == set()
    assert cycle({one: {two}, two: {three}, three: {two}}) == {two, three}


def test_partitions_with_two_owners() -> None:
    wrong: list[str] = []
    owners = Owners(wrong.append)
    owners.assigned("a", [0, 1], 0.0)
    owners.assigned("a", [1, 2], 0.0)
    owners.revoked("a", [0])
    owners.revoked("b", [1])
    owners.assigned("b", [0], 10.0)
    assert wrong == []
    owners.assigned("b", [1], 10.0)
    assert wrong == ["partition 1 was given to b, and a has it still"]
    owners.gone("b")
    owners.assigned("c", [0, 1], 20.0)
    assert len(wrong) == 1


def test_a_member_that_was_just_given_too_much_gives_it_back() -> None:
    wrong: list[str] = []
    owners = Owners(wrong.append)
    owners.assigned("a", [0, 1, 2, 3], 0.0)
    owners.assigned("b", [2], 0.3)
    owners.assigned("c", [3], 0.3)
    owners.revoked("a", [2])
    owners.gone("c")
    owners.check(60.0)
    assert wrong == []
    owners.check(61.0)
    assert wrong == ["partition 3 is another's for 61 s, and a has it still"]
    # said once
    owners.check(100.0)
    assert len(wrong) == 1


def test_a_member_that_is_closed_has_nothing_that_is_anothers() -> None:
    wrong: list[str] = []
    owners = Owners(wrong.append)
    owners.assigned("a", [0], 0.0)
    owners.assigned("b", [0], 0.3)
    owners.gone("a")
    owners.check(100.0)
    assert wrong == []
    owners.assigned("c", [0], 100.0)
    assert wrong == ["partition 0 was given to c, and b has it still"]
