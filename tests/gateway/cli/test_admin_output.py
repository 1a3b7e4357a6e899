"""Answers as text: by line, as Jackson lays JSON out, as JSON for programs, as tables for people; bytes as a dump."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.admin_output import columns, hexdump, jackson, plain_map, render

text = st.text(max_size=20)
scalars = st.none() | st.booleans() | st.integers() | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4)
)


@given(values)
def test_both_forms_of_json_say_the_same(value: Any) -> None:
    assert json.loads(jackson(value)) == value
    assert json.loads(render(value, "json")) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a text", "a text"),
        (["a", 1, None, True], "a\n1\nnull\ntrue"),
        ([], ""),
        (None, "null"),
        (1.5, "1.5"),
        ({}, "{ }"),
        ([{"a": 1}], '[ {\n  "a" : 1\n} ]'),
        ({"a": {"b": {}, "c": [[], {"d": "ü"}]}}, '{\n  "a" : {\n    "b" : { },\n    "c" : [ [ ], {\n'
         '      "d" : "ü"\n    } ]\n  }\n}'),
    ],
)  # fmt: skip
def test_what_scripts_over_pulsar_admin_lean_on(value: Any, shown: str) -> None:
    assert render(value, "text") == shown


def test_a_map_of_data_is_shown_by_line_its_texts_without_quotes() -> None:
    assert plain_map({"a": "x y", "b": 1, "c": None, "d": ["e"]}) == 'a    x y\nb    1\nc    null\nd    ["e"]'


def test_a_table_has_the_fields_of_all_its_rows_and_room_for_the_longest() -> None:
    rows = [{"name": "orders", "n": 1}, {"name": "a", "more": "x"}]
    assert render(rows, "table") == ("name    n  more\n------  -  ----\norders  1\na          x")
    assert render(["a", "bcd"], "table", "topic") == "topic\n-----\na\nbcd"
    assert render("a", "table") == "value\n-----\na"
    assert render({"a": {"b": 1, "c": {}}, "d": None}, "table") == (
        "name  value\n----  -----\na.b   1\na.c   {}\nd     null"
    )


def test_columns_of_rows_that_come_later_line_up() -> None:
    first = columns(["a", "b"], [["1", "2"]], [3, 3])
    assert first == "a    b\n---  ---\n1    2"
    assert columns(None, [["22", "3"]], [3, 3]) == "22   3"
    assert columns(None, [["22", "3"], ["1", "44"]]) == "22  3\n1   44"


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"", ""),
        (b"two\nlines\tand \xc3\xbc", "two\nlines\tand ü"),
        (b"\x1b[2J", "00000000  1b 5b 32 4a                                      .[2J"),
        (b"\xff\x00A", "00000000  ff 00 41                                         ..A"),
    ],
)
def test_bytes_are_shown_as_text_only_where_all_of_them_are_text(payload: bytes, shown: str) -> None:
    assert hexdump(payload) == shown


@given(st.binary(min_size=1, max_size=100))
def test_a_dump_has_every_byte_and_nothing_for_the_terminal_to_obey(payload: bytes) -> None:
    dump = hexdump(b"\0" + payload)
    lines = dump.split("\n")
    assert b"".join(bytes.fromhex(line[10:57]) for line in lines) == b"\0" + payload
    assert [int(line[:8], 16) for line in lines] == list(range(0, len(payload) + 1, 16))
    assert all(32 <= ord(letter) < 127 for line in lines for letter in line)
