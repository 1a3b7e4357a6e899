"""What members say, and who had which lane."""

from __future__ import annotations

import pytest

from compat.day.events import Acked, Held, Tenure, Took, parse, tenures
from tests.compat.day.scenes import held, killed, took

START = 1_700_000_000_000_000


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("holds 1700000002500000 0,13\n", Held(2.5, 7, frozenset({0, 13}))),
        ("holds 1700000002500000 -\n", Held(2.5, 7, frozenset())),
        (
            "took 1700000001000000 1700000001250000 3 41 key-9 12 0 done\n",
            Took(1.0, 1.25, 7, 3, 41, "key-9", 12, 0, False),
        ),
        (
            "took 1700000001000000 1700000001250000 3 41 key-9 12 2 nack\n",
            Took(1.0, 1.25, 7, 3, 41, "key-9", 12, 2, True),
        ),
        ("acked 1700000000000001 3 42\n", Acked(1e-6, 7, 3, 42)),
    ],
)
def test_a_line_says_what_happened(line: str, event: object) -> None:
    assert parse(line, 7, START) == event


@pytest.mark.parametrize(
    "line", ["", "hello", "holds 17", "acked 1 2", "took 1 2 3 4 key 5 0 perhaps", "acked x 2 3"]
)
def test_a_line_of_something_else_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        parse(line, 7, START)


def test_a_lane_is_held_until_it_is_revoked_or_its_member_is_killed_or_the_day_ends() -> None:
    events = [
        held(1, 1, 0, 1),
        held(1, 2, 2),
        killed(4, 2),
        held(5, 1),
        held(6, 1, 1, 2),
        took(7, 0),
    ]

    assert tenures(events, 9) == [
        Tenure(0, 1, 1, 5),
        Tenure(1, 1, 1, 5),
        Tenure(2, 2, 1, 4),
        Tenure(1, 1, 6, 9),
        Tenure(2, 1, 6, 9),
    ]


def test_what_a_member_keeps_in_a_rebalance_is_one_tenure() -> None:
    assert tenures([held(1, 1, 0, 1), held(3, 1, 1)], 5) == [Tenure(0, 1, 1, 3), Tenure(1, 1, 1, 5)]
