"""Which letters a filter means, and which filters make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from semantics.console.letter_filter import DeadLetter, FilterError, read_filter

LETTER = DeadLetter(
    2,
    17,
    1000,
    b"ada",
    b'{"city": "Wien"}',
    [("tenant", b"old"), ("tenant", b"acme")],
    "REJECTED",
    1,
    failed=3,
    given=(b"old", b"acme"),
)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ({}, True),
        ({"reason": "REJECTED"}, True),
        ({"reason": "CORRUPT"}, False),
        ({"key": "ada"}, True),
        ({"key": "ad"}, False),
        ({"text": "Wien"}, True),
        ({"text": "ad"}, True),
        ({"text": "acm"}, True),
        ({"text": "wien"}, False),
        ({"text": "ADA"}, False),
        ({"text": "tenant"}, False),
        ({"text": "graz"}, False),
        ({"header": {"tenant": "acme"}}, True),
        ({"header": {"tenant": "old"}}, False),
        ({"since": 1000, "until": 1001}, True),
        ({"until": 1000}, False),
        ({"since": 1001}, False),
        ({"ids": ["2:17"]}, True),
        ({"ids": ["2:18"]}, False),
        ({"ids": []}, False),
        ({"reason": "REJECTED", "text": "graz"}, False),
        ({"failedBelow": 4}, True),
        ({"failedBelow": "4"}, True),
        ({"failedBelow": 3}, False),
    ],
)
def test_all_that_it_says_must_hold(said: Any, means: bool) -> None:
    assert read_filter(said).matches(LETTER) is means


@pytest.mark.parametrize(
    "said", [None, [], {"moon": 1}, {"reason": 3}, {"ids": "2:17"}, {"ids": ["2"]}, {"ids": ["-1:3"]}, {"since": True},
             {"header": ["x"]}, {"header": {"a": 1}}, {"ids": ["0:1"] * 10_001},
             {"failedBelow": 0}, {"failedBelow": "some"}, {"failedBelow": True},
             {"reason": None}, {"key": None}, {"text": None}, {"header": None}, {"header": {"a": None}},
             {"since": None}, {"until": None}, {"ids": None}, {"ids": [None]}, {"failedBelow": None}]
)  # fmt: skip
def test_what_makes_no_sense_is_refused(said: Any) -> None:
    with pytest.raises(FilterError):
        read_filter(said)


def test_ids_say_where_to_look() -> None:
    found = read_filter({"ids": ["0:5", "0:9", "2:7"]})
    assert [found.within(index, 3, 8) for index in range(3)] == [(5, 8), (8, 8), (7, 8)]
