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


def test_bounds_are_what_is_meant() -> None:
    bounds = grouping.MOST_GROUPS, grouping.MOST_JSON, grouping.LOOKED_FOR_COMMON, grouping.MOST_TOLD
    assert bounds == (1000, 65_536, 200, 8)


@pytest.mark.parametrize(("size", "is_json"), [(65_535, True), (65_536, True), (65_537, False)])
def test_a_value_that_is_too_large_is_no_json(size: int, is_json: bool) -> None:
    assert (opened(b'"' + b"x" * (size - 2) + b'"') is not NOTHING) is is_json


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9" * 17, int("9" * 17)),
        ("9" * 18, int("9" * 18)),
        ("9" * 19, "9" * 19),
        ("-" + "9" * 17, -int("9" * 17)),
        ("-" + "9" * 18, "-" + "9" * 18),
        ("1.5", "1.5"),
        ("[NaN]", ["NaN"]),
        ("[-Infinity]", ["-Infinity"]),
        ("9" * 121, "9" * 120),
    ],
)
def test_numbers_are_numbers_while_they_are_short(text: str, found: object) -> None:
    assert opened(text.encode()) == found


def test_text_is_cut() -> None:
    (long,) = grouped("header:h", letter(1, h="x" * 121))
    assert long == "x" * 120
    (long,) = grouped("json:$", letter("x" * 121))
    assert long == "x" * 120


def test_half_of_a_surrogate_has_no_group_of_a_name_that_nobody_can_write() -> None:
    groups = Groups(By("json:$.a"))
    for offset in range(2):
        groups.add(letter(b'{"a": "x\\ud800", "\\udfff": 1}', offset))
    (group,) = groups.sorted()
    assert group.name == "x?"
    assert [(path, value) for path, value, _, _ in group.common()] == [("$.?", "1"), ("$.a", "x?")]


@pytest.mark.parametrize(("place", "found"), [(0, "7"), (1, "8"), (2, None)])
def test_places_in_a_list(place: int, found: str | None) -> None:
    assert grouped(f"json:$[{place}]", letter([7, 8])) == {found: 1}


@pytest.mark.parametrize(("by", "fine"), [("$[999999]", True), ("$[1000000]", False), ("$." + "a" * 998, True),
                                          ("$." + "a" * 999, False), ("$.a.", False), ("$.a[0][1]", True)])  # fmt: skip
def test_how_long_a_path_may_be(by: str, fine: bool) -> None:
    if fine:
        By(f"json:{by}")
        return
    with pytest.raises(GroupingError):
        By(f"json:{by}")


def test_no_document_is_in_no_group_whatever_the_path() -> None:
    assert grouped("json:$", letter(b"no json")) == {None: 1}
    assert grouped("json:$[0]", letter({"0": 1}), letter("text")) == {None: 2}
    assert grouped("json:$.a", letter([1])) == {None: 1}


def test_others_come_together_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "MOST_GROUPS", 2)
    some = [letter({"id": each}, n) for n, each in enumerate("abcab")]
    assert grouped("json:$.id", *some[:2]) == {"a": 1, "b": 1}
    # those that are known are known on
    assert grouped("json:$.id", *some) == {"a": 2, "b": 2, OTHERS: 1}


def test_the_largest_comes_first_and_who_has_no_name_last() -> None:
    groups = Groups(By("header:h"))
    for name in ("b", "a", None, "c", "c"):
        groups.add(letter(1, h=name) if name is not None else letter(1))
    assert [each.name for each in groups.sorted()] == ["c", "a", "b", None]


@pytest.mark.parametrize(
    ("times", "first", "last", "sample"),
    [
        ([5], 5, 5, 0),
        ([5, 4], 4, 5, 0),
        ([5, 6], 5, 6, 1),
        ([5, 5], 5, 5, 1),
        ([0, 7, 3], 0, 7, 1),
        ([7, 0], 0, 7, 0),
    ],
)
def test_where_a_group_begins_and_ends(times: list[int], first: int, last: int, sample: int) -> None:
    groups = Groups(By("reason"))
    for offset, died in enumerate(times):
        groups.add(DeadLetter(3, offset, died, None, b"1", [], "REJECTED", 0))
    (group,) = groups.sorted()
    assert (group.first, group.last, group.sample) == (first, last, f"3:{sample}")


