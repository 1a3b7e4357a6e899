"""Dead letters in groups, and what an attacker may put into them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from semantics.console import grouping
from semantics.console.grouping import NOTHING, OTHERS, By, GroupingError, Groups, opened
from semantics.console.letter_filter import DeadLetter


def letter(value: Any, offset: int = 0, reason: str = "REJECTED", **headers: str) -> DeadLetter:
    data = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    listed: list[tuple[str, bytes | None]] = [(name, text.encode()) for name, text in headers.items()]
    return DeadLetter(0, offset, 100 + offset, None, data, listed, reason, 0)


def grouped(by: str, *letters: DeadLetter) -> dict[str | None, int]:
    groups = Groups(By(by))
    for each in letters:
        groups.add(each)
    return {each.name: each.count for each in groups.sorted()}


@pytest.mark.parametrize(
    ("by", "found"),
    [
        ("reason", {"REJECTED": 4}),
        ("header:tenant", {"acme": 2, None: 2}),
        ("json:$.a.b", {"1": 2, None: 2}),
        ("json:$.list[1].c", {"true": 1, None: 3}),
        ("json:$.a", {"{…}": 2, None: 2}),
        ("json:$", {"{…}": 3, None: 1}),
    ],
)
def test_they_are_grouped(by: str, found: dict[str | None, int]) -> None:
    assert found == grouped(
        by,
        letter({"a": {"b": 1}}, tenant="acme"),
        letter({"a": {"b": 1}}, tenant="acme"),
        letter({"list": [0, {"c": True}]}),
        letter(b"no json"),
    )


@pytest.mark.parametrize(
    "by", ["", "moon", "header:", "json:", "json:a.b", "json:$..b", "json:$.a[x]", "json:$[1"]
)
def test_what_nothing_can_be_grouped_by_is_refused(by: str) -> None:
    with pytest.raises(GroupingError):
        By(by)


def test_a_group_says_what_most_of_it_share_and_where_it_begins_and_ends() -> None:
    groups = Groups(By("reason"))
    for n in range(20):
        groups.add(letter({"id": n, "country": "de", "paid": n > 0, "deep": {"v": 2}}, n))
    (group,) = groups.sorted()
    assert (group.first, group.last, group.sample) == (100, 119, "0:19")
    assert {path: (value, count, of) for path, value, count, of in group.common()} == {
        "$.country": ("de", 20, 20),
        "$.deep.v": ("2", 20, 20),
        "$.paid": ("true", 19, 20),
    }


@pytest.mark.parametrize(
    "value",
    [b"[" * 60_000, b'{"a":' * 10_000, b"\xff\xfe", b"{", b"", None, b'"' + b"x" * 70_000 + b'"', b"NaN,"],
)
def test_what_is_no_json_is_none(value: bytes | None) -> None:
    assert opened(value) is NOTHING


def test_numbers_without_end_take_no_time() -> None:
    begin = time.process_time()
    found = opened(b'{"n": ' + b"9" * 60_000 + b"}")
    assert time.process_time() - begin < 1
    assert isinstance(found, dict)
    assert len(found["n"]) < 200


def test_groups_and_paths_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "MOST_GROUPS", 3)
    found = grouped(
        "json:$.id", *[letter({"id": n, **{f"p{n}-{m}": m for m in range(50)}}, n) for n in range(10)]
    )
    assert found == {OTHERS: 7, "0": 1, "1": 1, "2": 1}
