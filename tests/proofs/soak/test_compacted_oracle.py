"""What the oracle of compacted topics takes for a violation."""

from __future__ import annotations

import pytest

from tests.proofs.soak.compacted_oracle import CompactedOracle, Found


def oracle() -> tuple[CompactedOracle, list[str]]:
    """Writes 1 to 4 of a: the third was aborted. Write 1 of b, and a tombstone. All of it was read once."""
    wrong: list[str] = []
    found = CompactedOracle(wrong.append)
    for key, number, committed in (
        ("a", 1, True),
        ("a", 2, True),
        ("a", 3, False),
        ("b", 1, True),
        ("a", 4, True),
    ):
        found.sending(key, number, tombstone=False)
        found.ended([(key, number)], committed)
    found.sending("b", 2, tombstone=True)
    found.ended([("b", 2)], True)
    found.read(0, ALL)
    return found, wrong


ALL = [Found(0, "a", 1), Found(1, "a", 2), Found(3, "b", 1), Found(4, "a", 4), Found(5, "b", 2)]


def judged(*records: Found) -> list[str]:
    found, wrong = oracle()
    must = found.must()
    found.read(0, records)
    found.check(must)
    return wrong


def test_what_compaction_may_do() -> None:
    assert judged(*ALL) == []
    assert judged(ALL[3], ALL[4]) == []
    # a tombstone may go, too
    assert judged(ALL[3]) == []
    found, _ = oracle()
    found.read(0, [ALL[3]])
    assert found.removed == 4


@pytest.mark.parametrize(
    ("records", "what"),
    [
        (ALL[:3], "write 4 of a was committed, and the last that is there is 2"),
        ([], "write 4 of a was committed, and nothing of it is there"),
        ([*ALL[:2], Found(2, "a", 3), *ALL[2:]], "was aborted"),
        ([*ALL[:2], Found(2, "c", 1), *ALL[2:]], "was read to 6 without it"),
        ([Found(0, "a", 2), *ALL[2:]], "0@0 was Found"),
        # what was before a tombstone is there without it
        ([ALL[2], ALL[3]], "write 2 of b was committed, and the last that is there is 1"),
        ([*ALL, Found(6, "a", 4)], "lies behind write 4"),
    ],
)
def test_each_violation_is_told(records: list[Found], what: str) -> None:
    assert any(what in each for each in judged(*records)), judged(*records)


def test_what_is_gone_stays_gone() -> None:
    found, wrong = oracle()
    found.read(0, ALL[3:])
    found.read(0, ALL[1:])
    assert "was compacted away" in wrong[0]


def test_an_unknown_end_may_be_either() -> None:
    found, wrong = oracle()
    found.sending("a", 5, tombstone=True)
    found.ended([("a", 5)], None)
    must = found.must()
    for records in (ALL, [*ALL, Found(6, "a", 5)], ALL[4:]):
        found.check(must)
        found.read(0, records)
    assert wrong == []