def common(*values: Any) -> list[tuple[str, str, int, int]]:
    groups = Groups(By("reason"))
    for offset, value in enumerate(values):
        groups.add(letter(value, offset))
    (group,) = groups.sorted()
    return group.common()


@pytest.mark.parametrize(
    ("same", "of", "told"), [(9, 10, True), (8, 9, False), (10, 11, True), (17, 19, False), (18, 20, True)]
)
def test_nine_of_ten_are_most(same: int, of: int, told: bool) -> None:
    values = [{"a": "x" if number < same else f"y{number}"} for number in range(of)]
    assert common(*values) == ([("$.a", "x", same, of)] if told else [])


def test_one_letter_has_nothing_in_common_with_others() -> None:
    assert common({"a": 1}) == []
    assert common({"a": 1}, {"a": 1}) == [("$.a", "1", 2, 2)]
    # what is no JSON is not looked at
    assert common({"a": 1}, b"no json") == []


def test_no_more_is_looked_at_than_needs_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "LOOKED_FOR_COMMON", 3)
    assert common(*[{"a": 1}] * 3, *[{"a": 2}] * 9) == [("$.a", "1", 3, 3)]


def test_no_more_is_told_than_a_person_reads() -> None:
    document = {f"p{number:02}": number for number in range(12)}
    found = common(document, document)
    assert [each[0] for each in found] == [f"$.p{number:02}" for number in range(8)]


def test_what_all_share_comes_before_what_most_share() -> None:
    values = [{"a": int(number == 0), "b": 1} for number in range(20)]
    assert [each[:3] for each in common(*values)] == [("$.b", "1", 20), ("$.a", "0", 19)]


def test_paths_values_and_depth_are_bounded() -> None:
    deep: Any = {"e": 1}
    for name in "dcba":
        deep = {name: deep}
    assert common(deep, deep) == []
    assert common(deep["a"], deep["a"]) == [("$.b.c.d.e", "1", 2, 2)]
    # of an object the first members, of all the first paths
    wide = {f"p{number:03}": 1 for number in range(65)}
    group = Groups(By("reason"))
    group.add(letter(wide))
    assert sorted(group.sorted()[0]._seen) == [f"$.p{number:03}" for number in range(64)]
    group.add(letter({"later": 1, "p000": 1}))
    assert "$.later" not in group.sorted()[0]._seen
    fewer = Groups(By("reason"))
    fewer.add(letter({f"p{number}": 1 for number in range(63)}))
    fewer.add(letter({"later": 1, "last": 1}))
    assert [path for path in fewer.sorted()[0]._seen if path.startswith("$.la")] == ["$.later"]
    # a value that comes late is not counted, one that is known is
    assert common(*[{"a": f"v{number}"} for number in range(7)], *[{"a": "x"}] * 93) == [
        ("$.a", "x", 93, 100)
    ]
    assert common(*[{"a": f"v{number}"} for number in range(8)], *[{"a": "x"}] * 92) == []
    # lists are nobody's in common, and long names are cut
    assert common({"l": [1], "n" * 41: 1}, {"l": [1], "n" * 41: 1}) == [("$." + "n" * 40, "1", 2, 2)]


def test_of_what_as_many_share_paths_come_in_their_order() -> None:
    assert [each[0] for each in common({"b": 1, "a": 1}, {"b": 1, "a": 1})] == ["$.a", "$.b"]


def test_a_path_may_begin_without_a_dot() -> None:
    assert grouped("json:$a", letter({"a": 1}), letter({"b": 1})) == {"1": 1, None: 1}
